//! Effective bisection bandwidth.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

use super::Options;
use super::paths::{Adapter, Paths, Step};
use crate::fabric::{ChannelId, Lid, SwitchId};

/// The effective bisection bandwidth (Hoefler et al., section IV.A), as a share of full bisection
/// bandwidth.
///
/// In a random bisect pattern, each of one half of the P adapters sends to its own partner in the
/// other half; if P is odd, one adapter, drawn anew for each pattern, is left out. A stream gets
/// the bandwidth of a link divided by the largest number of streams on any channel of its route.
/// The two directions of a link are independent. Links have the rates that the fabric states, and
/// the bandwidth of a stream counts in shares of the rate of most adapters, at most 1; a link of
/// unknown rate is as fast as most of its kind. The share of one pattern is the sum over its
/// streams, divided by ⌊P/2⌋. With equal rates the links of adapters never slow a stream down, as
/// each carries at most one.
///
/// Pattern number n is drawn from stream n of a ChaCha8 generator with the seed, so it does not
/// depend on the number of patterns or threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bisection {
    /// Mean share over all patterns.
    pub ebb: f64,
    /// Lower end of the 95 % confidence interval of the mean, by Student's distribution.
    pub ebb_low: f64,
    /// Upper end of it. One pattern gives no spread: then the interval is 0 to 1.
    pub ebb_high: f64,
    /// Standard deviation (of the sample) of a pattern's share; 0 for one pattern.
    pub ebb_deviation: f64,
    /// Number of patterns.
    pub patterns: u32,
    /// Their seed.
    pub seed: u64,
}

impl Bisection {
    /// - `paths`: tables that lead every adapter to every other.
    /// - `known`: what is known of these from earlier tables.
    ///
    /// Cost: O(P h + C) per pattern with routes of h channels, over all cores; the P h steps are
    /// scattered reads of the LFTs where nothing is known.
    pub(super) fn new(paths: &Paths, options: &Options, known: Option<&KnownRoutes<'_>>) -> Self {
        let patterns = options.patterns.get();
        let times = known.map(|known| known.patterns.times(paths, &known.was)).unwrap_or_default();
        let share = |simulation: &mut Simulation<'_>, n: u32| {
            let before = known.and_then(|known| Some((known.patterns.of(options.seed, n)?, known)));
            match before {
                Some((pattern, known)) => simulation.share_after(pattern, known, &times),
                None => simulation.share(options.seed, n),
            }
        };
        let shares: Vec<f64> =
            (0..patterns).into_par_iter().map_init(|| Simulation::new(paths), share).collect();
        let mean = shares.iter().sum::<f64>() / f64::from(patterns);
        let (deviation, margin) = if patterns == 1 {
            (0.0, 1.0)
        } else {
            let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
            let deviation = (squares / f64::from(patterns - 1)).sqrt();
            (deviation, student(patterns - 1) * deviation / f64::from(patterns).sqrt())
        };
        Self {
            ebb: mean,
            ebb_low: (mean - margin).max(0.0),
            ebb_high: (mean + margin).min(1.0),
            ebb_deviation: deviation,
            patterns,
            seed: options.seed,
        }
    }
}

/// Total streams over all patterns of [`quick_bisection`], and bounds for the number of patterns.
const STREAMS: usize = 20_000;
const PATTERNS: (usize, usize) = (8, 400);

/// The effective bisection bandwidth over fewer patterns, always the same.
pub(super) fn quick(paths: &Paths<'_>) -> f64 {
    let patterns = (STREAMS / (paths.adapters.len() / 2)).clamp(PATTERNS.0, PATTERNS.1);
    let shares: Vec<f64> = (0..patterns)
        .into_par_iter()
        .map_init(|| Simulation::new(paths), |simulation, n| simulation.share(n as u64, 0))
        .collect();
    shares.iter().sum::<f64>() / patterns as f64
}

/// A stream and its current switch.
struct Stream<'a> {
    number: u32,
    at: SwitchId,
    to: &'a Adapter<'a>,
    lid: Lid,
}

