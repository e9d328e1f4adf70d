//! Paths to port 0 of switches, which carry no traffic that counts: found by a walk over all channels,
//! without the minimal-path DAG and without any load.

use rayon::prelude::*;

use crate::fabric::{Fabric, Lid, PortNum, SwitchId};
use crate::ordering::{Rank, Rule};
use crate::routing::ends_on;
use crate::tables::Lft;

/// Ports by switch for some LIDs.
pub(in crate::routing) type Rows = Vec<(Lid, Vec<u8>)>;

/// Writes rows into the tables.
pub(in crate::routing) fn write_rows(rows: Rows, lft: &mut Lft) {
    for (lid, ports) in rows {
        lft.to_mut(lid).copy_from_slice(&ports);
    }
}

/// Paths from all switches to port 0 of some, each of which ascends in a rank, for [`Rule::OneVl`].
///
/// From the target outward, hop by hop, a switch takes a channel to a switch of the hop before whose own
/// channel comes later in the rank; of several such channels, the last in the rank. No two channels have the
/// same rank, so there are no ties.
///
/// Each switch with an ascending minimal path gets one, and of these one that begins with the last channel in
/// the rank. Proof: let such a path continue over a switch u. The rest of it is an ascending minimal path of u.
/// By induction u has one as well that begins no earlier in the rank, and may be entered over the same channel.
/// No switch has a path of fewer hops than its distance. The other switches get ascending detours, as far as
/// nearer switches admit them.
///
/// Returns the rows of LIDs for which all switches have a path, the target's own entry being port 0, in the
/// order of the targets; and the targets to which some switch has none.
///
/// Cost, with S switches and C channels: O(C) once and O(S + C) a target, on all cores. Memory: 8 C bytes,
/// 16 S a thread, and S for each LID.
pub(in crate::routing) fn paths_to_port_0(
    fabric: &Fabric,
    rank: &Rank,
    targets: &[SwitchId],
) -> (Rows, Vec<SwitchId>) {
    let inward = Inward::new(fabric, rank);
    let paths =
        targets.par_iter().map_init(|| Search::new(fabric), |search, &target| search.to(target, &inward));
    let paths: Vec<Option<Vec<u8>>> = paths.collect();
    let (mut rows, mut left) = (Rows::new(), Vec::new());
    for (&target, ports) in targets.iter().zip(paths) {
        let Some(ports) = ports else {
            left.push(target);
            continue;
        };
        let ends = ends_on(fabric, target).into_iter().filter(|(end, _)| !end.is_adapter());
        rows.extend(ends.flat_map(|(end, _)| end.lids()).map(|lid| (lid, ports.clone())));
    }
    (rows, left)
}

/// A channel into a switch.
#[derive(Clone, Copy)]
struct Entry {
    from: SwitchId,
    /// In the rank, from 1.
    position: u32,
}

/// The channels into each switch, as lists that are fast to walk.
struct Inward {
    /// By switch: where its entries begin.
    first: Vec<u32>,
    /// By switch, then by rank.
    entries: Vec<Entry>,
    /// By position in the rank.
    out_port: Vec<u8>,
}

impl Inward {
    fn new(fabric: &Fabric, rank: &Rank) -> Self {
        let channels = fabric.channels();
        // There are as many channels into a switch as out of it.
        let first = |s: usize| if s == 0 { 0 } else { channels.out_range(SwitchId::at(s - 1)).end as u32 };
        let first: Vec<u32> = (0..=fabric.num_switches()).map(first).collect();
        let mut next = first.clone();
        let mut entries = vec![Entry { from: SwitchId(0), position: 0 }; channels.len()];
        let mut out_port = vec![PortNum::ZERO.0];
        for (channel, position) in rank.order().into_iter().zip(1..) {
            let c = channels.get(channel);
            let next = &mut next[c.to.index()];
            entries[*next as usize] = Entry { from: c.from, position };
            *next += 1;
            out_port.push(c.out_port.0);
        }
        Self { first, entries, out_port }
    }

    fn entries(&self, switch: SwitchId) -> &[Entry] {
        let range = &self.first[switch.index()..][..2];
        &self.entries[range[0] as usize..range[1] as usize]
    }
}

/// The search of one thread, for one target after the other.
struct Search {
    /// By switch: the last position in the rank that it was offered, 0 without any, [`Self::HAS_PATH`].
    offered: Vec<u32>,
    /// The switches of the hop before, with the positions of their own channels.
    reached: Vec<(SwitchId, u32)>,
    /// The switches of the present hop.
    coming: Vec<SwitchId>,
}

impl Search {
    const HAS_PATH: u32 = u32::MAX;

    fn new(fabric: &Fabric) -> Self {
        Self { offered: vec![0; fabric.num_switches()], reached: Vec::new(), coming: Vec::new() }
    }

