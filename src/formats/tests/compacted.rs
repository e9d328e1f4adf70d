//! Compact forms of tables.

use std::io::{Read, Write};

use super::*;
use crate::tables::{ClassSl, Classes};

pub(super) fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut file = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    file.write_all(bytes).unwrap();
    file.finish().unwrap()
}

pub(super) fn unpacked(file: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Path SLs of every form.
pub(super) fn path_sls(fabric: &Fabric) -> [PathSl; 5] {
    let (lids, switches, ends) = (fabric.lid_table_len(), fabric.num_switches(), fabric.endports().len());
    // LIDs without an owner have no SL.
    let owned = |lid: usize| Lid::new(lid as u16).is_some_and(|lid| fabric.owner_of(lid).is_some());
    let by_switch = |sls: usize| {
        let sl = |i: usize| if owned(i / switches) { (i * 7 % sls) as u8 } else { PathSl::UNKNOWN };
        PathSl::BySwitch((0..lids * switches).map(sl).collect())
    };
    let by_end_port = (0..ends * lids).map(|i| if i % 5 == 0 { PathSl::UNKNOWN } else { (i % 16) as u8 });
    let classes = Classes { classes: 2, vl_sets: 2, vls: 1, sls: 3 };
    let spread = ClassSl {
        classes,
        own: Box::new(by_switch(3)),
        vl_set_of: (0..lids).map(|lid| (lid % 2) as u8).collect(),
    };
    let one = ClassSl {
        classes: Classes { classes: 3, vl_sets: 1, vls: 2, sls: 2 },
        own: Box::new(PathSl::Any(u16::MAX)),
        vl_set_of: Vec::new(),
    };
    [
        by_switch(16),
        PathSl::ByEndPort(by_end_port.collect()),
        PathSl::Classes(spread),
        PathSl::Classes(one),
        PathSl::Any(0b110),
    ]
}

fn names_in(dir: &std::path::Path) -> Vec<String> {
    let name = |e: io::Result<std::fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}

/// Nothing is lost with any form of path SLs, and no text remains beside its compact form.
#[test]
fn tables_survive_their_compact_form() {
    let f = sample().with_lmc(Lmc::new(2).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let compact = WriteOptions { largest_text: 0 };
    for path_sl in path_sls(&f) {
        let mut r = routes(&f);
        r.sl2vl.set_adapters(SlVlRow(0x0123_4567_89ab_cdef));
        r.path_sl = path_sl;
        write_tables(dir.path(), &f, &r, compact).unwrap();
        let mut names =
            vec!["guid2lid", "lfts.dfdn", "opensm-subnet.lst", "opensm.mcfdbs", "psl.dfdn", "sl2vl.dfdn"];
        let needed = !matches!(&r.path_sl, PathSl::Classes(c) if c.own.any().is_some());
        names.retain(|&name| needed || name != "psl.dfdn");
        assert_eq!(names_in(dir.path()), names);
        // The fabric has other LIDs; those of the tables are used.
        let (other, back) = load_tables(dir.path(), sample()).unwrap();
        assert_eq!(other.endports(), f.endports());
        assert_eq!((&back.lft, &back.sl2vl), (&r.lft, &r.sl2vl));
        assert_eq!(back.path_sl, if needed { r.path_sl.clone() } else { PathSl::Any(u16::MAX) });
        // Texts replace them again.
        write_tables(dir.path(), &f, &r, WriteOptions::default()).unwrap();
        assert!(names_in(dir.path()).iter().all(|name| !name.ends_with(".dfdn")));
    }
    std::fs::write(dir.path().join("lfts.dfdn"), "").unwrap();
    let e = load_tables(dir.path(), f).unwrap_err();
    assert!(e.to_string().contains("there are both"), "{e}");
}

/// A truncated file, or one with a flipped bit, is never read as another table.
#[test]
fn damaged_compact_tables_are_refused() {
    let f = sample();
    let r = routes(&f);
    let file = text(|out| compact::lfts::write(out, &f, &r.lft));
    assert_eq!(compact::lfts::read(&file[..], &f).unwrap().0, r.lft);
    for len in 0..file.len() {
        let e = compact::lfts::read(&file[..len], &f).unwrap_err();
        assert!(e.to_string().contains("truncated") || e.to_string().contains("not one of"), "{len}: {e}");
    }
    for i in 0..file.len() {
        let mut bad = file.clone();
        bad[i] ^= 0x10;
        // Some bytes of gzip's header are irrelevant: a time stamp, an operating system.
        if let Ok((lft, _)) = compact::lfts::read(&bad[..], &f) {
            assert!(lft == r.lft && i < 10, "byte {i}");
        }
    }
    let mut longer = unpacked(&file);
    longer.push(0);
    assert!(
        compact::lfts::read(&packed(&longer)[..], &f).unwrap_err().to_string().contains("after the tables")
    );
    let e = compact::sl2vl::read(&file[..], &f).unwrap_err();
    assert!(e.to_string().contains("not the one that its name says"), "{e}");
    // Tables of another fabric with larger switches.
    let big = crate::topology::Ring { switches: 5, cas: 30 }.build().unwrap();
    let mut builder = FabricBuilder::new();
    for s in big.switch_ids() {
        let node = big.switch(s);
        builder.add(Node::new(NodeKind::Switch, node.guid, 0, &node.description)).unwrap();
    }
    let small = builder.finish(Lmc::default()).unwrap();
    let file = text(|out| compact::lfts::write(out, &big, &routes(&big).lft));
    let e = compact::lfts::read(&file[..], &small).unwrap_err();
    assert!(e.to_string().contains("which has 0 ports (the tables may be for another fabric"), "{e}");
}
