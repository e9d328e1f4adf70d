//! The arguments that every subcommand with an engine takes.

use clap::Parser;

use crate::engine::Settings;
use crate::fabric::Sl;

/// What an engine may use.
#[derive(Clone, Debug, Parser)]
pub(super) struct EngineArgs {
    /// Data VLs to plan with; as many as every link between switches states, or 8, if left out
    #[arg(long, value_name = "N")]
    vls: Option<u8>,
    /// SLs that may be given out
    #[arg(long, value_name = "N", default_value_t = Sl::COUNT as u8)]
    sls: u8,
    /// Trees of the engine updn-trees
    #[arg(long, value_name = "N", default_value_t = Settings::default().trees)]
    trees: u8,
}

impl EngineArgs {
    pub(super) fn settings(&self, engine: &str) -> Settings {
        Settings { engine: engine.to_owned(), vls: self.vls, sls: self.sls, trees: self.trees }
    }
}
