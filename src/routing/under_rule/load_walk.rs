//! The paths of all switches to one destination under a rule, by the load so far.

use std::sync::Arc;

use super::earlier::Earlier;
use super::label_sets::LabelSets;
use super::paths::{Paths, Walk};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::ordering::{AnyTurn, Ascending, AscendingAfterFirst, Rule, Turns};
use crate::routing::minimal_dag::{MinimalDag, NextHop, Predecessor, in_line};

/// A path with [`Turns::rank`] of its first channel.
type Path = super::paths::Path<u32>;

/// Replaces the number of options of a switch with a legal next hop.
pub(in crate::routing) const ADMITTED: u32 = u32::MAX / 2;

/// Which predecessors a switch considers before it chooses by load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookahead {
    /// All: it blocks as few of the channels into it as possible.
    #[default]
    Every,
    /// Only predecessors that no other switch admits, and for which it is the last option. This leaves more
    /// choice to the load and takes longer.
    LastOption,
}

/// Chooses the paths of all switches to one destination after the other.
pub(in crate::routing) struct LoadWalk<'a> {
    rule: &'a Rule,
    paths: Paths<'a, u32>,
    /// Where turns have labels.
    label_sets: Option<Arc<LabelSets<'a>>>,
    /// The predecessors of one switch, as far as they are considered.
    predecessors: Vec<u64>,
    any_violation: bool,
    lookahead: Lookahead,
    /// With [`Lookahead::LastOption`], by switch: next hops whose switches have not chosen yet; [`ADMITTED`]
    /// after one that has chosen admits it.
    options: Vec<u32>,
    /// By next hop of the DAG of `known_for`: what is the same for all destinations on a switch.
    known: Vec<Known>,
    /// By index in that DAG: set where the choice is by cost alone, whatever other switches choose.
    by_cost: Vec<Option<ByCost>>,
    /// By next hop of the present one of these: cost of the path of the switch that it leads to.
    ahead: Vec<u64>,
    /// The target of that DAG.
    known_for: Option<SwitchId>,
    /// By switch, beside its path.
    heads: Vec<Head>,
    /// While the paths of earlier tables are taken up: their entries.
    earlier: Option<Earlier>,
    /// Whether conflicts with these are worth a hop.
    patient: bool,
}

/// What a next hop means under [`Rule::OneVl`], whatever other switches choose.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Predecessors that it blocks, as a part of a key.
    blocked: u64,
    position: u32,
}

/// Next hops over channels with consecutive numbers, between which cost alone decides.
#[derive(Clone, Copy, Debug)]
struct ByCost {
    first: ChannelId,
    /// Whether they lead to the same switches as those at the index before.
    repeated: bool,
}

/// As much of a path as a predecessor has to know.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// Violations and cost.
    key: u64,
    position: u32,
}

/// A key has the violations in its highest byte and blocked predecessors in the next; the cost is below.
/// Both are fewer than 256. The load along a path is less than 2^48: the square of the LIDs on at most 254
/// channels of a weight of at most 255.
const VIOLATIONS: u32 = 56;
const BLOCKED: u32 = 48;

/// By which a switch chooses: fewer violations come first, then fewer blocked predecessors, then less load.
#[inline(always)]
fn key(violations: u16, blocked: u32, cost: u64) -> u64 {
    u64::from(violations) << VIOLATIONS | u64::from(blocked) << BLOCKED | cost
}

impl<'a> LoadWalk<'a> {
    /// Cost: O(S + C), and that of [`LabelSets::new`].
    pub(in crate::routing) fn new(fabric: &'a Fabric, rule: &'a Rule, lookahead: Lookahead) -> Self {
        let label_sets = LabelSets::new(fabric, rule).map(Arc::new);
        Self::with_sets(fabric, rule, lookahead, label_sets)
    }

    /// Another one for the same rule.
    pub(super) fn beside(&self) -> Self {
        Self::with_sets(self.paths.fabric, self.rule, self.lookahead, self.label_sets.clone())
    }

