//! The integration tests, one binary of modules.

mod architecture;
mod changes;
mod classes;
mod command;
mod docker;
mod engines;
mod host;
mod judges;
mod multicast;
mod ordered;
mod plugin;
mod qos;
mod ranked;
mod readme;
