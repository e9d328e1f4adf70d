//! Classes of service: copies of finished lanes side by side.

use super::Lanes;
use crate::fabric::{Fabric, PortNum, Sl, Vl};
use crate::tables::{ClassSl, Classes, PathSl, Sl2Vl, SlVlRow};

/// Gives every VL set of every class of service a copy of the same lanes on its own VLs.
///
/// A packet keeps its SL, and an SL belongs to the same block at every switch; so a packet never
/// leaves the VLs of its block. No virtual channel belongs to two blocks, so no dependency leads
/// from one block to another: the dependency graph consists of that of the lanes once per block,
/// without connections. If the lanes are free of credit loops, so is the whole, whatever the load
/// of each class. All classes use the same paths.
///
/// If the lanes serve every pair with any SL, so does the whole: a sender that chooses an SL on its
/// own chooses a class, and is safe. Otherwise an SL is safe for the same pairs as the SL that it
/// stands for within its block, in any VL set.
///
/// On links to adapters, in both directions, and to port 0, a block has one VL,
/// [`Classes::vl_at_adapters`]. These VLs cannot be part of a credit loop, so one is enough, and
/// adapters with few VLs, which OpenSM folds, separate as many classes as they have VLs.
///
/// The adapters of each switch are assigned round-robin to the VL sets of a class. All LIDs of one
/// port are in the same set, or a flooded port would fill two. Port 0 is always in the first.
///
/// - `fabric`: the fabric.
/// - `lanes`: of any method; `lanes.vls` and `lanes.sls` are those of `classes`.
/// - `classes`: at most 15 VLs and 16 SLs in all.
/// - `offered_sls`: SLs that may be used, at least those of all blocks.
///
/// Cost: O(K sum over switches of ports^2 + L) time with K the SLs of a block and L the LIDs; one
/// byte per LID with several VL sets, plus the size of `lanes`.
pub fn classes(fabric: &Fabric, lanes: Lanes, classes: Classes, offered_sls: u8) -> Lanes {
    let Lanes { mut sl2vl, path_sl, .. } = lanes;
    divide(fabric, &mut sl2vl, classes, path_sl.any());
    let own = match path_sl.any() {
        Some(_) => PathSl::Any(u16::MAX >> (Sl::COUNT - usize::from(offered_sls))),
        None => path_sl,
    };
    let vl_set_of = if classes.vl_sets > 1 { vl_sets(fabric, classes.vl_sets) } else { Vec::new() };
    Lanes {
        sl2vl,
        path_sl: PathSl::Classes(ClassSl { classes, own: Box::new(own), vl_set_of }),
        vls: classes.blocks() * classes.vls,
        sls: classes.blocks() * classes.sls,
    }
}

/// Rewrites all rows. `any`: the SLs that serve every pair; the lowest is used.
fn divide(fabric: &Fabric, sl2vl: &mut Sl2Vl, classes: Classes, any: Option<u16>) {
    let blocks: [(u8, u8); Sl::COUNT] = std::array::from_fn(|sl| classes.block_of(Sl(sl as u8)));
    // The first VL of each SL's block. Adding the VL within the block never carries.
    let first = SlVlRow::from_vls(blocks.map(|(block, _)| classes.vl(block, Vl(0))));
    let at_adapters = SlVlRow::from_vls(blocks.map(|(block, _)| classes.vl_at_adapters(block)));
    // For each SL of a block: its SL in the lanes, and a mask of the SLs that stand for it.
    let own: Vec<(Sl, u64)> = (0..classes.sls)
        .map(|own| {
            let here = blocks.map(|(_, o)| if o == own { Vl(15) } else { Vl(0) });
            (Sl(any.map_or(own, |set| set.trailing_zeros() as u8)), SlVlRow::from_vls(here).0)
        })
        .collect();
    let channels = fabric.channels();
    for s in fabric.switch_ids() {
        for out in (0..sl2vl.ports_of(s)).map(|port| PortNum(port as u8)) {
            let onward = channels.at_port(s, out).is_some();
            for inp in (0..sl2vl.ports_of(s)).map(|port| PortNum(port as u8)) {
                let row = sl2vl.row(s, inp, out);
                let within =
                    own.iter().fold(0, |all, &(sl, here)| all | SlVlRow::uniform(row.get(sl)).0 & here);
                sl2vl.set(s, inp, out, if onward { SlVlRow(first.0 + within) } else { at_adapters });
            }
        }
    }
    sl2vl.set_adapters(at_adapters);
}

/// The VL set by LID.
fn vl_sets(fabric: &Fabric, vl_sets: u8) -> Vec<u8> {
    let mut vl_set_of = vec![0; fabric.lid_table_len()];
    let with_adapters = fabric.switch_ids().filter(|&s| fabric.num_adapters_on(s) > 0);
    for (n, s) in with_adapters.enumerate() {
        let ends = fabric.endports_on(s).iter().map(|&e| fabric.endport(e));
        let mut adapters: Vec<_> = ends
            .filter_map(|e| Some((e.attachment?.1, e)))
            .filter(|&(port, _)| port != PortNum::ZERO)
            .collect();
        adapters.sort_unstable_by_key(|&(port, _)| port);
        for (i, (_, end)) in adapters.into_iter().enumerate() {
            for lid in end.lids() {
                vl_set_of[lid.index()] = ((n + i) % usize::from(vl_sets)) as u8;
            }
        }
    }
    vl_set_of
}
