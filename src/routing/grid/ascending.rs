//! Paths on a damaged grid that ascend in an order of the virtual channels.

use std::cmp::Reverse;

use super::BROKEN;
use super::first_vl::{FirstVl, NONE};

/// A turn that no path takes with an SL.
pub(super) const UNSET: u8 = u8::MAX;
/// The VL of the first channel of every path.
pub(super) const FIRST: u8 = 2;
/// The most SLs.
const SLS: usize = 16;

/// How much longer than the distance paths may be before the last SL serves them.
const LONGER: u16 = 4;

/// Turns get their VL as paths need them, SL by SL.
///
/// Two VLs are those of dimension order, and their virtual channels have fixed positions. A third one comes before
/// them: it takes the first channel of every path, and as many more as the path needs. Its channels have an order that
/// stays, or one that grows: each path adds dependencies, as long as these close no cycle.
///
/// A *channel* is a switch times the number of slots plus a slot; a *slot* is a direction of a dimension.
pub(super) struct Ascending {
    switches: usize,
    slots: usize,
    /// By channel: the switch at its end, or [`NONE`].
    pub(super) next: Vec<u32>,
    /// By VL of dimension order and channel.
    position: [Vec<u32>; 2],
    /// By switch, slot of the channel before (one more: a source), slot and SL: the VL, or [`UNSET`].
    labels: Vec<[u8; SLS]>,
    /// The SLs of dimension order.
    base: usize,
    /// How many channels on the first VL a new label is worth.
    price: usize,
    /// How many SLs may be used.
    limit: usize,
    /// How many are.
    pub(super) used: usize,
    first: FirstVl,
    load: Load,
    /// The largest load when this column was begun, or the goal if that is less.
    hottest: u64,
    /// By switch: what is known of its path to the target of this column, and when that was found.
    rest: Vec<(Rest, u32)>,
    /// Counts what outdates `rest`: other columns, and new labels.
    now: u32,
    choices: Vec<Choice>,
}

/// What the channels carry.
pub(super) struct Load {
    /// By channel: the weight of all routes over it.
    pub(super) of: Vec<u64>,
    /// By channel: what a route weighs.
    pub(super) weights: Vec<u64>,
    /// The largest load that is wanted; channels with more are hot.
    pub(super) goal: u64,
}

impl Load {
    fn largest(&self) -> u64 {
        self.of.iter().copied().max().unwrap_or(0)
    }

    fn add(&mut self, channel: usize, routes: u64) {
        self.of[channel] += routes * self.weights[channel];
    }

    fn take(&mut self, channel: usize, routes: u64) {
        self.of[channel] -= routes * self.weights[channel];
    }
}

/// What the labels of a path come to, with each SL. From its end, each channel is as late as it can be.
#[derive(Clone, Copy)]
struct Rest {
    /// The position of the second channel; 0 if that is on the first VL, `u32::MAX` if there is none.
    ahead: [u32; SLS],
    /// Turns that have no label yet.
    new: [u8; SLS],
    /// Channels on the first VL after the first channel.
    early: [u8; SLS],
    /// Whether the path ascends with each SL. The order on the first VL is not looked at.
    ascends: [bool; SLS],
}

impl Rest {
    /// A path of one channel.
    const ONE: Self = Self { ahead: [u32::MAX; SLS], new: [0; SLS], early: [0; SLS], ascends: [true; SLS] };
}

/// A way for a switch to go on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Choice {
    /// Whether it adds to a channel that has the largest load of all, or as many routes as the goal.
    is_hot: bool,
    /// Less is better: for each new label its [price](Ascending::new), as it leaves less room to other paths, and 1 for
    /// each channel on the first VL after the first channel.
    price: usize,
    new: u8,
    /// The largest load.
    load: u64,
    slot: usize,
    sl: usize,
    early: u8,
}

/// What is tried for the switches of a target.
struct Pass {
    /// The SLs that may be used.
    limit: usize,
    /// How much longer than the distance paths may be.
    longer: u16,
}

/// What is known of the paths to a target, by switch.
struct Paths {
    /// `u16::MAX`: there is none yet.
    length: Vec<u16>,
    /// The largest load.
    hottest: Vec<u64>,
}

/// The paths to one target that are all on the first VL.
struct Early {
    /// By switch: whether its path is one.
    has: Vec<bool>,
    /// By switch: the slot of such a path, and its hops; `u16::MAX` if there is none.
    towards: Vec<(u8, u16)>,
}

