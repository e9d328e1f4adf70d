//! Every tuned number of the engine `dfdn`: its unit, its reason, and the fabrics that need it.
//!
//! A share is a number from 0 to 1. "Pairs" are ordered pairs of adapters. One step of work is one look at a
//! channel of a minimal-path DAG; the budget of a search is counted in steps, not timed, so that its result is
//! the same on any machine.

// The objective (`objective.rs`), in shares of bandwidth.

/// What it is worth that a failed link changes few tables, a tenth of them or less.
pub(super) const STABILITY: f64 = 0.024;
/// Of that, what may be paid with bandwidth: two hundredths of that of bisections. The rest is for detours. If it were all
/// for bandwidth, grown clusters and damaged Megaflies would lose up to 4 % of their bisections. With half as much, a
/// failed link of a Dragonfly of 264 switches would change most of its tables.
pub(super) const STABLE_LOST: f64 = 0.01;
/// What counts of being better than P-SSSP. Were it more, Dragonflies with a failed link would be searched for
/// the sake of a load that is below that of P-SSSP anyway.
pub(super) const GAIN: f64 = 0.03125;
/// How often a switch may look for another channel while hot channels are relieved: about a tenth of a second. Three times as many
/// bring 2 % less load to grown clusters of 500 switches, and next to nothing elsewhere.
pub(super) const RELIEF_TRIES: u64 = 500_000;
/// On large fabrics, one such look for so many table entries.
pub(super) const RELIEF_SHARE: usize = 8;
/// So many times as many looks where the load of stable tables is to get level: half of all channels are hot then.
pub(super) const LEVELLING: u64 = 12;
/// Share of all routes that may move off the hottest channels of stable tables below the load of P-SSSP. A failed link
/// moves others then. Were each in another block of 64 entries, a tenth of the blocks would change. A fat tree with k = 16
/// and one failed link has little more than half the load for it.
pub(super) const FEW_ROUTES: f64 = 0.1 / 64.0;
/// What a detour counts: it takes bandwidth, and its packets wait longer. A tenth of a percent of the pairs costs one
/// percent.
pub(super) const DETOURS: f64 = 10.0;
/// Share of the bandwidth that tables may lose because they keep to earlier ones, so that most of the way to them is
/// free of credit loops. A detour counts once here: new entries everywhere would cost a running fabric more.
pub(super) const KEPT: f64 = 0.01;
/// What a VL is worth to `classes` and `spread` if it stays idle.
pub(super) const VL: f64 = 0.001;
/// Price of a VL in the search, in shares of the pairs on detours.
pub(super) const VL_PRICE: f64 = 0.0003;

// Tori (`torus/`).

/// The most for detours of one SL around the damage of a torus, as [`STRAIGHTEN_WORK`]: about a second. On 8x8x8 without five
/// links there is one SL for it; tables in dimension order take as long beside.
pub(super) const AROUND_WORK: u64 = 20_000_000;
/// Pairs of switches, over all orders of dimensions that are tried for one SL on a torus: about three seconds. Tori of
/// two or three odd rings are the ones that need more than one order.
pub(super) const COMPARED_PAIRS: usize = 5_000_000;
/// Steps of the trees in all rounds on whole tori that are not large: a tenth of a second. 12x12 has 7 % less load for it. On 8x8x8
/// with four adapters a switch relief brings as much, and further rounds would take half as long again.
pub(super) const STAGGERED_WORK: usize = 1_000_000;

// Rules for stable tables (`stable.rs`).

/// Share of the pairs without a legal minimal path up to which detours will do.
pub(super) const STABLE_BROKEN: f64 = 0.01;
/// Destination switches by which a rule is judged: more would not change a verdict on the measured fabrics.
pub(super) const STABLE_TARGETS: usize = 256;
/// Rounds of a search for labels: fewer than in the search, so that a failed link seldom changes them.
pub(super) const STABLE_LABEL_ROUNDS: usize = 8;
/// Most VLs with labels, as [`ONE_SL_VLS`].
pub(super) const STABLE_LABEL_VLS: u8 = 4;

// One SL or several (`searched.rs`).

