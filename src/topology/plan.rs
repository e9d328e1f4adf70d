//! The plan that every generator makes first: switches, their cables and their adapters, without
//! nodes and GUIDs.

use crate::fabric::{
    Fabric, FabricBuilder, Guid, Lid, LinkSpeed, Lmc, Node, NodeId, NodeKind, PortNum, PortRef, SwitchId,
};

use super::error::{MAX_PORTS, TopologyError};

/// GUID of the first switch; the others follow one by one.
const FIRST_SWITCH: u64 = 0x0002_c902_0000_0000;
/// GUID of the first adapter.
const FIRST_ADAPTER: u64 = 0x0002_c903_0000_0000;
/// Distance between two adapter GUIDs; the port GUIDs are in between.
const ADAPTER_STEP: u64 = 16;
/// System image GUID of the first chassis.
const FIRST_CHASSIS: u64 = 0x0002_c904_0000_0000;

/// The size of a fabric, known from its parameters before it is built.
pub(super) struct Size {
    pub(super) switches: u128,
    pub(super) adapters: u128,
    /// Ports of the largest switch.
    pub(super) ports: u128,
}

/// A switch of a [`Plan`].
#[derive(Default)]
pub(super) struct PlannedSwitch {
    /// Unique, without spaces.
    pub(super) name: String,
    /// Number of adapters, on the ports from 1.
    pub(super) cas: u32,
    /// Ports reserved for adapters, used or not: 1 to this number. Links use the ports after them.
    pub(super) host_ports: u32,
    /// Smallest number of ports of the switch.
    pub(super) ports: u32,
    /// The chassis of the switch, if several switches share one.
    pub(super) chassis: Option<u32>,
}

/// A fabric that is not built yet.
pub(super) struct Plan {
    switches: Vec<PlannedSwitch>,
    /// Next free port of each switch.
    next: Vec<u32>,
    /// Both ends as (switch, port).
    cables: Vec<[(usize, u32); 2]>,
}

impl Plan {
    /// An empty plan for a fabric of this size.
    ///
    /// # Errors
    /// [`TopologyError::TooLarge`], [`TopologyError::TooManyPorts`].
    pub(super) fn new(size: &Size) -> Result<Self, TopologyError> {
        let &Size { switches, adapters, ports } = size;
        if switches.saturating_add(adapters) > u128::from(Lid::MAX) {
            return Err(TopologyError::TooLarge { switches, adapters });
        }
        if ports > MAX_PORTS {
            return Err(TopologyError::TooManyPorts { ports });
        }
        Ok(Self { switches: Vec::new(), next: Vec::new(), cables: Vec::new() })
    }

    /// The switches of a fabric in their order, with so many adapters each, and so many cables in place of each link.
    ///
    /// # Errors
    /// [`TopologyError::TooLarge`], [`TopologyError::TooManyPorts`].
    pub(super) fn of_switches(fabric: &Fabric, cas: &[u32], cables: u32) -> Result<Self, TopologyError> {
        let adapters = cas.iter().copied().map(u128::from).sum();
        let ports = |(s, &cas): (SwitchId, &u32)| {
            fabric.channels().out(s).len() as u128 * u128::from(cables) + u128::from(cas)
        };
        let ports = fabric.switch_ids().zip(cas).map(ports).max().unwrap_or(0);
        let mut plan = Self::new(&Size { switches: fabric.num_switches() as u128, adapters, ports })?;
        for (s, &cas) in fabric.switch_ids().zip(cas) {
            plan.switch(fabric.switch(s).description.clone(), cas);
        }
        for (_, c) in fabric.channels().iter().filter(|&(id, c)| id < c.reverse) {
            (0..cables).for_each(|_| plan.link(c.from.index(), c.to.index()));
        }
        Ok(plan)
    }

    /// Adds a switch and returns its number, which is also its position in GUID order.
    pub(super) fn add(&mut self, switch: PlannedSwitch) -> usize {
        self.next.push(switch.cas.max(switch.host_ports) + 1);
        self.switches.push(switch);
        self.switches.len() - 1
    }

    /// Adds a switch with `cas` adapters and as many ports as its links need.
    pub(super) fn switch(&mut self, name: String, cas: u32) -> usize {
        self.add(PlannedSwitch { name, cas, ..PlannedSwitch::default() })
    }

    /// Plugs a cable into the next free port of both switches.
    pub(super) fn link(&mut self, a: usize, b: usize) {
        self.link_at((a, self.next[a]), (b, self.next[b]));
    }

    /// Plugs a cable into given ports, each as (switch, port).
    pub(super) fn link_at(&mut self, a: (usize, u32), b: (usize, u32)) {
        for (switch, port) in [a, b] {
            self.next[switch] = self.next[switch].max(port + 1);
        }
        self.cables.push([a, b]);
    }

    /// Builds the fabric.
    ///
    /// # Errors
    /// Those of [`FabricBuilder`], if the generator contradicts itself.
    pub(super) fn build(self) -> Result<Fabric, TopologyError> {
        let mut builder = FabricBuilder::new();
        for (i, switch) in self.switches.iter().enumerate() {
            let ports = switch.ports.max(self.next[i] - 1);
            let guid = Guid(FIRST_SWITCH + i as u64);
            let mut node = node(NodeKind::Switch, guid, ports, &switch.name)?;
            if let Some(chassis) = switch.chassis {
                node.system_guid = Guid(FIRST_CHASSIS + u64::from(chassis));
            }
            builder.add(node)?;
        }
        let mut adapters = 0;
        for (i, switch) in self.switches.iter().enumerate() {
            for ca in 1..=switch.cas {
                let guid = Guid(FIRST_ADAPTER + ADAPTER_STEP * adapters);
                let name = format!("{}-ca-{ca}", switch.name);
                let id = builder.add(node(NodeKind::ChannelAdapter, guid, 1, &name)?)?;
                builder.connect(PortRef { node: id, port: PortNum(1) }, end((i, ca))?)?;
                adapters += 1;
            }
        }
        for [a, b] in self.cables {
            builder.connect(end(a)?, end(b)?)?;
        }
        Ok(builder.finish(Lmc::default())?)
    }
}

/// A node with 4x QDR links and 8 data VLs, which every tool of the last decades supports.
fn node(kind: NodeKind, guid: Guid, ports: u32, name: &str) -> Result<Node, TopologyError> {
    let mut node = Node::new(kind, guid, port(ports)?.0, name);
    for port in &mut node.ports {
        port.width = Some(4);
        port.speed = Some(LinkSpeed::Qdr);
        port.data_vls = Some(8);
    }
    Ok(node)
}

fn end((switch, number): (usize, u32)) -> Result<PortRef, TopologyError> {
    Ok(PortRef { node: NodeId::at(switch), port: port(number)? })
}

fn port(number: u32) -> Result<PortNum, TopologyError> {
    let too_many = TopologyError::TooManyPorts { ports: number.into() };
    u8::try_from(number).ok().filter(|&n| u128::from(n) <= MAX_PORTS).map(PortNum).ok_or(too_many)
}