/// The paths to one target.
pub(super) struct Column<'a> {
    /// The switch.
    pub(super) target: usize,
    /// By switch: its next step; that of dimension order where that reaches the target, else anything.
    pub(super) slots: &'a mut [u8],
    /// By switch: the SL of its path.
    pub(super) sls: &'a mut [u8],
    /// By switch: whether its path is in dimension order.
    pub(super) in_order: &'a [bool],
    /// By switch: the hops in dimension order; 0 where that does not reach the target.
    pub(super) lengths: &'a [u16],
    /// By switch: the distance to the target.
    pub(super) hops: &'a [u8],
    /// By switch: the routes from it to the target.
    pub(super) routes: &'a [u64],
}

impl Ascending {
    /// In a column of SLs: the path is all on the first VL, with an SL of its own.
    pub(super) const EARLY: u8 = u8::MAX;

    /// - `next`, `position`: see there. Positions begin with 1.
    /// - `load`: that of dimension order.
    /// - `first`: the order on the first VL.
    /// - `limit`: SLs that may be used.
    /// - `price`: how many channels on the first VL a new label is worth.
    /// - `in_order`: labels of the SLs of dimension order, by SL, switch, slot of the channel before and slot.
    pub(super) fn new(
        slots: usize,
        next: Vec<u32>,
        position: [Vec<u32>; 2],
        load: Load,
        first: FirstVl,
        (limit, price): (usize, usize),
        in_order: &[u8],
    ) -> Self {
        let switches = next.len() / slots;
        let each = switches * (slots + 1) * slots;
        let mut labels = vec![[UNSET; SLS]; each];
        for (i, labels) in labels.iter_mut().enumerate() {
            in_order.chunks_exact(each).zip(labels.iter_mut()).for_each(|(own, label)| *label = own[i]);
            if i / slots % (slots + 1) == slots {
                *labels = [FIRST; SLS];
            }
        }
        let rest = vec![(Rest::ONE, 0); switches];
        let base = in_order.len() / each;
        Self {
            switches,
            slots,
            next,
            position,
            labels,
            base,
            limit,
            price,
            used: base,
            first,
            load,
            hottest: 0,
            rest,
            now: 0,
            choices: Vec::new(),
        }
    }

    /// By SL, switch, slot of the channel before (one more: a source) and slot: the VL, or [`UNSET`].
    pub(super) fn into_labels(self) -> Vec<u8> {
        (0..self.used).flat_map(|sl| self.labels.iter().map(move |labels| labels[sl])).collect()
    }

    fn turn(&self, before: usize, channel: usize) -> usize {
        let (switch, slot) = (channel / self.slots, channel % self.slots);
        (switch * (self.slots + 1) + before) * self.slots + slot
    }

    fn to(&self, channel: usize) -> usize {
        self.next[channel] as usize
    }

    /// Gives paths in dimension order up that meet a hot channel, where another step is on a shortest path too and not
    /// hot. The paths that end in them are given up with them.
    ///
    /// - `slots`, `lengths`, `hops`, `routes`: those of a [`Column`]. Where a path is given up, its slot becomes [`BROKEN`]
    ///   and its length 0.
    ///
    /// Cost: O(S d).
    pub(super) fn leave_hot(&mut self, slots: &mut [u8], lengths: &mut [u16], hops: &[u8], routes: &[u64]) {
        if self.load.largest() <= self.load.goal {
            return;
        }
        let mut order: Vec<usize> = (0..slots.len()).filter(|&s| lengths[s] > 0).collect();
        order.sort_unstable_by_key(|&s| lengths[s]);
        let (mut meets_hot, mut given_up) = (vec![false; slots.len()], vec![false; slots.len()]);
        for s in order {
            let channel = s * self.slots + usize::from(slots[s]);
            let next = self.to(channel);
            meets_hot[s] = meets_hot[next] || self.load.of[channel] > self.load.goal;
            let other = |other: usize| {
                let to = self.next[other];
                let is_shortest = || hops[to as usize] + 1 == hops[s];
                to != NONE && is_shortest() && !meets_hot[to as usize] && self.load.of[other] < self.load.goal
            };
            let has_other = || (s * self.slots..(s + 1) * self.slots).any(other);
            given_up[s] = given_up[next] || meets_hot[s] && has_other();
        }
        let routes = given_up.iter().zip(routes).map(|(&is, &routes)| if is { routes } else { 0 }).collect();
        carry(slots, lengths, &self.next, routes, |channel, routes| self.load.take(channel, routes));
        for s in (0..slots.len()).filter(|&s| given_up[s]) {
            (slots[s], lengths[s]) = (BROKEN, 0);
        }
    }

