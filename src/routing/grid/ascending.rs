//! Paths on a damaged grid that ascend in an order of the virtual channels.

/// No switch, or no link.
pub(super) const NONE: u32 = u32::MAX;
/// In a column of slots: the target itself.
pub(super) const HOME: u8 = u8::MAX;
/// A turn that no path takes with an SL.
pub(super) const UNSET: u8 = u8::MAX;
/// The VL of the first channel of every path.
pub(super) const FIRST: u8 = 2;
/// Visits of channels by reorderings of the first VL, for each channel.
const REORDERING: usize = 256;

/// How much longer than the distance paths may be before the last SL serves them.
const LONGER: u16 = 4;

/// Turns get their VL as paths need them, SL by SL.
///
/// Two VLs are those of dimension order, and their virtual channels have fixed positions. A third one comes before
/// them: it takes the first channel of every path, and as many more as the path needs. Its channels have no fixed
/// order: each path adds dependencies, as long as these close no cycle.
///
/// A *channel* is a switch times the number of slots plus a slot; a *slot* is a direction of a dimension.
pub(super) struct Ascending {
    switches: usize,
    slots: usize,
    /// By channel: the switch at its end, or [`NONE`].
    pub(super) next: Vec<u32>,
    /// By VL of dimension order and channel.
    position: [Vec<u32>; 2],
    /// By SL, switch, slot of the channel before (one more: a source) and slot: the VL, or [`UNSET`].
    labels: Vec<u8>,
    /// The SLs of dimension order.
    base: usize,
    /// How many SLs may be used.
    limit: usize,
    /// How many are.
    pub(super) used: usize,
    first: FirstVl,
    /// By channel: routes.
    pub(super) load: Vec<u64>,
}

/// A way for a switch to go on.
struct Choice {
    /// Channels on the first VL; dimensions after the second channel: later paths leave others more room; load.
    price: (usize, usize, u64),
    slot: usize,
    sl: usize,
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
    /// The VL of the second channel.
    second: Vec<u8>,
    /// The largest load.
    hottest: Vec<u64>,
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
    /// By switch: the distance to the target.
    pub(super) hops: &'a [u8],
    /// By switch: the routes from it to the target.
    pub(super) routes: &'a [u64],
}

impl Ascending {
    /// - `next`, `position`: see there.
    /// - `order`: by channel, the position that its first VL begins with.
    /// - `limit`: SLs that may be used.
    /// - `labels`: of the SLs of dimension order, see there.
    pub(super) fn new(
        slots: usize,
        next: Vec<u32>,
        position: [Vec<u32>; 2],
        order: &[u32],
        limit: usize,
        mut labels: Vec<u8>,
    ) -> Self {
        let switches = next.len() / slots;
        let each = switches * (slots + 1) * slots;
        let used = labels.len() / each;
        labels.resize(limit * each, UNSET);
        for (i, label) in labels.iter_mut().enumerate() {
            if i / slots % (slots + 1) == slots {
                *label = FIRST;
            }
        }
        let first = FirstVl::new(slots, &next, order);
        let load = vec![0; next.len()];
        Self { switches, slots, next, position, labels, base: used, limit, used, first, load }
    }

    /// Adds a link to a tree whose packets are all on the first VL, in both directions and with all their turns. To be
    /// called for all links of the tree before any path, away from the root.
    ///
    /// - `channel`: to a switch that is not in the tree yet.
    pub(super) fn reserve(&mut self, channel: usize) {
        let (from, to) = (channel / self.slots, self.to(channel));
        let back = to * self.slots + ((channel % self.slots) ^ 1);
        for slot in 0..self.slots {
            let other = from * self.slots + slot;
            if other == channel || !self.first.reserved[other] {
                continue;
            }
            let towards = self.to(other) * self.slots + (slot ^ 1);
            for (first, second) in [(back, other), (towards, channel)] {
                let fits = self.first.admits(&[first, second], true);
                debug_assert!(fits, "the turns of a tree close no cycle");
                if fits {
                    self.first.add(first, second);
                }
            }
        }
        self.first.reserved[channel] = true;
        self.first.reserved[back] = true;
    }

    /// By SL, switch, slot of the channel before (one more: a source) and slot: the VL, or [`UNSET`].
    pub(super) fn into_labels(mut self) -> Vec<u8> {
        self.labels.truncate(self.used * self.switches * (self.slots + 1) * self.slots);
        self.labels
    }

