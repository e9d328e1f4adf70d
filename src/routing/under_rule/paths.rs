//! The paths of all switches to one destination, and the repair of those that violate a rule.
//!
//! Two walks choose between minimal paths: `load_walk.rs` by the load so far, `stable/walk.rs` by the expected
//! load.

use super::NoLegalPath;
use super::levels::Levels;
use crate::fabric::{ChannelId, EndPort, Fabric, Lid, PortNum, SwitchId};
use crate::ordering::{Rule, Tree};
use crate::routing::Hops;
use crate::routing::minimal_dag::MinimalDag;

pub(super) const NO_PATH: u16 = u16::MAX;

/// Switches that may get a legal path to one destination by rerouting others: each costs O(C d), and a
/// destination that needs more is better served by another rule.
const MAX_REROUTES: usize = 16;

/// The path of one switch. Half a cache line, as a walk reads the paths of all switches for each destination.
#[derive(Clone, Copy, Debug)]
pub(in crate::routing) struct Path<X> {
    /// Of all its channels, in units of the walk.
    pub(in crate::routing) cost: u64,
    /// Its first channel; meaningless at the target.
    pub(in crate::routing) channel: ChannelId,
    /// The switch that this leads to.
    pub(in crate::routing) to: SwitchId,
    /// [`Rule::position_of`] it.
    pub(in crate::routing) position: u32,
    /// Turns on it that the rule forbids after the turn before.
    pub(in crate::routing) violations: u16,
    /// Channels to the target; [`NO_PATH`] while there is none.
    pub(in crate::routing) hops: u16,
    /// What else the walk keeps with it.
    pub(in crate::routing) extra: X,
}

/// The paths of all switches to one destination after the other.
pub(in crate::routing) struct Paths<'a, X> {
    pub(in crate::routing) fabric: &'a Fabric,
    pub(in crate::routing) target: SwitchId,
    /// By switch.
    pub(in crate::routing) paths: Vec<Path<X>>,
    /// Switches with a path, each after its next hop; the target first.
    pub(in crate::routing) outward_order: Vec<SwitchId>,
    /// By switch: the channel that it must take.
    pub(super) forced: Vec<Option<ChannelId>>,
    /// The destination switch for which these are the reroutes that gave all switches a path.
    rerouted: Option<SwitchId>,
    /// By switch, after [`count`](Self::count): routes that it forwards.
    pub(in crate::routing) flow: Vec<u64>,
    /// By channel.
    out_port: Vec<u8>,
    /// By channel: see [`Weights`](crate::fabric::Weights).
    weights: &'a [u8],
    /// By channel: the memory of [`legal_path`](Self::legal_path).
    pub(super) latest: Vec<Option<u32>>,
}

impl<'a, X: Copy + Default> Paths<'a, X> {
    pub(in crate::routing) fn new(fabric: &'a Fabric) -> Self {
        let n = fabric.num_switches();
        let none = Path {
            cost: 0,
            channel: ChannelId(0),
            to: SwitchId(0),
            position: Rule::END,
            violations: 0,
            hops: NO_PATH,
            extra: X::default(),
        };
        Self {
            fabric,
            target: SwitchId(0),
            paths: vec![none; n],
            outward_order: Vec::with_capacity(n),
            forced: vec![None; n],
            rerouted: None,
            flow: vec![0; n],
            out_port: fabric.channels().as_slice().iter().map(|c| c.out_port.0).collect(),
            weights: fabric.weights().by_channel(),
            latest: vec![None; fabric.channels().len()],
        }
    }

    /// Gives the target its empty path.
    pub(in crate::routing) fn set_target(&mut self) {
        let extra = X::default();
        let target = &mut self.paths[self.target.index()];
        *target = Path { cost: 0, position: Rule::END, violations: 0, hops: 0, extra, ..*target };
    }

    pub(super) fn has_path(&self, s: SwitchId) -> bool {
        self.paths[s.index()].hops != NO_PATH
    }

    pub(super) fn complete(&self) -> bool {
        self.outward_order.len() == self.paths.len()
    }

    /// The channel over which a switch goes on, `None` for the target.
    #[inline(always)]
    pub(in crate::routing) fn next(&self, s: SwitchId) -> Option<ChannelId> {
        (s != self.target).then(|| self.paths[s.index()].channel)
    }

    /// The switches whose paths violate the rule.
    pub(in crate::routing) fn illegal(&self) -> impl Iterator<Item = SwitchId> {
        let illegal = self.paths.iter().enumerate().filter(|(_, path)| path.violations > 0);
        illegal.map(|(s, _)| SwitchId::at(s))
    }

