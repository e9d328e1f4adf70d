//! The integration tests, one binary of modules.
mod architecture;
mod ranked;
