//! Generators of fabrics, one per file, and faults to damage fabrics with.
//!
//! Each family is a struct of its parameters with a `build`; [`Topology`] lists all families by
//! their names on the command line. The same parameters give the same fabric on every machine: all
//! random choices come from ChaCha8 and the seed.
//!
//! Common to all fabrics: the adapters of a switch are on its first ports and have one port each;
//! links are 4x QDR with 8 data VLs; LIDs follow the GUID order from 1, with LMC 0. Switch number i
//! has the GUID `0x0002c902_00000000 + i` and a name without spaces that states its position.
//! Adapter number i, counted switch by switch, has `0x0002c903_00000000 + 16·i`; its port has the
//! next GUID. It is named after its switch, followed by `-ca-` and the switch's port.
//!
//! What exceeds InfiniBand's limits (49,151 LIDs, 254 ports) is refused before it is built.

mod attach;
mod chiu;
mod coordinates;
mod deimos;
mod director;
mod dragonfly;
mod error;
mod fat_tree;
mod faults;
mod galois;
mod grown;
mod hypercube;
mod hyperx;
mod kautz;
mod megafly;
mod mesh;
mod odin;
mod oft;
mod parallel;
mod plan;
#[cfg(test)]
mod probe;
mod rails;
mod random;
mod random_irregular;
mod rewire;
mod ring;
mod scale_free;
mod shuffled;
mod slim_fly;
mod slow;
mod torus;
mod xgft;

pub use attach::attach_adapters;
pub use chiu::chiu_table1;
pub use deimos::Deimos;
pub use director::Director;
pub use dragonfly::Dragonfly;
pub use error::TopologyError;
pub use fat_tree::FatTree;
pub use faults::{Candidates, fail_links, fail_switches};
pub use grown::Grown;
pub use hypercube::Hypercube;
pub use hyperx::HyperX;
pub use kautz::Kautz;
pub use megafly::Megafly;
pub use mesh::Mesh;
pub use odin::Odin;
pub use oft::Oft;
pub use parallel::parallel_links;
pub use rails::Rails;
pub use random::Random;
pub use random_irregular::RandomIrregular;
pub use ring::Ring;
pub use scale_free::ScaleFree;
pub use shuffled::shuffle_guids;
pub use slim_fly::SlimFly;
pub use slow::slow_links;
pub use torus::Torus;
pub use xgft::Xgft;

use crate::fabric::Fabric;

macro_rules! families {
    ($($name:literal $family:ident,)*) => {
        /// Any of the generators, with its parameters.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Topology {
            $(
                #[doc = concat!("`", $name, "`")]
                $family($family),
            )*
        }

        impl Topology {
            /// The names of all families, as on the command line.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The name of the family, as on the command line.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$family(_) => $name,)*
                }
            }

            /// Builds it.
            ///
            /// # Errors
            /// Those of the family's own `build`.
            pub fn build(&self) -> Result<Fabric, TopologyError> {
                match self {
                    $(Self::$family(family) => family.build(),)*
                }
            }
        }

        $(
            impl From<$family> for Topology {
                fn from(family: $family) -> Self {
                    Self::$family(family)
                }
            }
        )*
    };
}

families! {
    "dragonfly" Dragonfly,
    "megafly" Megafly,
    "slim-fly" SlimFly,
    "oft" Oft,
    "fat-tree" FatTree,
    "xgft" Xgft,
    "torus" Torus,
    "mesh" Mesh,
    "hypercube" Hypercube,
    "hyperx" HyperX,
    "kautz" Kautz,
    "random" Random,
    "random-irregular" RandomIrregular,
    "scale-free" ScaleFree,
    "ring" Ring,
    "director" Director,
    "odin" Odin,
    "deimos" Deimos,
    "grown" Grown,
    "rails" Rails,
}