    fn turn(&self, sl: usize, before: usize, channel: usize) -> usize {
        let (switch, slot) = (channel / self.slots, channel % self.slots);
        ((sl * self.switches + switch) * (self.slots + 1) + before) * self.slots + slot
    }

    fn to(&self, channel: usize) -> usize {
        self.next[channel] as usize
    }

    /// Gives each switch that is not in dimension order a path: a shortest one if any fits into an SL, else a longer
    /// one. The last SL is kept for switches that get none with the others. Returns the lengths of all paths; `None`
    /// where some switch has no path.
    ///
    /// Cost: O(S d) where switches need one step before a path in order; O(K h) more for each other switch and
    /// neighbour, with K SLs and h hops.
    pub(super) fn complete(&mut self, column: &mut Column<'_>) -> Option<Vec<u16>> {
        let longest = u16::from(column.hops.iter().copied().max().unwrap_or(0));
        let spare = if self.limit > self.base + 1 { self.limit - 1 } else { self.limit };
        let passes =
            [Pass { limit: spare, longer: LONGER }, Pass { limit: self.limit, longer: 2 * longest + 8 }];
        let mut paths = Paths {
            length: column.hops.iter().map(|&hops| u16::from(hops)).collect(),
            second: vec![UNSET; self.switches],
            hottest: vec![0; self.switches],
        };
        let mut open = Vec::new();
        for s in 0..self.switches {
            if column.in_order[s] {
                paths.second[s] = self.second_label(column, s);
            } else {
                paths.length[s] = u16::MAX;
                open.push(s);
            }
        }
        open.sort_by_key(|&s| (column.hops[s], s));
        for pass in passes {
            for now in 1..=longest + pass.longer {
                open.retain(|&s| {
                    let hops = u16::from(column.hops[s]);
                    if hops > now || now > hops + pass.longer {
                        return true;
                    }
                    let Some((choice, path, labels)) = self.choose(column, s, now, &paths, &pass) else {
                        return true;
                    };
                    self.take(choice.sl, &path, &labels);
                    column.slots[s] = choice.slot as u8;
                    column.sls[s] = choice.sl as u8;
                    paths.length[s] = now;
                    paths.second[s] = labels.get(1).copied().unwrap_or(UNSET);
                    let channel = s * self.slots + choice.slot;
                    paths.hottest[s] = paths.hottest[self.to(channel)].max(self.load[channel]);
                    false
                });
                if open.is_empty() {
                    self.add_load(column, &paths.length);
                    return Some(paths.length);
                }
            }
        }
        None
    }

    /// The VL of the second channel of a path in dimension order.
    fn second_label(&self, column: &Column<'_>, s: usize) -> u8 {
        if s == column.target {
            return UNSET;
        }
        let slot = usize::from(column.slots[s]);
        let next = self.to(s * self.slots + slot);
        if next == column.target {
            return UNSET;
        }
        let after = next * self.slots + usize::from(column.slots[next]);
        self.labels[self.turn(usize::from(column.sls[s]), slot, after)]
    }

