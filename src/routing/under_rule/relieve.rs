//! Moves routes off the hottest channels of tables under a rule.

use super::load_walk::{LoadWalk, Lookahead};
use super::paths::Walk;
use super::{Forwarding, NoLegalPath};
use crate::fabric::{ChannelId, Fabric, Lid, PortNum, SwitchId};
use crate::ordering::Rule;
use crate::routing::minimal_dag::{MinimalDag, for_each_block};
use crate::routing::{Hops, adapters_by_switch, ends_on};
use crate::tables::Lft;

/// The weight of the hottest channel; a path has fewer than 2^8 of them, and the walk's keys 48 bits.
const HOTTEST: f64 = (1_u64 << 36) as f64;

/// How far [`relieve`] goes.
#[derive(Clone, Copy, Debug)]
pub struct Relief {
    /// Channels with at most as many routes are left alone.
    pub goal: u64,
    /// Passes over the destinations of hot channels, at most.
    pub passes: usize,
}

/// Moves routes to adapters off channels that carry more routes than the goal, as far as the rule allows it.
///
/// Destination by destination, of those with routes over such a channel: its tree is taken out of the load and
/// chosen anew, as in [`ranked_sssp`](super::ranked_sssp()), where each channel costs the eighth power of its
/// load. The new tree stays if it has no more detours and the sum of these powers over all channels falls. So
/// the largest load hardly grows, and mostly falls.
///
/// - `no_legal_path`: as in the routing before.
/// - `forwarding`: complete tables under the rule.
///
/// Cost: a pass takes O(S + E) for each destination with a hot channel, with E the channels of its minimal-path
/// DAG, and O(C) more where it has detours; O(S + C) memory.
pub fn relieve(
    fabric: &Fabric,
    hops: &Hops,
    (rule, lookahead): (&Rule, Lookahead),
    no_legal_path: NoLegalPath<'_>,
    relief: Relief,
    forwarding: &mut Forwarding,
) {
    let Relief { goal, passes } = relief;
    let adapters = adapters_by_switch(fabric);
    let mut walk = LoadWalk::new(fabric, rule, lookahead);
    for _ in 0..passes {
        let largest = forwarding.load.iter().copied().max().unwrap_or(0);
        if largest <= goal {
            return;
        }
        let by_load = |id: &ChannelId| forwarding.load[id.index()] > goal;
        let hot: Vec<ChannelId> = (0..forwarding.load.len()).map(ChannelId::at).filter(by_load).collect();
        let mut pass = Pass {
            fabric,
            hops,
            no_legal_path,
            adapters: &adapters,
            hot: &hot,
            scale: 1.0 / largest as f64,
            weights: Vec::new(),
            flow: vec![0; adapters.len()],
            length: vec![0; adapters.len()],
            order: Vec::new(),
            tree: Vec::new(),
            moved: false,
        };
        pass.weights = forwarding.load.iter().map(|&load| pass.weight(load) as u64).collect();
        let concerned =
            |s: &SwitchId| destinations(fabric, *s).any(|lid| pass.uses_hot(&forwarding.lft, lid));
        let targets: Vec<SwitchId> = fabric.switch_ids().filter(concerned).collect();
        for_each_block(fabric, hops, &targets, |dags| {
            for dag in dags {
                for lid in destinations(fabric, dag.target) {
                    if pass.uses_hot(&forwarding.lft, lid) {
                        pass.reroute(dag, lid, &mut walk, forwarding);
                    }
                }
            }
        });
        if !pass.moved {
            return;
        }
    }
}

/// The LIDs of the adapters on a switch.
fn destinations(fabric: &Fabric, switch: SwitchId) -> impl Iterator<Item = Lid> {
    let ends = ends_on(fabric, switch).into_iter().map(|(end, _)| end);
    ends.filter(|end| end.is_adapter()).flat_map(|end| end.lids())
}

/// One pass over the destinations.
struct Pass<'a> {
    fabric: &'a Fabric,
    hops: &'a Hops,
    no_legal_path: NoLegalPath<'a>,
    /// By switch.
    adapters: &'a [u64],
    hot: &'a [ChannelId],
    /// One over the routes on the hottest channel as the pass begins.
    scale: f64,
    /// By channel.
    weights: Vec<u64>,
    /// By switch: routes that it forwards.
    flow: Vec<u64>,
    /// By switch: hops along the tree that is replaced.
    length: Vec<u16>,
    /// The switches of that tree, each after its next hop, with their channels.
    order: Vec<(SwitchId, ChannelId)>,
    /// The channels of the tree that is replaced, with their routes.
    tree: Vec<(ChannelId, u64)>,
    moved: bool,
}

