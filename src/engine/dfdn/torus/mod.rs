//! Tori and damaged grids: dimension order on two VLs, with an SL for each set of datelines; or one SL.

mod one_sl;

use super::beyond_rule::is_small_enough;
use super::build::{ONE_SL_SUFFICES, detours_in_words, lanes_in_words, layered_plan};
use super::estimate::Budget;
use super::keepable::Keepable;
use super::objective::{Figures, Objective};
use super::several::several_sls_plainly;
use super::tuning::VL;
use super::{Priced, anew, as_good, limit};
use crate::engine::plan::{Plan, center};
use crate::engine::{Balance, Lineage, Prefer, Settings, Task};
use crate::evaluate::largest_load;
use crate::fabric::ChannelId;
use crate::lanes::{LaneLimits, Lanes, datelines, labelled};
use crate::multicast::{given_tree, grid_trees};
use crate::ordering::{Datelines, Grid, Rank, Tree, up_down_rank};
use crate::routing::{FirstOrder, GridRoutes, LabelledGrid, LabelledRoutes, LabelledSettings, grid_routes};

/// The longest ring on which one VL suffices for all shortest paths.
const SHORT_RING: usize = 4;
/// The longest ring on which the search finds one SL and two VLs for all shortest paths, if no other ring is long. Its
/// tables have a rule that layers and later tables keep to.
const ONE_SL_RING: usize = 6;
/// How many channels of the third VL a new entry for an SL is worth on damaged tori. With 0, 8x8x8 with 5 % of its links
/// down takes 15 SLs instead of 14, and has three times the detours.
const ENTRY: usize = 4;

/// A torus with long rings, or another grid.
struct Torus<'a> {
    task: Task<'a>,
    grid: Grid,
    lines: Datelines,
}

/// Tables for a torus, and the share of the adapter pairs on detours.
struct Candidate {
    plan: Plan,
    sls: u8,
    detours: f64,
    /// Whether all paths are in dimension order.
    in_order: bool,
}

/// Tables for tori with long rings; `None` where the fabric is no such torus, or VLs or SLs do not suffice. A failed link
/// changes few of them, so they serve `balance stable` too.
///
/// On whole tori all paths are shortest, on two VLs, with two SLs for each dimension of rings above six; or all pairs
/// have [one SL](one_sl), with few detours: on one VL more than there are dimensions, where all paths count as one. They do
/// where so many SLs are not to be had, and on tori that are not large where that is worth giving up tables that last.
///
/// On damaged ones, and where dimension order is [not even](Torus::is_even), the [objective](Objective) decides among those that
/// [serve](Torus::around_damage). With `balance stable` those that do not last have to [outdo](Priced::outdoes) the others.
///
/// - `objective`: of the task, where it is known already.
///
/// Cost: that of [`LabelledGrid`]; an [`Objective`], a search for multicast trees, and that of the other candidates where
/// links are missing.
pub(super) fn torus_plan<'a>(task: Task<'a>, objective: Option<Objective<'a>>) -> Option<Priced> {
    let torus = Torus::find(task)?;
    let objective = || objective.unwrap_or_else(|| Objective::new(task));
    if !torus.is_even() {
        return torus.around_damage(&objective());
    }
    if torus.is_to_have_one_sl() {
        return torus.one_sl(&objective(), false);
    }
    let in_order = torus.around_broken_rings().and_then(|routes| torus.in_order(routes));
    let in_order = in_order.filter(|in_order| in_order.suffices(task))?;
    let one_sl = || {
        let objective = objective();
        let price = in_order.price(&objective)?;
        let is_better = |one_sl: &Priced| match task.settings.balance {
            Balance::Full => one_sl.price < price,
            Balance::Auto | Balance::Stable => one_sl.outdoes(price, in_order.detours),
        };
        torus
            .one_sl(&objective, false)
            .filter(|one_sl| one_sl.detours <= limit(task.settings) && is_better(one_sl))
    };
    let one_sl = torus.may_have_one_sl().then(one_sl).flatten();
    Some(one_sl.unwrap_or_else(|| in_order.free()))
}

