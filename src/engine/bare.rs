//! What the settings of the bare routings may be.

use std::fmt;
use std::str::FromStr;

/// What a channel weighs in P-SSSP beside its routes (Hoefler et al., section III.A). In words `minimal` and `one`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// P^2 with P end ports, so that no path is longer than minimal.
    #[default]
    Minimal,
    /// 1: paths avoid channels with many routes, if need be over more hops.
    One,
}

impl FromStr for Weights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "minimal" => Ok(Self::Minimal),
            "one" => Ok(Self::One),
            _ => Err(format!("'{text}' is neither minimal nor one")),
        }
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Minimal => "minimal",
            Self::One => "one",
        })
    }
}

/// In which order P²-SSSP takes the pairs. In words `guid` and `random`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pairs {
    /// In the order of GUIDs.
    #[default]
    Guid,
    /// In an order drawn at random, by [`Settings::draw_seed`](super::Settings::draw_seed).
    Random,
}

impl FromStr for Pairs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "guid" => Ok(Self::Guid),
            "random" => Ok(Self::Random),
            _ => Err(format!("'{text}' is neither guid nor random")),
        }
    }
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guid => "guid",
            Self::Random => "random",
        })
    }
}