    fn with_sets(
        fabric: &'a Fabric,
        rule: &'a Rule,
        lookahead: Lookahead,
        label_sets: Option<Arc<LabelSets<'a>>>,
    ) -> Self {
        Self {
            rule,
            paths: Paths::new(fabric),
            label_sets,
            predecessors: Vec::new(),
            any_violation: false,
            lookahead,
            options: vec![0; fabric.num_switches()],
            known: Vec::new(),
            by_cost: Vec::new(),
            ahead: Vec::new(),
            known_for: None,
            heads: vec![Head { key: 0, position: Rule::END }; fabric.num_switches()],
            earlier: None,
            patient: false,
        }
    }

    #[inline(always)]
    fn position(&self, turns: &impl Turns, channel: ChannelId, to: SwitchId) -> u32 {
        let ahead = &self.paths.paths[to.index()];
        turns.position(channel, (to != self.paths.target).then_some((ahead.channel, ahead.extra)))
    }

    #[inline(always)]
    fn path_over(&self, turns: &impl Turns, channel: ChannelId, to: SwitchId, load: &[u64]) -> Path {
        let ahead = &self.paths.paths[to.index()];
        let position = self.position(turns, channel, to);
        Path {
            cost: ahead.cost + load[channel.index()],
            channel,
            to,
            position,
            violations: ahead.violations + u16::from(!Rule::legal(position, ahead.position)),
            hops: ahead.hops + 1,
            extra: turns.rank(channel),
        }
    }

    /// Gives a switch its next hop. Returns the violations of its path.
    #[inline(always)]
    fn take(&mut self, turns: &impl Turns, switch: SwitchId, hop: NextHop, load: &[u64]) -> u16 {
        let path = self.path_over(turns, hop.channel, hop.to, load);
        self.paths.paths[switch.index()] = path;
        path.violations
    }

    /// How many predecessors of a switch a path over a channel at a position blocks, as far as the lookahead
    /// considers them.
    fn blocked<T: Turns>(
        &self,
        turns: &T,
        dag: &MinimalDag,
        switch: SwitchId,
        path: (ChannelId, u32),
    ) -> u32 {
        let (channel, position) = path;
        let predecessors = dag.predecessors(switch).iter();
        match self.lookahead {
            Lookahead::Every => turns.blocked(predecessors.map(|p| p.channel), channel, position),
            Lookahead::LastOption => {
                let last = predecessors.filter(|p| self.options[p.from.index()] == 1);
                turns.blocked(last.map(|p| p.channel), channel, position)
            }
        }
    }

    /// Updates the options of the predecessors of a switch that has chosen.
    #[inline(always)]
    fn announce<T: Turns>(&mut self, turns: &T, dag: &MinimalDag, switch: SwitchId) {
        let path = self.paths.paths[switch.index()];
        let end = path.position == Rule::END;
        for p in dag.predecessors(switch) {
            let options = &mut self.options[p.from.index()];
            let blocks = !end && turns.blocks(p.channel, path.channel, path.position);
            *options = if path.violations == 0 && !blocks { ADMITTED } else { options.saturating_sub(1) };
        }
    }

    /// Gives every switch a minimal path: with the fewest violations, then with the fewest blocked
    /// predecessors, then with the least load, then over the lowest port.
    pub(in crate::routing) fn choose(&mut self, dag: &MinimalDag, load: &[u64]) {
        let rule = self.rule;
        match rule {
            Rule::Any => self.choose_under(&AnyTurn, dag, load),
            Rule::OneVl(rank) if self.lookahead == Lookahead::Every => {
                self.choose_ascending(rank.positions(), dag, load)
            }
            Rule::OneVl(rank) => self.choose_considering::<_, true>(&Ascending(rank.positions()), dag, load),
            Rule::FirstTurnFree(rank) => self.choose_under(&AscendingAfterFirst(rank.positions()), dag, load),
            Rule::Labelled { .. } | Rule::Ordered { .. } => {
                let sets = self.label_sets.clone().expect("the rule has labels");
                match self.lookahead {
                    Lookahead::Every => self.choose_labelled::<false>(&sets, dag, load),
                    Lookahead::LastOption => self.choose_labelled::<true>(&sets, dag, load),
                }
            }
        }
    }

    fn choose_under<T: Turns>(&mut self, turns: &T, dag: &MinimalDag, load: &[u64]) {
        match self.lookahead {
            Lookahead::Every => self.choose_considering::<T, false>(turns, dag, load),
            Lookahead::LastOption => self.choose_considering::<T, true>(turns, dag, load),
        }
    }

