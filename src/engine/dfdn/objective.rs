//! The one objective: what an administrator gives up for what.
//!
//! A price is a share of bandwidth; less is better. P-SSSP without a rule and without VLs is the reference and
//! costs nothing. Where links have unlike rates, its hottest channels are relieved first ([`relieve`]). On a large tree it
//! need not be routed where the tables have the least load that there can be ([`Objective::at_floor`]).
//!
//! | what | price |
//! |---|---|
//! | all-to-all bandwidth | half of ln(largest load / that of P-SSSP) |
//! | bisection bandwidth | half of ln(that of P-SSSP / that of the tables) |
//! | detours | [`DETOURS`] times the share of the adapter pairs |
//! | a VL | [`VL`] |
//! | more than one SL | the setting `max_loss`: hosts have to query PathRecords |
//!
//! With the setting `traffic` one of the first two counts whole and the other not. A tenth more load on the
//! hottest channel costs about 5 %, and so does a tenth less bandwidth in bisections. What is better than P-SSSP has a
//! negative price and counts a thirty-second: a loss hurts more than a gain helps. Tables that a failed link changes
//! little are worth [`STABILITY`](super::tuning::STABILITY) more, of which
//! [`STABLE_LOST`](super::tuning::STABLE_LOST) may be paid with bandwidth.

use std::cmp::Reverse;

use super::candidates::BalanceBy;
use super::estimate::Budget;
use super::tuning::{DETOURS, FEW_ROUTES, GAIN, LEVELLING, STABILITY, STABLE_LOST, VL};
use crate::engine::{Balance, Task, Traffic};
use crate::evaluate::{largest_load, quick_bisection};
use crate::fabric::{Fabric, SwitchId};
use crate::lanes::LaneLimits;
use crate::ordering::Rule;
use crate::routing::{Forwarding, Hops, Hot, Relief, even_split_load, relieve, sssp_to_adapters};
use crate::tables::Lft;

/// The objective for one fabric, with the reference.
#[derive(Clone, Copy)]
pub(super) struct Objective<'a> {
    pub(super) task: Task<'a>,
    pub(super) reference: Reference,
    /// What several SLs may use. One SL may use what the task allows.
    pub(super) several: LaneLimits,
    /// Whether tables with several SLs are of no use.
    pub(super) one_sl_alone: bool,
}

/// What P-SSSP comes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    /// The largest load: routes on a channel, over its rate.
    pub(super) load: u64,
    /// Effective bisection bandwidth.
    bandwidth: f64,
}

/// What complete tables come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// The largest load: routes on a channel, over its rate.
    pub(super) load: u64,
    /// Effective bisection bandwidth.
    pub(super) bandwidth: f64,
    /// Share of the adapter pairs on detours.
    pub(super) detours: f64,
}

impl Figures {
    /// `None` where some path is not complete.
    ///
    /// Cost: that of [`quick_bisection`], and O(D S) with D LIDs and S switches.
    pub(super) fn of_tables(fabric: &Fabric, lft: &Lft, detours: f64) -> Option<Self> {
        Some(Self { load: largest_load(fabric, lft).ok()?, bandwidth: quick_bisection(fabric, lft), detours })
    }

    /// Cost: that of [`quick_bisection`].
    pub(super) fn of(fabric: &Fabric, forwarding: &Forwarding) -> Self {
        let bandwidth = quick_bisection(fabric, &forwarding.lft);
        Self { load: forwarding.largest_load(), bandwidth, detours: forwarding.nonminimal_share() }
    }
}

/// What tables come to, in relation to P-SSSP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Largest load of P-SSSP over the largest load: what an all-to-all gains, or loses below 1.
    all_to_all: f64,
    /// Effective bisection bandwidth over that of P-SSSP.
    bisection: f64,
    /// Share of the adapter pairs on detours.
    pub(super) detours: f64,
}

impl Reference {
    /// Cost: that of [`sssp_to_adapters`]; with unlike rates that of [`relieve`] more.
    fn new(task: Task<'_>) -> Self {
        let Task { fabric, hops, .. } = task;
        let mut plain = sssp_to_adapters(fabric, hops);
        relieve_slow(task, &mut plain);
        Self { load: plain.largest_load(), bandwidth: quick_bisection(fabric, &plain.lft) }
    }