/// Tables for other damaged grids: hypercubes, meshes, tori with short rings. Paths begin on a third VL and go on in
/// dimension order. `None` where the fabric is no such grid, or VLs or SLs do not suffice.
///
/// Cost: as [`torus_plan`] without the search.
pub(super) fn damaged_grid_plan<'a>(task: Task<'a>, objective: Option<Objective<'a>>) -> Option<Priced> {
    let grid = Grid::find(task.fabric).filter(|grid| !grid.is_whole())?;
    let objective = objective.unwrap_or_else(|| Objective::new(task));
    Torus::new(task, grid).best(&objective).filter(|best| best.plan.serves_multicast())
}

/// Tables in dimension order, where packets go around a broken ring the other way. They share SLs, rows and most paths
/// with those of the whole torus, so the way there is short. `None` where some ring is in parts.
///
/// - `objective`: of the task, to tell what they are worth; `None` where they are taken anyway.
///
/// Cost: that of [`grid_routes`]; a search for multicast trees where links are missing.
pub(super) fn torus_in_order(task: Task<'_>, objective: Option<Objective<'_>>) -> Option<Priced> {
    let torus = Torus::find(task)?;
    let candidate = torus.in_order(torus.around_broken_rings()?)?;
    let found = candidate.suffices(task).then_some(candidate)?;
    let mut priced = match objective {
        Some(objective) => found.priced(&objective)?,
        None => found.free(),
    };
    priced.plan.lineage = Lineage::Kept;
    Some(priced)
}

/// Tables in dimension order but for paths that would be hot, which begin on a third VL. Most paths are those of the whole torus,
/// and the baseline stays, so the ways there and back are short. `None` where VLs or SLs do not suffice.
///
/// Cost: as [`damaged_grid_plan`].
pub(super) fn cooler_torus<'a>(task: Task<'a>, objective: Objective<'a>) -> Option<Priced> {
    let mut cooler = Torus::find(task)?.best(&objective).filter(|best| best.plan.serves_multicast())?;
    cooler.plan.lineage = Lineage::Kept;
    Some(cooler)
}

/// On some damaged grids: the limits with at most three VLs, and whether one SL within these is enough whatever it costs.
///
/// A search for labels seldom has fewer detours on four. On tori without long rings it is enough. Of other grids, small ones are
/// [searched for less](super::search::with_stricter) anyway, and large ones would be searched twice for too long. Stable
/// tables seldom cost so little that there is no second search.
pub(super) fn fewer_vls(task: Task<'_>) -> Option<(LaneLimits, bool)> {
    let limits = LaneLimits { vls: LabelledRoutes::VLS, ..task.limits };
    let grid = (task.limits.vls > limits.vls).then(|| Grid::find(task.fabric)).flatten()?;
    // A ring of four counts as two paths of two.
    let is_torus = grid.dimensions().iter().all(|d| d.ring || d.length == 2);
    let is_medium = Budget::searches_are_cheap(task.fabric) && !Budget::is_small(task.fabric);
    let is_tried = is_torus || is_medium && task.settings.balance != Balance::Stable;
    (is_tried && !grid.is_whole()).then_some((limits, is_torus))
}

impl Candidate {
    /// Whether the settings allow it.
    fn suffices(&self, task: Task<'_>) -> bool {
        let allowed = match task.settings.prefer {
            Prefer::Minimal => 0.0,
            _ => task.settings.max_nonminimal.unwrap_or(1.0),
        };
        self.detours <= allowed && (task.settings.prefer != Prefer::OneSl || self.sls == 1)
    }

    /// Taken whatever it costs. Later tables may keep to it.
    fn free(mut self) -> Priced {
        let keepable = Keepable::by_plan(&self.plan, self.sls, self.detours, None);
        let keepable = Keepable { in_order: self.in_order, ..keepable };
        self.plan.lineage = Lineage::First(Box::new(keepable));
        Priced::free(self.plan)
    }

    /// What the tables come to. `None` where paths are not complete.
    fn figures(&self, objective: &Objective<'_>) -> Option<Figures> {
        Figures::of_tables(objective.task.fabric, &self.plan.lft, self.detours)
    }

