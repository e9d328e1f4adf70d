//! Which channel it is whose turn, of those that descend to a switch.

use std::cmp::Reverse;

use petgraph::unionfind::UnionFind;

use crate::fabric::{ChannelId, Fabric, Lid, PortNum, Role, SwitchId};

/// An adapter's LID at a switch that its marked path passes.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) lid: Lid,
    pub(super) hash: u64,
    pub(super) target: SwitchId,
    pub(super) role: Role,
    /// The port by which the path leaves the switch.
    pub(super) port: PortNum,
    /// The number of the LID at the target; further up, how many rounds of turns were over before its own.
    pub(super) left: usize,
}

/// Whose turn it is at the switches of one level.
///
/// The adapters of a switch take turns in the order of their ports, and the switches above in the order of their
/// GUIDs. So the adapters of another switch below the same ones take the same turns, and neighbours in the order
/// of hosts never share a channel up to them. So a whole fat tree serves all shifts without a collision, as d-mod-k
/// routing does (Zahavi, Fat-tree routing and node ordering providing contention free traffic for MPI global
/// collectives, 2012). Further up the ports towards the switches below take turns.
///
/// The order is that of all switches which are connected over the channels of this level, such as a pod, and of all
/// ports in use there. So the loss of a cable or an adapter changes no turn of others. The adapters of each role take
/// turns among themselves: where some of each switch store, the others still use all channels alike.
pub(super) struct Turns {
    groups: Vec<Group>,
    /// By switch; `None` where nothing is to choose.
    group_of: Vec<Option<usize>>,
    /// By switch: the port, at most of its neighbours above, that leads to it.
    number: Vec<usize>,
    /// By channel; a slow one has no turn, as it carries less than its equal share.
    place: Vec<usize>,
}

/// Switches that are connected over the channels of a level.
#[derive(Default)]
struct Group {
    /// The switches above, by GUID.
    above: Vec<(u64, SwitchId)>,
    /// The most parallel links.
    width: usize,
    by_role: [Requests; Role::ALL.len()],
}

/// What adapters of a role ask for at the switches of a group.
#[derive(Default)]
struct Requests {
    /// The ports by which paths leave these switches.
    ports: Vec<PortNum>,
    /// The greatest [`Request::left`], and one.
    rounds: usize,
}

