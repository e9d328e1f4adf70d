//! Classes of service: finished lanes, several times side by side.

use super::Lanes;
use crate::fabric::{Fabric, PortNum, Sl, Vl};
use crate::tables::{ClassSl, Classes, PathSl, Sl2Vl, SlVlRow};

/// Gives every class of service, and every way of it, a copy of the same lanes on VLs of its own.
///
/// A packet keeps its SL, and an SL leads to one block at every switch; so a packet never leaves the
/// VLs of its block. No virtual channel belongs to two blocks, so no dependency leads from one to
/// another: the dependency graph of the whole is that of the lanes, once for each block, with nothing
/// in between. If the lanes are free of credit loops, so is the whole, whatever the classes do to each
/// other. The paths are the same in all classes.
///
/// Where the lanes serve every pair with any SL, so does the whole: a sender that chooses an SL on its
/// own chooses a class, and is safe. Where they do not, an SL is safe for the same pairs as the one
/// that it stands for within its block; the way does not matter.
///
/// On links to adapters, in both directions, and to port 0, block b has VL b alone. Nothing can wait
/// there for itself, and so adapters of few VLs tell as many classes apart as they have VLs. (Where a
/// port operates fewer, OpenSM folds the VLs.)
///
/// Destinations are dealt out among the ways of a class switch by switch, adapter by adapter: those on
/// one switch go to different ways, and all LIDs of one port to the same, or a flooded port would
/// fill two. Port 0 is always in the first.
///
/// - `fabric`: the fabric.
/// - `lanes`: of any method; `lanes.vls` and `lanes.sls` are those of `classes`.
/// - `classes`: at most 15 VLs and 16 SLs in all.
/// - `offered_sls`: SLs that may be given out, at least those of all blocks.
///
/// Cost: O(K sum over switches of ports^2 + L) time with K the SLs of a block and L the LIDs; one byte
/// a LID where there are several ways, and the size of `lanes`.
pub fn classes(fabric: &Fabric, lanes: Lanes, classes: Classes, offered_sls: u8) -> Lanes {
    let Lanes { mut sl2vl, path_sl, .. } = lanes;
    divide(fabric, &mut sl2vl, classes, path_sl.any());
    let own = match path_sl.any() {
        Some(_) => PathSl::Any(u16::MAX >> (Sl::COUNT - usize::from(offered_sls))),
        None => path_sl,
    };
    let ways = if classes.ways > 1 { ways(fabric, classes.ways) } else { Vec::new() };
    Lanes {
        sl2vl,
        path_sl: PathSl::Classes(ClassSl { classes, own: Box::new(own), ways }),
        vls: classes.blocks() * classes.vls,
        sls: classes.blocks() * classes.sls,
    }
}

/// Rewrites all rows. `any`: the SLs that serve every pair, of which one is enough.
fn divide(fabric: &Fabric, sl2vl: &mut Sl2Vl, classes: Classes, any: Option<u16>) {
    let blocks: [(u8, u8); Sl::COUNT] = std::array::from_fn(|sl| classes.block_of(Sl(sl as u8)));
    // The first VL of each SL's block, to which that within the block is added: no sum has a carry.
    let first = SlVlRow::from_vls(blocks.map(|(block, _)| classes.vl(block, Vl(0))));
    let alone = SlVlRow::from_vls(blocks.map(|(block, _)| Vl(block)));
    // For each SL of a block: the one of the lanes, and where it goes.
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
                sl2vl.set(s, inp, out, if onward { SlVlRow(first.0 + within) } else { alone });
            }
        }
    }
    sl2vl.set_adapters(alone);
}

/// The way by LID.
fn ways(fabric: &Fabric, ways: u8) -> Vec<u8> {
    let mut way = vec![0; fabric.lid_table_len()];
    for s in fabric.switch_ids() {
        let ends = fabric.endports_on(s).iter().map(|&e| fabric.endport(e));
        let mut adapters: Vec<_> = ends
            .filter_map(|e| Some((e.attachment?.1, e)))
            .filter(|&(port, _)| port != PortNum::ZERO)
            .collect();
        adapters.sort_unstable_by_key(|&(port, _)| port);
        for (i, (_, end)) in adapters.into_iter().enumerate() {
            for lid in end.lids() {
                way[lid.index()] = ((s.index() + i) % usize::from(ways)) as u8;
            }
        }
    }
    way
}