    /// The price by the objective. `None` where paths are not complete.
    fn price(&self, objective: &Objective<'_>) -> Option<f64> {
        let measured = objective.reference.compare(&self.figures(objective)?);
        Some(objective.price(&measured, self.plan.vls, self.sls))
    }

    /// Later tables may keep to these. `None` where paths are not complete.
    fn priced(self, objective: &Objective<'_>) -> Option<Priced> {
        let figures = self.figures(objective)?;
        let measured = objective.reference.compare(&figures);
        let mut priced = Priced::new(self.plan, self.sls, objective, &measured);
        let keepable = Keepable::of(objective, &priced, None, self.sls, figures.load);
        priced.plan.lineage = Lineage::First(Box::new(Keepable { in_order: self.in_order, ..keepable }));
        Some(priced)
    }
}

impl<'a> Torus<'a> {
    fn find(task: Task<'a>) -> Option<Self> {
        let grid = Grid::find(task.fabric)?;
        let rings = || grid.dimensions().iter().filter(|dimension| dimension.ring);
        let mut long = rings().map(|ring| ring.length).filter(|&length| length > SHORT_RING);
        let (longest, others) = (long.next()?, long.next());
        if longest <= ONE_SL_RING && others.is_none() {
            return None;
        }
        Some(Self::new(task, grid))
    }

    fn new(task: Task<'a>, grid: Grid) -> Self {
        let lines = Datelines::new(task.fabric, &grid);
        Self { task, grid, lines }
    }

    /// Whether the load of dimension order is even: nothing is missing, all steps in a dimension have the same links, and all
    /// switches as many adapters of one role. On large tori adapters do not count: a tenth of the load takes ten times as long.
    fn is_even(&self) -> bool {
        let fabric = self.task.fabric;
        let mut adapters = fabric.switch_ids().map(|s| fabric.num_adapters_on(s));
        let each = adapters.next();
        let has_even_ends = adapters.all(|n| Some(n) == each) && !fabric.has_duties();
        let is_even = self.grid.is_whole() && self.grid.has_even_steps(fabric);
        is_even && (has_even_ends || !self.is_soon_known())
    }

    /// Paths in dimension order.
    ///
    /// - `sidesteps`: where a ring is in parts, paths may begin with a step to a neighbour.
    fn route(&self, sidesteps: bool) -> GridRoutes {
        let Task { fabric, hops, .. } = self.task;
        grid_routes(fabric, hops, &self.grid, &self.lines, center(fabric, hops), sidesteps)
    }

    /// All paths in dimension order: packets go around a broken ring the other way. `None` where that does not suffice.
    fn around_broken_rings(&self) -> Option<GridRoutes> {
        let routes = (!self.grid.has_ring_in_parts()).then(|| self.route(false))?;
        routes.starts.is_empty().then_some(routes)
    }

    /// Tables for a damaged torus. Those in dimension order last: around broken rings, on two VLs, or after first channels on a
    /// third VL. [One SL](Self::one_sl) around the damage and [further](Self::further) ones do not.
    fn around_damage(&self, objective: &Objective<'a>) -> Option<Priced> {
        let Task { fabric, settings, .. } = self.task;
        let is_cheap = Budget::searches_are_cheap(fabric);
        let is_wanted = match settings.prefer {
            Prefer::Default => is_cheap || self.grid.is_whole() && self.is_soon_known(),
            Prefer::OneSl => is_small_enough(fabric),
            Prefer::Minimal => false,
        };
        let around_cuts = |may_yield| is_wanted.then(|| self.one_sl(objective, may_yield)).flatten();
        let may_yield = settings.prefer == Prefer::Default;
        let (in_order, around) = rayon::join(|| self.best(objective), || around_cuts(may_yield));
        let has_yielded_to_none = may_yield && in_order.is_none();
        let around_cuts = around.or_else(|| has_yielded_to_none.then(|| around_cuts(false)).flatten());
        let serves = |found: &Priced| found.plan.serves_multicast() && found.detours <= limit(settings);
        let around_cuts = around_cuts.filter(serves);
        let so_far: Vec<&Priced> = in_order.iter().chain(&around_cuts).collect();
        let further = if is_cheap { self.further(objective, &so_far) } else { Vec::new() };
        let others = around_cuts.into_iter().chain(further.into_iter().filter(serves));
        let other = others.min_by(|a, b| a.price.total_cmp(&b.price));
        let Some(in_order) = in_order else { return other };
        let is_better = |other: &Priced| match settings.balance {
            Balance::Stable => other.outdoes(in_order.price, in_order.detours),
            Balance::Auto | Balance::Full => other.price < in_order.price,
        };
        Some(other.filter(is_better).unwrap_or(in_order))
    }

