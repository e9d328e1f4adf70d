//! The integration tests, one binary of modules.

mod host;
