//! How the engine `dfdn` balances, and for which traffic.

use std::fmt;
use std::str::FromStr;

/// How the engine `dfdn` balances. In words `auto`, `stable` and `full`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// [`Stable`](Self::Stable) where that costs next to nothing, else [`Full`](Self::Full).
    #[default]
    Auto,
    /// By expected loads: paths that a failed link does not touch stay. See
    /// [`stable_sssp`](crate::routing::stable_sssp).
    Stable,
    /// By the load of all destinations before: every change of the fabric may change all tables. See
    /// [`ranked_sssp`](crate::routing::ranked_sssp()).
    Full,
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

/// The traffic that the engine `dfdn` balances for. In words `both`, `all-to-all` and `bisection`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Traffic {
    /// Half of each of the others.
    #[default]
    Both,
    /// Every adapter sends to every other: the largest load of a channel counts.
    AllToAll,
    /// Random bisections: the expected bandwidth counts.
    Bisection,
}

impl FromStr for Traffic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "both" => Ok(Self::Both),
            "all-to-all" => Ok(Self::AllToAll),
            "bisection" => Ok(Self::Bisection),
            _ => Err(format!("'{text}' is none of both, all-to-all, bisection")),
        }
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Both => "both",
            Self::AllToAll => "all-to-all",
            Self::Bisection => "bisection",
        })
    }
}