/// Small members of every family except Deimos, which is a single fabric of 108 switches.
/// Properties that hold on any fabric are tested on these. None has more than 40 switches or 150
/// adapters.
pub fn small() -> Vec<Topology> {
    vec![
        Dragonfly::balanced(1).into(),
        Dragonfly::balanced(2).into(),
        Dragonfly { a: 4, h: 2, g: 4, p: 1 }.into(),
        Megafly { groups: 5, leaves: 2, spines: 2, h: 2, cas: 2 }.into(),
        SlimFly { q: 3, cas: Some(2) }.into(),
        SlimFly { q: 4, cas: Some(1) }.into(),
        Oft { k: 3, cas: None }.into(),
        FatTree { k: 4, levels: 3, down: None, cas: None }.into(),
        FatTree { k: 6, levels: 2, down: Some(4), cas: Some(2) }.into(),
        Xgft { m: vec![2, 2, 3], w: vec![1, 2, 2], cas: None }.into(),
        Torus { dims: vec![4, 4], cas: 1 }.into(),
        Torus { dims: vec![2, 3, 3], cas: 2 }.into(),
        Mesh { dims: vec![3, 4], cas: 2 }.into(),
        Hypercube { n: 4, cas: 1 }.into(),
        HyperX { dims: vec![3, 4], cas: 2 }.into(),
        Kautz { d: 2, n: 3, cas: 2 }.into(),
        Random { switches: 16, degree: 3, cas: 2, seed: 1 }.into(),
        RandomIrregular { switches: 10, ports: 8, cas: 3, seed: 1 }.into(),
        ScaleFree { switches: 24, links: 2, stubs: 8, cas: 2, seed: 1 }.into(),
        Ring { switches: 3, cas: 1 }.into(),
        Ring { switches: 8, cas: 2 }.into(),
        Director { ports: 48, adapters: None }.into(),
        Odin.into(),
        Grown { islands: 2, spines: 3, cas: 4, seed: 1 }.into(),
        Rails {
            pods: 2,
            units: 3,
            rails: 2,
            spines: 2,
            width: 1,
            cores: 2,
            cas: 3,
            cross: 2,
            services: 1,
            seed: 1,
        }
        .into(),
    ]
}

/// The fabrics of [`small`], with the names of their families. For tests.
///
/// # Panics
/// If one cannot be built, which a test excludes.
pub fn small_members() -> Vec<(&'static str, Fabric)> {
    let build = |topology: &Topology| topology.build().expect("the small members are valid");
    small().iter().map(|topology| (topology.name(), build(topology))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{LinkSpeed, Note};
    use std::collections::{BTreeSet, HashSet};

    #[test]
    fn every_family_is_represented() {
        let named: BTreeSet<_> = small().iter().map(Topology::name).chain(["deimos"]).collect();
        assert_eq!(named, Topology::NAMES.iter().copied().collect());
    }

    #[test]
    fn all_fabrics_look_alike() {
        for topology in small().into_iter().chain([Deimos.into()]) {
            let f = topology.build().unwrap();
            let label = format!("{topology:?}");
            assert!(probe::same(&f, &topology.build().unwrap()), "{label}");
            assert!(probe::diameter(&f).is_some(), "{label}");

            let names: HashSet<_> = f.nodes().iter().map(|n| n.description.as_str()).collect();
            assert_eq!(names.len(), f.nodes().len(), "{label}");
            assert!(names.iter().all(|n| !n.contains(' ') && n.len() < 64), "{label}");

            let ports = f.nodes().iter().filter(|n| !n.is_switch()).map(|n| n.ports[1].guid);
            let guids: HashSet<_> = f.nodes().iter().map(|n| n.guid).chain(ports).collect();
            assert_eq!(guids.len(), f.nodes().len() + f.adapters().count(), "{label}");

            for s in f.switch_ids() {
                let on: Vec<_> =
                    f.endports_on(s).iter().map(|&e| f.endport(e)).filter(|e| e.is_adapter()).collect();
                for (i, e) in on.iter().enumerate() {
                    assert_eq!(e.attachment.unwrap().1.index(), i + 1, "{label}");
                    let name = format!("{}-ca-{}", f.switch(s).description, i + 1);
                    assert_eq!(f.node(e.node).description, name);
                }
                assert!(f.channels().out(s).all(|(_, c)| c.out_port.index() > on.len()), "{label}");
            }
            let ports: Vec<_> = f.nodes().iter().flat_map(|n| &n.ports).collect();
            assert!(ports.iter().all(|p| (p.width, p.data_vls) == (Some(4), Some(8))), "{label}");
            assert!(ports.iter().all(|p| p.speed == Some(LinkSpeed::Qdr)), "{label}");
            let assigned = Note::LidsAssigned { endports: f.endports().len() };
            assert_eq!(f.notes(), [assigned], "{label}");
        }
    }

    #[test]
    fn the_small_ones_are_small() {
        for (name, f) in small_members() {
            assert!(f.num_switches() <= 40 && f.adapters().count() <= 150, "{name}: {f}");
        }
    }
}
