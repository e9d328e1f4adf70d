//! Whether tables change little or are balanced anew when the fabric changes.

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
