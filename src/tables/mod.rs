//! What an engine hands over and a switch is programmed with: forwarding tables, SL to VL
//! mappings, the SL of a path, VL arbitration.

mod classes;
mod lft;
mod multicast;
mod path_sl;
mod programmed;
mod sl2vl;
mod vlarb;

pub use classes::Classes;
pub use lft::Lft;
pub use multicast::{McastGroup, PortSet};
pub use path_sl::{ClassSl, PathSl};
pub use programmed::Programmed;
pub use sl2vl::{Sl2Vl, SlVlRow};
pub use vlarb::VlArb;

use crate::fabric::{Fabric, Sl};

/// A complete set of tables for one fabric.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Name of the engine that computed them, or of where they were read from.
    pub engine: String,
    /// Out port by switch and destination LID.
    pub lft: Lft,
    /// VL by switch, in port, out port and SL.
    pub sl2vl: Sl2Vl,
    /// SL by source and destination LID.
    pub path_sl: PathSl,
    /// Arbitration among the VLs in use, the same on every port.
    pub vlarb: VlArb,
    /// Multicast forwarding, empty where it is not known: of an engine, trees that reach every end
    /// port, each for groups with some SLs, which together are all SLs that a group may have; each
    /// group takes of its tree what lies between its members.
    pub multicast: Vec<McastGroup>,
    /// What the engine wants a person to know, a sentence each.
    pub remarks: Vec<String>,
}

impl Routes {
    /// Forwarding tables with SL 0 and VL 0 for every path, and without multicast. `engine`: as the field.
    pub fn on_one_vl(engine: &str, fabric: &Fabric, lft: Lft) -> Self {
        Self {
            engine: engine.to_owned(),
            lft,
            sl2vl: Sl2Vl::new(fabric),
            path_sl: PathSl::one(Sl(0)),
            vlarb: VlArb::fair(1),
            multicast: Vec::new(),
            remarks: Vec::new(),
        }
    }
}
