//! Tori on one SL, with detours around the cuts of the rings.

use super::Torus;
use crate::engine::dfdn::beyond_rule::{complete_work, for_detours, is_small_enough, trees_beside};
use crate::engine::dfdn::build::{Multicast, one_sl_lanes, plan};
use crate::engine::dfdn::candidates::BalanceBy;
use crate::engine::dfdn::estimate::Budget;
use crate::engine::dfdn::objective::{Measured, Objective};
use crate::engine::dfdn::tuning::{
    AROUND_WORK, COMPARED_PAIRS, DETOURS, ONE_SL_VLS, STABLE_LOST, STAGGERED_WORK,
};
use crate::engine::dfdn::{Priced, limit};
use crate::engine::{Balance, Prefer, Task};
use crate::multicast::{McastTrees, staggered_tree};
use crate::ordering::{Rule, StaggeredCuts, inevitable_detours};
use crate::routing::{
    Ascent, Effort, Forwarding, Lookahead, NoLegalPath, complete, ranked_sssp, refit, staggered_routes,
};
use crate::tables::Lft;

impl<'a> Torus<'a> {
    /// Whether all pairs are to have one SL, although dimension order would take several.
    pub(super) fn is_to_have_one_sl(&self) -> bool {
        let Task { settings, limits, .. } = self.task;
        self.lines.sls() > 1
            && match settings.prefer {
                Prefer::OneSl => true,
                Prefer::Default => usize::from(limits.sls) < self.lines.sls(),
                Prefer::Minimal => limits.sls == 1,
            }
    }

    /// Whether one SL may come instead of tables in dimension order on a whole torus: where several are not asked for, and it
    /// is soon known what it costs.
    pub(super) fn may_have_one_sl(&self) -> bool {
        let settings = self.task.settings;
        let is_wanted = settings.prefer == Prefer::Default && settings.balance != Balance::Stable;
        self.lines.sls() > 1 && is_wanted && self.is_soon_known()
    }

    /// Whether it is soon known what one SL costs on a whole torus. Parallel links take no longer than single ones.
    pub(super) fn is_soon_known(&self) -> bool {
        let switches = self.task.fabric.num_switches();
        Budget::would_be_cheap(switches, switches * 2 * self.grid.dimensions().len())
    }

    /// One SL, with detours around the cuts of the rings. Orders of the dimensions are tried until one takes no more
    /// detours than it must; the one with the fewest is taken, then that with the least load. On large tori only the first
    /// one is tried. Later tables may keep to these. Where several SLs may come instead, as many VLs may be used as by any
    /// other rule with one SL.
    ///
    /// `None` where too many pairs take detours, VLs do not suffice, or some switch finds no path around the damage. On a damaged
    /// torus that is not small it is known early if several SLs come instead: more pairs take detours by the rule alone than
    /// may in the end.
    ///
    /// - `may_yield`: whether several SLs may come instead. They do not on whole tori.
    ///
    /// Cost: that of [`staggered_routes`] on a whole torus and of [`ranked_sssp`] on a damaged one, for each order; then of
    /// [`complete`] on a damaged one, and of [`refit`].
    pub(super) fn one_sl(&self, objective: &Objective<'a>, may_yield: bool) -> Option<Priced> {
        let Task { fabric, hops, settings, limits, .. } = self.task;
        let most = (COMPARED_PAIRS / fabric.num_switches().pow(2)).max(1);
        let least = self.inevitable_detours();
        let vls = if self.is_to_have_one_sl() { limits.vls } else { limits.vls.min(ONE_SL_VLS) };
        let mut found: Vec<(Forwarding, StaggeredCuts, Rule)> = Vec::new();
        for cuts in StaggeredCuts::find(&self.grid, vls).into_iter().take(most) {
            let rule = cuts.rule(fabric, &self.grid);
            let Some(routes) = self.around_cuts(&cuts, &rule) else { continue };
            let enough = routes.nonminimal_share() <= least;
            found.push((routes, cuts, rule));
            if enough {
                break;
            }
        }
        let best = found.into_iter().min_by_key(|(routes, ..)| (routes.detours, routes.largest_load()));
        let (routes, cuts, rule) = best?;
        let may_yield = may_yield && !self.grid.is_whole();
        if may_yield && !Budget::is_small(fabric) && routes.nonminimal_share() > limit(settings) {
            return None;
        }
        let (rule, mut routes, trees) = self.completed(&cuts, rule, routes)?;
        let measured = objective.relieve(&rule, BalanceBy::Load, &mut routes);
        let (rule, trees) = match trees {
            Some(trees) => (rule, trees),
            None => self.with_trees(rule, &cuts, &routes.lft),
        };
        let plain = self.with_one_sl(objective, (routes.clone(), measured), &rule, &trees);
        let straight = || {
            let Rule::Ordered { order, labels } = &rule else { return None };
            let ascent = Ascent { order, labels, vls: rule.vls(), trees: &trees.trees };
            // With more, several SLs that lose next to nothing cost less.
            let most_bent = if may_yield { (settings.max_loss + STABLE_LOST) / DETOURS } else { 1.0 };
            let effort = Effort { most_bent, ..self.effort() };
            let rule = refit(fabric, hops, ascent, effort, &mut routes)?;
            let measured = objective.measure(&routes);
            Some(self.with_one_sl(objective, (routes, measured), &rule, &trees))
        };
        let has_more = plain.detours > least && is_small_enough(fabric);
        let straight = has_more.then(straight).flatten().filter(|straight| straight.price < plain.price);
        let best = straight.unwrap_or(plain);
        (best.detours <= settings.max_nonminimal.unwrap_or(1.0)).then_some(best)
    }

