//! Traffic patterns.

use std::str::FromStr;

use super::SimulateError;
use super::cycle;
use super::network::{Network, Pairs};
use super::random::Random;

/// A traffic pattern. Hosts are adapter ports, numbered in port GUID order. Random choices depend
/// on the seed alone.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Each message to any other host.
    Uniform,
    /// Each host sends to one other, and receives from one other: a random cyclic permutation (Sattolo), so
    /// that no host sends to itself.
    Permutation,
    /// A random half of the hosts to the other half, each to one.
    Bisection,
    /// Host i to host i + n, modulo the number of hosts: the rounds of mpiGraph.
    Shift(usize),
    /// Each host to all others in rotation, starting with the next.
    AllToAll,
    /// This many random hosts to one.
    Incast(usize),
    /// As `Uniform`, but a share of the messages goes to some random hosts.
    Hotspot {
        /// Number of these hosts.
        spots: usize,
        /// Share of the messages, in percent.
        percent: f64,
    },
    /// Pairs whose paths use arcs between virtual channels that wait for each other in cycles, each
    /// sender and each receiver once; the other hosts send to each other at random.
    Cycle,
    /// (sender, receiver); a sender with several receivers sends to them in rotation.
    Pairs(Vec<(u32, u32)>),
}

impl Traffic {
    /// What [`Traffic::from_str`] accepts.
    pub const NAMES: &'static str =
        "uniform, permutation, bisection, shift:N, all-to-all, incast:N, hotspot:N:PERCENT, cycle";
}

impl FromStr for Traffic {
    type Err = SimulateError;

    fn from_str(text: &str) -> Result<Self, SimulateError> {
        let bad = || SimulateError::Traffic { text: text.to_owned() };
        let number = |word: &str| word.parse::<usize>().map_err(|_| bad());
        let words: Vec<&str> = text.split(':').collect();
        Ok(match words[..] {
            ["uniform"] => Self::Uniform,
            ["permutation"] => Self::Permutation,
            ["bisection"] => Self::Bisection,
            ["shift", n] => Self::Shift(number(n)?),
            ["all-to-all"] => Self::AllToAll,
            ["incast", n] => Self::Incast(number(n)?),
            ["hotspot", n, percent] => {
                let percent: f64 = percent.parse().map_err(|_| bad())?;
                if !(0.0..=100.0).contains(&percent) {
                    return Err(bad());
                }
                Self::Hotspot { spots: number(n)?, percent }
            }
            ["cycle"] => Self::Cycle,
            _ => return Err(bad()),
        })
    }
}

/// A pattern with its random choices made.
#[derive(Debug)]
pub(super) enum Demand {
    Uniform,
    /// The hosts, and their share of the messages in units of 2^-64.
    Hotspot(Vec<u32>, u64),
    AllToAll,
    /// By host: index of its first receiver in the list.
    Lists(Vec<u32>, Vec<u32>),
}

impl Demand {
    /// # Errors
    /// If the pattern needs hosts that do not exist.
    pub(super) fn new(traffic: &Traffic, network: &Network<'_>, seed: u64) -> Result<Self, SimulateError> {
        let hosts = network.hosts.len();
        // Hosts use random streams with numbers from 0.
        let mut random = Random::new(seed, u64::MAX);
        let mut order: Vec<u32> = (0..hosts as u32).collect();
        let enough = |wanted: usize, what: &'static str| {
            if (1..hosts).contains(&wanted) {
                Ok(())
            } else {
                Err(SimulateError::NoSuchHosts { what, wanted, hosts })
            }
        };
        let pairs = match traffic {
            Traffic::Uniform => return Ok(Self::Uniform),
            Traffic::AllToAll => return Ok(Self::AllToAll),
            Traffic::Hotspot { spots, percent } => {
                enough(*spots, "hotspot")?;
                random.shuffle(&mut order);
                order.truncate(*spots);
                let share = (percent / 100.0 * u64::MAX as f64) as u64;
                return Ok(Self::Hotspot(order, share));
            }
            Traffic::Permutation => {
                for i in (1..hosts).rev() {
                    order.swap(i, random.below(i as u64) as usize);
                }
                (0..hosts as u32).zip(order).collect()
            }
            Traffic::Bisection => {
                random.shuffle(&mut order);
                let (from, to) = order.split_at(hosts / 2);
                from.iter().copied().zip(to.iter().copied()).collect()
            }
            Traffic::Shift(n) => {
                enough(*n, "shift")?;
                (0..hosts).map(|h| (h as u32, ((h + n) % hosts) as u32)).collect()
            }
            Traffic::Incast(n) => {
                enough(*n, "incast")?;
                random.shuffle(&mut order);
                let to = order[0];
                order[1..=*n].iter().map(|&from| (from, to)).collect()
            }
            Traffic::Cycle => cycle::pairs(network, &mut random)?,
            Traffic::Pairs(pairs) => pairs.clone(),
        };
        Self::lists(network, &pairs)
    }

    fn lists(network: &Network<'_>, pairs: &[(u32, u32)]) -> Result<Self, SimulateError> {
        let hosts = network.hosts.len();
        if pairs.is_empty() {
            return Err(SimulateError::NoPairs);
        }
        if let Some(&(host, _)) = pairs.iter().find(|(from, to)| from == to) {
            return Err(SimulateError::ToItself { host: network.describe_host(host as usize) });
        }
        let mut first = vec![0; hosts + 1];
        for &(from, _) in pairs {
            first[from as usize + 1] += 1;
        }
        for h in 0..hosts {
            first[h + 1] += first[h];
        }
        let mut next = first.clone();
        let mut to = vec![0; pairs.len()];
        for &(from, receiver) in pairs {
            to[next[from as usize] as usize] = receiver;
            next[from as usize] += 1;
        }
        Ok(Self::Lists(first, to))
    }

    /// The pairs that may send.
    pub(super) fn pairs(&self) -> Pairs {
        match self {
            Self::Uniform | Self::Hotspot(..) | Self::AllToAll => Pairs::All,
            Self::Lists(first, to) => {
                let of = |h: usize| {
                    to[first[h] as usize..first[h + 1] as usize].iter().map(move |&t| (h as u32, t))
                };
                let mut pairs: Vec<_> = (0..first.len() - 1).flat_map(of).collect();
                pairs.sort_unstable();
                pairs.dedup();
                Pairs::Some(pairs)
            }
        }
    }

    /// Number of messages that a host sends if each pair gets one.
    pub(super) fn messages(&self, host: usize, hosts: usize) -> u64 {
        match self {
            Self::Uniform | Self::Hotspot(..) => 1,
            Self::AllToAll => hosts as u64 - 1,
            Self::Lists(first, _) => u64::from(first[host + 1] - first[host]),
        }
    }

    /// The receiver of message number `n` of a host with messages to send.
    pub(super) fn receiver(&self, host: usize, hosts: usize, n: u64, random: &mut Random) -> usize {
        let other = |random: &mut Random| {
            let other = random.below(hosts as u64 - 1) as usize;
            other + usize::from(other >= host)
        };
        match self {
            Self::Uniform => other(random),
            Self::Hotspot(spots, share) => {
                if random.next() < *share {
                    let spot = spots[random.below(spots.len() as u64) as usize] as usize;
                    if spot != host {
                        return spot;
                    }
                }
                other(random)
            }
            Self::AllToAll => (host + 1 + (n % (hosts as u64 - 1)) as usize) % hosts,
            Self::Lists(first, to) => {
                let (begin, end) = (first[host] as usize, first[host + 1] as usize);
                to[begin + (n % (end - begin) as u64) as usize] as usize
            }
        }
    }
}