    /// Tables in relation to it.
    pub(super) fn compare(&self, figures: &Figures) -> Measured {
        let ratio = |a: f64, b: f64| if a > 0.0 && b > 0.0 { a / b } else { 1.0 };
        Measured {
            all_to_all: ratio(self.load as f64, figures.load as f64),
            bisection: ratio(figures.bandwidth, self.bandwidth),
            detours: figures.detours,
        }
    }
}

impl<'a> Objective<'a> {
    /// Cost: that of [`sssp_to_adapters`]; with unlike rates that of [`relieve`] more.
    pub(super) fn new(task: Task<'a>) -> Self {
        Self::beside(task, Reference::new(task))
    }

    /// Where the reference is known.
    pub(super) fn beside(task: Task<'a>, reference: Reference) -> Self {
        Self { task, reference, several: task.limits, one_sl_alone: false }
    }

    /// Whether tables may come down to the [floor] of the load, and P-SSSP takes so long that this is worth a look: an even
    /// split of all traffic does.
    ///
    /// Cost: O(S^2), and where the mean load is not above the floor that of [`even_split_load`].
    pub(super) fn has_floor_in_reach(Task { fabric, hops, .. }: Task<'_>) -> bool {
        let Some(floor) = floor(fabric).filter(|_| !Budget::searches_are_cheap(fabric)) else { return false };
        mean_load(fabric, hops) <= floor as f64 && even_split_load(fabric, hops) <= floor
    }

    /// Without P-SSSP, for tables at the [floor] of the load: P-SSSP has no less there, and its bisections are taken to be
    /// those of the tables. `None` for others.
    ///
    /// Cost: O(S + C), and that of [`quick_bisection`] where they are.
    pub(super) fn at_floor(task: Task<'a>, forwarding: &Forwarding) -> Option<Self> {
        let load = forwarding.largest_load();
        let is_at_floor = forwarding.complete && floor(task.fabric).is_some_and(|floor| load <= floor);
        is_at_floor.then(|| {
            let bandwidth = quick_bisection(task.fabric, &forwarding.lft);
            Self::beside(task, Reference { load, bandwidth })
        })
    }

    /// The same on the same fabric, with other limits for one SL.
    pub(super) fn within(self, limits: LaneLimits) -> Self {
        Self { task: Task { limits, ..self.task }, ..self }
    }

    /// Moves routes off the hottest channels of tables under a rule: of stable ones only until these are no
    /// hotter than with P-SSSP, so that few entries move. Returns what they come to.
    ///
    /// Cost: that of [`relieve`], with bounded tries, and of [`quick_bisection`].
    pub(super) fn relieve(&self, rule: &Rule, by: BalanceBy, forwarding: &mut Forwarding) -> Measured {
        let goal = match by {
            BalanceBy::ExpectedLoad => self.reference.load,
            BalanceBy::Load => 0,
        };
        self.move_routes(relief(self.task.fabric, goal), rule, forwarding);
        self.measure(forwarding)
    }

    /// Makes the load of stable tables level. That is only done with `balance stable`, where there are no others to choose
    /// from, and where these lose more bandwidth than [`STABLE_LOST`]. Returns what they come to.
    ///
    /// - `measured`: the tables as they are.
    ///
    /// Cost: [`LEVELLING`] times that of [`relieve`], and that of [`quick_bisection`].
    pub(super) fn level_load(
        &self,
        rule: &Rule,
        by: BalanceBy,
        measured: Measured,
        forwarding: &mut Forwarding,
    ) -> Measured {
        let there_are_others = matches!(by, BalanceBy::Load) || self.task.settings.balance != Balance::Stable;
        if there_are_others || self.lost(&measured) <= STABLE_LOST {
            return measured;
        }
        let relief = relief(self.task.fabric, 0);
        let relief = Relief { hot: Hot::AboveMean, tries: LEVELLING * relief.tries, ..relief };
        self.move_routes(relief, rule, forwarding);
        self.measure(forwarding)
    }

