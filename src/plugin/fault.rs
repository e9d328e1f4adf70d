//! What can be wrong with a switch or a link that OpenSM manages nevertheless.

use std::collections::BTreeSet;

use crate::fabric::{Guid, PortNum};

/// What is wrong with a switch, or with a link at one of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Fault {
    /// Blocks of its forwarding table are not as they were sent.
    Blocks,
    /// SL2VL rows are not.
    Rows,
    /// Its LinearFDBTop is below the largest LID.
    Top,
    /// The link at this port, the end with the lower GUID and port, is not ACTIVE at both ends.
    Link(PortNum),
}

impl Fault {
    /// Number of consecutive sweeps before the fault counts. SL2VL rows that OpenSM clipped at first
    /// need more than two sweeps to be in place.
    pub(super) fn patience(self) -> u32 {
        match self {
            Self::Blocks | Self::Rows => 4,
            Self::Top | Self::Link(_) => 2,
        }
    }
}

/// Faults of switches, by GUID.
pub(super) type Faults = BTreeSet<(Guid, Fault)>;
