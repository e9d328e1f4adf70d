//! Whether a fabric is balanced anew whenever it changes.

use std::fmt;
use std::str::FromStr;

use crate::fabric::Fabric;
use crate::ordering::Rule;
use crate::routing::{Forwarding, Hops, Lookahead, NoLegalPath, ranked_sssp, stable_sssp};

/// How the engine `dfdn` balances. In words `auto`, `stable` and `full`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// [`Stable`](Self::Stable) where that costs next to nothing, else [`Full`](Self::Full).
    #[default]
    Auto,
    /// By expected loads: what a failed link does not touch keeps its way. See
    /// [`stable_sssp`].
    Stable,
    /// By the load of all destinations before: every change of the fabric is a fresh start. See
    /// [`ranked_sssp`].
    Full,
}

impl Balance {
    /// Forwarding tables under a rule.
    pub(super) fn route(
        self,
        fabric: &Fabric,
        hops: &Hops,
        rule: &Rule,
        lookahead: Lookahead,
        stuck: NoLegalPath<'_>,
    ) -> Forwarding {
        match self {
            Self::Stable => stable_sssp(fabric, hops, rule, lookahead, stuck),
            Self::Auto | Self::Full => ranked_sssp(fabric, hops, rule, lookahead, stuck),
        }
    }
}

impl FromStr for Balance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "stable" => Ok(Self::Stable),
            "full" => Ok(Self::Full),
            _ => Err(format!("'{text}' is none of auto, stable, full")),
        }
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Stable => "stable",
            Self::Full => "full",
        })
    }
}