    /// [`choose`](Self::choose) for one kind of rule. `LAST`: [`Lookahead::LastOption`].
    fn choose_considering<T: Turns, const LAST: bool>(&mut self, turns: &T, dag: &MinimalDag, load: &[u64]) {
        let last = LAST && T::BLOCKS;
        self.turn_to(dag);
        if last {
            self.note_options(dag);
        }
        let mut any_violation = 0;
        for (index, &s) in dag.order.iter().enumerate().skip(1) {
            let next_hops = dag.next_hops(index);
            let mut best = 0;
            if next_hops.len() > 1 {
                let has_predecessors = T::BLOCKS_ALIKE && !dag.predecessors(s).is_empty();
                // Where a choice blocks all or none: how many that is, counted once.
                let mut all = None;
                let mut least = u64::MAX;
                for (i, hop) in next_hops.iter().enumerate() {
                    let ahead = &self.paths.paths[hop.to.index()];
                    let position = self.position(turns, hop.channel, hop.to);
                    let violations = ahead.violations + u16::from(!Rule::legal(position, ahead.position));
                    let blocked = if !T::BLOCKS || position == Rule::END {
                        0
                    } else if T::BLOCKS_ALIKE {
                        let blocks = has_predecessors && turns.blocks(hop.channel, hop.channel, position);
                        match (blocks, LAST) {
                            (false, _) => 0,
                            (true, false) => 1,
                            (true, true) => *all.get_or_insert_with(|| {
                                let predecessors = dag.predecessors(s).iter();
                                predecessors.filter(|p| self.options[p.from.index()] == 1).count() as u32
                            }),
                        }
                    } else {
                        self.blocked(turns, dag, s, (hop.channel, position))
                    };
                    let key = key(violations, blocked, ahead.cost + load[hop.channel.index()]);
                    (best, least) = if key < least { (i, key) } else { (best, least) };
                }
            }
            any_violation |= self.take(turns, s, next_hops[best], load);
            if last {
                self.announce(turns, dag, s);
            }
        }
        self.any_violation = any_violation > 0;
    }

    /// [`choose`](Self::choose) where turns have labels. `LAST`: [`Lookahead::LastOption`].
    fn choose_labelled<const LAST: bool>(&mut self, sets: &LabelSets<'_>, dag: &MinimalDag, load: &[u64]) {
        self.turn_to(dag);
        if LAST {
            self.note_options(dag);
        }
        let mut any_violation = 0;
        for (index, &s) in dag.order.iter().enumerate().skip(1) {
            let next_hops = dag.next_hops(index);
            let mut best = None;
            let mut least = u64::MAX;
            let mut any = false;
            if next_hops.len() > 1 {
                let considered = |p: &&Predecessor| !LAST || self.options[p.from.index()] == 1;
                let channels = dag.predecessors(s).iter().filter(considered).map(|p| p.channel);
                any = sets.collect(channels, &mut self.predecessors);
            }
            for &NextHop { channel, to } in next_hops {
                let ahead = &self.paths.paths[to.index()];
                let position = sets.position(channel, self.paths.next(to));
                let violations = ahead.violations + u16::from(!Rule::legal(position, ahead.position));
                let cost = ahead.cost + load[channel.index()];
                // Whoever is blocked only adds to the key.
                if key(violations, 0, cost) >= least {
                    continue;
                }
                let blocked = if any { sets.blocked(&self.predecessors, channel, position) } else { 0 };
                let key = key(violations, blocked, cost);
                if key < least {
                    let hops = ahead.hops + 1;
                    least = key;
                    best = Some(Path { cost, channel, to, position, violations, hops, extra: 0 });
                }
            }
            let best = best.expect("a switch has a next hop");
            any_violation |= best.violations;
            self.paths.paths[s.index()] = best;
            if LAST {
                self.announce(self.rule, dag, s);
            }
        }
        self.any_violation = any_violation > 0;
    }

    /// Counts the options of each switch, before any has chosen.
    fn note_options(&mut self, dag: &MinimalDag) {
        for (index, s) in dag.order.iter().enumerate() {
            self.options[s.index()] = dag.range(index).len() as u32;
        }
    }

