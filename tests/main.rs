//! The integration tests, one binary of modules.

mod architecture;
mod engines;
mod host;
mod ordered;
mod plugin;
mod ranked;
mod readme;