    /// Further tables on tori that are not large. Several SLs follow [plain orders](several_sls_plainly) on small tori, and on others
    /// where the tables so far lose much. One SL is searched for on small tori, where there are no tables so far, and where there is
    /// something to gain and no ring is so long that one SL must take detours. Where all these lose much, too, there is [P-SSSP in
    /// layers](layered_plan).
    ///
    /// - `so_far`: the tables that there are.
    fn further(&self, objective: &Objective<'_>, so_far: &[&Priced]) -> Vec<Priced> {
        let Task { fabric, settings, .. } = self.task;
        let (is_small, is_alone) = (Budget::is_small(fabric), so_far.is_empty());
        let leave_nothing = so_far.iter().any(|had| had.price <= as_good() + VL);
        if is_small && leave_nothing {
            return Vec::new();
        }
        let is_good = |found: &Priced| found.is_nearly_as_good_with_several(settings);
        let lose_much = !so_far.iter().any(|had| is_good(had));
        let several_may_win = settings.prefer != Prefer::OneSl && (is_small || lose_much);
        let plainly = several_may_win.then(|| several_sls_plainly(objective)).flatten();
        let is_searched = is_small || is_alone || !leave_nothing && self.inevitable_detours() == 0.0;
        let searching = Objective { one_sl_alone: plainly.is_some() || !is_small, ..*objective };
        let searched = is_searched.then(|| self.searched(&searching, is_alone)).flatten();
        let mut found: Vec<Priced> = plainly.into_iter().chain(searched).collect();
        if several_may_win && lose_much && !found.iter().any(is_good) {
            found.extend(layered_plan(objective));
        }
        found
    }

    /// Tables of the search on at most three VLs.
    ///
    /// - `is_alone`: whether nothing else serves. Then detours beyond the limit may become shortest still.
    fn searched(&self, objective: &Objective<'_>, is_alone: bool) -> Option<Priced> {
        let Task { settings, limits, .. } = self.task;
        let within = objective.within(LaneLimits { vls: limits.vls.min(LabelledRoutes::VLS), ..limits });
        let freely = Settings { prefer: Prefer::OneSl, max_nonminimal: None, ..settings.clone() };
        let is_free = is_alone && settings.prefer == Prefer::Default;
        let task = Task { settings: if is_free { &freely } else { settings }, ..within.task };
        anew(task, Some(Objective { task, ..within })).ok()
    }

    /// The best tables that the settings allow, if possible with a multicast tree for groups without configuration.
    fn best(&self, objective: &Objective<'_>) -> Option<Priced> {
        let found = self.candidates(objective.reference.load).into_iter();
        let priced =
            found.filter(|found| found.suffices(self.task)).filter_map(|found| found.priced(objective));
        let without_tree = |priced: &Priced| !priced.plan.serves_multicast();
        priced.min_by(|a, b| without_tree(a).cmp(&without_tree(b)).then(a.price.total_cmp(&b.price)))
    }

    /// Tables for a damaged grid that may be had.
    ///
    /// - `load`: the largest one that is wanted.
    fn candidates(&self, load: u64) -> Vec<Candidate> {
        let limits = self.task.limits;
        let mut found = Vec::new();
        found.extend(self.around_broken_rings().and_then(|routes| self.in_order(routes)));
        if limits.vls < LabelledRoutes::VLS {
            return found;
        }
        let paths = LabelledGrid::new(self.task.fabric, self.task.hops, &self.grid, &self.lines);
        let all = self.labelled(&paths, limits.sls, load);
        if self.lines.sls() == 1 && all.first().is_some_and(|all| all.sls > 1) {
            found.extend(self.labelled(&paths, 1, load));
        }
        found.extend(all);
        if found.is_empty() {
            found.extend(self.in_order(self.route(true)));
        }
        found
    }

