//! BFOT as described: switches that send each other messages.

use std::collections::VecDeque;

use dfdn::fabric::{ChannelId, Fabric, PortNum, SwitchId};
use dfdn::ordering::{Layers, LinkSort, ordered_trees};
use dfdn::routing::bfot;
use dfdn::topology::small_members;

/// Routes to one destination by BFOT's messages (Chiu et al., section 4.4.1 and Fig. 3), for
/// comparison with the central [`bfot`].
///
/// As in the paper's own implementation, all messages go through one central queue. Messages about
/// different destinations never affect each other, so each destination has its own queue.
///
/// A switch keeps all equally short routes and forwards over one of them. It tells its neighbours
/// the highest layer among them (route-info), and tells its next hop the layer that it uses
/// (route-constrain). A route below a layer that some neighbour imposed is unusable as long as that
/// holds. The paper keeps a list of such neighbours with each route; here the switch keeps the
/// layer that each neighbour imposed, 0 for none, which is equivalent.
#[derive(Clone, Debug)]
pub(super) struct BfotMessages {
    nodes: Vec<Node>,
    /// Messages handled.
    pub(super) messages: u64,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// Hops of the routes, `None` without any.
    hops: Option<u16>,
    /// First channels of all routes of that length.
    routes: Vec<ChannelId>,
    forward: Option<ChannelId>,
    /// By channel to a neighbour that forwards to this switch: the layer that it imposed.
    imposed: Vec<(ChannelId, u8)>,
}

#[derive(Clone, Copy, Debug)]
enum Message {
    /// From the switch at the end of `over`: a path of this many hops that starts in this layer.
    RouteInfo { over: ChannelId, hops: u16, layer: u8 },
    /// From the switch at the end of `over`: keep to this layer or higher; 0 lifts the restriction.
    RouteConstrain { over: ChannelId, layer: u8 },
}

impl BfotMessages {
    /// Runs until no message is left.
    ///
    /// Cost: O(C M) messages with C channels and M layers at most, far fewer in practice, each of
    /// O(degree).
    pub(super) fn to(fabric: &Fabric, layers: &Layers, target: SwitchId) -> Self {
        let mut run = Run {
            fabric,
            layers,
            nodes: vec![Node::default(); fabric.num_switches()],
            queue: VecDeque::new(),
        };
        run.announce(target, 0, u8::MAX);
        let mut messages = 0;
        while let Some((to, message)) = run.queue.pop_front() {
            messages += 1;
            match message {
                _ if to == target => {}
                Message::RouteInfo { over, hops, layer } => run.route_info(to, over, hops, layer),
                Message::RouteConstrain { over, layer } => run.route_constrain(to, over, layer),
            }
        }
        Self { nodes: run.nodes, messages }
    }

    /// Hops to the destination; `None` if there is no path, and at the destination.
    pub(super) fn hops(&self, from: SwitchId) -> Option<u16> {
        self.nodes[from.index()].hops
    }

    /// The channel that the switch forwards over; `None` if there is no path, and at the
    /// destination.
    pub(super) fn forward(&self, from: SwitchId) -> Option<ChannelId> {
        self.nodes[from.index()].forward
    }
}

struct Run<'a> {
    fabric: &'a Fabric,
    layers: &'a Layers,
    nodes: Vec<Node>,
    queue: VecDeque<(SwitchId, Message)>,
}

impl Run<'_> {
    /// Sends route-info to all neighbours.
    fn announce(&mut self, from: SwitchId, hops: u16, layer: u8) {
        for (_, c) in self.fabric.channels().out(from) {
            self.queue.push_back((c.to, Message::RouteInfo { over: c.reverse, hops, layer }));
        }
    }

    fn constrain(&mut self, over: ChannelId, layer: u8) {
        let c = self.fabric.channels().get(over);
        self.queue.push_back((c.to, Message::RouteConstrain { over: c.reverse, layer }));
    }

    fn route_info(&mut self, at: SwitchId, over: ChannelId, hops: u16, layer: u8) {
        let here = self.layers.of(over);
        let node = &mut self.nodes[at.index()];
        let longer = node.hops.is_some_and(|known| hops + 1 > known);
        if here > layer || longer || node.routes.contains(&over) {
            return;
        }
        if node.hops != Some(hops + 1) {
            (node.hops, node.routes) = (Some(hops + 1), Vec::new());
        }
        let told = node.routes.iter().map(|&route| self.layers.of(route)).max();
        node.routes.push(over);
        self.settle(at);
        if told.is_none_or(|told| here > told) {
            self.announce(at, hops + 1, here);
        }
    }

    fn route_constrain(&mut self, at: SwitchId, over: ChannelId, layer: u8) {
        let imposed = &mut self.nodes[at.index()].imposed;
        imposed.retain(|&(neighbour, _)| neighbour != over);
        imposed.push((over, layer));
        self.settle(at);
    }

    /// Forwards over a usable route, the current one if it is usable, and tells the neighbours
    /// concerned.
    fn settle(&mut self, at: SwitchId) {
        let node = &mut self.nodes[at.index()];
        let least = node.imposed.iter().map(|&(_, layer)| layer).max().unwrap_or(0);
        let usable = |route: &ChannelId| self.layers.of(*route) >= least;
        let old = node.forward;
        if old.is_some_and(|old| node.routes.contains(&old) && usable(&old)) {
            return;
        }
        let new = node.routes.iter().copied().find(usable);
        node.forward = new;
        if let Some(new) = new {
            self.constrain(new, self.layers.of(new));
        }
        if let Some(old) = old {
            self.constrain(old, 0);
        }
    }
}

/// Hops from a switch to the destination along tables.
fn hops(f: &Fabric, ports: &[u8], from: SwitchId, to: SwitchId) -> u16 {
    let (mut at, mut hops) = (from, 0);
    while at != to {
        let c = f.channels().at_port(at, PortNum(ports[at.index()])).unwrap();
        at = f.channels().get(c).to;
        hops += 1;
    }
    hops
}

#[test]
fn messages_arrive_where_the_central_search_does() {
    for (name, f) in small_members() {
        for sort in LinkSort::ALL {
            let layers = ordered_trees(&f, sort);
            let lft = bfot(&f, &layers);
            for target in f.switch_ids() {
                let messages = BfotMessages::to(&f, &layers, target);
                assert!(messages.messages >= f.channels().len() as u64, "{name}: every switch sends");
                let ends = f.endports_on(target).iter().map(|&e| f.endport(e).lid);
                for lid in ends {
                    for s in f.switch_ids().filter(|&s| s != target) {
                        assert_eq!(messages.hops(s), Some(hops(&f, lft.to(lid), s, target)), "{name}");
                    }
                }
                for s in f.switch_ids().filter(|&s| s != target) {
                    let over = messages.forward(s).unwrap();
                    let next = f.channels().get(over).to;
                    let rest = if next == target { Some(0) } else { messages.hops(next) };
                    assert_eq!(messages.hops(s), rest.map(|hops| hops + 1), "{name}");
                    let legal = messages.forward(next).is_none_or(|then| layers.allow(&f, over, then));
                    assert!(legal, "{name}");
                }
            }
        }
    }
}