/// Buffers for simulating one pattern after another.
pub(super) struct Simulation<'a> {
    paths: &'a Paths<'a>,
    order: Vec<u32>,
    under_way: Vec<Stream<'a>>,
    /// (stream, channel) for each channel of each route.
    trail: Vec<(u32, ChannelId)>,
    /// Streams on each channel.
    congestion: Vec<u32>,
    /// By stream: the longest time of a byte on a channel of its route.
    worst: Vec<f64>,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(paths: &'a Paths<'a>) -> Self {
        Self {
            paths,
            order: Vec::new(),
            under_way: Vec::new(),
            trail: Vec::new(),
            congestion: Vec::new(),
            worst: Vec::new(),
        }
    }

    /// The share of full bisection bandwidth of pattern number `n`.
    fn share(&mut self, seed: u64, n: u32) -> f64 {
        let mut order = std::mem::take(&mut self.order);
        draw(&mut order, self.paths.adapters.len(), seed, n);
        let (senders, receivers) = order.split_at(order.len() / 2);
        let share = self.share_of(senders, receivers);
        self.order = order;
        share
    }

    /// The mean bandwidth of streams from each sender to the receiver of its number, in shares of the rate of most
    /// adapters; no adapter sends or receives several.
    pub(super) fn share_of(&mut self, senders: &[u32], receivers: &[u32]) -> f64 {
        let paths = self.paths;
        let times = &paths.times;
        let streams = senders.len();
        let routes = senders.iter().zip(receivers).zip(0..).map(|((&from, &to), number)| {
            let (from, to) = (from as usize, to as usize);
            Stream {
                number,
                at: paths.adapters[from].switch,
                to: &paths.adapters[to],
                lid: paths.lid(from, to),
            }
        });
        self.under_way.clear();
        self.under_way.extend(routes.filter(|stream| stream.at != stream.to.switch));
        self.congestion.clear();
        self.congestion.resize(paths.fabric.channels().len(), 0);
        self.trail.clear();
        // All streams take one step before any takes the next: the reads of a round are
        // independent, unlike those along one route.
        while !self.under_way.is_empty() {
            self.under_way.retain_mut(|stream| {
                let to = stream.to;
                let port = paths.lft.to(stream.lid)[stream.at.index()];
                let Step::Over(channel, next) = paths.step(stream.at, port, to) else { return false };
                self.congestion[channel.index()] += 1;
                self.trail.push((stream.number, channel));
                stream.at = next;
                next != to.switch
            });
        }
        self.worst.clear();
        self.worst.extend(ends_of(paths, senders, receivers));
        for &(stream, channel) in &self.trail {
            let worst = &mut self.worst[stream as usize];
            *worst = (f64::from(self.congestion[channel.index()]) * times.channel(channel)).max(*worst);
        }
        self.worst.iter().map(|&worst| 1.0 / worst).sum::<f64>() / streams as f64
    }
}

/// By stream: what a byte takes at its sender and its receiver.
fn ends_of(paths: &Paths<'_>, senders: &[u32], receivers: &[u32]) -> impl Iterator<Item = f64> {
    let time = |number: &u32| paths.times.adapter(*number as usize);
    senders.iter().zip(receivers).map(move |(a, b)| time(a).max(time(b)))
}

/// Which routes of later tables are those of earlier ones.
pub(super) struct KnownRoutes<'a> {
    pub(super) patterns: &'a Patterns,
    /// By channel: the one of the earlier fabric.
    pub(super) was: Vec<ChannelId>,
    /// By adapter: whether entries for its base LID differ.
    pub(super) differs: Vec<bool>,
}

/// The routes of earlier tables under random bisect patterns.
#[derive(Default)]
pub(super) struct Patterns {
    seed: u64,
    list: Vec<Pattern>,
    channels: usize,
}

/// The routes under one pattern.
pub(super) struct Pattern {
    /// Senders, then receivers.
    order: Vec<u32>,
    /// By stream: the end of its route.
    end: Vec<u32>,
    /// The routes, one after the other.
    routes: Vec<ChannelId>,
    /// Streams on each channel.
    congestion: Vec<u32>,
}

impl Patterns {
    /// The first ones, as many as take no more room than the tables.
    ///
    /// - `paths`: tables that lead every adapter to every other, to base LIDs.
    ///
    /// Cost: O(P h + C) for each, with routes of h channels, over all cores. Memory: four bytes for each entry of the
    /// tables, about.
    pub(super) fn new(paths: &Paths<'_>, options: &Options) -> Self {
        let channels = paths.fabric.channels().len();
        let (entries, room) = (paths.lft.lids() * paths.senders.len(), paths.adapters.len() + channels);
        let most = u32::try_from(entries / room).unwrap_or(u32::MAX);
        let patterns = (0..options.patterns.get().min(most)).into_par_iter();
        let list = patterns.map(|n| Pattern::new(paths, options.seed, n)).collect();
        Self { seed: options.seed, list, channels }
    }

    /// Pattern number `n`, if it is there.
    pub(super) fn of(&self, seed: u64, n: u32) -> Option<&Pattern> {
        self.list.get(n as usize).filter(|_| self.seed == seed)
    }

    /// By channel of the earlier fabric: what a byte takes now.
    ///
    /// - `was`: by channel of now, the one of the earlier fabric.
    fn times(&self, now: &Paths<'_>, was: &[ChannelId]) -> Vec<f64> {
        let mut times = vec![0.0; self.channels];
        let now = was.iter().enumerate().map(|(id, was)| (was, now.times.channel(ChannelId::at(id))));
        now.for_each(|(was, time)| times[was.index()] = time);
        times
    }
}