impl Turns {
    /// - `requests`: by switch.
    /// - `channels_for`: the channels into a switch that are open to a request.
    ///
    /// Cost: O(R d log S) with R requests and d channels of a switch.
    pub(super) fn new<'a>(
        fabric: &Fabric,
        requests: &[Vec<Request>],
        channels_for: impl Fn(SwitchId, &Request) -> &'a [ChannelId],
    ) -> Self {
        let channels = fabric.channels();
        let mut joined = UnionFind::new(fabric.num_switches());
        let mut into: Vec<Vec<ChannelId>> = Vec::with_capacity(requests.len());
        for (s, requests) in fabric.switch_ids().zip(requests) {
            let targets = requests.chunk_by(|a, b| a.target == b.target).map(|of_one| &of_one[0]);
            let mut here: Vec<ChannelId> =
                targets.flat_map(|request| channels_for(s, request)).copied().collect();
            here.sort_unstable_by_key(|&c| (channels.get(c).from, channels.get(c).in_port));
            here.dedup();
            for &c in &here {
                joined.union(s.index(), channels.get(c).from.index());
            }
            into.push(here);
        }
        let parallel = |into: &[ChannelId]| {
            let links = into.chunk_by(|&a, &b| channels.get(a).from == channels.get(b).from);
            links.map(<[ChannelId]>::len).max().unwrap_or(0)
        };
        let mut groups: Vec<Group> = Vec::new();
        let mut group_of = vec![None; fabric.num_switches()];
        let mut by_root = vec![None; fabric.num_switches()];
        for ((s, requests), into) in fabric.switch_ids().zip(requests).zip(&into) {
            if into.is_empty() {
                continue;
            }
            let index = *by_root[joined.find(s.index())].get_or_insert(groups.len());
            if index == groups.len() {
                groups.push(Group::default());
            }
            group_of[s.index()] = Some(index);
            let group = &mut groups[index];
            let from = into.iter().map(|&c| channels.get(c).from);
            group.above.extend(from.map(|from| (fabric.switch(from).guid.0, from)));
            group.width = group.width.max(parallel(into));
            for request in requests {
                let Requests { ports, rounds } = &mut group.by_role[request.role as usize];
                ports.push(request.port);
                *rounds = (*rounds).max(request.left + 1);
            }
        }
        for group in &mut groups {
            group.above.sort_unstable();
            group.above.dedup();
            for Requests { ports, .. } in &mut group.by_role {
                ports.sort_unstable();
                ports.dedup();
            }
        }
        let weights = fabric.weights();
        let slow = |c: ChannelId| u64::from(weights.by_channel()[c.index()]) > weights.usual();
        let mut number = vec![0; fabric.num_switches()];
        let mut place = vec![usize::MAX; channels.len()];
        for (s, into) in fabric.switch_ids().zip(&into) {
            let Some(group) = group_of[s.index()].map(|index: usize| &groups[index]) else { continue };
            for links in into.chunk_by(|&a, &b| channels.get(a).from == channels.get(b).from) {
                let from = channels.get(links[0]).from;
                let above = group.above.partition_point(|&other| other < (fabric.switch(from).guid.0, from));
                for (i, &c) in links.iter().enumerate().filter(|&(_, &c)| !slow(c)) {
                    place[c.index()] = above * group.width + i;
                }
            }
            let mut ports: Vec<u8> = into.iter().map(|&c| channels.get(c).out_port.0).collect();
            ports.sort_unstable();
            let common = ports.chunk_by(|a, b| a == b).max_by_key(|same| (same.len(), Reverse(same[0])));
            number[s.index()] = common.map_or(0, |same| usize::from(same[0]) / group.width);
        }
        Self { groups, group_of, number, place }
    }

    /// Whether it is a request's turn at a channel into a switch.
    pub(super) fn is_at(&self, s: SwitchId, request: &Request, channel: ChannelId) -> bool {
        self.of(s, request) == Some(self.place[channel.index()])
    }

    /// The place of the channel whose turn it is; a link may be missing there.
    fn of(&self, s: SwitchId, request: &Request) -> Option<usize> {
        let group = &self.groups[self.group_of[s.index()]?];
        Some((group.first(request.role, self.number[s.index()]) + group.turn(request)) % group.places())
    }

    /// How many rounds at this switch are over when it is this request's turn.
    pub(super) fn left(&self, s: SwitchId, request: &Request) -> usize {
        self.group_of[s.index()]
            .map_or(0, |index| self.groups[index].turn(request) / self.groups[index].places())
    }
}

impl Group {
    fn places(&self) -> usize {
        self.above.len() * self.width
    }

    /// The place at which the turns of a role begin at a switch of this number.
    ///
    /// The role with most requests goes on where it ended at the switch before. The others use the places that it leaves
    /// over, and move on among these whenever it has been through all places.
    fn first(&self, role: Role, number: usize) -> usize {
        let each =
            |role: &Role| self.by_role[*role as usize].ports.len() * self.by_role[*role as usize].rounds;
        let lead = Role::ALL.into_iter().rev().max_by_key(each).unwrap_or(role);
        if role == lead {
            return number * each(&lead);
        }
        let places = self.places();
        let others = Role::ALL.into_iter().filter(|other| *other != lead);
        let before: usize = others.clone().take_while(|other| *other != role).map(|other| each(&other)).sum();
        let taken = each(&lead) % places + others.map(|other| each(&other)).sum::<usize>();
        let cycle = (1..=places).find(|switches| switches * each(&lead) % places == 0).unwrap_or(1);
        (number + 1) * each(&lead) + before + number / cycle % (places.saturating_sub(taken) + 1)
    }

    /// Which turn it is at one switch: by port, then by what is left from the level below.
    fn turn(&self, request: &Request) -> usize {
        let ports = &self.by_role[request.role as usize].ports;
        // Where all places have had their turn, the next round begins at the second one.
        let round = ports.len() + usize::from(ports.len() % self.places() == 0);
        ports.partition_point(|&port| port < request.port) + request.left * round
    }
}
