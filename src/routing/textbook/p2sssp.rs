//! P²-SSSP: minimal routing, balanced after every pair.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::fabric::{ChannelId, Fabric, Lid, PortNum, SwitchId};
use crate::routing::{Hops, RoutingError, ends_on};
use crate::tables::Lft;

/// Forwarding tables by P²-SSSP (Hoefler et al., section III.B and Fig. 3(a)).
///
/// One pair of a source adapter and a destination LID after another takes the minimal path whose channels
/// carry the fewest routes so far, and is counted on it at once. A switch that already has an entry for the
/// LID keeps it, so a path is free only until it meets an earlier one. As in [`sssp`](super::sssp()) the cost
/// is (hops, sum of routes along the path), which is equivalent to the paper's weights of P^2 + routes.
///
/// The paper does not state its order of the pairs. It often finds a lower edge-forwarding index than with P-SSSP,
/// though no higher effective bisection bandwidth (sections IV.B, IV.F, Fig. 6): P² balances the many paths to one
/// destination, which never compete in a bisection. A test of this folder shows that on a network of our own. The
/// result depends on the order of the pairs. In GUID order the index was lower on none of 19 fabrics (Odin 176 against
/// 168, Deimos 6241 against 5728), because the pairs of one source are routed together and fix the entries for all
/// later ones. In a random order it was lower on 13 of the 15 fabrics of `ci/runtimes` (Odin 159, Deimos 4245), equal
/// on a Slim Fly and higher on a fat tree (144 against 124); `docs/engines.md` has the table.
///
/// With [`PairOrder::Guid`] sources are taken switch by switch in GUID order, on each switch in port GUID order. For
/// each source the destinations are taken in the same order, each with all LIDs of its LMC range. Then the entries
/// that no pair of adapters needs are filled in along the least loaded paths: those of switches that no route crosses,
/// and those of switch LIDs (management traffic, which adds no load). Ties go to the lowest port of the switch.
///
/// - `fabric`: S switches, D destination LIDs.
/// - `hops`: distances of the same fabric.
///
/// Returns tables that reach every LID of every attached end port from every switch. They may have
/// credit loops.
///
/// # Errors
/// [`RoutingError::TooMuchWork`] above [`P2SSSP_LIMIT`].
///
/// Cost: S D searches, not P^2, as all adapters of a switch follow the first of them. Each search visits all
/// channels of the switches on minimal paths of its pair that the entries leave open. If there are few
/// minimal paths, this takes several times as long as P-SSSP (8 times on a Dragonfly of 510 switches and 2550
/// adapters). With many parallel minimal paths it takes far longer (100 times on a fat tree of three levels,
/// 720 switches and 3456 adapters). O(S + C) memory beside the tables.
pub fn p2sssp(fabric: &Fabric, hops: &Hops, order: PairOrder) -> Result<Lft, RoutingError> {
    within(fabric, hops, order, P2SSSP_LIMIT)
}

/// The order in which [`p2sssp`] routes the pairs; the paper does not state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairOrder {
    /// Sources and then destinations in GUID order.
    Guid,
    /// All pairs in a random order, from a ChaCha8 generator with a seed.
    Random(u64),
}

/// [`p2sssp`] with another limit.
pub(crate) fn within(
    fabric: &Fabric,
    hops: &Hops,
    order: PairOrder,
    limit: u64,
) -> Result<Lft, RoutingError> {
    let work = work(fabric, hops);
    if work > limit {
        let (method, instead) = ("P²-SSSP", "SSSP, which balances nearly as well");
        return Err(RoutingError::TooMuchWork { method, work, limit, instead });
    }
    Ok(route(fabric, hops, order))
}

/// The most channels that [`p2sssp`] visits, estimated from a sample of pairs as if
/// there were no entries yet: some minutes on one core.
pub const P2SSSP_LIMIT: u64 = 30_000_000_000;

/// Number of channels to visit: LIDs x switches x mean over at most 64 x 64 pairs of switches.
fn work(fabric: &Fabric, hops: &Hops) -> u64 {
    const SAMPLE: usize = 64;
    let switches = fabric.num_switches();
    let sample = || fabric.switch_ids().step_by(switches.div_ceil(SAMPLE).max(1));
    let empty = vec![Lft::NO_PATH; switches];
    let mut search = Search::new(fabric, hops);
    let pairs = sample().flat_map(|source| sample().map(move |target| (source, target)));
    let looks: u64 = pairs.map(|(source, target)| search.find(source, target, &empty)).sum();
    let sampled = (sample().len() * sample().len()).max(1) as u64;
    let ends = fabric.endports().iter().filter(|e| e.attachment.is_some());
    let lids: u64 = ends.map(|e| u64::from(e.lmc.lids())).sum();
    looks.saturating_mul(lids * switches as u64) / sampled
}

fn route(fabric: &Fabric, hops: &Hops, order: PairOrder) -> Lft {
    let mut lft = Lft::new(fabric);
    let mut lids: Vec<(SwitchId, Lid, bool)> = Vec::new();
    for target in fabric.switch_ids() {
        for (end, port) in ends_on(fabric, target) {
            for lid in end.lids() {
                lft.set(target, lid, port);
                lids.push((target, lid, end.is_adapter()));
            }
        }
    }
    let to_adapters: Vec<(SwitchId, Lid)> = lids
        .iter()
        .filter(|&&(_, _, is_adapter)| is_adapter)
        .map(|&(target, lid, _)| (target, lid))
        .collect();
    let mut search = Search::new(fabric, hops);
    match order {
        PairOrder::Guid => search.route_in_order(&to_adapters, &mut lft),
        PairOrder::Random(seed) => search.route_shuffled(&to_adapters, seed, &mut lft),
    }
    for source in fabric.switch_ids() {
        for &(target, lid, _) in &lids {
            search.route(source, target, 0, lft.to_mut(lid));
        }
    }
    lft
}