    fn turn_to(&mut self, dag: &MinimalDag) {
        self.paths.target = dag.target;
        self.paths.outward_order.clear();
        self.paths.outward_order.extend_from_slice(&dag.order);
        self.paths.set_target();
    }

    /// [`choose`](Self::choose) for one VL and [`Lookahead::Every`]: the case of most large fabrics, and most
    /// of their time.
    fn choose_ascending(&mut self, rank: &[u32], dag: &MinimalDag, load: &[u64]) {
        self.turn_to(dag);
        if self.known_for != Some(dag.target) {
            self.learn(rank, dag);
        }
        let heads = self.heads.as_mut_slice();
        heads[dag.target.index()] = Head { key: 0, position: Rule::END };
        let mut any_violation = 0;
        for (i, &s) in dag.order.iter().enumerate().skip(1) {
            let range = dag.range(i);
            let next_hops = dag.next_hops(i);
            let mut best = 0;
            if let Some(ByCost { first, repeated }) = self.by_cost[i] {
                if !repeated {
                    self.ahead.clear();
                    self.ahead.extend(next_hops.iter().map(|hop| heads[hop.to.index()].key));
                }
                best = cheapest(&self.ahead, &load[first.index()..][..next_hops.len()]);
            } else if next_hops.len() > 1 {
                let mut least = u64::MAX;
                for (i, (hop, known)) in next_hops.iter().zip(&self.known[range]).enumerate() {
                    let head = heads[hop.to.index()];
                    let violation = u64::from(known.position >= head.position) << VIOLATIONS;
                    let key = head.key + load[hop.channel.index()] + known.blocked + violation;
                    (best, least) = if key < least { (i, key) } else { (best, least) };
                }
            }
            let NextHop { channel, to } = next_hops[best];
            let (position, head) = (rank[channel.index()], heads[to.index()]);
            let violation = u64::from(position >= head.position) << VIOLATIONS;
            let key = head.key + load[channel.index()] + violation;
            any_violation |= key >> VIOLATIONS;
            heads[s.index()] = Head { key, position };
            let hops = self.paths.paths[to.index()].hops + 1;
            let (cost, violations) = (key & !(u64::MAX << VIOLATIONS), (key >> VIOLATIONS) as u16);
            self.paths.paths[s.index()] = Path { cost, channel, to, position, violations, hops, extra: 0 };
        }
        self.any_violation = any_violation > 0;
    }

    /// Finds, once for all destinations on a switch, what does not depend on them.
    fn learn(&mut self, rank: &[u32], dag: &MinimalDag) {
        self.known_for = Some(dag.target);
        self.known.clear();
        self.by_cost.clear();
        // By switch: the least position that its path may have, 0 where it may violate the rule.
        let mut entered = vec![0; dag.order.len()];
        for (i, &s) in dag.order.iter().enumerate() {
            let next_hops = dag.next_hops(i);
            let known_before = self.known.len();
            let predecessors = self.rule.predecessors(dag.predecessors(s).iter().map(|p| p.channel));
            self.known.extend(next_hops.iter().map(|hop| {
                let position = rank[hop.channel.index()];
                let several = next_hops.len() > 1;
                let blocked = if several { predecessors.blocked(hop.channel, position) } else { 0 };
                Known { blocked: u64::from(blocked) << BLOCKED, position }
            }));
            let known = &self.known[known_before..];
            let legal =
                next_hops.iter().zip(known).all(|(hop, known)| known.position < entered[hop.to.index()]);
            let alike = known.iter().all(|k| k.blocked == known[0].blocked);
            let in_line = in_line(next_hops).filter(|_| legal && alike && next_hops.len() > 1);
            let by_cost = in_line.map(|first| {
                let before = self.by_cost.last().is_some_and(Option::is_some).then(|| dag.next_hops(i - 1));
                let to = |hop: &NextHop| hop.to;
                let repeated =
                    before.is_some_and(|before| before.iter().map(to).eq(next_hops.iter().map(to)));
                ByCost { first, repeated }
            });
            self.by_cost.push(by_cost);
            let least = known.iter().map(|k| k.position).min().unwrap_or(Rule::END);
            entered[s.index()] = if legal { least } else { 0 };
        }
    }

