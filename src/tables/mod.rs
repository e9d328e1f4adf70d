//! What an engine delivers and switches are programmed with: forwarding tables, SL to VL mappings,
//! path SLs, VL arbitration.

mod classes;
mod drain;
mod in_force;
mod lft;
mod multicast;
mod path_sl;
mod plan;
mod port_sets;
mod programmed;
mod sl2vl;
mod sl_classes;
mod vlarb;

pub use classes::Classes;
pub use drain::{Drain, DrainSize, Hop, HostPaths, VirtualChannel};
pub use in_force::{InForce, SenderSls, Transition};
pub use lft::Lft;
pub use multicast::{McastGroup, PortSet};
pub use path_sl::{ClassSl, PathSl, SwitchPairs};
pub use plan::{Plan, PlanError, Step};
pub use port_sets::PortSets;
pub use programmed::Programmed;
pub use sl_classes::SlClasses;
pub use sl2vl::{Sl2Vl, SlVlRow};
pub use vlarb::VlArb;

use crate::fabric::{Fabric, Sl};

/// A complete set of tables for one fabric.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Name of the engine that computed them, or of the source that they were read from.
    pub engine: String,
    /// Out port by switch and destination LID.
    pub lft: Lft,
    /// VL by switch, in port, out port and SL.
    pub sl2vl: Sl2Vl,
    /// SL by source and destination LID.
    pub path_sl: PathSl,
    /// Arbitration among the VLs in use, the same on every port.
    pub vlarb: VlArb,
    /// Multicast forwarding; empty if unknown. An engine's trees reach every end port. Each serves
    /// some SLs, and together they serve every SL that a group may have; a group uses the part of
    /// its tree between its members.
    pub multicast: Vec<McastGroup>,
    /// What switches with adaptive routing choose from; `None` if all take the ports of `lft`.
    pub port_sets: Option<PortSets>,
    /// What the administrator should know, one sentence each.
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
            port_sets: None,
            remarks: Vec::new(),
        }
    }
}
