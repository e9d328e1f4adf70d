//! `dfdn generate`: fabrics of every family.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use serde_json::json;

use super::{Failure, Outcome, output};
use dfdn::fabric::Fabric;
use dfdn::formats::{ibnetdiscover, json as json_format};
use dfdn::topology::{
    Candidates, Deimos, Director, Dragonfly, FatTree, Grown, HyperX, Hypercube, Kautz, Megafly, Mesh, Odin,
    Oft, Rails, Random, RandomIrregular, Ring, ScaleFree, SlimFly, Topology, TopologyError, Torus, Xgft,
    attach_adapters, fail_links, fail_switches, parallel_links, shuffle_guids, slow_links,
};

/// Write a fabric of a family, as ibsim and `dfdn` read it
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn generate dragonfly --p 4 -o df4.net\n  \
    dfdn generate slim-fly --q 5 --cas 4\n  \
    dfdn generate torus --dims 4,4,4 --cas 2 --fail-links 3 --seed 7")]
pub(super) struct Args {
    #[command(subcommand)]
    family: Family,
    /// Adapters on each switch that has adapters
    #[arg(long, global = true)]
    cas: Option<u32>,
    /// Adapters in all, each on the switch with the fewest links and adapters so far
    #[arg(long, global = true, value_name = "N", conflicts_with = "cas")]
    adapters: Option<u32>,
    /// Cables in place of each link between switches; single ones may fail or be slow
    #[arg(long, global = true, value_name = "N", default_value_t = 1)]
    parallel: u32,
    /// Remove this many links between switches; all adapters stay connected
    #[arg(long, global = true, value_name = "N", default_value_t = 0)]
    fail_links: usize,
    /// Remove this many switches without adapters (any switches if all have some)
    #[arg(long, global = true, value_name = "N", default_value_t = 0)]
    fail_switches: usize,
    /// Let this many links between switches run at half their rate: 2xQDR instead of 4xQDR
    #[arg(long, global = true, value_name = "N", default_value_t = 0)]
    slow_links: usize,
    /// Deal the GUIDs of the switches out at random: a family numbers them part by part, a real fabric does not
    #[arg(long, global = true)]
    shuffle_guids: bool,
    /// Seed of random choices
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// File to write; standard output by default
    #[arg(short, long, global = true, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Debug, Subcommand)]
enum Family {
    /// Groups of fully connected switches, the groups fully connected: a = 2p, h = p, g = a h + 1
    Dragonfly {
        /// Adapters per switch
        #[arg(long)]
        p: u32,
        /// Switches per group
        #[arg(long)]
        a: Option<u32>,
        /// Global links per switch
        #[arg(long)]
        h: Option<u32>,
        /// Groups
        #[arg(long)]
        g: Option<u32>,
    },
    /// McKay-Miller-Siran graph: 2 q^2 switches, diameter two
    SlimFly {
        /// Prime power of the form 4w-1, 4w or 4w+1
        #[arg(long)]
        q: u32,
    },
    /// Two-level orthogonal fat tree
    Oft {
        /// Links of a lower switch to upper switches; k-1 must be a prime power
        #[arg(long)]
        k: u32,
    },
    /// Folded Clos network of k-port switches
    FatTree {
        /// Ports per switch
        #[arg(long)]
        k: u32,
        /// Levels of switches
        #[arg(long, default_value_t = 3)]
        levels: u32,
        /// Ports of a leaf for adapters; the others lead up; more than k/2 oversubscribes
        #[arg(long)]
        down: Option<u32>,
    },
    /// Extended generalized fat tree XGFT(h; m1..mh; w1..wh)
    Xgft {
        /// Children by level
        #[arg(long, value_delimiter = ',', required = true)]
        m: Vec<u32>,
        /// Parents by level
        #[arg(long, value_delimiter = ',', required = true)]
        w: Vec<u32>,
    },
    /// Grid with wrap-around links
    Torus {
        /// Switches in each dimension
        #[arg(long, value_delimiter = ',', required = true)]
        dims: Vec<u32>,
    },
    /// Grid without wrap-around links
    Mesh {
        /// Switches in each dimension
        #[arg(long, value_delimiter = ',', required = true)]
        dims: Vec<u32>,
    },
    /// 2^n switches, linked if their numbers differ in one bit
    Hypercube {
        /// Dimensions
        #[arg(long)]
        n: u32,
    },
    /// Grid in which each line is fully connected
    Hyperx {
        /// Switches in each dimension
        #[arg(long, value_delimiter = ',', required = true)]
        dims: Vec<u32>,
    },
    /// Kautz graph K(d, n), both directions of each arc
    Kautz {
        /// Outgoing arcs per switch
        #[arg(long)]
        d: u32,
        /// Letters per word
        #[arg(long)]
        n: u32,
    },
    /// Random regular graph
    Random {
        /// Switches
        #[arg(long)]
        switches: u32,
        /// Links per switch
        #[arg(long)]
        degree: u32,
    },
    /// Switches whose free ports are cabled at random
    RandomIrregular {
        /// Switches
        #[arg(long)]
        switches: u32,
        /// Ports per switch
        #[arg(long, default_value_t = 24)]
        ports: u32,
    },
    /// An Internet map: each new switch has links to others, to large ones more often
    ScaleFree {
        /// Switches
        #[arg(long)]
        switches: u32,
        /// Links of a new switch
        #[arg(long, default_value_t = 2)]
        links: u32,
        /// Switches with one link, the last ones
        #[arg(long, default_value_t = 0)]
        stubs: u32,
    },
    /// Dragonfly+: groups of leaves and spines, the spines of all groups linked
    Megafly {
        /// Groups
        #[arg(long)]
        groups: u32,
        /// Leaves of a group
        #[arg(long)]
        leaves: u32,
        /// Spines of a group
        #[arg(long)]
        spines: u32,
        /// Links of a spine to other groups
        #[arg(long)]
        h: u32,
    },
    /// A cluster as it grows: islands of different oversubscription, cross links, missing cables
    Grown {
        /// Islands
        #[arg(long)]
        islands: u32,
        /// Switches of the core
        #[arg(long, default_value_t = 8)]
        spines: u32,
    },
    /// The rail-optimised tree of a GPU cluster, with cross links and service switches
    Rails {
        /// Pods
        #[arg(long)]
        pods: u32,
        /// Units of a pod
        #[arg(long)]
        units: u32,
        /// Rails, so leaves of a unit
        #[arg(long, default_value_t = 8)]
        rails: u32,
        /// Spines of a rail in a pod
        #[arg(long)]
        spines: u32,
        /// Cables from a leaf to each of its spines
        #[arg(long, default_value_t = 1)]
        width: u32,
        /// Cores for each number of a spine
        #[arg(long)]
        cores: u32,
        /// Links between leaves, at random
        #[arg(long, default_value_t = 0)]
        cross: u32,
        /// Switches that hang from six leaves each
        #[arg(long, default_value_t = 0)]
        services: u32,
    },
    /// One cycle
    Ring {
        /// Switches
        #[arg(long)]
        switches: u32,
    },
    /// One director switch: a two-level Clos of 24-port chips
    Director {
        /// Ports of the chassis
        #[arg(long, default_value_t = 144)]
        ports: u32,
    },
    /// A 144-port director with 128 adapters
    Odin,
    /// Three 288-port directors in a chain of 30 cables each, 724 adapters
    Deimos,
}

impl Args {
    fn topology(&self) -> Topology {
        let cas = self.cas;
        let each = cas.unwrap_or(1);
        let seed = self.seed;
        match self.family.clone() {
            Family::Dragonfly { p, a, h, g } => {
                let (a, h) = (a.unwrap_or(2 * p), h.unwrap_or(p));
                let g = g.unwrap_or(a.saturating_mul(h).saturating_add(1));
                Dragonfly { a, h, g, p: cas.unwrap_or(p) }.into()
            }
            Family::SlimFly { q } => SlimFly { q, cas }.into(),
            Family::Oft { k } => Oft { k, cas }.into(),
            Family::FatTree { k, levels, down } => FatTree { k, levels, down, cas }.into(),
            Family::Xgft { m, w } => Xgft { m, w, cas }.into(),
            Family::Torus { dims } => Torus { dims, cas: each }.into(),
            Family::Mesh { dims } => Mesh { dims, cas: each }.into(),
            Family::Hypercube { n } => Hypercube { n, cas: each }.into(),
            Family::Hyperx { dims } => HyperX { dims, cas: each }.into(),
            Family::Kautz { d, n } => Kautz { d, n, cas: each }.into(),
            Family::Random { switches, degree } => Random { switches, degree, cas: each, seed }.into(),
            Family::RandomIrregular { switches, ports } => {
                RandomIrregular { switches, ports, cas: cas.unwrap_or(ports / 2), seed }.into()
            }
            Family::ScaleFree { switches, links, stubs } => {
                ScaleFree { switches, links, stubs, cas: each, seed }.into()
            }
            Family::Megafly { groups, leaves, spines, h } => {
                Megafly { groups, leaves, spines, h, cas: cas.unwrap_or(spines) }.into()
            }
            Family::Grown { islands, spines } => {
                Grown { islands, spines, cas: cas.unwrap_or(20), seed }.into()
            }
            Family::Rails { pods, units, rails, spines, width, cores, cross, services } => {
                let cas = cas.unwrap_or(spines.saturating_mul(width));
                Rails { pods, units, rails, spines, width, cores, cas, cross, services, seed }.into()
            }
            Family::Ring { switches } => Ring { switches, cas: each }.into(),
            Family::Director { ports } => Director { ports, adapters: cas }.into(),
            Family::Odin => Odin.into(),
            Family::Deimos => Deimos.into(),
        }
    }

