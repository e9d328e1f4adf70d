//! Methods that assign VLs and SLs so that forwarding tables are free of credit loops, one per file.

mod classes;
mod datelines;
mod df_d2;
mod df_dn;
mod layered;
mod ordered;
mod tree_lanes;

use std::fmt;

use thiserror::Error;

use crate::tables::{PathSl, Sl2Vl};

pub use classes::classes;
pub use datelines::{any_sl, datelines, labelled};
pub use df_d2::df_d2;
pub use df_dn::df_dn;
pub use layered::{Layered, all_layered, layered};
pub use ordered::ordered;
pub use tree_lanes::tree_lanes;

/// VLs and SLs for given forwarding tables.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// VL by switch, in port, out port and SL.
    pub sl2vl: Sl2Vl,
    /// SL by source and destination.
    pub path_sl: PathSl,
    /// VLs in use: 0 to `vls` - 1.
    pub vls: u8,
    /// Number of SLs that paths need.
    pub sls: u8,
}

/// The VLs and SLs that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// Data VLs that every switch-to-switch link operates, `1..=15`.
    pub vls: u8,
    /// SLs that may be assigned, `1..=16`.
    pub sls: u8,
}

impl fmt::Display for LaneLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |n: u8| if n == 1 { "" } else { "s" };
        write!(f, "{} VL{} and {} SL{}", self.vls, s(self.vls), self.sls, s(self.sls))
    }
}

/// Why forwarding tables cannot be made free of credit loops.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LanesError {
    /// More VLs are needed than every switch-to-switch link operates.
    #[error(
        "{needed} VLs are needed and {offered} are offered by every switch-to-switch link. \
         Raise max_op_vls, replace the links that offer fewer, or choose another engine"
    )]
    TooFewVls {
        /// VLs that this method needs here.
        needed: usize,
        /// VLs available.
        offered: u8,
    },
    /// More SLs are needed than may be assigned.
    #[error("{needed} SLs are needed and {offered} may be assigned. Choose another engine for this fabric")]
    TooFewSls {
        /// SLs that this method needs here.
        needed: usize,
        /// SLs available.
        offered: u8,
    },
    /// DF-D2 for a path of more than two switch-to-switch channels.
    #[error("DF-D2 needs paths of at most two channels between switches; this fabric has one of {hops}")]
    DiameterAboveTwo {
        /// Channels of the longest path.
        hops: usize,
    },
}