    /// Removes the paths that violate the rule.
    pub(super) fn drop_illegal(&mut self) {
        let paths = &mut self.paths;
        for path in paths.iter_mut().filter(|path| path.violations > 0) {
            (path.hops, path.violations) = (NO_PATH, 0);
        }
        self.outward_order.retain(|s| paths[s.index()].hops != NO_PATH);
    }

    /// Removes all paths but that of the target.
    fn drop_all(&mut self) {
        for path in &mut self.paths {
            (path.hops, path.violations) = (NO_PATH, 0);
        }
        self.set_target();
        self.outward_order.clear();
        self.outward_order.push(self.target);
    }

    fn set(&mut self, from: SwitchId, path: Path<X>) {
        self.paths[from.index()] = path;
        self.outward_order.push(from);
    }

    /// Forces a switch, and all switches on its path along the tree, onto the tree.
    fn force(&mut self, from: SwitchId, tree: &Tree) {
        let mut at = from;
        while at != self.target && self.forced[at.index()].is_none() {
            let Some(next) = tree.next(self.fabric, at, self.target) else { break };
            self.forced[at.index()] = Some(next);
            at = self.fabric.channels().get(next).to;
        }
    }

    /// Drops what switches must take.
    fn free_all(&mut self) {
        self.forced.fill(None);
        self.rerouted = None;
    }

    /// Forces the switches on a path onto it. Only [`Walk::follow`] makes paths of that.
    fn force_path(&mut self, path: &[ChannelId]) {
        for &channel in path {
            self.forced[self.fabric.channels().get(channel).from.index()] = Some(channel);
        }
        self.take_forced();
    }

    /// Makes the switches take what they must. Only [`Walk::follow`] makes paths of that.
    fn take_forced(&mut self) {
        for &channel in self.forced.iter().flatten() {
            let c = self.fabric.channels().get(channel);
            let path = &mut self.paths[c.from.index()];
            (path.channel, path.to, path.hops) = (channel, c.to, 0);
        }
    }

    /// Takes the next hops from the ports by switch of a destination. Only [`Walk::follow`] makes paths of them.
    pub(super) fn read(&mut self, target: SwitchId, ports: &[u8]) {
        self.target = target;
        for s in self.fabric.switch_ids() {
            let next = self.fabric.channels().at_port(s, PortNum(ports[s.index()]));
            let path = &mut self.paths[s.index()];
            path.hops = NO_PATH;
            if let Some(channel) = next {
                (path.channel, path.to, path.hops) = (channel, self.fabric.channels().get(channel).to, 0);
            }
        }
    }

    /// Writes the next hops into the ports by switch of a destination.
    pub(in crate::routing) fn write(&self, ports: &mut [u8]) {
        for &s in &self.outward_order[1..] {
            ports[s.index()] = self.out_port[self.paths[s.index()].channel.index()];
        }
    }

    /// Adds the routes of all adapters to the target, `times` over, to the load, by the weights of the channels.
    pub(in crate::routing) fn count(&mut self, adapters: &[u64], times: u64, load: &mut [u64]) {
        self.flow.copy_from_slice(adapters);
        for &s in self.outward_order[1..].iter().rev() {
            let path = &self.paths[s.index()];
            let flow = self.flow[s.index()];
            let weight = u64::from(self.weights[path.channel.index()]);
            load[path.channel.index()] += times * flow * weight;
            self.flow[path.to.index()] += flow;
        }
    }

    /// The switches but the target with the channels that they take, each after its next hop.
    pub(in crate::routing) fn outward(&self) -> impl Iterator<Item = (SwitchId, ChannelId)> {
        self.outward_order[1..].iter().map(|&s| (s, self.paths[s.index()].channel))
    }

    /// The switches whose path is not minimal.
    pub(super) fn detours(&self, hops: &Hops) -> impl Iterator<Item = SwitchId> {
        let row = hops.row(self.target);
        let longer =
            self.paths.iter().zip(row).enumerate().filter(|(_, (path, h))| path.hops > u16::from(**h));
        longer.map(|(s, _)| SwitchId::at(s))
    }
}

