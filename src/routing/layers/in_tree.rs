//! The paths of all switches to one destination under a rule, changed one next hop at a time.

use crate::fabric::{ChannelId, Fabric, PortNum, SwitchId};
use crate::ordering::Rule;
use crate::routing::{UNCOUNTED, count_hops};

/// A next hop for each switch, all leading to one target over legal paths.
pub(super) struct InTree<'a> {
    fabric: &'a Fabric,
    rule: &'a Rule,
    target: SwitchId,
    /// By switch: the channel that it takes and where that leads; meaningless at the target.
    next: Vec<(ChannelId, SwitchId)>,
    /// By switch: hops to the target.
    length: Vec<u16>,
    /// By switch: how many others go on to it.
    before: Vec<u16>,
}

impl<'a> InTree<'a> {
    pub(super) fn new(fabric: &'a Fabric, rule: &'a Rule) -> Self {
        let n = fabric.num_switches();
        Self {
            fabric,
            rule,
            target: SwitchId(0),
            next: vec![(ChannelId(0), SwitchId(0)); n],
            length: vec![0; n],
            before: vec![0; n],
        }
    }

    /// Takes the paths of forwarding tables. Returns false where some switch has none.
    pub(super) fn read(&mut self, target: SwitchId, ports: &[u8]) -> bool {
        let channels = self.fabric.channels();
        self.target = target;
        for s in self.fabric.switch_ids().filter(|&s| s != target) {
            let Some(channel) = channels.at_port(s, PortNum(ports[s.index()])) else { return false };
            self.next[s.index()] = (channel, self.to(channel));
        }
        self.before.fill(0);
        for s in self.fabric.switch_ids().filter(|&s| s != target) {
            let (_, to) = self.next[s.index()];
            self.before[to.index()] += 1;
        }
        self.length.fill(UNCOUNTED);
        self.length[target.index()] = 0;
        count_hops(&mut self.length, |s| self.next[s.index()].1);
        !self.length.contains(&UNCOUNTED)
    }

    /// The channel over which a switch goes on.
    pub(super) fn next(&self, switch: SwitchId) -> ChannelId {
        self.next[switch.index()].0
    }

    /// Hops from a switch to the target.
    pub(super) fn length(&self, switch: SwitchId) -> u16 {
        self.length[switch.index()]
    }

    fn to(&self, channel: ChannelId) -> SwitchId {
        self.fabric.channels().get(channel).to
    }

    /// A channel and those that follow it to the target.
    pub(super) fn path(&self, channel: ChannelId) -> impl Iterator<Item = ChannelId> {
        let mut ahead = Some((channel, self.to(channel)));
        std::iter::from_fn(move || {
            let (channel, to) = ahead?;
            ahead = (to != self.target).then(|| self.next[to.index()]);
            Some(channel)
        })
    }

    fn after(&self, switch: SwitchId) -> Option<ChannelId> {
        (switch != self.target).then(|| self.next[switch.index()].0)
    }

    /// See [`Rule::position_of`]; [`Rule::END`] at the target.
    fn position(&self, switch: SwitchId) -> u32 {
        if switch == self.target {
            return Rule::END;
        }
        let (channel, to) = self.next[switch.index()];
        self.rule.position_of(channel, self.after(to))
    }

    /// The switches that go on to a switch, with their channels to it.
    pub(super) fn predecessors(&self, switch: SwitchId) -> impl Iterator<Item = (SwitchId, ChannelId)> {
        let into = self.fabric.channels().out(switch).map(|(_, c)| (c.to, c.reverse));
        let into =
            into.filter(|&(from, channel)| from != self.target && self.next[from.index()].0 == channel);
        into.take(usize::from(self.before[switch.index()]))
    }

    /// Whether no other switch goes on to this one.
    pub(super) fn is_leaf(&self, switch: SwitchId) -> bool {
        self.before[switch.index()] == 0
    }

    /// Whether the path of a switch leads over another one, or begins there.
    pub(super) fn passes(&self, from: SwitchId, over: SwitchId) -> bool {
        let mut at = from;
        while at != over {
            if at == self.target {
                return false;
            }
            (_, at) = self.next[at.index()];
        }
        true
    }

    /// A switch and all whose paths lead over it, into `found`, each after its next hop.
    pub(super) fn subtree(&self, switch: SwitchId, found: &mut Vec<SwitchId>) {
        found.clear();
        found.push(switch);
        let mut at = 0;
        while let Some(&s) = found.get(at) {
            found.extend(self.predecessors(s).map(|(from, _)| from));
            at += 1;
        }
    }

    /// Whether a path of a switch that begins with `channel` is legal and short enough.
    pub(super) fn own_path_fits(&self, switch: SwitchId, channel: ChannelId, limit: &[u16]) -> bool {
        let to = self.to(channel);
        self.length[to.index()] < limit[switch.index()]
            && Rule::legal(self.rule.position_of(channel, self.after(to)), self.position(to))
            && !self.passes(to, switch)
    }

    /// Whether the paths of a predecessor, and of those before it, stay legal and short enough if a switch goes on
    /// over `channel`.
    pub(super) fn predecessor_fits(
        &self,
        (from, before): (SwitchId, ChannelId),
        switch: SwitchId,
        channel: ChannelId,
        limit: &[u16],
    ) -> bool {
        let to = self.to(channel);
        let changed = self.rule.position_of(before, Some(channel));
        let longer = i32::from(self.length[to.index()]) + 1 - i32::from(self.length[switch.index()]);
        Rule::legal(changed, self.rule.position_of(channel, self.after(to)))
            && (!self.rule.depends_on_next()
                || self
                    .predecessors(from)
                    .all(|(_, first)| Rule::legal(self.rule.position_of(first, Some(before)), changed)))
            && (longer <= 0 || self.has_room(from, longer, limit))
    }

    /// Whether the path of a switch, and all over it, may be longer by some hops.
    fn has_room(&self, switch: SwitchId, longer: i32, limit: &[u16]) -> bool {
        i32::from(self.length[switch.index()]) + longer <= i32::from(limit[switch.index()])
            && self.predecessors(switch).all(|(from, _)| self.has_room(from, longer, limit))
    }

    /// Whether a switch may go on over `channel`: its path and all paths over it are legal and short enough.
    pub(super) fn fits(&self, switch: SwitchId, channel: ChannelId, limit: &[u16]) -> bool {
        self.own_path_fits(switch, channel, limit)
            && self.predecessors(switch).all(|from| self.predecessor_fits(from, switch, channel, limit))
    }

    /// Gives a switch another next hop.
    ///
    /// - `subtree`: of the switch.
    pub(super) fn set(&mut self, switch: SwitchId, channel: ChannelId, subtree: &[SwitchId]) {
        let (_, old) = self.next[switch.index()];
        self.before[old.index()] -= 1;
        let new = self.to(channel);
        self.before[new.index()] += 1;
        self.next[switch.index()] = (channel, new);
        for &s in subtree {
            let (_, to) = self.next[s.index()];
            self.length[s.index()] = self.length[to.index()] + 1;
        }
    }

    /// Writes the next hops into the ports by switch of a destination, but at the target.
    pub(super) fn write(&self, ports: &mut [u8]) {
        for s in self.fabric.switch_ids().filter(|&s| s != self.target) {
            ports[s.index()] = self.fabric.channels().get(self.next[s.index()].0).out_port.0;
        }
    }
}