    /// Ports by switch, unless some switch has no path.
    fn to(&mut self, target: SwitchId, inward: &Inward) -> Option<Vec<u8>> {
        let Self { offered, reached, coming } = self;
        let mut ports = vec![Lft::NO_PATH; offered.len()];
        ports[target.index()] = PortNum::ZERO.0;
        offered.fill(0);
        offered[target.index()] = Self::HAS_PATH;
        reached.clear();
        reached.push((target, Rule::END));
        let mut missing = offered.len() - 1;
        while missing > 0 && !reached.is_empty() {
            for (switch, own) in reached.drain(..) {
                for entry in inward.entries(switch).iter().take_while(|entry| entry.position < own) {
                    let offered = &mut offered[entry.from.index()];
                    if *offered == 0 {
                        coming.push(entry.from);
                    }
                    *offered = entry.position.max(*offered);
                }
            }
            missing -= coming.len();
            for s in coming.drain(..) {
                let position = std::mem::replace(&mut offered[s.index()], Self::HAS_PATH);
                ports[s.index()] = inward.out_port[position as usize];
                reached.push((s, position));
            }
        }
        (missing == 0).then_some(ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{FabricBuilder, Lmc};
    use crate::ordering::{host_levels, up_down_rank};
    use crate::routing::Hops;
    use crate::topology::{Candidates, FatTree, fail_links, fail_switches, small_members};

    fn whole_and_damaged() -> Vec<(&'static str, Fabric)> {
        let mut all = Vec::new();
        for (name, f) in small_members() {
            let links = [1, 4].map(|count| fail_links(&f, count, 7));
            let switch = fail_switches(&f, 1, Candidates::WithoutAdapters, 7);
            all.extend(links.into_iter().chain([switch]).flatten().map(|damaged| (name, damaged)));
            all.push((name, f));
        }
        all
    }

    fn ranks(f: &Fabric) -> Vec<Rank> {
        let roots = [0, f.num_switches() / 2, f.num_switches() - 1];
        let roots = roots.into_iter().map(|root| up_down_rank(f, SwitchId::at(root)));
        roots.chain([host_levels(f, 1), Rank::by_key(f, |_, c| (c.in_port, c.out_port))]).collect()
    }

    /// Whether some minimal path goes on over channels that ascend from a position on: tries all of them.
    fn any_ascends(f: &Fabric, rank: &Rank, row: &[u8], at: SwitchId, from: u32) -> bool {
        let nearer = |to: SwitchId| row[to.index()] < row[at.index()];
        row[at.index()] == 0
            || f.channels().out(at).any(|(id, c)| {
                nearer(c.to) && rank.of(id) >= from && any_ascends(f, rank, row, c.to, rank.of(id) + 1)
            })
    }

    #[test]
    fn all_paths_ascend_and_are_minimal_where_one_that_ascends_is() {
        let (mut detours, mut given_up) = (0, 0);
        for (name, f) in whole_and_damaged() {
            let hops = Hops::new(&f).unwrap();
            let all: Vec<SwitchId> = f.switch_ids().collect();
            for rank in ranks(&f) {
                let (rows, left) = paths_to_port_0(&f, &rank, &all);
                assert_eq!(rows.len() + left.len(), all.len(), "{name}");
                given_up += left.len();
                for (lid, ports) in &rows {
                    let home = f.endport(f.owner_of(*lid).unwrap()).attachment.unwrap().0;
                    assert!(!left.contains(&home) && ports[home.index()] == 0, "{name}");
                    for s in f.switch_ids() {
                        let (mut at, mut positions) = (s, Vec::new());
                        while at != home {
                            let c = f.channels().at_port(at, PortNum(ports[at.index()])).unwrap();
                            positions.push(rank.of(c));
                            at = f.channels().get(c).to;
                            assert!(positions.is_sorted_by(|a, b| a < b), "{name}: {positions:?}");
                        }
                        let minimal = positions.len() == usize::from(hops.get(s, home));
                        assert_eq!(minimal, any_ascends(&f, &rank, hops.row(home), s, 0), "{name}");
                        detours += usize::from(!minimal);
                    }
                }
                for &target in &left {
                    let row = hops.row(target);
                    assert!(f.switch_ids().any(|s| !any_ascends(&f, &rank, row, s, 0)), "{name}");
                }
            }
        }
        assert!(detours > 0 && given_up > 0, "{detours} {given_up}");
    }

    #[test]
    fn a_port_0_with_several_lids_has_the_same_paths_to_each() {
        let f = FatTree { k: 4, levels: 2, down: None, cas: None }.build().unwrap();
        let bare = f.switch_ids().find(|&s| f.num_adapters_on(s) == 0).unwrap();
        let mut builder = FabricBuilder::from_fabric(&f);
        let port = &mut builder.node_mut(f.switch_node_id(bare)).ports[0];
        (port.lid, port.lmc) = (Lid::new(512), Lmc::new(2).unwrap());
        let f = builder.finish(Lmc::default()).unwrap();
        let (rows, left) = paths_to_port_0(&f, &up_down_rank(&f, SwitchId(0)), &[bare]);
        assert!(left.is_empty());
        assert_eq!(rows.iter().map(|(lid, _)| lid.get()).collect::<Vec<_>>(), [512, 513, 514, 515]);
        assert!(rows.iter().all(|(_, ports)| *ports == rows[0].1));
    }

    #[test]
    fn the_same_rows_with_one_thread_and_with_two() {
        for (name, f) in whole_and_damaged() {
            let all: Vec<SwitchId> = f.switch_ids().collect();
            for rank in ranks(&f) {
                let paths = |threads| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    pool.install(|| paths_to_port_0(&f, &rank, &all))
                };
                assert!(paths(1) == paths(2), "{name}");
            }
        }
    }
}
