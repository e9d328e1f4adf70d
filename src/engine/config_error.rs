//! A mistake in the configuration file, or in a file that it names.

use thiserror::Error;

/// A line with a mistake.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {reason}")]
pub struct ConfigError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it and what would be right.
    pub reason: String,
}
