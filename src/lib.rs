#![doc = include_str!("../README.md")]

pub mod cli;
pub mod engine;
pub mod evaluate;
pub mod fabric;
pub mod formats;
pub mod lanes;
pub mod ordering;
#[cfg(feature = "plugin")]
pub mod plugin;
pub mod routing;
pub mod simulate;
pub mod tables;
pub mod topology;
pub mod verify;
