//! The integration tests, one binary of modules.

mod architecture;
mod docker;
mod engines;
mod host;
mod plugin;
mod readme;
