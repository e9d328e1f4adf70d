//! The integration tests, one binary of modules.

mod architecture;
mod command;
mod docker;
mod engines;
mod host;
mod judges;
mod multicast;
mod ordered;
mod plugin;
mod ranked;
mod readme;