impl Pattern {
    fn new(paths: &Paths<'_>, seed: u64, n: u32) -> Self {
        let mut order = Vec::new();
        draw(&mut order, paths.adapters.len(), seed, n);
        let (senders, receivers) = order.split_at(order.len() / 2);
        let (mut end, mut routes) = (Vec::new(), Vec::new());
        let mut congestion = vec![0; paths.fabric.channels().len()];
        for (&from, &to) in senders.iter().zip(receivers) {
            let (from, to) = (&paths.adapters[from as usize], &paths.adapters[to as usize]);
            routes.extend(paths.walk(from.switch, to, to.end.lid));
            end.push(routes.len() as u32);
        }
        routes.iter().for_each(|channel: &ChannelId| congestion[channel.index()] += 1);
        Self { order, end, routes, congestion }
    }

    /// The route of a stream.
    fn route(&self, stream: usize) -> &[ChannelId] {
        let first = stream.checked_sub(1).map_or(0, |before| self.end[before]);
        &self.routes[first as usize..self.end[stream] as usize]
    }
}

impl Simulation<'_> {
    /// The share of a pattern whose routes are known for earlier tables.
    ///
    /// - `times`: as [`Patterns::times`] says.
    fn share_after(&mut self, pattern: &Pattern, known: &KnownRoutes<'_>, times: &[f64]) -> f64 {
        let paths = self.paths;
        let (senders, receivers) = pattern.order.split_at(pattern.order.len() / 2);
        self.congestion.clear();
        self.congestion.extend_from_slice(&pattern.congestion);
        // The new routes, by channels of the earlier fabric.
        self.trail.clear();
        for (number, (&from, &to)) in senders.iter().zip(receivers).enumerate() {
            if known.differs[to as usize] {
                let (from, to) = (&paths.adapters[from as usize], &paths.adapters[to as usize]);
                pattern.route(number).iter().for_each(|channel| self.congestion[channel.index()] -= 1);
                let route = paths.walk(from.switch, to, to.end.lid).map(|channel| known.was[channel.index()]);
                self.trail.extend(route.map(|channel| (number as u32, channel)));
            }
        }
        self.trail.iter().for_each(|(_, channel)| self.congestion[channel.index()] += 1);
        let slow = |congestion: &[u32], channel: ChannelId| {
            f64::from(congestion[channel.index()]) * times[channel.index()]
        };
        self.worst.clear();
        self.worst.extend(ends_of(paths, senders, receivers));
        for (number, (worst, to)) in self.worst.iter_mut().zip(receivers).enumerate() {
            if !known.differs[*to as usize] {
                let route = pattern.route(number).iter();
                *worst = route.fold(*worst, |worst, &channel| slow(&self.congestion, channel).max(worst));
            }
        }
        for &(stream, channel) in &self.trail {
            let worst = &mut self.worst[stream as usize];
            *worst = slow(&self.congestion, channel).max(*worst);
        }
        self.worst.iter().map(|&worst| 1.0 / worst).sum::<f64>() / senders.len() as f64
    }
}

/// A random bisect pattern over `adapters` indices: the first half of `order` sends to the second,
/// in order. If the number is odd, one adapter is left out.
pub(super) fn draw(order: &mut Vec<u32>, adapters: usize, seed: u64, n: u32) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(n.into());
    order.clear();
    order.extend(0..adapters as u32);
    order.shuffle(&mut rng);
    order.truncate(adapters / 2 * 2);
}

/// The 97.5 % quantile of Student's distribution for a number of degrees of freedom: exact for one
/// and two, above that the first five terms of its expansion around the normal distribution (0.12 %
/// too small for three, closer for more).
pub(super) fn student(degrees: u32) -> f64 {
    const Z: f64 = 1.959_963_984_540_054;
    let n = f64::from(degrees);
    match degrees {
        0 => f64::INFINITY,
        1 => 12.706_204_736_432_1,
        2 => 4.302_652_729_911_3,
        _ => {
            let z = |power| Z.powi(power);
            let terms = [
                Z,
                (z(3) + Z) / 4.0,
                (5.0 * z(5) + 16.0 * z(3) + 3.0 * Z) / 96.0,
                (3.0 * z(7) + 19.0 * z(5) + 17.0 * z(3) - 15.0 * Z) / 384.0,
                (79.0 * z(9) + 776.0 * z(7) + 1482.0 * z(5) - 1920.0 * z(3) - 945.0 * Z) / 92_160.0,
            ];
            terms.iter().rev().fold(0.0, |sum, term| sum / n + term)
        }
    }
}