    /// Gives each switch that is not in dimension order a path: a shortest one if any fits into an SL, else a longer
    /// one. The last SL is kept for switches that get none with the others. Where no SL is left for a switch and the first
    /// VL connects all, its path is all on that VL, and switches whose paths met that one get others. Returns the lengths
    /// of all paths; `None` where some switch has none.
    ///
    /// Cost: O(S d) where switches need one step before a path in order; O(d K + h) more for each other switch, with K
    /// SLs and h hops, and O(d K h) where it needs new labels.
    pub(super) fn complete(&mut self, column: &mut Column<'_>) -> Option<Vec<u16>> {
        let mut paths = Paths { length: column.lengths.to_vec(), hottest: vec![0; self.switches] };
        let mut open: Vec<usize> = (0..self.switches).filter(|&s| !column.in_order[s]).collect();
        open.iter().for_each(|&s| paths.length[s] = u16::MAX);
        let mut early = Early { has: vec![false; self.switches], towards: Vec::new() };
        self.hottest = self.load.largest().min(self.load.goal);
        let (in_order, routes) = (column.in_order, column.routes);
        let routes = |are_in_order: bool| -> Vec<u64> {
            let each = in_order.iter().zip(routes);
            each.map(|(&is, &routes)| if is == are_in_order { routes } else { 0 }).collect()
        };
        let mut moved = routes(false);
        loop {
            open.sort_by_key(|&s| (column.hops[s], s));
            self.now += 1;
            let lost = self.fit_all(column, open, &mut paths);
            if lost.is_empty() {
                break;
            }
            if !self.first.connects() {
                return None;
            }
            if early.towards.is_empty() {
                // From now on, paths in dimension order may be given up too.
                let given_up = |channel, routes| self.load.take(channel, routes);
                carry(column.slots, column.lengths, &self.next, routes(true), given_up);
                moved = column.routes.to_vec();
                early.towards = self.first.towards(column.target, &self.load.of);
            }
            open = self.stay_on_first(column, lost, &mut early, &mut paths)?;
        }
        carry(column.slots, &paths.length, &self.next, moved, |channel, routes| {
            self.load.add(channel, routes)
        });
        Some(paths.length)
    }

    /// Gives switches a path that fits into an SL. Returns those for which there is none.
    fn fit_all(&mut self, column: &mut Column<'_>, mut open: Vec<usize>, paths: &mut Paths) -> Vec<usize> {
        let longest = u16::from(column.hops.iter().copied().max().unwrap_or(0));
        let spare = if self.limit > self.base + 1 { self.limit - 1 } else { self.limit };
        let passes =
            [Pass { limit: spare, longer: LONGER }, Pass { limit: self.limit, longer: 2 * longest + 8 }];
        for pass in passes {
            for now in 1..=longest + pass.longer {
                open.retain(|&s| {
                    let hops = u16::from(column.hops[s]);
                    if hops > now || now > hops + pass.longer {
                        return true;
                    }
                    let Some(choice) = self.choose(column, s, now, paths, &pass) else { return true };
                    column.slots[s] = choice.slot as u8;
                    column.sls[s] = choice.sl as u8;
                    (paths.length[s], paths.hottest[s]) = (now, choice.load);
                    if choice.new > 0 || choice.early > 0 {
                        self.take(column, s, &choice);
                    }
                    false
                });
                if open.is_empty() {
                    return open;
                }
            }
        }
        open
    }

    /// Lets switches stay on the first VL to the target, and so all switches on their paths. Returns those whose paths met
    /// these: they need new ones. Where the order refuses such a path, all of them follow the tree. `None` without a tree.
    fn stay_on_first(
        &mut self,
        column: &mut Column<'_>,
        lost: Vec<usize>,
        early: &mut Early,
        paths: &mut Paths,
    ) -> Option<Vec<usize>> {
        let mut moved = vec![false; self.switches];
        if !lost.iter().all(|&s| self.move_one(column, s, early, &mut moved, paths)) {
            early.towards = self.first.tree_towards(column.target)?;
            let all = (0..self.switches).filter(|&s| early.has[s]).chain(lost);
            let all: Vec<usize> = all.collect();
            early.has.fill(false);
            all.into_iter().for_each(|s| {
                let ascends = self.move_one(column, s, early, &mut moved, paths);
                debug_assert!(ascends, "the turns of the tree are part of the order");
            });
        }
        // By switch, where known: whether its path meets one that has moved.
        let mut meets: Vec<Option<bool>> = moved.iter().map(|&moved| moved.then_some(true)).collect();
        meets[column.target] = Some(false);
        for s in 0..self.switches {
            let (mut walked, mut at) = (Vec::new(), s);
            let meets_it = loop {
                if let Some(known) = meets[at] {
                    break known;
                }
                walked.push(at);
                at = self.to(at * self.slots + usize::from(column.slots[at]));
            };
            walked.into_iter().for_each(|s| meets[s] = Some(meets_it));
        }
        let met = |&s: &usize| meets[s] == Some(true) && !early.has[s];
        let open: Vec<usize> = (0..self.switches).filter(met).collect();
        open.iter().for_each(|&s| paths.length[s] = u16::MAX);
        Some(open)
    }

