//! The integration tests, one binary of modules.

mod architecture;
mod changes;
mod classes;
mod command;
mod deploy;
mod engines;
mod falsified;
mod faults;
mod handover;
mod hold;
mod host;
mod judges;
mod liars;
mod load;
mod memory;
mod mishaps;
mod multicast;
mod options;
mod ordered;
mod plugin;
mod qos;
mod ranked;
mod readme;
mod rows;
mod simulate;
