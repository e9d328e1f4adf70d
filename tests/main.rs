//! The integration tests, one binary of modules.

mod architecture;
mod changes;
mod command;
mod docker;
mod engines;
mod host;
mod judges;
mod ordered;
mod plugin;
mod ranked;
mod readme;
