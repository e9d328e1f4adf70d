//! The integration tests, one binary of modules.

mod architecture;
mod command;
mod docker;
mod engines;
mod faults;
mod host;
mod judges;
mod ordered;
mod plugin;
mod ranked;
mod readme;