impl Pass<'_> {
    /// What a channel costs: the eighth power of its load. That is high enough that the hottest channels decide,
    /// and low enough that many warm ones still count.
    fn weight(&self, load: u64) -> f64 {
        let share = load as f64 * self.scale;
        let square = share * share;
        let fourth = square * square;
        HOTTEST * (fourth * fourth)
    }

    /// Whether routes to a LID take a hot channel.
    fn uses_hot(&self, lft: &Lft, lid: Lid) -> bool {
        let ports = lft.to(lid);
        self.hot
            .iter()
            .map(|&id| self.fabric.channels().get(id))
            .any(|c| ports[c.from.index()] == c.out_port.0)
    }

    /// Chooses the tree of one destination anew, and keeps the better one.
    fn reroute(&mut self, dag: &MinimalDag, lid: Lid, walk: &mut LoadWalk<'_>, forwarding: &mut Forwarding) {
        let Some(detours) = self.read_tree(dag, forwarding.lft.to(lid)) else { return };
        let old = std::mem::take(&mut self.tree);
        let load = &mut forwarding.load;
        let price = |this: &Self, tree: &[(ChannelId, u64)], load: &[u64]| -> f64 {
            tree.iter().map(|(c, _)| this.weight(load[c.index()])).sum()
        };
        let with_old = price(self, &old, load);
        self.shift(&old, load, u64::wrapping_sub);
        let gain = with_old - price(self, &old, load);
        walk.choose(dag, &self.weights);
        let legal = !walk.any_violation()
            || match self.no_legal_path {
                NoLegalPath::Break => false,
                NoLegalPath::Detour(tree) => walk.detour(dag, self.hops, &self.weights, tree),
            };
        let longer: u64 = walk.paths().detours(self.hops).map(|s| self.adapters[s.index()]).sum();
        if legal && longer <= detours {
            walk.paths_mut().flow_to_target(self.adapters);
            let paths = walk.paths();
            let new: Vec<(ChannelId, u64)> =
                paths.outward().map(|(s, c)| (c, paths.flow[s.index()])).collect();
            let without_new = price(self, &new, load);
            self.shift(&new, load, u64::wrapping_add);
            if price(self, &new, load) - without_new < gain {
                paths.write(forwarding.lft.to_mut(lid));
                forwarding.detours -= detours - longer;
                self.moved = true;
                self.tree = old;
                return;
            }
            self.shift(&new, load, u64::wrapping_sub);
        }
        self.shift(&old, load, u64::wrapping_add);
        self.tree = old;
    }

    /// Adds the routes of a tree to the load, or takes them away.
    fn shift(&mut self, tree: &[(ChannelId, u64)], load: &mut [u64], by: fn(u64, u64) -> u64) {
        for &(c, routes) in tree {
            load[c.index()] = by(load[c.index()], routes);
            self.weights[c.index()] = self.weight(load[c.index()]) as u64;
        }
    }

    /// Lists the channels of the tree in force with their routes. Returns how many adapters take a detour; `None`
    /// where some switch has no path.
    fn read_tree(&mut self, dag: &MinimalDag, ports: &[u8]) -> Option<u64> {
        let channels = self.fabric.channels();
        self.tree.clear();
        let row = self.hops.row(dag.target);
        let mut detours = 0;
        let length = &mut self.length;
        length.fill(u16::MAX);
        length[dag.target.index()] = 0;
        self.order.clear();
        let mut trail = Vec::new();
        for &s in &dag.order {
            let mut at = s;
            while length[at.index()] == u16::MAX {
                let channel = channels.at_port(at, PortNum(ports[at.index()]))?;
                trail.push((at, channel));
                at = channels.get(channel).to;
                if trail.len() > ports.len() {
                    return None;
                }
            }
            let mut hops = length[at.index()];
            while let Some((at, channel)) = trail.pop() {
                hops += 1;
                length[at.index()] = hops;
                self.order.push((at, channel));
            }
            if length[s.index()] > u16::from(row[s.index()]) {
                detours += self.adapters[s.index()];
            }
        }
        self.flow.copy_from_slice(self.adapters);
        for &(s, channel) in self.order.iter().rev() {
            let routes = self.flow[s.index()];
            self.flow[channels.get(channel).to.index()] += routes;
            self.tree.push((channel, routes));
        }
        Some(detours)
    }
}