    pub(super) fn build(&self) -> Result<Fabric, TopologyError> {
        let mut fabric = self.topology().build()?;
        if let Some(adapters) = self.adapters {
            fabric = attach_adapters(&fabric, adapters)?;
        }
        if self.parallel != 1 {
            fabric = parallel_links(&fabric, self.parallel)?;
        }
        if self.fail_switches > 0 {
            let spare = fabric.switch_ids().any(|s| fabric.num_adapters_on(s) == 0);
            let candidates = if spare { Candidates::WithoutAdapters } else { Candidates::Any };
            fabric = fail_switches(&fabric, self.fail_switches, candidates, self.seed)?;
        }
        if self.fail_links > 0 {
            fabric = fail_links(&fabric, self.fail_links, self.seed)?;
        }
        if self.slow_links > 0 {
            fabric = slow_links(&fabric, self.slow_links, self.seed)?;
        }
        if self.shuffle_guids {
            fabric = shuffle_guids(&fabric, self.seed)?;
        }
        Ok(fabric)
    }
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    let fabric = args.build()?;
    let output = args.output.as_deref();
    if json && output.is_none() {
        output::to_file_or_stdout(None, |mut out| json_format::write(&mut out, &fabric))?;
        return Ok(Outcome::Fine);
    }
    output::to_file_or_stdout(output, |mut out| ibnetdiscover::write(&mut out, &fabric))?;
    if json {
        output::json(&json!({
            "family": args.topology().name(),
            "switches": fabric.num_switches(),
            "cas": fabric.adapters().count(),
            "links": fabric.num_links(),
        }))?;
    }
    Ok(Outcome::Fine)
}
