//! The integration tests, one binary of modules.

mod architecture;
mod changes;
mod classes;
mod command;
mod deploy;
mod dfdn_engine;
mod documentation;
mod engines;
mod falsified;
mod faults;
mod handover;
mod host;
mod ibdmchk;
mod multicast;
mod opensm_options;
mod ordered_trees;
mod papers;
mod plugin;
mod qos;
mod sa_load;
mod simulate;
mod unroutable;
mod untrusted_nodes;
mod valgrind;
mod wrong_setup;
mod zero_rows;