/// Routes one pair at a time.
struct Search<'a> {
    fabric: &'a Fabric,
    hops: &'a Hops,
    /// Routes by channel.
    load: Vec<u64>,
    /// Switches on the paths that are open to the current pair, the source first, the target last.
    open: Vec<SwitchId>,
    /// By index in `open`: the start of its channels in `options`.
    first: Vec<usize>,
    /// The channels that a switch may use.
    options: Vec<ChannelId>,
    /// By switch: the last pair that it was open to.
    pair: Vec<u64>,
    pairs: u64,
    /// By switch: least load of a path to the target, and its first channel.
    best: Vec<(u64, ChannelId)>,
}

impl<'a> Search<'a> {
    fn new(fabric: &'a Fabric, hops: &'a Hops) -> Self {
        let n = fabric.num_switches();
        Self {
            fabric,
            hops,
            load: vec![0; fabric.channels().len()],
            open: Vec::with_capacity(n),
            first: Vec::with_capacity(n + 1),
            options: Vec::new(),
            pair: vec![0; n],
            pairs: 0,
            best: vec![(0, ChannelId(0)); n],
        }
    }

    /// Routes all pairs of adapters, source by source.
    fn route_in_order(&mut self, to: &[(SwitchId, Lid)], lft: &mut Lft) {
        for source in self.fabric.switch_ids() {
            let adapters = self.fabric.num_adapters_on(source) as u64;
            // The other adapters on a switch follow the first one.
            for routes in [1, adapters.saturating_sub(1)] {
                if routes.min(adapters) == 0 {
                    continue;
                }
                for &(target, lid) in to {
                    self.route(source, target, routes, lft.to_mut(lid));
                }
            }
        }
    }

    /// Routes all pairs of adapters in an order drawn at random.
    ///
    /// Cost: 8 bytes a pair.
    fn route_shuffled(&mut self, to: &[(SwitchId, Lid)], seed: u64, lft: &mut Lft) {
        let sources = self.fabric.switch_ids();
        let sources = sources.flat_map(|s| std::iter::repeat_n(s, self.fabric.num_adapters_on(s)));
        let mut pairs: Vec<(SwitchId, u32)> =
            sources.flat_map(|s| (0..to.len() as u32).map(move |i| (s, i))).collect();
        pairs.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        for (source, i) in pairs {
            let (target, lid) = to[i as usize];
            self.route(source, target, 1, lft.to_mut(lid));
        }
    }

    /// Finds the path of a pair, enters it in `ports` and counts it `routes` times.
    fn route(&mut self, source: SwitchId, target: SwitchId, routes: u64, ports: &mut [u8]) {
        let channels = self.fabric.channels();
        if ports[source.index()] == Lft::NO_PATH {
            self.find(source, target, ports);
        } else if routes == 0 {
            return;
        }
        let mut at = source;
        while at != target {
            let port = &mut ports[at.index()];
            if *port == Lft::NO_PATH {
                *port = channels.get(self.best[at.index()].1).out_port.0;
            }
            let id = channels.at_port(at, PortNum(*port)).expect("an entry that leads to the target");
            self.load[id.index()] += routes * u64::from(self.fabric.weights().by_channel()[id.index()]);
            at = channels.get(id).to;
        }
    }

    /// Sets `best` for the switches on all minimal paths of a pair that the entries leave open. Returns the
    /// number of channels visited.
    fn find(&mut self, source: SwitchId, target: SwitchId, ports: &[u8]) -> u64 {
        let channels = self.fabric.channels();
        let hops = self.hops.row(target);
        let mut looks = 0;
        self.pairs += 1;
        self.open.clear();
        self.first.clear();
        self.options.clear();
        self.open.push(source);
        while let Some(&s) = self.open.get(self.first.len()) {
            self.first.push(self.options.len());
            if s == target {
                continue;
            }
            let range = match channels.at_port(s, PortNum(ports[s.index()])) {
                Some(entry) => entry.index()..entry.index() + 1,
                None => channels.out_range(s),
            };
            looks += range.len() as u64;
            for id in range.map(ChannelId::at) {
                let to = channels.get(id).to;
                if hops[to.index()] < hops[s.index()] {
                    self.options.push(id);
                    if std::mem::replace(&mut self.pair[to.index()], self.pairs) != self.pairs {
                        self.open.push(to);
                    }
                }
            }
        }
        self.first.push(self.options.len());
        // Breadth first along minimal paths visits switches by falling distance. In reverse, all next hops of
        // a switch are processed before it.
        for (index, &s) in self.open.iter().enumerate().rev() {
            let ahead = |&id: &ChannelId| {
                let to = channels.get(id).to;
                (self.load[id.index()] + self.best[to.index()].0, id)
            };
            let options = &self.options[self.first[index]..self.first[index + 1]];
            self.best[s.index()] = options.iter().map(ahead).min().unwrap_or((0, ChannelId(0)));
        }
        looks
    }
}