    /// Paths that start on a third VL as they need it. Where some pair fits into no SL, where no multicast tree is found among
    /// the paths, or where these exceed the load, SL 0 is kept for such pairs and for a tree. Two trees are tried. There may be a
    /// candidate for each if pairs have SL 0 beside the first tree.
    ///
    /// - `limit`: SLs that may be used.
    /// - `load`: the largest one that is wanted.
    fn labelled(&self, paths: &LabelledGrid<'_>, limit: u8, load: u64) -> Vec<Candidate> {
        let Task { fabric, hops, .. } = self.task;
        let is_crowded = paths.is_crowded(limit);
        let route = |first: FirstOrder<'_>, entry: usize, goal: u64| {
            let enough = usize::from(limit) >= self.lines.sls() + usize::from(first.keeps_one());
            let settings = LabelledSettings { sls: limit, first, entry, goal };
            enough.then(|| paths.route(settings)).flatten()
        };
        let mut found: Vec<Candidate> = Vec::new();
        if !is_crowded {
            let growing = |entry, goal| move || route(FirstOrder::Growing, entry, goal);
            let free = growing(ENTRY, load)().or_else(|| {
                let (cooler, hotter) = rayon::join(growing(0, load), growing(ENTRY, u64::MAX));
                cooler.or(hotter).or_else(growing(0, u64::MAX))
            });
            let free = free.map(|routes| self.with_lanes(routes, None));
            found.extend(free.filter(|free| free.plan.serves_multicast()));
            let is_cool =
                |free: &Candidate| largest_load(fabric, &free.plan.lft).is_ok_and(|most| most <= load);
            if found.first().is_some_and(is_cool) {
                return found;
            }
        }
        // Nothing is moved where too many pairs fit into no SL already.
        let load = if is_crowded { u64::MAX } else { load };
        let around_tree = || {
            let root = center(fabric, hops);
            let tree = Tree::new(fabric, &up_down_rank(fabric, root), root).channels_down(fabric);
            let routes =
                (!is_crowded).then(|| route(FirstOrder::AroundTree(&tree), ENTRY, load)).flatten()?;
            let is_tight = routes.sls.contains(&0);
            Some((self.with_lanes(routes, Some(&tree)), is_tight))
        };
        let up_down = || {
            let position = self.grid.from_corner(fabric);
            let routes = route(FirstOrder::UpDown(&Rank::up_down(fabric, &position)), ENTRY, load)?;
            let tree = Tree::up_down(fabric, &position).channels_down(fabric);
            Some(self.with_lanes(routes, Some(&tree)))
        };
        let (around_tree, up_down) = rayon::join(around_tree, up_down);
        let is_tight = around_tree.as_ref().is_none_or(|(_, is_tight)| *is_tight);
        found.extend(around_tree.map(|(beside, _)| beside));
        found.extend(up_down.filter(|_| is_tight));
        found
    }

    /// - `tree`: the channels away from the root of a tree for multicast; `None`: a tree is looked for.
    fn with_lanes(&self, routes: LabelledRoutes, tree: Option<&[ChannelId]>) -> Candidate {
        let Task { fabric, hops, limits, .. } = self.task;
        let detours = routes.detours as f64 / routes.pairs.max(1) as f64;
        let size = (LabelledRoutes::VLS, routes.first + routes.used);
        let vl = |sl, s, before, step| routes.vl(sl, s, before, step);
        let pairs = routes.sls.clone();
        let lanes = labelled(fabric, &self.grid, &self.lines, vl, pairs, size, limits);
        let sls = lanes.sls;
        let mut remarks = vec![self.in_words((routes.used, lanes.vls), detours, self.dimension_order())];
        remarks.push(whose_sl(sls).to_owned());
        let why = if self.grid.is_whole() { "the load is uneven" } else { "links or switches are missing" };
        remarks.push(format!("{why}: a VL of its own takes the first channels of all paths"));
        if routes.first > 0 {
            let own = if routes.sls.contains(&0) { "and for paths on that VL" } else { "alone" };
            remarks.push(format!("SL 0 is for multicast {own}, paths have SLs 1 to {}", routes.used));
        }
        let mut plan = Plan::without_trees(routes.lft, lanes, remarks);
        plan.trees = tree.map(|tree| given_tree(fabric, tree, 1));
        if plan.trees.is_none() {
            plan.find_any_trees(fabric, hops);
        }
        Candidate { plan, sls, detours, in_order: false }
    }

    /// Paths in dimension order, or after a first channel on a third VL. Paths that escape have an SL of their own.
    fn in_order(&self, routes: GridRoutes) -> Option<Candidate> {
        let Task { fabric, hops, limits, .. } = self.task;
        let (grid, lines) = (&self.grid, &self.lines);
        let detours = routes.detours as f64 / routes.pairs.max(1) as f64;
        let lanes = |escape_first| datelines(fabric, grid, lines, &routes.starts, escape_first, limits).ok();
        let own = lanes(false)?;
        let sls = own.sls;
        let mut remarks = vec![self.in_words((sls, own.vls), detours, self.dimension_order())];
        remarks.push(whose_sl(sls).to_owned());
        remarks.extend(starts_in_words(&routes));
        let in_order = routes.starts.is_empty();
        let mut plan = Plan::without_trees(routes.lft, own, remarks);
        plan.trees = grid_trees(fabric, grid, lines);
        if plan.trees.is_none() {
            plan.find_any_trees(fabric, hops);
        }
        if !plan.serves_multicast() {
            // Groups have SL 0 by default. The tree of up*/down* is legal among the paths that obey it.
            let root = center(fabric, hops);
            Lanes { sl2vl: plan.sl2vl, path_sl: plan.path_sl, vls: plan.vls, .. } = lanes(true)?;
            let tree = Tree::new(fabric, &up_down_rank(fabric, root), root);
            plan.trees = Some(given_tree(fabric, &tree.channels_down(fabric), 1));
        }
        Some(Candidate { plan, sls, detours, in_order })
    }

    /// What an administrator should know of the tables.
    ///
    /// - `how`: why there is no credit loop.
    fn in_words(&self, (sls, vls): (u8, u8), detours: f64, how: &str) -> String {
        let lengths: Vec<String> = self
            .grid
            .dimensions()
            .iter()
            .map(|dimension| {
                format!("{} of {}", if dimension.ring { "rings" } else { "paths" }, dimension.length)
            })
            .collect();
        let (lanes, detours) = (lanes_in_words(sls, vls), detours_in_words(detours));
        format!("{lanes}, {detours}: {how} ({})", lengths.join(", "))
    }

    fn dimension_order(&self) -> &'static str {
        match self.lines.sls() {
            1 => "dimension order",
            _ => "dimension order, and the SL says which datelines the path crosses",
        }
    }
}

/// What hosts have to know of so many SLs.
fn whose_sl(sls: u8) -> &'static str {
    if sls > 1 { "hosts must use the SL of the PathRecord" } else { ONE_SL_SUFFICES }
}

/// How the paths start that are not in dimension order.
fn starts_in_words(routes: &GridRoutes) -> Option<String> {
    if routes.starts.is_empty() {
        return None;
    }
    let all = (routes.starts.len() as f64).sqrt();
    let share = |escapes: bool| {
        let is = |&&start: &&u8| start != Datelines::IN_ORDER && (start == Datelines::ESCAPES) == escapes;
        100.0 * routes.starts.iter().filter(is).count() as f64 / (all * (all - 1.0))
    };
    Some(format!(
        "links or switches are missing: {:.2} % of the switch pairs take a step before dimension order, and {:.2} % obey \
         up*/down*, on a VL of their own",
        share(false),
        share(true)
    ))
}