    /// As [`relieve`](Self::relieve), until the hottest channel carries no more than so many routes, or no more than
    /// with P-SSSP.
    pub(super) fn relieve_to(&self, load: u64, rule: &Rule, forwarding: &mut Forwarding) {
        let goal = load.max(self.reference.load);
        self.move_routes(relief(self.task.fabric, goal), rule, forwarding);
    }

    /// Stable tables whose hottest channels have fewer routes than with P-SSSP, and what they come to, where that is worth
    /// more than a VL and a tenth of [`STABILITY`]; else the same ones again. At most [`FEW_ROUTES`] move, and none with
    /// `balance stable`: a failed link changes more tables then.
    ///
    /// - `measured`: the tables as they are.
    /// - `goal`: channels with at most as many routes are left alone.
    ///
    /// Cost: O(C log C); where it is tried, that of [`relieve`] and of [`quick_bisection`], and a copy.
    pub(super) fn relieve_few(
        &self,
        rule: &Rule,
        forwarding: Forwarding,
        measured: Measured,
        goal: u64,
    ) -> (Forwarding, Measured) {
        let (largest, least) = (forwarding.largest_load(), goal.max(level(&forwarding.load, FEW_ROUTES)));
        let (all_to_all, _) = self.weights();
        let most = all_to_all * GAIN * (largest as f64 / least.max(1) as f64).ln();
        // As much as the blocks are worth that may change with a failed link then.
        let least_gain = VL + STABILITY / 10.0;
        if !forwarding.complete || most < least_gain || self.task.settings.balance == Balance::Stable {
            return (forwarding, measured);
        }
        let mut fewer = forwarding.clone();
        self.move_routes(relief(self.task.fabric, least), rule, &mut fewer);
        let new = self.measure(&fewer);
        let price = |measured| self.price(measured, rule.vls(), 1);
        if price(&new) + least_gain < price(&measured) { (fewer, new) } else { (forwarding, measured) }
    }

    fn move_routes(&self, relief: Relief, rule: &Rule, forwarding: &mut Forwarding) {
        let Task { fabric, hops, .. } = self.task;
        if forwarding.complete {
            relieve(fabric, hops, rule, relief, forwarding);
        }
    }

    /// Measures complete tables.
    ///
    /// Cost: that of [`quick_bisection`].
    pub(super) fn measure(&self, forwarding: &Forwarding) -> Measured {
        self.reference.compare(&Figures::of(self.task.fabric, forwarding))
    }

    /// The bandwidth that tables lose.
    pub(super) fn lost(&self, measured: &Measured) -> f64 {
        let (all_to_all, bisection) = self.weights();
        let gain = |ratio: f64| if ratio > 1.0 { GAIN * ratio.ln() } else { ratio.ln() };
        -all_to_all * gain(measured.all_to_all) - bisection * gain(measured.bisection)
    }

    /// What detours cost.
    pub(super) fn detours(&self, measured: &Measured) -> f64 {
        DETOURS * measured.detours
    }

    /// What all-to-all and bisections count.
    fn weights(&self) -> (f64, f64) {
        match self.task.settings.traffic {
            Traffic::Both => (0.5, 0.5),
            Traffic::AllToAll => (1.0, 0.0),
            Traffic::Bisection => (0.0, 1.0),
        }
    }

    /// The price of tables with so many VLs and SLs.
    pub(super) fn price(&self, measured: &Measured, vls: u8, sls: u8) -> f64 {
        let queries = if sls > 1 { self.task.settings.max_loss } else { 0.0 };
        self.lost(measured) + self.detours(measured) + VL * f64::from(vls) + queries
    }
}

/// The price of tables with one SL but for their load: of detours and VLs.
pub(super) fn level_price(forwarding: &Forwarding, rule: &Rule) -> f64 {
    DETOURS * forwarding.nonminimal_share() + VL * f64::from(rule.vls())
}

