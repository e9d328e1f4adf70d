//! P-SSSP under a rule.

use rayon::prelude::*;

use super::load_walk::{LoadWalk, Lookahead};
use super::paths::{DetourStats, PathRepair, Walk};
use super::port0::{Rows, paths_to_port_0, write_rows};
use crate::fabric::{EndPort, Fabric, Lid, PortNum, Role, SwitchId};
use crate::ordering::{Rule, Tree};
use crate::routing::demand::{Demand, Loads};
use crate::routing::minimal_dag::{Lists, MinimalDag, for_each_block};
use crate::routing::{Hops, adapters_by_switch, ends_on, with_and_without_adapters};
use crate::tables::Lft;

/// What a switch does that has no minimal path to a destination under the rule.
#[derive(Clone, Copy, Debug)]
pub enum NoLegalPath<'a> {
    /// It takes a minimal path with as few violations as possible. Paths to port 0, which carry no traffic
    /// that counts, take a detour instead where a search finds one.
    Break,
    /// It takes a longer path that obeys the rule: one that a search finds, or the one along a tree whose paths
    /// are legal under the rule. Without a tree some switches may stay without any path.
    Detour(Option<&'a Tree>),
}

/// Forwarding tables under a rule, and what they cost.
#[derive(Clone, Debug)]
pub struct Forwarding {
    /// The tables.
    pub lft: Lft,
    /// Paths that violate the rule, as (source switch, destination LID), by destination.
    pub broken: Vec<(SwitchId, Lid)>,
    /// Adapter pairs; each LID of an LMC range counts.
    pub pairs: u64,
    /// How many of them violate the rule.
    pub broken_pairs: u64,
    /// How many of them take a detour.
    pub detours: u64,
    /// Routes by channel, each times the weight of the channel ([`Weights`](crate::fabric::Weights)).
    pub load: Vec<u64>,
    /// Whether all switches reach all destinations; otherwise the rest means nothing.
    pub complete: bool,
}

impl Forwarding {
    /// Before any destination.
    pub(in crate::routing) fn nothing(fabric: &Fabric) -> Self {
        Self {
            lft: Lft::new(fabric),
            broken: Vec::new(),
            pairs: 0,
            broken_pairs: 0,
            detours: 0,
            load: vec![0; fabric.channels().len()],
            complete: true,
        }
    }

    /// Adds what some destinations cost.
    pub(in crate::routing) fn add(&mut self, stats: DetourStats) {
        self.broken.extend(stats.broken);
        self.broken_pairs += stats.broken_pairs;
        self.detours += stats.detours;
        self.complete &= !stats.incomplete;
    }

    /// The tables without the entries that violate the rule.
    pub fn legal(&self) -> Lft {
        let mut legal = self.lft.clone();
        self.broken.iter().for_each(|&(s, lid)| legal.clear(s, lid));
        legal
    }

    /// Share of the adapter pairs that take a detour.
    pub fn nonminimal_share(&self) -> f64 {
        self.detours as f64 / self.pairs.max(1) as f64
    }

    /// The load of the hottest channel; 0 without channels.
    ///
    /// Cost: O(C).
    pub fn largest_load(&self) -> u64 {
        self.load.iter().copied().max().unwrap_or(0)
    }

    /// As [`Probe::bandwidth`](super::Probe::bandwidth), over all routes between adapters.
    ///
    /// Cost: O(S D) with S switches and D destination LIDs.
    pub fn bandwidth(&self, fabric: &Fabric) -> f64 {
        let adapters = adapters_by_switch(fabric);
        let usual = fabric.weights().usual();
        let chance = 0.5 / (adapters.iter().sum::<u64>().max(1) * usual) as f64;
        let channels = fabric.channels();
        let (mut sum, mut routes) = (0.0, 0);
        let mut worst: Vec<Option<u64>> = vec![None; adapters.len()];
        let mut trail = Vec::new();
        for (_, end) in fabric.adapters() {
            for lid in end.lids() {
                let ports = self.lft.to(lid);
                worst.fill(None);
                for s in fabric.switch_ids() {
                    let mut at = s;
                    let mut flows = loop {
                        if let Some(known) = worst[at.index()] {
                            break known;
                        }
                        let Some(c) = channels.at_port(at, PortNum(ports[at.index()])) else { break 0 };
                        trail.push((at, c));
                        at = channels.get(c).to;
                    };
                    while let Some((at, c)) = trail.pop() {
                        flows = flows.max(self.load[c.index()]);
                        worst[at.index()] = Some(flows);
                    }
                    sum += adapters[s.index()] as f64 / (1.0 + chance * flows as f64);
                    routes += adapters[s.index()];
                }
            }
        }
        sum / routes.max(1) as f64
    }
}

