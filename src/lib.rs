#![doc = include_str!("../README.md")]

pub mod evaluate;
pub mod fabric;
pub mod formats;
pub mod tables;
pub mod topology;
pub mod verify;
