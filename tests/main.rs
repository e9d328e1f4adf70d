//! The integration tests, one binary of modules.

mod architecture;
mod command;
mod engines;
mod host;
mod judges;
mod plugin;
mod readme;
