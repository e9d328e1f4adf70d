//! The traffic of each role for itself: among compute nodes, and between them and storage.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

use super::bisection::Simulation;
use super::paths::Paths;
use super::{EvaluateError, Options, trees};
use crate::fabric::{EndPort, Fabric, Role};
use crate::tables::Routes;

/// Load and bandwidth of the traffic of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClassFigures {
    /// Adapters that compute.
    pub compute: usize,
    /// Adapters that store, if this is about them.
    pub storage: usize,
    /// The largest load of a channel, over its rate, in routes of a usual channel, rounded up.
    pub largest_load: u64,
    /// Effective bandwidth, in shares of the rate of most adapters. Among compute nodes: of random bisections. With
    /// storage: each storage node exchanges data with a compute node of its own, drawn at random, in both directions
    /// at once.
    pub ebb: f64,
}

/// The traffic by role.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ByRole {
    /// Among compute nodes; `None` with fewer than two.
    pub among_compute: Option<ClassFigures>,
    /// Between compute nodes and storage; `None` where one of the two is missing.
    pub with_storage: Option<ClassFigures>,
}

impl ByRole {
    /// Measures tables that lead every adapter to every other.
    ///
    /// # Errors
    /// As [`evaluate`](super::evaluate()).
    ///
    /// Cost: that of [`evaluate`](super::evaluate()), and O(P^2 h) for the loads with P adapters and paths of h channels.
    pub fn new(fabric: &Fabric, routes: &Routes, options: &Options) -> Result<Self, EvaluateError> {
        let paths = Paths::new(fabric, &routes.lft)?;
        trees::count(&paths)?;
        let [compute, storage] = [Role::Compute, Role::Storage].map(|role| of_role(&paths, role));
        let patterns = options.patterns.get();
        let figures = |with: Option<&[u32]>, pairs: &Pairs<'_>| {
            let mut routes = vec![0_u64; fabric.channels().len()];
            pairs(&mut |from, to| {
                let (from, to) = (from as usize, to as usize);
                let walk = paths.walk(paths.adapters[from].switch, &paths.adapters[to], paths.lid(from, to));
                walk.for_each(|channel| routes[channel.index()] += 1);
            });
            let weights = fabric.weights();
            let loads = routes.iter().zip(weights.by_channel()).map(|(n, &weight)| n * u64::from(weight));
            ClassFigures {
                compute: compute.len(),
                storage: with.map_or(0, <[u32]>::len),
                largest_load: loads.max().unwrap_or(0).div_ceil(weights.usual()),
                ebb: bandwidth(&paths, &compute, with, patterns, options.seed),
            }
        };
        let among_compute = (compute.len() > 1).then(|| {
            figures(None, &|visit| {
                let others =
                    |from: u32| compute.iter().filter(move |&&to| to != from).map(move |&to| (from, to));
                compute.iter().flat_map(|&from| others(from)).for_each(|(from, to)| visit(from, to));
            })
        });
        let with_storage = (!compute.is_empty() && !storage.is_empty()).then(|| {
            figures(Some(&storage), &|visit| {
                let both = compute.iter().flat_map(|&a| storage.iter().map(move |&b| (a, b)));
                both.for_each(|(a, b)| {
                    visit(a, b);
                    visit(b, a);
                });
            })
        });
        Ok(Self { among_compute, with_storage })
    }
}

/// Calls what it is given with each pair of a sender and a receiver.
type Pairs<'a> = dyn Fn(&mut dyn FnMut(u32, u32)) + 'a;

/// The adapters of a role, by number.
fn of_role(paths: &Paths, role: Role) -> Vec<u32> {
    let has = |(_, end): &(u32, EndPort)| paths.fabric.duty(end).role == role;
    (0..).zip(paths.adapters.iter().map(|a| *a.end)).filter(has).map(|(number, _)| number).collect()
}

/// Mean over random patterns of [`ClassFigures::ebb`].
fn bandwidth(paths: &Paths, compute: &[u32], storage: Option<&[u32]>, patterns: u32, seed: u64) -> f64 {
    let shares = (0..patterns).into_par_iter().map_init(
        || Simulation::new(paths),
        |simulation, n| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(n.into());
            let mut order = compute.to_vec();
            order.shuffle(&mut rng);
            let Some(storage) = storage else {
                let half = order.len() / 2;
                return simulation.share_of(&order[..half], &order[half..2 * half]);
            };
            let mut stores = storage.to_vec();
            stores.shuffle(&mut rng);
            let pairs = order.len().min(stores.len());
            let (order, stores) = (&order[..pairs], &stores[..pairs]);
            simulation.share_of(&[order, stores].concat(), &[stores, order].concat())
        },
    );
    let shares: Vec<f64> = shares.collect();
    shares.iter().sum::<f64>() / shares.len() as f64
}

/// Patterns of [`quick`].
const PATTERNS: u32 = 100;

/// The mean bandwidth of both kinds of traffic, over few patterns: for an engine that chooses between tables.
pub(super) fn quick(paths: &Paths) -> f64 {
    let [compute, storage] = [Role::Compute, Role::Storage].map(|role| of_role(paths, role));
    let among = (compute.len() > 1).then(|| bandwidth(paths, &compute, None, PATTERNS, 0));
    let both = !compute.is_empty() && !storage.is_empty();
    let with = both.then(|| bandwidth(paths, &compute, Some(&storage), PATTERNS, 0));
    let figures: Vec<f64> = among.into_iter().chain(with).collect();
    figures.iter().sum::<f64>() / figures.len() as f64
}