    /// Takes up the paths of earlier tables, and gives legal ones of any length to the switches that have lost
    /// theirs. Of those of the least hops, the one with the fewest [conflicts](Earlier::conflicts), then the old next
    /// hop, then the one with the least load. Returns false where that leaves a switch without a path.
    ///
    /// - `ports`: of the earlier tables, by switch.
    /// - `patient`: a conflict counts as a hop.
    ///
    /// Cost: O(S + C), and that of [`Earlier::conflicts`] for the channels of the switches that have lost theirs.
    pub(super) fn resume(&mut self, target: SwitchId, ports: &[u8], load: &[u64], patient: bool) -> bool {
        self.patient = patient;
        self.paths.read(target, ports);
        let mut earlier = Earlier::default();
        earlier.read(self.paths.fabric, target, ports);
        self.earlier = Some(earlier);
        self.follow(load);
        self.search(load);
        self.any_violation = false;
        let complete = self.paths.complete() || self.reroute_others(load);
        self.earlier = None;
        complete
    }

    /// Whether a path violates the rule.
    pub(in crate::routing) fn any_violation(&self) -> bool {
        self.any_violation
    }

    /// Calls `visit` for each two consecutive turns, as three channels, with the routes over them and whether
    /// the rule allows them. After [`count`](Paths::count).
    pub(super) fn each_pair(&self, mut visit: impl FnMut([ChannelId; 3], u64, bool)) {
        for &s in &self.paths.outward_order[1..] {
            let path = &self.paths.paths[s.index()];
            let Some(middle) = self.paths.next(path.to) else { continue };
            let ahead = &self.paths.paths[path.to.index()];
            let Some(last) = self.paths.next(ahead.to) else { continue };
            let legal = path.violations == ahead.violations;
            visit([path.channel, middle, last], self.paths.flow[s.index()], legal);
        }
    }
}

impl<'a> Walk<'a> for LoadWalk<'a> {
    type Extra = u32;
    /// The load by channel.
    type Destination<'g> = &'g [u64];
    /// Conflicts with earlier entries, whether the entry is new, and the load.
    type Price = (u32, bool, u64);

    fn paths(&self) -> &Paths<'a, u32> {
        &self.paths
    }

    fn paths_mut(&mut self) -> &mut Paths<'a, u32> {
        &mut self.paths
    }

    fn rule(&self) -> &'a Rule {
        self.rule
    }

    fn over(&self, channel: ChannelId, to: SwitchId, load: &[u64]) -> Path {
        self.path_over(self.rule, channel, to, load)
    }

    fn price(&self, path: &Path, _: &[u64]) -> Self::Price {
        let Some(earlier) = &self.earlier else { return (0, false, path.cost) };
        let from = self.paths.fabric.channels().get(path.channel).from;
        let conflicts = earlier.conflicts(&self.paths, self.rule, path.channel);
        (conflicts, !earlier.has(from, path.channel), path.cost)
    }

    fn delay(&self, (conflicts, ..): Self::Price) -> usize {
        if self.patient { conflicts as usize } else { 0 }
    }

    fn minimal(&mut self, dag: &MinimalDag, index: usize, hops: u16, load: &[u64]) -> Path {
        let paths = dag.next_hops(index).iter().map(|hop| {
            let path = self.over(hop.channel, hop.to, load);
            let violations = path.violations + u16::from(path.hops > hops);
            let path = Path { violations, hops, ..path };
            let blocked = self.blocked(self.rule, dag, dag.order[index], (path.channel, path.position));
            ((violations, blocked, path.cost), path)
        });
        let (_, best) = paths.min_by_key(|(key, _)| *key).expect("a next hop");
        best
    }
}

/// The number of the next hop of least cost, the first of those.
///
/// - `ahead`: by next hop, the cost beyond its channel.
/// - `load`: by next hop.
#[inline(always)]
fn cheapest(ahead: &[u64], load: &[u64]) -> usize {
    let (mut best, mut least) = (0, u64::MAX);
    for (i, (ahead, load)) in ahead.iter().zip(load).enumerate() {
        let cost = ahead + load;
        (best, least) = if cost < least { (i, cost) } else { (best, least) };
    }
    best
}