/// Walks that share the paths to port 0 that are found apart.
const PORT_0_WALKS: usize = 4;

/// P-SSSP (Hoefler et al., Fig. 2(a)) under a rule.
///
/// As [`sssp`](crate::routing::sssp()), destination by destination. Per destination the minimal-path DAG is
/// walked outward. Of the next hops that the rule allows, a switch takes those that block the fewest
/// predecessors, and of these the one with the least load along the path. Adapters come switch by switch in
/// GUID order.
///
/// Port 0 counts as no load and takes the paths of an adapter on its switch. Where there is none, it has paths
/// of its own under [`Rule::OneVl`], by the rule alone (see `port0.rs`). In three cases its paths are found
/// beside those to adapters, sixteen switches at a time, by the load from before these: under another rule,
/// where some switch has no such path, and where the paths of the adapter violated the rule.
///
/// - `hops`: distances of the same fabric.
/// - `rule`: made for the same fabric.
///
/// Returns tables that reach every LID of every attached end port from every switch.
///
/// Cost, with S switches, C channels, D destination LIDs and E the channels of a minimal-path DAG:
/// O(S C / 8 + S E) to build the DAGs, sixteen at a time, and O(S + C) for the paths to each port 0 without an
/// adapter beside it, both on another core meanwhile. O(D (S + E)) to walk the DAGs, one destination after the
/// other, as each depends on the load of those before. With [`Lookahead::LastOption`] the walk looks at each
/// channel of the DAG twice. A rule with labels costs O(E d) a destination more, with d the mean number of
/// channels of a switch; detours O(C) a destination, once for each time that the tree steps in. Memory:
/// O(S + C), 32 DAGs of 16 E + 20 S bytes each, and at most S^2 bytes for paths to port 0, beside the tables of
/// D S bytes.
pub fn ranked_sssp(
    fabric: &Fabric,
    hops: &Hops,
    rule: &Rule,
    lookahead: Lookahead,
    no_legal_path: NoLegalPath<'_>,
) -> Forwarding {
    let adapters = adapters_by_switch(fabric);
    let all: u64 = adapters.iter().sum();
    let mut result = Forwarding::nothing(fabric);
    let demand = Demand::new(fabric);
    let mut loads = Loads::<u64>::new(&demand);
    let repair = PathRepair { hops, no_legal_path, adapters: &adapters };
    let mut walk = LoadWalk::new(fabric, rule, lookahead);
    let mut port_0_walks = [(); PORT_0_WALKS].map(|()| walk.beside());
    let mut visit = |dags: &[&MinimalDag]| {
        if !result.complete {
            return false;
        }
        let before = loads.of(Role::Compute).to_vec();
        let Forwarding { lft, load, pairs, .. } = &mut result;
        let to_adapters = || {
            let (mut stats, mut twins, mut left) = (DetourStats::default(), Vec::new(), Vec::new());
            for &dag in dags {
                let mut switch = lids(fabric, dag, false);
                for (lid, end, port) in lids(fabric, dag, true) {
                    let role = fabric.duty(end).role;
                    walk.choose(dag, loads.of(role));
                    if walk.any_violation() {
                        repair.repair(&mut walk, dag, loads.of(role), (end, lid), &mut stats);
                    } else {
                        let twin =
                            switch.next().map(|(twin, ..)| Twin { lid: twin, of: lid, target: dag.target });
                        twins.extend(twin);
                    }
                    walk.paths().write(lft.to_mut(lid));
                    lft.set(dag.target, lid, port);
                    *pairs += all - 1;
                    let (routes, times) = demand.to(end);
                    loads.count(role, |n, load| walk.paths_mut().count(routes, n * times, load));
                    if demand.several {
                        walk.paths_mut().count(routes, times, load);
                    }
                }
                left.extend(switch.filter(|_| adapters[dag.target.index()] > 0).map(|to| (dag, to)));
            }
            (stats, twins, left)
        };
        let to_switches = |walk: &mut LoadWalk<'_>, ends: &[(&MinimalDag, To<'_>)]| {
            let (mut stats, mut tables) = (DetourStats::default(), Rows::new());
            for &(dag, (lid, end, port)) in ends {
                walk.choose(dag, &before);
                if walk.any_violation() {
                    repair.repair(walk, dag, &before, (end, lid), &mut stats);
                }
                let mut ports = vec![Lft::NO_PATH; adapters.len()];
                walk.paths().write(&mut ports);
                ports[dag.target.index()] = port.0;
                tables.push((lid, ports));
            }
            (stats, tables)
        };
        let mut apart = |ends: Vec<(&MinimalDag, To<'_>)>| -> Vec<(DetourStats, Rows)> {
            let parts = ends.par_chunks(ends.len().div_ceil(PORT_0_WALKS).max(1));
            port_0_walks.par_iter_mut().zip(parts).map(|(walk, ends)| to_switches(walk, ends)).collect()
        };
        let bare = dags.iter().copied().filter(|dag| adapters[dag.target.index()] == 0);
        let bare = bare.flat_map(|dag| lids(fabric, dag, false).map(move |to| (dag, to))).collect();
        let ((stats, twins, left), mut found_apart) = rayon::join(to_adapters, || apart(bare));
        found_apart.extend(apart(left));
        result.add(stats);
        for Twin { lid, of, target } in twins {
            let ports = result.lft.to(of).to_vec();
            result.lft.to_mut(lid).copy_from_slice(&ports);
            result.lft.set(target, lid, PortNum(0));
        }
        for (stats, tables) in found_apart {
            result.add(stats);
            write_rows(tables, &mut result.lft);
        }
        result.complete
    };
    match rule {
        Rule::OneVl(rank) => {
            let (with, bare) = with_and_without_adapters(fabric);
            let ((), (rows, left)) = rayon::join(
                || for_each_block(fabric, hops, &with, Lists::All, &mut visit),
                || paths_to_port_0(fabric, rank, &bare),
            );
            for_each_block(fabric, hops, &left, Lists::All, &mut visit);
            write_rows(rows, &mut result.lft);
        }
        _ => for_each_block(fabric, hops, &mixed(fabric), Lists::All, visit),
    }
    if !demand.several {
        result.load = loads.into_only();
    }
    result
}