    /// Lets one switch stay on the first VL, and those on its path; `false` where that does not ascend.
    fn move_one(
        &mut self,
        column: &mut Column<'_>,
        s: usize,
        early: &mut Early,
        moved: &mut [bool],
        paths: &mut Paths,
    ) -> bool {
        let (mut path, mut at) = (Vec::new(), s);
        while at != column.target {
            let (slot, hops) = early.towards[at];
            if hops == u16::MAX {
                return false;
            }
            path.push(at * self.slots + usize::from(slot));
            at = self.to(path[path.len() - 1]);
        }
        if !self.first.admits(&path, true) {
            return false;
        }
        path.windows(2).for_each(|two| self.first.add(two[0], two[1]));
        for at in path.into_iter().map(|channel| channel / self.slots) {
            if !early.has[at] {
                (early.has[at], moved[at]) = (true, true);
                (column.slots[at], column.sls[at]) = (early.towards[at].0, Self::EARLY);
                paths.length[at] = early.towards[at].1;
            }
        }
        true
    }

    /// The best way of a switch to go on.
    fn choose(
        &mut self,
        column: &Column<'_>,
        s: usize,
        now: u16,
        paths: &Paths,
        pass: &Pass,
    ) -> Option<Choice> {
        let mut choices = std::mem::take(&mut self.choices);
        choices.clear();
        let (sls, price, hottest) = (pass.limit.min(self.used + 1), self.price, self.hottest);
        for slot in 0..self.slots {
            let channel = s * self.slots + slot;
            if self.next[channel] == NONE || paths.length[self.to(channel)] != now - 1 {
                continue;
            }
            let load = self.load.of[channel].max(paths.hottest[self.to(channel)]);
            let Rest { new, early, ascends, .. } = self.rest_by(column, s, slot);
            choices.extend((0..sls).filter(|&sl| ascends[sl]).map(|sl| {
                let (new, early) = (new[sl], early[sl]);
                let price = price * usize::from(new) + usize::from(early);
                Choice { is_hot: load >= hottest, price, new, load, slot, sl, early }
            }));
        }
        let best = self.in_present_order(column, s, &choices).or_else(|| self.reordered(column, s, &choices));
        self.choices = choices;
        best
    }

    /// The best choice that ascends on the first VL in the order that it has.
    fn in_present_order(&mut self, column: &Column<'_>, s: usize, choices: &[Choice]) -> Option<Choice> {
        // By slot: so many channels on the first VL do not ascend there.
        let mut refused = vec![u8::MAX; self.slots];
        loop {
            let open = choices.iter().filter(|choice| choice.early < refused[choice.slot]);
            let best = *open.min()?;
            let path = self.start(column, s, &best);
            if self.first.admits(&path, false) {
                return Some(best);
            }
            refused[best.slot] = best.early;
        }
    }

    /// The best choice that ascends on the first VL if its order changes. The order changes for the others too: later
    /// paths of this kind find one that suits them.
    fn reordered(&mut self, column: &Column<'_>, s: usize, choices: &[Choice]) -> Option<Choice> {
        if !self.first.grows() {
            return None;
        }
        let mut sorted: Vec<&Choice> = choices.iter().collect();
        sorted.sort_unstable_by_key(|choice| (choice.load, choice.slot, choice.early, choice.sl));
        let mut best: Option<Choice> = None;
        for alike in sorted.chunk_by(|a, b| (a.slot, a.early) == (b.slot, b.early)) {
            let path = self.start(column, s, alike[0]);
            if self.first.admits(&path, true) {
                best = alike.iter().map(|&&choice| choice).chain(best).min();
            }
        }
        // What was tried after it may have changed the order again.
        let path = self.start(column, s, &best?);
        best.filter(|_| self.first.admits(&path, true))
    }

    /// The channels of a path that are on the first VL.
    fn start(&self, column: &Column<'_>, s: usize, choice: &Choice) -> Vec<usize> {
        let mut path = vec![s * self.slots + choice.slot];
        while path.len() <= usize::from(choice.early) {
            let at = self.to(path[path.len() - 1]);
            path.push(at * self.slots + usize::from(column.slots[at]));
        }
        path
    }

