//! One SL on a two-dimensional torus: the columns that packets take, by load.

use super::{GridRoutes, HOME, Slot};
use crate::fabric::{ChannelId, EndPort, Fabric, SwitchId};
use crate::ordering::{Datelines, Grid, PathsTo, StaggeredCuts};
use crate::routing::{Hops, adapters_by_switch};
use crate::tables::Lft;

/// Routes around [`StaggeredCuts`]. One adapter port after the other gets the columns that make the sum of the fourth
/// powers of all loads least; later rounds choose again. The fourth power is near the greatest load and still sees the
/// others.
///
/// All LIDs of a port have the same paths.
///
/// - `grid`: of this fabric, and whole.
/// - `hops`: to count detours.
///
/// Cost: O(P S L) time with P end ports, S switches and the longest dimension L, but at most `WORK` steps beyond
/// O(P S).
pub fn staggered_routes(fabric: &Fabric, hops: &Hops, grid: &Grid, cuts: &StaggeredCuts) -> GridRoutes {
    let attached = fabric.endports().iter().filter_map(|end| Some((end, end.attachment?.0)));
    let (adapters, switches): (Vec<_>, Vec<_>) = attached.partition(|(end, _)| end.is_adapter());
    let mut targets: Vec<PathsTo> = adapters
        .iter()
        .chain(&switches)
        .zip(0_usize..)
        .map(|(&(_, to), number)| {
            // Neighbours, and adapters of one switch, in turn.
            let sum: usize = grid.place(to).iter().map(|&position| usize::from(position)).sum();
            cuts.target(grid, to, [0, 1].map(|bit| (sum + number) >> bit & 1 == 0))
        })
        .collect();
    let mut balance = Balance::new(fabric, grid, cuts);
    let trees = WORK / (adapters.len() * fabric.num_switches()).max(1);
    let choices = (trees / PathsTo::QUADRANTS).min(MOST_CHOICES);
    let rounds = trees.checked_div(choices * PathsTo::QUADRANTS).unwrap_or(0).min(MOST_ROUNDS);
    for round in 0..rounds {
        for (target, &(_, to)) in targets.iter_mut().zip(&adapters) {
            if round > 0 {
                balance.grow(target, to);
                balance.change_load(|load, routes| load - routes);
            }
            balance.choose(target, to, hops.row(to), choices);
            balance.grow(target, to);
            balance.change_load(|load, routes| load + routes);
        }
    }
    let mut lft = Lft::new(fabric);
    let mut ports = Ports::new(fabric, grid);
    let mut detours = 0;
    for (target, &(end, to)) in targets.iter().zip(adapters.iter().chain(&switches)) {
        balance.grow(target, to);
        ports.set(&balance, end, &mut lft);
        if end.is_adapter() {
            detours += balance.detours(hops.row(to));
        }
    }
    let adapters = adapters.len() as u64;
    GridRoutes { lft, starts: Vec::new(), detours, pairs: adapters * adapters.saturating_sub(1) }
}

/// Steps of the trees that are compared.
const WORK: usize = 30_000_000;
/// Columns that are compared in a quadrant, and rounds.
const MOST_CHOICES: usize = 12;
const MOST_ROUNDS: usize = 3;

/// Steps from a switch: two in each of two dimensions.
const STEPS: usize = 4;

/// Loads, and the tree of one target.
struct Balance<'a> {
    grid: &'a Grid,
    cuts: &'a StaggeredCuts,
    adapters: Vec<u64>,
    /// By switch and step: the switch that it leads to, and what a route adds to its load: the weight of a channel, over
    /// parallel ones.
    next: Vec<Option<SwitchId>>,
    weights: Vec<f64>,
    /// By switch and step: routes.
    load: Vec<u64>,
    /// By switch: its step, the adapters whose packets it sends, and steps to the target.
    steps: Vec<Slot>,
    flow: Vec<u64>,
    length: Vec<u16>,
    /// By switch: neighbours that send to it.
    pending: Vec<u8>,
    /// The switches, each before the one that it sends to.
    order: Vec<SwitchId>,
}

impl<'a> Balance<'a> {
    fn new(fabric: &Fabric, grid: &'a Grid, cuts: &'a StaggeredCuts) -> Self {
        let n = fabric.num_switches();
        let slots = || fabric.switch_ids().flat_map(|s| (0..STEPS).map(move |step| (s, step as Slot)));
        let weight = |(s, step): (SwitchId, Slot)| {
            let (i, up) = Datelines::dimension_and_direction(step);
            let weights = fabric.weights().by_channel();
            let rates = grid.channels(s, i, up).iter().map(|c| 1.0 / f64::from(weights[c.index()].max(1)));
            1.0 / rates.sum::<f64>()
        };
        let next = |(s, step): (SwitchId, Slot)| {
            let (i, up) = Datelines::dimension_and_direction(step);
            grid.step(fabric, s, i, up)
        };
        Self {
            grid,
            cuts,
            adapters: adapters_by_switch(fabric),
            next: slots().map(next).collect(),
            weights: slots().map(weight).collect(),
            load: vec![0; n * STEPS],
            steps: vec![HOME; n],
            flow: vec![0; n],
            length: vec![0; n],
            pending: vec![0; n],
            order: Vec::with_capacity(n),
        }
    }

