//! The arguments that every subcommand with an engine takes.

use clap::Parser;

use crate::engine::{Balance, Prefer, Routed, Settings, effort, share};
use crate::fabric::Sl;

/// What an engine may use.
#[derive(Clone, Debug, Parser)]
pub(super) struct EngineArgs {
    /// Data VLs to plan with, at most those that every link between switches states; all of them, or
    /// 8 where none are stated, if left out
    #[arg(long, value_name = "N")]
    vls: Option<u8>,
    /// SLs that may be given out
    #[arg(long, value_name = "N", default_value_t = Sl::COUNT as u8)]
    sls: u8,
    /// What dfdn prefers where it cannot have both: one-sl or minimal
    #[arg(long, value_name = "WHAT", default_value_t)]
    prefer: Prefer,
    /// Largest share of adapter pairs that may take longer paths for the sake of one SL; 0.02 if left
    /// out, no limit with --prefer one-sl
    #[arg(long, value_name = "SHARE", value_parser = share)]
    max_nonminimal: Option<f64>,
    /// Largest share of the bandwidth that one SL may cost by default, where the search can compare
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = Settings::default().max_loss)]
    max_loss: f64,
    /// Work for the search of an order, in passes of P-SSSP
    #[arg(long, value_name = "N", value_parser = effort, default_value_t = Settings::default().search_effort)]
    search_effort: f64,
    /// How dfdn balances: stable (a failed link changes few tables), full (anew whenever the fabric changes)
    /// or auto (stable where that costs next to nothing)
    #[arg(long, value_name = "HOW", default_value_t)]
    balance: Balance,
    /// Trees of the engine updn-trees
    #[arg(long, value_name = "N", default_value_t = Settings::default().trees)]
    trees: u8,
    /// Classes of service, each with VLs of its own: SL n is of class n modulo N
    #[arg(long, value_name = "N", default_value_t = Settings::default().classes)]
    classes: u8,
    /// Keep destinations apart on the VLs that are left over, against head-of-line blocking
    #[arg(long)]
    spread: bool,
}

impl EngineArgs {
    /// What was asked for and does not hold of the tables, a sentence each.
    pub(super) fn unmet(&self, routed: &Routed) -> Vec<String> {
        let v = &routed.verdict;
        let detours = format!("{:.3} % of the adapter pairs take longer paths", 100.0 * v.nonminimal_share);
        let mut unmet = Vec::new();
        if self.prefer == Prefer::Minimal && !v.minimal {
            unmet.push(format!("--prefer minimal is not met with {}: {detours}", routed.offer));
        }
        if let Some(limit) = self.max_nonminimal.filter(|&limit| v.nonminimal_share > limit) {
            unmet.push(format!("--max-nonminimal {limit} is not met with {}: {detours}", routed.offer));
        }
        let least = u32::from(routed.classes.classes) * u32::from(routed.classes.ways);
        if self.prefer == Prefer::OneSl && v.sls > least {
            unmet.push(format!("--prefer one-sl is not met: {} SLs are in use between adapters", v.sls));
        }
        unmet
    }

    pub(super) fn settings(&self, engine: &str) -> Settings {
        Settings {
            engine: engine.to_owned(),
            vls: self.vls,
            sls: self.sls,
            prefer: self.prefer,
            max_nonminimal: self.max_nonminimal,
            max_loss: self.max_loss,
            search_effort: self.search_effort,
            balance: self.balance,
            trees: self.trees,
            classes: self.classes,
            spread: self.spread,
        }
    }
}