/// A walk over the minimal-path DAG of a destination that gives each switch a path.
pub(in crate::routing) trait Walk<'a> {
    /// [`Path::extra`].
    type Extra: Copy + Default;
    /// The destination, as far as choices depend on it.
    type Destination<'g>: Copy;
    /// Decides between detours of as many hops, the least first; then the number of the channel decides.
    type Price: Ord + Copy;

    fn paths(&self) -> &Paths<'a, Self::Extra>;
    fn paths_mut(&mut self) -> &mut Paths<'a, Self::Extra>;

    /// The rule that paths have to obey.
    fn rule(&self) -> &'a Rule;

    /// The path of a switch over a channel to a switch that has a path.
    fn over(&self, channel: ChannelId, to: SwitchId, destination: Self::Destination<'_>)
    -> Path<Self::Extra>;

    fn price(&self, path: &Path<Self::Extra>, destination: Self::Destination<'_>) -> Self::Price;

    /// How many hops longer a path may be that is taken before one of this price.
    fn delay(&self, _price: Self::Price) -> usize {
        0
    }

    /// The minimal path of the switch at an index of the DAG where some switches have longer ones. A path over
    /// such a switch counts as a violation.
    ///
    /// - `hops`: of a minimal path.
    fn minimal(
        &mut self,
        dag: &MinimalDag,
        index: usize,
        hops: u16,
        destination: Self::Destination<'_>,
    ) -> Path<Self::Extra>;

    /// Replaces paths that violate the rule by longer ones that obey it.
    ///
    /// First it searches outward from the switches with a legal path, in order of hops and then of price. A
    /// switch that this does not reach is forced onto the tree, with all switches on its path there; then all
    /// other paths are chosen anew, until every switch has one. Paths along the tree are legal and agree with
    /// each other, so it ends with the whole tree at the latest.
    ///
    /// Returns whether every switch has a legal path in the end.
    fn detour(
        &mut self,
        dag: &MinimalDag,
        hops: &Hops,
        destination: Self::Destination<'_>,
        tree: Option<&Tree>,
    ) -> bool {
        self.search(destination);
        let Some(tree) = tree.filter(|_| !self.paths().complete()) else {
            return self.paths().complete();
        };
        self.paths_mut().free_all();
        while !self.paths().complete() {
            let paths = self.paths_mut();
            for s in paths.fabric.switch_ids() {
                if !paths.has_path(s) {
                    paths.force(s, tree);
                }
            }
            self.choose_around(dag, hops, destination);
            self.search(destination);
        }
        true
    }

    /// Gives paths to the switches that a search has left without, by rerouting others: one switch after the
    /// other gets a legal path, and paths that this makes illegal are searched anew. What served the last
    /// destination on the same switch is tried first.
    ///
    /// Returns whether every switch has a legal path in the end.
    ///
    /// Cost: O(C d) for each path, with d channels out of a switch, where few switches are passed by several.
    fn reroute_others(&mut self, destination: Self::Destination<'_>) -> bool {
        if self.paths().rerouted == Some(self.paths().target) {
            let (paths, outward_order) = (self.paths().paths.clone(), self.paths().outward_order.clone());
            self.paths_mut().take_forced();
            self.follow(destination);
            self.search(destination);
            if self.paths().complete() {
                return true;
            }
            (self.paths_mut().paths, self.paths_mut().outward_order) = (paths, outward_order);
        }
        self.paths_mut().free_all();
        for _ in 0..MAX_REROUTES {
            let paths = self.paths();
            let Some(stuck) = paths.fabric.switch_ids().find(|&s| !paths.has_path(s)) else { break };
            let rule = self.rule();
            let Some(path) = self.paths_mut().legal_path(rule, stuck) else { return false };
            self.paths_mut().force_path(&path);
            self.follow(destination);
            self.search(destination);
        }
        let complete = self.paths().complete();
        self.paths_mut().rerouted = complete.then_some(self.paths().target);
        complete
    }

    /// Recomputes the paths from the next hops, and removes those that violate the rule with all that lead
    /// over them.
    ///
    /// Cost: O(S).
    fn follow(&mut self, destination: Self::Destination<'_>) {
        let paths = self.paths();
        let mut predecessors: Vec<Vec<SwitchId>> = vec![Vec::new(); paths.paths.len()];
        for s in paths.fabric.switch_ids().filter(|&s| s != paths.target && paths.has_path(s)) {
            predecessors[paths.paths[s.index()].to.index()].push(s);
        }
        self.paths_mut().drop_all();
        let mut index = 0;
        while let Some(&to) = self.paths().outward_order.get(index) {
            for &s in &predecessors[to.index()] {
                let path = self.over(self.paths().paths[s.index()].channel, to, destination);
                if path.violations == 0 {
                    self.paths_mut().set(s, path);
                }
            }
            index += 1;
        }
    }

    /// Replaces all paths that violate the rule by longer ones that obey it, or none where the search does not
    /// find them all.
    fn detour_all_or_none(&mut self, destination: Self::Destination<'_>) {
        let (paths, outward_order) = (self.paths().paths.clone(), self.paths().outward_order.clone());
        self.search(destination);
        if !self.paths().complete() {
            (self.paths_mut().paths, self.paths_mut().outward_order) = (paths, outward_order);
        }
    }

    /// Finds paths for all switches whose own violates the rule, as far as that needs no change of others.
    ///
    /// Cost: O(C).
    fn search(&mut self, destination: Self::Destination<'_>) {
        self.paths_mut().drop_illegal();
        let fabric = self.paths().fabric;
        let channels = fabric.channels();
        // By hops and delay: channels from switches without a path that begin a legal one.
        let mut open: Levels<(Self::Price, ChannelId)> = Levels::new();
        let offer = |walk: &Self, open: &mut Levels<_>, now: usize, channel: ChannelId, to: SwitchId| {
            let path = walk.over(channel, to, destination);
            if path.violations == 0 {
                let price = walk.price(&path, destination);
                open.push(now.max(usize::from(path.hops) + walk.delay(price)), (price, channel));
            }
        };
        for s in fabric.switch_ids().filter(|&s| !self.paths().has_path(s)) {
            for (id, c) in channels.out(s).filter(|(_, c)| self.paths().has_path(c.to)) {
                offer(self, &mut open, 0, id, c.to);
            }
        }
        let mut best: Vec<Option<(Self::Price, ChannelId)>> = vec![None; fabric.num_switches()];
        while let Some((level, offers)) = open.pop_level() {
            let mut reached = Vec::new();
            for offered in offers {
                let from = channels.get(offered.1).from;
                if self.paths().has_path(from) {
                    continue;
                }
                match &mut best[from.index()] {
                    Some(best) => *best = offered.min(*best),
                    none => {
                        *none = Some(offered);
                        reached.push(from);
                    }
                }
            }
            for &s in &reached {
                if let Some((_, channel)) = best[s.index()] {
                    let path = self.over(channel, channels.get(channel).to, destination);
                    self.paths_mut().set(s, path);
                }
            }
            for s in reached {
                for (_, back) in channels.out(s).filter(|(_, back)| !self.paths().has_path(back.to)) {
                    offer(self, &mut open, level, back.reverse, s);
                }
            }
        }
    }

    /// Chooses paths anew around the switches that must take a certain channel.
    fn choose_around(&mut self, dag: &MinimalDag, hops: &Hops, destination: Self::Destination<'_>) {
        let (fabric, target) = (self.paths().fabric, self.paths().target);
        let channels = fabric.channels();
        self.paths_mut().drop_all();
        let mut forced = Vec::new();
        for s in fabric.switch_ids() {
            let mut at = s;
            while !self.paths().has_path(at) {
                let Some(next) = self.paths().forced[at.index()] else { break };
                forced.push(next);
                at = channels.get(next).to;
            }
            while let Some(next) = forced.pop() {
                let c = channels.get(next);
                let path = self.over(next, c.to, destination);
                self.paths_mut().set(c.from, path);
            }
        }
        let row = hops.row(target);
        for (index, &s) in dag.order.iter().enumerate().skip(1) {
            if self.paths().forced[s.index()].is_some() {
                continue;
            }
            let path = self.minimal(dag, index, u16::from(row[s.index()]), destination);
            self.paths_mut().set(s, path);
        }
    }
}

/// What a rule costs some destinations, as in [`Forwarding`](super::Forwarding).
#[derive(Default)]
pub(in crate::routing) struct DetourStats {
    pub(super) broken: Vec<(SwitchId, Lid)>,
    pub(super) broken_pairs: u64,
    pub(super) detours: u64,
    pub(in crate::routing) incomplete: bool,
}

/// Repairs or records paths that violate the rule, as [`NoLegalPath`] says.
pub(in crate::routing) struct PathRepair<'a> {
    pub(in crate::routing) hops: &'a Hops,
    pub(in crate::routing) no_legal_path: NoLegalPath<'a>,
    /// By switch.
    pub(in crate::routing) adapters: &'a [u64],
}

impl PathRepair<'_> {
    /// Repairs the paths to a LID of an end port. Does nothing after some switch was left without a path.
    pub(in crate::routing) fn repair<'a, W: Walk<'a>>(
        &self,
        walk: &mut W,
        dag: &MinimalDag,
        destination: W::Destination<'_>,
        to: (&EndPort, Lid),
        stats: &mut DetourStats,
    ) {
        if stats.incomplete {
            return;
        }
        let (end, lid) = to;
        let weight = |s: SwitchId| if end.is_adapter() { self.adapters[s.index()] } else { 0 };
        match self.no_legal_path {
            NoLegalPath::Break => {
                if !end.is_adapter() {
                    walk.detour_all_or_none(destination);
                }
                stats.broken.extend(walk.paths().illegal().map(|s| (s, lid)));
                stats.broken_pairs += walk.paths().illegal().map(weight).sum::<u64>();
            }
            NoLegalPath::Detour(tree) => {
                let complete = walk.detour(dag, self.hops, destination, tree)
                    || tree.is_none() && walk.reroute_others(destination);
                stats.incomplete = !complete;
                stats.detours += walk.paths().detours(self.hops).map(weight).sum::<u64>();
            }
        }
    }
}