/// The least that the largest load can come to, whatever the tables: the adapters of each switch send to all others over its
/// links. `None` where links have unlike rates or adapters have roles.
///
/// Cost: O(S).
fn floor(fabric: &Fabric) -> Option<u64> {
    let weights = fabric.weights();
    if !weights.equal() || fabric.has_duties() {
        return None;
    }
    let all = fabric.adapters().count();
    let of_switch = |s: SwitchId| {
        let (here, links) = (fabric.num_adapters_on(s), fabric.channels().out(s).len());
        (here * (all - here)).div_ceil(links.max(1)) as u64 * weights.usual()
    };
    fabric.switch_ids().map(of_switch).max()
}

/// The mean load over all channels with shortest paths.
///
/// Cost: O(S^2).
fn mean_load(fabric: &Fabric, hops: &Hops) -> f64 {
    let adapters: Vec<f64> = fabric.switch_ids().map(|s| fabric.num_adapters_on(s) as f64).collect();
    let to =
        |s: SwitchId| hops.row(s).iter().zip(&adapters).map(|(&h, there)| f64::from(h) * there).sum::<f64>();
    let routes: f64 = fabric.switch_ids().zip(&adapters).map(|(s, here)| here * to(s)).sum();
    routes * fabric.weights().usual() as f64 / fabric.channels().len().max(1) as f64
}

/// Moves routes of P-SSSP off the hottest channels where these have unlike rates. All routes to one destination meet on its
/// last channels. P-SSSP looks at the load before them, so it fills a slow one far beyond its share.
///
/// Cost: that of [`relieve`] with unlike rates, else none.
pub(super) fn relieve_slow(Task { fabric, hops, .. }: Task<'_>, plain: &mut Forwarding) {
    if !fabric.weights().equal() {
        relieve(fabric, hops, &Rule::Any, relief(fabric, 0), plain);
    }
}

/// Until no channel carries more than the goal, or the looks are spent.
fn relief(fabric: &Fabric, goal: u64) -> Relief {
    Relief { goal, hot: Hot::UpperHalf, tries: Budget::relief_tries(fabric) }
}

/// The least load that channels may be brought down to if a share of all routes moves: those beyond it.
fn level(load: &[u64], share: f64) -> u64 {
    let mut sorted = load.to_vec();
    sorted.sort_unstable_by_key(|&load| Reverse(load));
    let most = share * load.iter().sum::<u64>() as f64;
    let (mut above, mut level) = (0, 0);
    // As many channels as are above a level have so much in all. The next one lies below the level if that is too much.
    for (n, &next) in (1..).zip(&sorted) {
        let moved = above - (n - 1) * next;
        if moved as f64 > most {
            break;
        }
        above += next;
        level = ((above as f64 - most) / n as f64).ceil() as u64;
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{FatTree, Ring, slow_links, small_members};

    #[test]
    fn no_load_is_below_the_floor() {
        for (name, f) in small_members() {
            let hops = Hops::new(&f).unwrap();
            let largest = sssp_to_adapters(&f, &hops).largest_load();
            assert!(floor(&f).is_none_or(|floor| floor <= largest), "{name}");
            assert!(mean_load(&f, &hops) <= largest as f64, "{name}");
        }
        let tree = FatTree { k: 4, levels: 3, down: None, cas: None }.build().unwrap();
        assert_eq!(floor(&tree), Some(14));
        assert_eq!(floor(&slow_links(&tree, 1, 1).unwrap()), None);
        // Each of two adapters on a switch sends to 12 on others: 3 + 6 hops of each two, over 14 channels.
        let ring = Ring { switches: 7, cas: 2 }.build().unwrap();
        assert_eq!(mean_load(&ring, &Hops::new(&ring).unwrap()), 7.0 * 2.0 * 24.0 / 14.0);
    }

    #[test]
    fn the_level_leaves_a_share_above_it() {
        // 2 above 8 on one channel; 10 above 5 on three.
        let load = [10, 1, 8, 7];
        let of = |moved: f64| level(&load, moved / 26.0);
        assert_eq!((of(0.0), of(2.0), of(10.0)), (10, 8, 5));
        assert_eq!(level(&[4, 4], 0.0), 4);
        assert_eq!(level(&[], 0.5), 0);
    }
}