/// All switches, for rules under which each takes a DAG. Those with adapters are in order, and those without
/// are spread evenly between them, so that all cores have the same amount to do at any time.
fn mixed(fabric: &Fabric) -> Vec<SwitchId> {
    let (with, without) = with_and_without_adapters(fabric);
    // How far into its own list each switch is, in units that both lists have.
    let share = |list: Vec<SwitchId>, other: usize| {
        list.into_iter().enumerate().map(move |(i, s)| ((2 * i + 1) * other.max(1), s))
    };
    let (n, m) = (with.len(), without.len());
    let mut list: Vec<(usize, SwitchId)> = share(with, m).chain(share(without, n)).collect();
    list.sort_by_key(|&(share, _)| share);
    list.into_iter().map(|(_, s)| s).collect()
}

/// A LID with its end port and the switch's port to that.
type To<'a> = (Lid, &'a EndPort, PortNum);

/// A LID of port 0 that takes the paths of another LID on the same switch.
struct Twin {
    lid: Lid,
    of: Lid,
    target: SwitchId,
}

/// The LIDs on the target of a DAG: those of adapters and routers, or those of port 0.
fn lids<'a>(fabric: &'a Fabric, dag: &MinimalDag, adapters: bool) -> impl Iterator<Item = To<'a>> {
    let ends = ends_on(fabric, dag.target).into_iter().filter(move |(end, _)| end.is_adapter() == adapters);
    ends.flat_map(|(end, port)| end.lids().map(move |lid| (lid, end, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordering::{host_levels, up_down_rank};
    use crate::routing::{sssp, sssp_to_adapters};
    use crate::topology::{FatTree, Ring, slow_links, small_members};

    #[test]
    fn without_a_rule_it_is_p_sssp() {
        let slow = |(name, f): (_, Fabric)| (name, slow_links(&f, f.channels().len() / 6, 3).unwrap());
        let all = small_members().into_iter().chain(small_members().into_iter().map(slow));
        let wide = FatTree { k: 20, levels: 2, down: None, cas: Some(7) }.build().unwrap();
        for (name, f) in all.chain([("a tree with ten ways up", wide)]) {
            let hops = Hops::new(&f).unwrap();
            let ranked = ranked_sssp(&f, &hops, &Rule::Any, Lookahead::Every, NoLegalPath::Break);
            let to_adapters = sssp_to_adapters(&f, &hops);
            assert_eq!((to_adapters.pairs, &to_adapters.load), (ranked.pairs, &ranked.load), "{name}");
            assert!(
                f.adapters().all(|(_, end)| end.lids().all(|l| ranked.lft.to(l) == to_adapters.lft.to(l)))
            );
            let (lft, plain) = (ranked.lft, sssp(&f, &hops));
            assert!(
                f.adapters().all(|(_, end)| end.lids().all(|lid| lft.to(lid) == plain.to(lid))),
                "{name}"
            );
            assert!(ranked.broken.is_empty() && ranked.detours == 0 && ranked.complete, "{name}");
            let nearer = |s, lid, target| {
                let c = f.channels().at_port(s, lft.get(s, lid).unwrap()).unwrap();
                hops.get(f.channels().get(c).to, target) + 1 == hops.get(s, target)
            };
            for end in f.endports() {
                let home = end.attachment.unwrap().0;
                assert!(f.switch_ids().all(|s| s == home || nearer(s, end.lid, home)), "{name}");
            }
        }
    }

    #[test]
    fn what_is_not_broken_keeps_to_the_rule() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let levels = host_levels(&f, 1);
            let one_vl = [up_down_rank(&f, SwitchId(0)), levels.clone()].map(Rule::OneVl);
            for rule in one_vl.into_iter().chain([Rule::FirstTurnFree(levels)]) {
                for lookahead in [Lookahead::Every, Lookahead::LastOption] {
                    let ranked = ranked_sssp(&f, &hops, &rule, lookahead, NoLegalPath::Break);
                    check(name, &f, &rule, &ranked);
                    let root = SwitchId(0);
                    let tree = Tree::new(&f, &up_down_rank(&f, root), root);
                    let own = |rank: &_| tree.with_tree_outermost(&f, rank);
                    let rule = match &rule {
                        Rule::OneVl(rank) => Rule::OneVl(own(rank)),
                        Rule::FirstTurnFree(rank) => Rule::FirstTurnFree(own(rank)),
                        other => other.clone(),
                    };
                    let ranked = ranked_sssp(&f, &hops, &rule, lookahead, NoLegalPath::Detour(Some(&tree)));
                    assert!(ranked.complete, "{name}");
                    check(name, &f, &rule, &ranked);
                }
            }
        }
    }

    /// Walks every path that is not reported as broken.
    fn check(name: &str, f: &Fabric, rule: &Rule, ranked: &Forwarding) {
        for end in f.endports() {
            let home = end.attachment.unwrap().0;
            for source in f.switch_ids().filter(|&s| s != home) {
                let mut path = Vec::new();
                let mut at = source;
                while at != home {
                    let c = f.channels().at_port(at, ranked.lft.get(at, end.lid).unwrap()).unwrap();
                    path.push(c);
                    at = f.channels().get(c).to;
                    assert!(path.len() < f.num_switches(), "{name}: a loop");
                }
                let positions: Vec<u32> = (0..path.len())
                    .map(|i| rule.position_of(path[i], path.get(i + 1).copied()))
                    .take_while(|&position| position != Rule::END)
                    .collect();
                if !ranked.broken.contains(&(source, end.lid)) {
                    assert!(positions.is_sorted_by(|a, b| a < b), "{name}: {positions:?}");
                }
            }
        }
    }

    /// Under the second rank tops of a fat tree have no paths to each other but broken ones.
    #[test]
    fn the_same_tables_with_one_thread_and_with_two() {
        let f = FatTree { k: 6, levels: 3, down: None, cas: None }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        for (rank, breaks) in [(up_down_rank(&f, SwitchId(0)), false), (host_levels(&f, 1), true)] {
            let rule = Rule::OneVl(rank);
            let tables = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| ranked_sssp(&f, &hops, &rule, Lookahead::Every, NoLegalPath::Break))
            };
            let (one, two) = (tables(1), tables(2));
            assert!(one.lft == two.lft && one.load == two.load && one.broken == two.broken);
            assert_eq!((one.broken.is_empty(), one.broken_pairs), (!breaks, 0));
        }
    }

    #[test]
    fn a_ring_is_completed_by_its_tree() {
        let f = Ring { switches: 20, cas: 1 }.build().unwrap();
        let hops = Hops::new(&f).unwrap();
        let rank = up_down_rank(&f, SwitchId(0));
        let tree = Tree::new(&f, &rank, SwitchId(0));
        let rule = Rule::FirstTurnFree(rank);
        let ranked = ranked_sssp(&f, &hops, &rule, Lookahead::Every, NoLegalPath::Detour(Some(&tree)));
        assert!(ranked.complete && ranked.detours > 0);
        let broken = ranked_sssp(&f, &hops, &rule, Lookahead::Every, NoLegalPath::Break);
        assert!(broken.broken_pairs > 0 && broken.broken_pairs <= ranked.detours);
    }
}