/// Of what one SL may lose: up to so much, a damaged grid of [`LONG`] takes several SLs by dimension without a search.
pub(super) const GRID_SUFFICES: f64 = 3.0;
/// Steps of routing to all switches once, from which on a search on a damaged grid takes ten seconds, mostly in vain. On meshes of
/// 9x9x9 to 32x32 it takes three to seven, and half of the time it finds better tables.
pub(super) const LONG: usize = 10_000_000;
/// Candidates that are routed with to compare the results.
pub(super) const COMPARED: usize = 4;
/// The fewest of them, whatever that takes: estimates of two may be close.
pub(super) const LEAST_COMPARED: usize = 2;

/// Steps of routing to all switches once, up to which stricter settings are searched too: that takes up to five times as
/// long, one to two seconds on a damaged mesh of 100 switches. On a random graph of 128 switches of degree 4 it would be five.
pub(super) const SMALL: usize = 50_000;

/// On fabrics that are not small, candidates with so many times the detours that they may have get no plan. So they are not
/// routed with, or not relieved: relief makes some shorter, but not half of them. That saves up to a second on meshes of 400 to
/// 600 switches, and half a second on random graphs of 350. On medium fabrics no search goes on from there.
pub(super) const FAR_BEYOND: f64 = 2.0;

// Paths beyond the rule (`beyond_rule.rs`), in steps: vertices that searches for cycles meet, and turns that change.

/// For detours, in any case: about a tenth of a second. A damaged mesh of 64 switches needs most of it.
pub(super) const STRAIGHTEN_LEAST: u64 = 2_000_000;
/// What each adapter pair adds whose detour has become shortest: where that seldom succeeds, it ends soon. A damaged
/// Dragonfly of 264 switches needs that many.
pub(super) const STRAIGHTEN_EACH: u64 = 4_000;
/// The most for all detours: about half a second. Random graphs of degree 4, where `prefer one-sl` sends a quarter of the pairs
/// on detours, would take longer.
pub(super) const STRAIGHTEN_WORK: u64 = 10_000_000;
/// The most for pairs that a rule of grids leaves without a path, for each switch: one to two seconds on a mesh of 12x12x12 without
/// five links, which needs most of it. Where damage leaves no way, that mostly shows at the first destinations.
pub(super) const COMPLETE_WORK: u64 = 15_000;
/// End ports times channels up to which the load gets level: a look at all takes a few hundredths of a second. Grown
/// clusters of 400 switches would take two seconds, for one percent of the bandwidth.
pub(super) const LEVEL_LOOKS: usize = 12_000_000;
/// The most for the load: about a quarter of a second.
pub(super) const LEVEL_WORK: u64 = 10_000_000;

// The search (`search.rs`).

/// The most VLs for one SL: with four, detours are rare wherever they can be (random graphs, damaged
/// Dragonflies).
pub(super) const ONE_SL_VLS: u8 = 4;
/// Rounds of a search for ranks or labels, and the fewest that are worthwhile.
pub(super) const ROUNDS: usize = 12;
pub(super) const LEAST_ROUNDS: usize = 4;
/// Candidates that are kept for more destinations, round by round.
pub(super) const NARROWED: [usize; 2] = [16, 4];
/// Destinations that say much: if a candidate suffices on them, the search goes to its last round, and of
/// candidates that are equal on them one is enough.
pub(super) const TELLING: usize = 10;
/// Orders that are improved channel by channel.
pub(super) const IMPROVED: usize = 2;
/// Candidates with labels that get the full number of rounds.
pub(super) const FINALISTS: usize = 2;
/// Work of a round of labels, in tries of a rule.
pub(super) const LABEL_WORK: usize = 4;
/// Walks that share the destinations of a large fabric, each by its own load: as many cores have something to do.
pub(super) const WALKS: usize = 4;
/// Steps that a search may always take: some tens of milliseconds.
pub(super) const LEAST_WORK: usize = 10_000_000;
/// The same where plain orders leave pairs without a legal minimal path: a fraction of a second.
pub(super) const LEAST_WORK_IF_HARD: usize = 100_000_000;

// The price of a candidate (`estimate.rs`), in shares of the pairs on detours.

/// Of all bandwidth.
pub(super) const BANDWIDTH_PRICE: f64 = 0.5;
/// Share of the bandwidth whose loss is hardly worth a VL.
pub(super) const BANDWIDTH_FREE: f64 = 0.01;