    /// The index of the step of a switch; `None` at the target.
    fn slot(&self, s: SwitchId) -> Option<usize> {
        let step = self.steps[s.index()];
        (step != HOME).then_some(s.index() * STEPS + usize::from(step))
    }

    /// Follows the paths of all adapters to a target.
    fn grow(&mut self, target: &PathsTo, to: SwitchId) {
        let n = self.steps.len();
        self.pending.fill(0);
        for s in (0..n).map(SwitchId::at) {
            let step = self.cuts.step(self.grid, target, s);
            self.steps[s.index()] = step.map_or(HOME, |(i, up)| Datelines::sidestep(i, up));
            if let Some(next) = self.slot(s).and_then(|slot| self.next[slot]) {
                self.pending[next.index()] += 1;
            }
        }
        self.order.clear();
        self.order.extend((0..n).map(SwitchId::at).filter(|s| self.pending[s.index()] == 0));
        self.flow.copy_from_slice(&self.adapters);
        self.flow[to.index()] = self.flow[to.index()].saturating_sub(1);
        let mut head = 0;
        while let Some(&s) = self.order.get(head) {
            head += 1;
            let Some(next) = self.slot(s).and_then(|slot| self.next[slot]) else { continue };
            self.flow[next.index()] += self.flow[s.index()];
            self.pending[next.index()] -= 1;
            if self.pending[next.index()] == 0 {
                self.order.push(next);
            }
        }
    }

    /// - `change`: adds the routes of the tree to a load, or takes them away.
    fn change_load(&mut self, change: impl Fn(u64, u64) -> u64) {
        for s in (0..self.steps.len()).map(SwitchId::at) {
            if let Some(slot) = self.slot(s) {
                self.load[slot] = change(self.load[slot], self.flow[s.index()]);
            }
        }
    }

    /// What the tree adds to the sum of the fourth powers of the loads.
    fn price(&self) -> f64 {
        let switches = (0..self.steps.len()).map(SwitchId::at);
        let price = |s: SwitchId| {
            let slot = self.slot(s)?;
            let power = |routes: u64| (routes as f64 * self.weights[slot]).powi(4);
            Some(power(self.load[slot] + self.flow[s.index()]) - power(self.load[slot]))
        };
        switches.filter_map(price).sum()
    }

    /// Takes the best columns, quadrant by quadrant: those with the fewest detours, and of these the best price.
    ///
    /// - `hops`: the distances from the target.
    fn choose(&mut self, target: &mut PathsTo, to: SwitchId, hops: &[u8], most: usize) {
        for quadrant in 0..PathsTo::QUADRANTS {
            let choices = self.cuts.choices(target, quadrant);
            let every = choices.clone().count().div_ceil(most).max(1);
            let mut best = (u64::MAX, f64::INFINITY, target.columns(quadrant));
            for columns in choices.step_by(every) {
                target.choose(quadrant, columns);
                self.grow(target, to);
                let (detours, price) = (self.detours(hops), self.price());
                if (detours, price) < (best.0, best.1) {
                    best = (detours, price, columns);
                }
            }
            target.choose(quadrant, best.2);
        }
    }

    /// Sources whose paths are longer than they need be, times their adapters.
    ///
    /// - `hops`: the distances from the target.
    fn detours(&mut self, hops: &[u8]) -> u64 {
        let mut detours = 0;
        for i in (0..self.order.len()).rev() {
            let s = self.order[i];
            let next = self.slot(s).and_then(|slot| self.next[slot]);
            self.length[s.index()] = next.map_or(0, |next| self.length[next.index()] + 1);
            if self.length[s.index()] > u16::from(hops[s.index()]) {
                detours += self.adapters[s.index()];
            }
        }
        detours
    }
}

/// Ports of the tables. Of parallel links each target takes the one with the least load.
struct Ports<'a> {
    fabric: &'a Fabric,
    grid: &'a Grid,
    /// By channel: routes times weight.
    load: Vec<u64>,
}

impl<'a> Ports<'a> {
    fn new(fabric: &'a Fabric, grid: &'a Grid) -> Self {
        Self { fabric, grid, load: vec![0; fabric.channels().len()] }
    }

    fn set(&mut self, balance: &Balance, end: &EndPort, lft: &mut Lft) {
        let Some((home, home_port)) = end.attachment else { return };
        let mut column = vec![Lft::NO_PATH; balance.steps.len()];
        column[home.index()] = home_port.0;
        for s in self.fabric.switch_ids() {
            let step = balance.steps[s.index()];
            if step == HOME {
                continue;
            }
            let (i, up) = Datelines::dimension_and_direction(step);
            let with = |c: &ChannelId| {
                let weight = u64::from(self.fabric.weights().by_channel()[c.index()]);
                let routes = if end.is_adapter() { balance.flow[s.index()] } else { 0 };
                self.load[c.index()] + weight * routes
            };
            let Some(&channel) = self.grid.channels(s, i, up).iter().min_by_key(|&c| with(c)) else {
                continue;
            };
            self.load[channel.index()] = with(&channel);
            column[s.index()] = self.fabric.channels().get(channel).out_port.0;
        }
        for lid in end.lids() {
            lft.to_mut(lid).copy_from_slice(&column);
        }
    }
}