    /// What the labels of a path come to that begins with a slot.
    fn rest_by(&mut self, column: &Column<'_>, s: usize, slot: usize) -> Rest {
        let next = self.to(s * self.slots + slot);
        if next == column.target {
            return Rest::ONE;
        }
        let (mut walked, mut at) = (Vec::new(), next);
        while at != column.target && self.rest[at].1 != self.now {
            walked.push(at);
            at = self.to(at * self.slots + usize::from(column.slots[at]));
        }
        while let Some(at) = walked.pop() {
            let slot = usize::from(column.slots[at]);
            self.rest[at] = (self.before(column, self.to(at * self.slots + slot), slot), self.now);
        }
        self.before(column, next, slot)
    }

    /// What the labels of a path come to, by those of the path of its second switch.
    ///
    /// - `slot`: that of the first channel.
    fn before(&self, column: &Column<'_>, next: usize, slot: usize) -> Rest {
        if next == column.target {
            return Rest::ONE;
        }
        self.extended(&self.rest[next].0, slot, next * self.slots + usize::from(column.slots[next]))
    }

    /// One channel more before a path.
    ///
    /// - `before`: the slot of that channel.
    /// - `channel`: the first one of the path.
    fn extended(&self, rest: &Rest, before: usize, channel: usize) -> Rest {
        let labels = &self.labels[self.turn(before, channel)];
        let at = [self.position[0][channel], self.position[1][channel]];
        let mut longer = *rest;
        // All SLs alike and without branches, as this is the innermost loop.
        let only = |is: bool, position: u32| u32::from(is).wrapping_neg() & position;
        for (sl, label) in labels.map(u32::from).into_iter().enumerate() {
            let ahead = rest.ahead[sl];
            let latest = only(at[0] < ahead, at[0]).max(only(at[1] < ahead, at[1]));
            let given = only(label == 0, at[0]) | only(label == 1, at[1]);
            longer.ahead[sl] = only(label == u32::from(UNSET), latest) | given;
        }
        for (sl, &label) in labels.iter().enumerate() {
            longer.new[sl] += u8::from(label == UNSET);
            longer.early[sl] += u8::from(longer.ahead[sl] == 0);
            longer.ascends[sl] &= longer.ahead[sl] == 0 || longer.ahead[sl] < rest.ahead[sl];
        }
        longer
    }

    /// Gives the turns of the path of a switch their VLs.
    fn take(&mut self, column: &Column<'_>, s: usize, choice: &Choice) {
        let mut path = vec![s * self.slots + choice.slot];
        let mut at = self.to(path[0]);
        while at != column.target {
            path.push(at * self.slots + usize::from(column.slots[at]));
            at = self.to(path[path.len() - 1]);
        }
        let mut ahead = u32::MAX;
        for i in (1..path.len()).rev() {
            let turn = self.turn(path[i - 1] % self.slots, path[i]);
            let at = [self.position[0][path[i]], self.position[1][path[i]]];
            let label = match self.labels[turn][choice.sl] {
                UNSET => latest(at, ahead).map_or(FIRST, |vl| vl as u8),
                label => label,
            };
            self.labels[turn][choice.sl] = label;
            ahead = if label == FIRST { 0 } else { at[usize::from(label)] };
            if label == FIRST {
                self.first.add(path[i - 1], path[i]);
            }
        }
        self.used = self.used.max(choice.sl + 1);
        self.now += u32::from(choice.new > 0);
    }
}

/// Follows routes to one target along their paths.
///
/// - `slots`, `length`: by switch: its next step, and the length of its path; 0 where none is followed.
/// - `next`: by channel: the switch at its end.
/// - `routes`: by switch: those that begin there.
/// - `take`: is told each channel on the way once, and the routes over it.
pub(super) fn carry(
    slots: &[u8],
    length: &[u16],
    next: &[u32],
    mut routes: Vec<u64>,
    mut take: impl FnMut(usize, u64),
) {
    let width = next.len() / slots.len().max(1);
    let there = |&s: &usize| (1..u16::MAX).contains(&length[s]);
    let mut order: Vec<usize> = (0..slots.len()).filter(there).collect();
    order.sort_unstable_by_key(|&s| Reverse(length[s]));
    for s in order {
        let channel = s * width + usize::from(slots[s]);
        take(channel, routes[s]);
        routes[next[channel] as usize] += routes[s];
    }
}

/// The VL of dimension order on which a channel is latest, but before a position.
fn latest(at: [u32; 2], ahead: u32) -> Option<usize> {
    (0..2).filter(|&vl| at[vl] < ahead).max_by_key(|&vl| at[vl])
}