    /// The best way of a switch to go on, with the path and its labels.
    fn choose(
        &mut self,
        column: &Column<'_>,
        s: usize,
        now: u16,
        paths: &Paths,
        pass: &Pass,
    ) -> Option<(Choice, Vec<usize>, Vec<u8>)> {
        let mut neighbours: Vec<(u64, usize)> = Vec::new();
        for slot in 0..self.slots {
            let channel = s * self.slots + slot;
            if self.next[channel] != NONE && paths.length[self.to(channel)] == now - 1 {
                neighbours.push((self.load[channel].max(paths.hottest[self.to(channel)]), slot));
            }
        }
        neighbours.sort_unstable();
        // With the SL of the next switch, if only the first channel needs the first VL.
        let mut best: Option<Choice> = None;
        for &(load, slot) in &neighbours {
            let next = self.to(s * self.slots + slot);
            let sl = usize::from(column.sls[next]);
            if !self.step_before(column, slot, next, sl, paths.second[next]) {
                continue;
            }
            let second = (next != column.target).then(|| usize::from(column.slots[next]));
            let price = (1, self.dimensions_after(second), load);
            if best.as_ref().is_none_or(|best| price < best.price) {
                best = Some(Choice { price, slot, sl });
            }
        }
        if let Some(choice) = best {
            let path = self.path(column, s, choice.slot);
            let labels = self.fit(&path, choice.sl);
            return labels.map(|labels| (choice, path, labels));
        }
        for reorder in [false, true] {
            let mut found: Option<(Choice, Vec<usize>, Vec<u8>)> = None;
            for &(load, slot) in &neighbours {
                let path = self.path(column, s, slot);
                let own = usize::from(column.sls[self.to(path[0])]);
                let sls =
                    std::iter::once(own).chain((0..pass.limit.min(self.used + 1)).filter(|&sl| sl != own));
                for sl in sls {
                    let Some(labels) = self.fit(&path, sl) else { continue };
                    let before = labels.iter().take_while(|&&label| label == FIRST).count();
                    if !self.first.admits(&path[..before], reorder) {
                        continue;
                    }
                    let price = (before, self.dimensions_after(path.get(1).map(|c| c % self.slots)), load);
                    if found.as_ref().is_none_or(|(best, ..)| price < best.price) {
                        found = Some((Choice { price, slot, sl }, path, labels));
                    }
                    break;
                }
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// How many dimensions come after that of a slot.
    fn dimensions_after(&self, slot: Option<usize>) -> usize {
        slot.map_or(0, |slot| self.slots / 2 - slot / 2)
    }

    /// Whether a path may begin with one step more than that of a neighbour, with the SL of the neighbour and no more
    /// than that step on the first VL.
    fn step_before(&self, column: &Column<'_>, slot: usize, next: usize, sl: usize, second: u8) -> bool {
        if next == column.target {
            return true;
        }
        let channel = next * self.slots + usize::from(column.slots[next]);
        let after = self.to(channel);
        let ahead = match second {
            UNSET => u32::MAX,
            FIRST => return false,
            vl => self.position[usize::from(vl)][after * self.slots + usize::from(column.slots[after])],
        };
        self.latest(self.labels[self.turn(sl, slot, channel)], channel, ahead).is_some()
    }

    /// The latest VL of dimension order for a channel before a position, if its turn may have it.
    fn latest(&self, label: u8, channel: usize, ahead: u32) -> Option<(u8, u32)> {
        let at = |vl: u8| Some((vl, self.position[usize::from(vl)][channel])).filter(|&(_, p)| p < ahead);
        match label {
            UNSET => at(0).into_iter().chain(at(1)).max_by_key(|&(_, position)| position),
            FIRST => None,
            vl => at(vl),
        }
    }

    /// The channels from a switch to the target.
    fn path(&self, column: &Column<'_>, s: usize, slot: usize) -> Vec<usize> {
        let mut path = vec![s * self.slots + slot];
        let mut at = self.to(path[0]);
        while at != column.target {
            path.push(at * self.slots + usize::from(column.slots[at]));
            at = self.to(path[path.len() - 1]);
        }
        path
    }

    /// The VLs of a path with an SL; `None` where it does not ascend. From its end, each channel is as late as it can be.
    fn fit(&self, path: &[usize], sl: usize) -> Option<Vec<u8>> {
        let mut labels = vec![FIRST; path.len()];
        let (mut ahead, mut early) = (u32::MAX, false);
        for i in (1..path.len()).rev() {
            let label = self.labels[self.turn(sl, path[i - 1] % self.slots, path[i])];
            match self.latest(label, path[i], ahead) {
                Some((vl, position)) if !early => (labels[i], ahead) = (vl, position),
                _ if label == UNSET || label == FIRST => early = true,
                _ => return None,
            }
        }
        Some(labels)
    }

    fn take(&mut self, sl: usize, path: &[usize], labels: &[u8]) {
        for (i, &label) in labels.iter().enumerate().skip(1) {
            let turn = self.turn(sl, path[i - 1] % self.slots, path[i]);
            self.labels[turn] = label;
            if label == FIRST {
                self.first.add(path[i - 1], path[i]);
            }
        }
        self.used = self.used.max(sl + 1);
    }

    /// Adds the routes of the switches that are not in dimension order.
    fn add_load(&mut self, column: &Column<'_>, length: &[u16]) {
        let mut order: Vec<usize> = (0..self.switches).filter(|&s| s != column.target).collect();
        order.sort_unstable_by_key(|&s| std::cmp::Reverse(length[s]));
        let own = |s: usize| if column.in_order[s] { 0 } else { column.routes[s] };
        let mut flow: Vec<u64> = (0..self.switches).map(own).collect();
        for s in order {
            let channel = s * self.slots + usize::from(column.slots[s]);
            self.load[channel] += flow[s];
            flow[self.to(channel)] += flow[s];
        }
    }
}

/// The dependencies between channels on the first VL, and an order in which all of them ascend (Pearce and Kelly, *A
/// Dynamic Topological Sort Algorithm for Directed Acyclic Graphs*).
struct FirstVl {
    slots: usize,
    next: Vec<u32>,
    /// By channel.
    order: Vec<u32>,
    /// By channel and the slot after it: whether the second waits for the first.
    depends: Vec<bool>,
    /// The same: it would close a cycle.
    refused: Vec<bool>,
    /// By channel: whether it belongs to a tree.
    reserved: Vec<bool>,
    mark: Vec<bool>,
    /// Visits that are left.
    budget: usize,
}

impl FirstVl {
    fn new(slots: usize, next: &[u32], position: &[u32]) -> Self {
        let channels = next.len();
        let mut sorted: Vec<usize> = (0..channels).collect();
        sorted.sort_by_key(|&c| (position[c], c));
        let mut order = vec![0; channels];
        sorted.into_iter().enumerate().for_each(|(i, c)| order[c] = i as u32);
        let none = vec![false; channels * slots];
        let (depends, refused) = (none.clone(), none);
        let (reserved, mark) = (vec![false; channels], vec![false; channels]);
        let budget = REORDERING * channels;
        Self { slots, next: next.to_vec(), order, depends, refused, reserved, mark, budget }
    }

    fn edge(&self, first: usize, second: usize) -> usize {
        first * self.slots + second % self.slots
    }

    fn add(&mut self, first: usize, second: usize) {
        let edge = self.edge(first, second);
        self.depends[edge] = true;
    }

    /// Whether the channels of a path can ascend.
    ///
    /// - `reorder`: whether the order may change for it.
    fn admits(&mut self, path: &[usize], reorder: bool) -> bool {
        let mut added = Vec::new();
        let fits = path.windows(2).all(|two| {
            let (first, second) = (two[0], two[1]);
            let edge = self.edge(first, second);
            if self.refused[edge] {
                return false;
            }
            if self.depends[edge] {
                return true;
            }
            if self.order[first] > self.order[second] && !(reorder && self.reorder(first, second)) {
                // With what was added before it might be the path itself that closes the cycle.
                self.refused[edge] = reorder && added.is_empty() && self.budget > 0;
                return false;
            }
            self.depends[edge] = true;
            added.push(edge);
            true
        });
        added.into_iter().for_each(|edge| self.depends[edge] = false);
        fits
    }

    /// Changes the order so that the first channel comes before the second one; `false` if that closes a cycle, or takes
    /// too long.
    fn reorder(&mut self, first: usize, second: usize) -> bool {
        if self.budget == 0 {
            return false;
        }
        let (low, high) = (self.order[second], self.order[first]);
        let mut after = vec![second];
        self.mark[second] = true;
        let (mut at, mut cycle) = (0, false);
        while at < after.len() && !cycle {
            let c = after[at];
            at += 1;
            for slot in (0..self.slots).filter(|slot| self.depends[c * self.slots + slot]) {
                let ahead = self.next[c] as usize * self.slots + slot;
                cycle |= ahead == first;
                if !self.mark[ahead] && self.order[ahead] < high {
                    self.mark[ahead] = true;
                    after.push(ahead);
                }
            }
        }
        after.iter().for_each(|&c| self.mark[c] = false);
        self.budget = self.budget.saturating_sub(after.len());
        if cycle {
            return false;
        }
        let mut before = vec![first];
        self.mark[first] = true;
        let mut at = 0;
        while let Some(&c) = before.get(at) {
            at += 1;
            let switch = c / self.slots;
            for slot in 0..self.slots {
                let from = self.next[switch * self.slots + slot];
                if from == NONE {
                    continue;
                }
                let behind = from as usize * self.slots + (slot ^ 1);
                let depends = self.depends[self.edge(behind, c)];
                if depends && !self.mark[behind] && self.order[behind] > low {
                    self.mark[behind] = true;
                    before.push(behind);
                }
            }
        }
        before.iter().for_each(|&c| self.mark[c] = false);
        self.budget = self.budget.saturating_sub(before.len());
        before.sort_unstable_by_key(|&c| self.order[c]);
        after.sort_unstable_by_key(|&c| self.order[c]);
        before.extend(after);
        let mut places: Vec<u32> = before.iter().map(|&c| self.order[c]).collect();
        places.sort_unstable();
        before.into_iter().zip(places).for_each(|(c, place)| self.order[c] = place);
        true
    }
}
