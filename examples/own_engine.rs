//! An engine of your own on the public interface: your next hops, existing VLs, and the judge.
//!
//! This one routes each LID over the nearest neighbour with the smallest GUID, without any
//! balancing. Alone it may have credit loops. DF-DN (Schneider et al., section V) adds VLs and SLs
//! that exclude them, and the judge proves it.
//!
//! `cargo run --release --example own_engine`

use std::error::Error;

use dfdn::fabric::Fabric;
use dfdn::lanes::{self, LaneLimits};
use dfdn::routing::Hops;
use dfdn::tables::{Lft, Routes, VlArb};
use dfdn::{topology::Dragonfly, verify};

/// The out port of each switch for each LID.
fn next_hops(fabric: &Fabric, hops: &Hops) -> Lft {
    let mut lft = Lft::new(fabric);
    for destination in fabric.endports() {
        let Some((last, port)) = destination.attachment else { continue };
        for lid in destination.lids() {
            lft.set(last, lid, port);
            for switch in fabric.switch_ids().filter(|&s| s != last) {
                let nearest = fabric.channels().out(switch).min_by_key(|(_, c)| (hops.get(c.to, last), c.to));
                let (_, channel) = nearest.expect("every switch has a neighbour");
                lft.set(switch, lid, channel.out_port);
            }
        }
    }
    lft
}

fn main() -> Result<(), Box<dyn Error>> {
    let fabric = Dragonfly::balanced(2).build()?;
    let lft = next_hops(&fabric, &Hops::new(&fabric)?);
    let lanes = lanes::df_dn(&fabric, &lft, LaneLimits { vls: 8, sls: 16 })?;
    let routes = Routes {
        engine: "smallest-guid".to_owned(),
        lft,
        sl2vl: lanes.sl2vl,
        path_sl: lanes.path_sl,
        vlarb: VlArb::fair(lanes.vls),
        multicast: Vec::new(),
        port_sets: None,
        remarks: Vec::new(),
    };
    let verdict = verify::verify(&fabric, &routes);
    println!("{fabric}: {} VLs, {} SLs", verdict.vls, verdict.sls);
    match verdict.witness() {
        None => println!("every pair reachable, deadlock-free"),
        Some(witness) => println!("{}", witness.explain(&fabric)),
    }
    if verdict.is_safe() { Ok(()) } else { Err("the tables are not safe".into()) }
}
