//! The integration tests, one binary of modules.

mod architecture;
mod docker;
mod command;
mod engines;
mod host;
mod judges;
mod ordered;
mod plugin;
mod ranked;
mod readme;