    /// The share of the adapter pairs that take detours with one SL, at least.
    pub(super) fn inevitable_detours(&self) -> f64 {
        let fabric = self.task.fabric;
        let each = fabric.switch_ids().map(|s| fabric.num_adapters_on(s)).min().unwrap_or(0);
        let all = fabric.adapters().count();
        let pairs = (all * all.saturating_sub(1)).max(1);
        (inevitable_detours(fabric, &self.grid) * each * each) as f64 / pairs as f64
    }

    /// Paths around cuts. On a damaged torus they obey the same rule as far as that goes, with detours where it does not.
    ///
    /// - `rule`: that of the cuts.
    fn around_cuts(&self, cuts: &StaggeredCuts, rule: &Rule) -> Option<Forwarding> {
        let Task { fabric, hops, .. } = self.task;
        if self.grid.is_whole() {
            // Where there is time to move routes off all hot channels, choosing again brings little.
            let work = if self.is_soon_known() { STAGGERED_WORK } else { usize::MAX };
            return staggered_routes(fabric, &self.grid, cuts, work);
        }
        let routes = ranked_sssp(fabric, hops, rule, Lookahead::Every, NoLegalPath::Detour(None));
        routes.complete.then_some(routes)
    }

    /// Paths around cuts on a damaged torus, those that the rule does not allow [beyond](complete) it, with multicast trees.
    /// `None` where there is no tree beside those that the rule allows: there seldom is one beside more paths, and it takes long to
    /// look for it.
    ///
    /// - `plain`: paths with detours. They stay, without trees, on whole and on large tori, where some switch finds no path, and where
    ///   there are no fewer detours.
    fn completed(
        &self,
        cuts: &StaggeredCuts,
        rule: Rule,
        plain: Forwarding,
    ) -> Option<(Rule, Forwarding, Option<McastTrees>)> {
        let Task { fabric, hops, .. } = self.task;
        if self.grid.is_whole() || !is_small_enough(fabric) {
            return Some((rule, plain, None));
        }
        let broken = ranked_sssp(fabric, hops, &rule, Lookahead::Every, NoLegalPath::Break);
        let (around, trees) = self.with_trees(rule.clone(), cuts, &broken.legal());
        let Rule::Ordered { order, labels } = &around else { return None };
        if !trees.serve_default() {
            return None;
        }
        let ascent = Ascent { order, labels, vls: around.vls(), trees: &trees.trees };
        let completed = complete(fabric, hops, ascent, complete_work(fabric), &broken);
        Some(match completed.filter(|(_, completed)| completed.detours < plain.detours) {
            Some((rule, completed)) => (rule, completed, Some(trees)),
            None => (rule, plain, None),
        })
    }

    /// Multicast trees beside paths around cuts, and the rule with what they change of it: on a damaged torus, turns that no
    /// path takes may get another VL.
    fn with_trees(&self, rule: Rule, cuts: &StaggeredCuts, lft: &Lft) -> (Rule, McastTrees) {
        if self.grid.is_whole() {
            return (rule, staggered_tree(self.task.fabric, &self.grid, cuts));
        }
        let (labels, trees) = trees_beside(self.task, &rule, lft, None);
        let Rule::Ordered { order, .. } = rule else { unreachable!("cuts have an order") };
        (Rule::Ordered { order, labels }, trees)
    }

    /// Around damage, detours seldom become shortest at first.
    fn effort(&self) -> Effort {
        match self.grid.is_whole() {
            true => for_detours(),
            false => Effort { detours: AROUND_WORK, most: AROUND_WORK, ..for_detours() },
        }
    }

    /// A plan for tables with one SL, to which later ones may keep.
    ///
    /// - `rule`: of the tables.
    fn with_one_sl(
        &self,
        objective: &Objective<'a>,
        (routes, measured): (Forwarding, Measured),
        rule: &Rule,
        trees: &McastTrees,
    ) -> Priced {
        let Task { fabric, limits, .. } = self.task;
        let largest = routes.largest_load();
        let how = "no path takes the three steps of a ring's cut";
        let remark = self.in_words((1, rule.vls()), routes.nonminimal_share(), how);
        let lanes = one_sl_lanes(fabric, rule, limits);
        let multicast = Multicast::Given(trees.clone());
        let tables = (routes.lft, measured, largest);
        let priced = plan(objective, tables, lanes, multicast, remark, Vec::new());
        priced.keepable(objective, None, 1, largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Settings;
    use crate::engine::dfdn::tests::with_task;
    use crate::ordering::Grid;
    use crate::topology::{self, fail_links};

    #[test]
    fn paths_beyond_the_rule_of_the_cuts_leave_fewer_detours() {
        for (dims, failed) in [(vec![8, 8, 4], 2), (vec![7, 7, 7], 3)] {
            let whole = topology::Torus { dims, cas: 1 }.build().unwrap();
            let f = fail_links(&whole, failed, 1).unwrap();
            let check = |task: Task<'_>| {
                let torus = Torus::new(task, Grid::find(&f).unwrap());
                let cuts = StaggeredCuts::find(&torus.grid, ONE_SL_VLS).remove(0);
                let rule = cuts.rule(&f, &torus.grid);
                let under_rule = torus.around_cuts(&cuts, &rule).unwrap();
                let many = under_rule.detours;
                let (_, beyond, trees) = torus.completed(&cuts, rule, under_rule).unwrap();
                assert!(trees.unwrap().serve_default() && beyond.complete);
                let few = beyond.detours;
                assert!(5 * few < 4 * many, "{few} of {many}");
            };
            with_task(&f, &Settings::default(), check).unwrap();
        }
    }
}
