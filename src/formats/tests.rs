//! Round trips, damaged texts, and the fabrics in `DFDN_FABRICS` that are not part of the project.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::fabric::{
    EndPortId, FabricBuilder, Guid, Lid, LinkSpeed, LinkState, Lmc, Node, NodeId, NodeKind, PortNum, PortRef,
    Sl, SwitchId, Vl,
};
use crate::tables::{ClassSl, Classes, Lft, PathSl, Routes, Sl2Vl, SlVlRow, VlArb};

const SHORT: &str = "# drawn by hand\nSwitch\t8 \"leaf one\"\n[1]\t\"spine\"[1]\n[2]\t\"spine\"[2]\n\
    [3]\t\"H 1\"[1]\n[4]\t\"H2\"[2]\n\nSwitch\t8 \"spine\"\n[1]\t\"leaf one\"[1]\n[2]\t\"leaf one\"[2]\n\
    [5]\t\"leaf2\"[1]\t4xHDR\n\nSwitch 6 \"leaf2\"\n[1]\t\"spine\"[5]\n[2]\t\"H2\"[1]\n[3]\t\"H3\"[1]\n\n\
    Hca\t1 \"H 1\"\n[1]\t\"leaf one\"[3]\nCa\t2 \"H2\" # \"other {name}\"\n[1]\t\"leaf2\"[2]\n[2]\t\"leaf one\"[4]\n\
    Hca\t1 \"H3\"\n[1] \"leaf2\"[3]\n";

fn sample() -> Fabric {
    ibnetdiscover::read(SHORT.as_bytes()).unwrap().0
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    out
}

/// Shortest paths in breadth-first order, so that every entry of every format occurs.
fn routes(fabric: &Fabric) -> Routes {
    let mut lft = Lft::new(fabric);
    for e in fabric.endports() {
        let Some((dest, last)) = e.attachment else { continue };
        let mut port_to = vec![None; fabric.num_switches()];
        port_to[dest.index()] = Some(last);
        let mut queue = std::collections::VecDeque::from([dest]);
        while let Some(s) = queue.pop_front() {
            for (_, c) in fabric.channels().out(s) {
                if port_to[c.to.index()].is_none() {
                    port_to[c.to.index()] = Some(c.in_port);
                    queue.push_back(c.to);
                }
            }
        }
        for (s, port) in port_to.into_iter().enumerate() {
            let Some(port) = port else { continue };
            e.lids().for_each(|lid| lft.set(SwitchId::at(s), lid, port));
        }
    }
    let mut sl2vl = Sl2Vl::new(fabric);
    for (_, c) in fabric.channels().iter() {
        let row = SlVlRow::from_vls(std::array::from_fn(|sl| Vl((sl as u8 + c.in_port.0) % 8)));
        sl2vl.set(c.from, PortNum(1), c.out_port, row);
    }
    let mut path_sl = PathSl::by_switch(fabric);
    if let PathSl::BySwitch(table) = &mut path_sl {
        table.iter_mut().enumerate().for_each(|(i, sl)| *sl = (i % 16) as u8);
    }
    Routes {
        engine: "test".into(),
        lft,
        sl2vl,
        path_sl,
        vlarb: VlArb::fair(8),
        multicast: Vec::new(),
        remarks: Vec::new(),
    }
}

/// Node descriptions of a random fabric.
fn fabric(numbers: &[(u8, u8, u16)]) -> Fabric {
    let speeds = [LinkSpeed::Sdr, LinkSpeed::Qdr, LinkSpeed::Fdr10, LinkSpeed::Ndr, LinkSpeed::Xdr];
    let names = ["plain", "with \"quotes\" lid 7", "braces {x} LID:1", "# 'x')", "Ü ß"];
    let mut b = FabricBuilder::new();
    for (i, &(a, _, c)) in numbers.iter().enumerate() {
        let kind = if i == 0 || a % 3 == 0 { NodeKind::Switch } else { NodeKind::ChannelAdapter };
        let ports = if kind == NodeKind::Switch { 12 } else { 2 };
        let guid = Guid(0x1000 * (u64::from(c) * 1000 + i as u64 + 1));
        let mut node = Node::new(kind, guid, ports, names[usize::from(a) % names.len()]);
        (node.vendor_id, node.device_id) = (0x2c9, u32::from(c));
        node.enhanced_port0 = kind == NodeKind::Switch && a % 2 == 0;
        b.add(node).unwrap();
    }
    for (i, &(a, p, _)) in numbers.iter().enumerate().skip(1) {
        let [here, there] = [(i, 1), (usize::from(a) % i, p % 12 + 1)]
            .map(|(n, port)| PortRef { node: NodeId::at(n), port: PortNum(port) });
        if b.connect(here, there).is_ok() {
            let speed = Some(speeds[usize::from(p) % speeds.len()]);
            for end in [here, there] {
                let port = &mut b.node_mut(end.node).ports[end.port.index()];
                (port.width, port.speed) = (Some(4), speed);
            }
        }
    }
    b.finish(Lmc::default()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fabrics_survive_the_topology_text_and_json(
        numbers in prop::collection::vec(any::<(u8, u8, u16)>(), 1..24)
    ) {
        let f = fabric(&numbers);
        let (back, _) = read_fabric(&text(|out| ibnetdiscover::write(out, &f))).unwrap();
        prop_assert_eq!(f.nodes(), back.nodes());
        prop_assert_eq!(f.endports(), back.endports());
        let (back, _) = read_fabric(&text(|out| json::write(out, &f))).unwrap();
        prop_assert_eq!(f.nodes(), back.nodes());
    }

    #[test]
    fn damage_makes_no_reader_panic(
        which in 0..16_usize, seed in prop::collection::vec(any::<(u16, u16, u8)>(), 1..6)
    ) {
        let f = sample();
        let r = routes(&f);
        let mut bytes = match which {
            0 => SHORT.as_bytes().to_vec(),
            1 => text(|out| ibnetdiscover::write(out, &f)),
            2 => text(|out| subnet_lst::write(out, &f)),
            3 => text(|out| lfts_dump::write(out, &f, &r.lft)),
            4 => text(|out| sl2vl_dump::write(out, &f, &r.sl2vl)),
            5 => text(|out| fdbs::write(out, &f, &r.lft)),
            6 => text(|out| psl::write(out, &f, r.path_sl.classes(), |from, to| r.path_sl.known(&f, from, to))),
            7 => text(|out| guid2lid::write(out, &f)),
            8 => text(|out| slvl::write(out, &f, &r.sl2vl)),
            // Compact forms, with and without damage to the packed data.
            9 => text(|out| compact::lfts::write(out, &f, &r.lft)),
            10 => unpacked(&text(|out| compact::lfts::write(out, &f, &r.lft))),
            11 => unpacked(&text(|out| compact::sl2vl::write(out, &f, &r.sl2vl))),
            12..15 => unpacked(&text(|out| compact::psl::write(out, &f, &path_sls(&f)[which - 12]))),
            _ => text(|out| json::write(out, &f)),
        };
        seed.into_iter().for_each(|(at, other, byte)| damage(&mut bytes, at.into(), other.into(), byte));
        read_as_everything(&bytes, &f);
    }
}

/// Changes, drops, inserts or copies something at positions given by the numbers.
fn damage(bytes: &mut Vec<u8>, at: usize, other: usize, byte: u8) {
    let (i, j) = (at % bytes.len(), other % bytes.len());
    match byte % 4 {
        0 => bytes[i] = byte,
        1 => {
            bytes.remove(i);
        }
        2 => bytes.insert(i, b"0f{\"\x00\xff9["[usize::from(byte) % 8]),
        _ => {
            let tail = bytes[j..].to_vec();
            bytes.splice(i.., tail);
        }
    }
    if bytes.is_empty() {
        bytes.push(b'\n');
    }
}

/// No reader may panic on any input.
fn read_as_everything(bytes: &[u8], fabric: &Fabric) {
    let _ = read_fabric(bytes);
    let _ = lfts_dump::read(bytes, fabric);
    let _ = sl2vl_dump::read(bytes, fabric);
    let _ = slvl::read(bytes, fabric);
    let _ = fdbs::read(bytes, fabric);
    let _ = psl::read(bytes, fabric);
    let _ = guid2lid::read(bytes, fabric);
    for bytes in [bytes, &packed(bytes)] {
        let _ = compact::lids(bytes);
        let _ = compact::lfts::read(bytes, fabric);
        let _ = compact::sl2vl::read(bytes, fabric);
        let _ = compact::psl::read(bytes, fabric);
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut file = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    file.write_all(bytes).unwrap();
    file.finish().unwrap()
}

fn unpacked(file: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Path SLs of every form.
fn path_sls(fabric: &Fabric) -> [PathSl; 5] {
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

/// Runs for 5 seconds, or for `DFDN_FUZZ_SECONDS`.
#[test]
fn damage_to_fabrics_of_others_makes_no_reader_panic() {
    let files: Vec<Vec<u8>> = foreign_files()
        .map(|(path, _)| std::fs::read(path).unwrap())
        // Many small texts find more than a few large ones.
        .map(|bytes| bytes[..bytes.len().min(60_000)].to_vec())
        .collect();
    if files.is_empty() {
        return;
    }
    let seconds: u64 = std::env::var("DFDN_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(5);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let fabric = sample();
    let mut rng = ChaCha8Rng::seed_from_u64(seconds);
    let mut texts = 0;
    while std::time::Instant::now() < end {
        for file in &files {
            let mut bytes = file.clone();
            for _ in 0..rng.random_range(1..8) {
                damage(&mut bytes, rng.random_range(0..1 << 20), rng.random_range(0..1 << 20), rng.random());
            }
            // Copying may double the text each time.
            bytes.truncate(1 << 20);
            read_as_everything(&bytes, &fabric);
            texts += 1;
        }
    }
    println!("{texts} damaged texts in {seconds} s");
}

#[test]
fn short_form_gets_the_guids_of_ibsim() {
    let f = sample();
    let guids: Vec<(u64, &str)> = f.nodes().iter().map(|n| (n.guid.0, n.description.as_str())).collect();
    assert_eq!(
        guids,
        [
            (0x10_0000, "H 1"),
            (0x10_0002, "other {name}"),
            (0x10_0005, "H3"),
            (0x20_0000, "leaf one"),
            (0x20_0001, "spine"),
            (0x20_0002, "leaf2"),
        ]
    );
    assert!(f.nodes().iter().all(|n| !n.guid_stated));
}

#[test]
fn subnet_list_keeps_what_it_can_say() {
    let f = sample();
    let (back, warnings) = read_fabric(&text(|out| subnet_lst::write(out, &f))).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(f.endports(), back.endports());
    assert_eq!(f.channels().as_slice(), back.channels().as_slice());
    for (a, b) in f.nodes().iter().zip(back.nodes()) {
        assert_eq!((&a.description, a.guid, &a.ports), (&b.description, b.guid, &b.ports));
    }
}

#[test]
fn tables_survive_a_folder() {
    let f = sample();
    let r = routes(&f);
    let dir = tempfile::tempdir().unwrap();
    write_tables(dir.path(), &f, &r, WriteOptions::default()).unwrap();
    let (_, back) = load_tables(dir.path(), f.clone()).unwrap();
    assert_eq!(back.lft, r.lft);
    assert_eq!(back.sl2vl, r.sl2vl);
    // The two ports of H2 are on switches with different SLs, which the format cannot express.
    for (i, e) in
        f.endports().iter().enumerate().filter(|(_, e)| f.node(e.node).description != "other {name}")
    {
        for lid in (1..f.lid_table_len()).filter_map(|l| Lid::new(l as u16)) {
            let id = EndPortId::at(i);
            assert_eq!(back.path_sl.allowed(&f, id, lid), r.path_sl.allowed(&f, id, lid), "{e:?} to {lid}");
        }
    }
    std::fs::remove_file(dir.path().join("opensm-lfts.dump")).unwrap();
    assert_eq!(load_tables(dir.path(), f.clone()).unwrap().1.lft, r.lft);
    let slvl_text = std::fs::read(dir.path().join("slvl")).unwrap();
    assert_eq!(slvl::read(&slvl_text[..], &f).unwrap().0, r.sl2vl);
    let lids = std::fs::read(dir.path().join("guid2lid")).unwrap();
    assert_eq!(guid2lid::read(&lids[..], &f).unwrap().0.endports(), f.endports());
    // Without psl and SL2VL there is one lane.
    std::fs::remove_file(dir.path().join("psl")).unwrap();
    std::fs::remove_file(dir.path().join("opensm-sl2vl.dump")).unwrap();
    assert_eq!(load_tables(dir.path(), f.clone()).unwrap().1.path_sl, PathSl::one(Sl(0)));
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
    let mut builder = FabricBuilder::from_fabric(&sample());
    builder.forget_lids();
    let f = builder.finish(Lmc::new(2).unwrap()).unwrap();
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

/// The announced sizes are the actual ones.
#[test]
fn texts_are_as_large_as_planned() {
    for f in [
        crate::topology::FatTree { k: 6, levels: 3, down: None, cas: None }.build().unwrap(),
        crate::topology::Torus { dims: vec![6, 5], cas: 2 }.build().unwrap(),
    ] {
        let r = routes(&f);
        let dir = tempfile::tempdir().unwrap();
        write_tables(dir.path(), &f, &r, WriteOptions::default()).unwrap();
        for planned in plan_tables(&f, &r, WriteOptions::default()) {
            let bytes = std::fs::metadata(dir.path().join(planned.name)).unwrap().len();
            let ratio = planned.bytes as f64 / bytes as f64;
            assert!((0.85..1.15).contains(&ratio), "{planned:?}: {bytes}");
        }
    }
}

/// Path SLs are written if any pair needs an SL other than 0, even between switches only.
#[test]
fn path_sls_of_switches_alone_are_written() {
    let f = sample();
    let mut r = routes(&f);
    let switches = f.num_switches();
    let mut table = vec![0; f.lid_table_len() * switches];
    let lid = f.endport(f.endports_on(SwitchId(0))[0]).lid;
    let to_switch = f.endports().iter().find(|e| e.kind == NodeKind::Switch && e.lid != lid).unwrap().lid;
    table[to_switch.index() * switches] = 4;
    // LID 0 has no owner.
    table[..switches].fill(PathSl::UNKNOWN);
    r.path_sl = PathSl::BySwitch(table);
    let fate = |largest_text| plan_tables(&f, &r, WriteOptions { largest_text })[4].fate;
    assert_eq!((fate(LARGE_FILE), fate(10)), (Fate::Written, Fate::TooLarge));
    let dir = tempfile::tempdir().unwrap();
    write_tables(dir.path(), &f, &r, WriteOptions { largest_text: 10 }).unwrap();
    assert_eq!(load_tables(dir.path(), f.clone()).unwrap().1.path_sl, r.path_sl);
}

/// A missing folder is not created: it may be that of an interrupted run.
#[test]
fn tables_are_written_to_a_folder_that_is_there() {
    let f = sample();
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    assert!(write_tables(&missing, &f, &routes(&f), WriteOptions::default()).is_err());
    assert!(!missing.exists());
}

/// Two switches and two adapters, each with two lines: the stated GUID, and the name.
fn chassis(switches: [(&str, &str); 2]) -> String {
    let [(a, a_name), (b, b_name)] = switches;
    format!(
        "sysimgguid=0x10\nswitchguid={a}\nSwitch 4 \"{a_name}\" # \"spine\" base port 0 lid 1 lmc 0\n[1] \"H-0000000000000101\"[1]\n\
         [2] \"{b_name}\"[2]\n\nsysimgguid=0x10\nswitchguid={b}\nSwitch 4 \"{b_name}\" # \"leaf\" base port 0 lid 2 lmc 0\n\
         [1] \"H-0000000000000201\"[1]\n[2] \"{a_name}\"[2]\n\n\
         caguid=0x101\nCa 1 \"H-0000000000000101\" # \"h1\"\n[1](102) \"{a_name}\"[1] # lid 3 lmc 0\n\
         caguid=0x201\nCa 1 \"H-0000000000000201\" # \"h2\"\n[1](202) \"{b_name}\"[1] # lid 4 lmc 0\n"
    )
}

#[test]
fn nodes_of_a_chassis_that_state_its_guid_have_that_of_their_name() {
    let names = ["S-0000000000000011", "S-0000000000000012"];
    let guids = |switches: [(&str, &str); 2]| {
        let (f, warnings) = read_fabric(chassis(switches).as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        let of = |s| (f.switch(s).guid.0, f.switch(s).ports[0].guid.0);
        (f.switch_ids().map(of).collect::<Vec<_>>(), warnings.len())
    };
    let by_name = guids([("0x10(31)", names[0]), ("0x10(32)", names[1])]);
    assert_eq!(by_name, (vec![(0x11, 0x31), (0x12, 0x32)], 1));
    assert_eq!(guids([("0x10", names[0]), ("0x10", names[1])]), (vec![(0x11, 0x11), (0x12, 0x12)], 1));
    // If names are not GUIDs, the ports are used.
    assert_eq!(guids([("0x10(31)", "spine"), ("0x10(32)", "leaf")]).0, [(0x31, 0x31), (0x32, 0x32)]);
    // A unique GUID is kept, no matter what the name is.
    assert_eq!(
        guids([("0x77(31)", names[0]), ("0x78(32)", names[1])]),
        (vec![(0x77, 0x31), (0x78, 0x32)], 0)
    );
    // Here nothing is distinct.
    let e = read_fabric(chassis([("0x10", "spine"), ("0x10", "leaf")]).as_bytes()).unwrap_err();
    assert!(e.line > 0 && e.to_string().contains("used twice: by 'spine' and by 'leaf'"), "{e}");
}

#[test]
fn a_port_guid_that_two_have_is_refused_by_name_and_line() {
    let names = [("0x11", "S-0000000000000011"), ("0x12", "S-0000000000000012")];
    let text_of = chassis(names).replace("(202)", "(102)");
    let e = read_fabric(text_of.as_bytes()).unwrap_err();
    assert_eq!(e.line, 17, "{e}");
    for word in ["port GUID 0x0000000000000102", "'h1'", "'h2'", "on line 14"] {
        assert!(e.to_string().contains(word), "no '{word}' in: {e}");
    }
    let (f, _) = read_fabric(chassis(names).as_bytes()).unwrap();
    let list = String::from_utf8(text(|out| subnet_lst::write(out, &f))).unwrap();
    let list = list.replace("PortGUID:0000000000000202", "PortGUID:0000000000000102");
    let e = read_fabric(list.as_bytes()).unwrap_err();
    assert!(e.line > 0 && e.to_string().contains("used twice") && e.to_string().contains("on line"), "{e}");
    let json = String::from_utf8(text(|out| json::write(out, &f))).unwrap();
    let e = read_fabric(json.replace(":514,", ":258,").as_bytes()).unwrap_err();
    assert!(e.to_string().contains("port GUID 0x0000000000000102 is used twice"), "{e}");
    // A fabric from elsewhere gets no list that states it twice.
    let mut b = FabricBuilder::from_fabric(&f);
    let h2 = (0..b.len()).map(NodeId::at).find(|&n| b.node(n).description == "h2").unwrap();
    b.node_mut(h2).ports[1].guid = Guid(0x102);
    let twice = b.finish(Lmc::default()).unwrap();
    let mut out = Vec::new();
    assert!(guid2lid::write(&mut out, &twice).is_err() && out.is_empty());
}

#[test]
fn a_lid_that_is_missing_is_none() {
    for words in ["base port 0 lid  lmc 0", "base port 0 lid", "base port 0 lid lmc"] {
        let (f, warnings) = read_fabric(format!("Switch 4 \"a\" # \"a\" {words}\n").as_bytes()).unwrap();
        assert!(warnings[0].reason.contains("no number after 'lid'"), "{words}: {warnings:?}");
        assert_eq!(f.notes().len(), 1, "it gets one");
    }
    let e = read_fabric(b"Switch 4 \"a\" # \"a\" base port 0 lid x lmc 0\n").unwrap_err();
    assert!(e.to_string().contains("lid 'x' is out of range"), "{e}");
}

/// A file that is not a table or that ends too early is never read as a shorter table.
#[test]
fn what_tables_do_not_say_is_said() {
    let f = sample();
    let dir = tempfile::tempdir().unwrap();
    write_tables(dir.path(), &f, &routes(&f), WriteOptions::default()).unwrap();
    let load = || load_tables(dir.path(), f.clone()).map(|(_, routes)| routes.remarks.join("; "));
    assert!(!load().unwrap().contains("not stated"));
    let psl = dir.path().join("psl");
    let all = std::fs::read_to_string(&psl).unwrap();
    let half: Vec<&str> = all.lines().take(10).collect();
    std::fs::write(&psl, half.join("\n")).unwrap();
    assert!(load().unwrap().contains("pairs are not stated: every SL may be used on them"), "{:?}", load());
    std::fs::write(&psl, all).unwrap();
    let groups = dir.path().join("opensm.mcfdbs");
    std::fs::write(&groups, "\x00\x01garbage").unwrap();
    assert!(
        load().unwrap_err().to_string().contains("opensm.mcfdbs: line 1: text without a multicast table")
    );
    std::fs::write(&groups, "").unwrap();
    let lfts = dir.path().join("opensm-lfts.dump");
    let all = std::fs::read_to_string(&lfts).unwrap();
    std::fs::write(&lfts, all.split("Unicast").take(2).collect::<Vec<_>>().join("Unicast")).unwrap();
    assert!(load().unwrap().contains("opensm-lfts.dump: switch of the fabric without a table (2 times)"));
    std::fs::remove_file(&lfts).unwrap();
    std::fs::create_dir(&lfts).unwrap();
    assert!(load().unwrap_err().to_string().contains("opensm-lfts.dump: not a regular file"));
}

#[test]
fn the_mark_of_other_editors_changes_nothing() {
    let f = sample();
    for text in
        [SHORT.as_bytes().to_vec(), text(|out| json::write(out, &f)), text(|out| subnet_lst::write(out, &f))]
    {
        let (marked, warnings) = read_fabric(&[b"\xef\xbb\xbf", &text[..]].concat()).unwrap();
        assert_eq!((marked.endports(), warnings), (f.endports(), Vec::new()));
    }
}

/// If LIDs differ, the message says so and gives the first.
#[test]
fn tables_with_other_lids_are_named_as_such() {
    let names = [("0x11", "S-0000000000000011"), ("0x12", "S-0000000000000012")];
    let (f, _) = read_fabric(chassis(names).as_bytes()).unwrap();
    let other = chassis(names).replace("lid 3 lmc", "lid 9 lmc").replace("lid 4 lmc", "lid 3 lmc");
    let other = read_fabric(other.as_bytes()).unwrap().0;
    let dir = tempfile::tempdir().unwrap();
    write_tables(dir.path(), &f, &routes(&f), WriteOptions::default()).unwrap();
    let remarks = load_tables(dir.path(), other.clone()).unwrap().1.remarks;
    let remark = "LIDs of 2 end ports taken from the tables; the fabric's file has different ones, first: port 1 of 'h1', \
                  LID 9 in the file and 3 in the tables";
    assert!(remarks.iter().any(|r| r == remark), "{remarks:?}");
    assert!(!load_tables(dir.path(), f.clone()).unwrap().1.remarks.iter().any(|r| r.contains("LIDs")));
    // Tables that do not state the owners of LIDs.
    let bare = tempfile::tempdir().unwrap();
    std::fs::copy(dir.path().join("opensm.fdbs"), bare.path().join("opensm.fdbs")).unwrap();
    let remarks = load_tables(bare.path(), other).unwrap().1.remarks;
    let doubt = remarks.iter().find(|r| r.contains("other LIDs")).unwrap_or_else(|| panic!("{remarks:?}"));
    for word in ["at 1 of 4 end ports", "LID 3 is port 1 of 'h2' at port 1 of 'leaf'", "out of port 2"] {
        assert!(doubt.contains(word), "no '{word}' in: {doubt}");
    }
    assert!(!load_tables(bare.path(), f).unwrap().1.remarks.iter().any(|r| r.contains("LIDs")));
}

/// Its subnet list, which shows links, is empty.
#[test]
fn tables_of_a_lone_switch_survive_a_folder() {
    let mut builder = FabricBuilder::new();
    builder.add(Node::new(NodeKind::Switch, Guid(1), 8, "alone")).unwrap();
    let f = builder.finish(Lmc::default()).unwrap();
    let r = routes(&f);
    let dir = tempfile::tempdir().unwrap();
    write_tables(dir.path(), &f, &r, WriteOptions::default()).unwrap();
    let (back, read) = load_tables(dir.path(), f.clone()).unwrap();
    assert_eq!((back.endports(), read.lft), (f.endports(), r.lft));
}

#[test]
fn dumps_look_as_opensm_prints_them() {
    let f = sample();
    let r = routes(&f);
    let lfts = String::from_utf8(text(|out| lfts_dump::write(out, &f, &r.lft))).unwrap();
    assert!(lfts.starts_with("Unicast lids [0-7] of switch Lid 5 guid 0x0000000000200000 ('leaf one'):\n"));
    assert!(lfts.contains("\n0x0001 003 # Channel Adapter portguid 0x0000000000100001: 'H 1'\n"));
    assert!(lfts.ends_with("\n7 lids dumped\n"));
    let fdbs = String::from_utf8(text(|out| fdbs::write(out, &f, &r.lft))).unwrap();
    assert!(fdbs.starts_with(
        "dump_ucast_routes: Switch 0x0000000000200000\nLID    : Port : Hops : Optimal\n0x0001 : 003  : 01   : yes\n"
    ));
}

#[test]
fn contradictions_and_absurd_numbers_are_refused_with_their_line() {
    for (bad, line, word) in [
        ("Switch 4 \"a\"\n[1] \"b\"[1]\n[2] \"b\"[1]\nSwitch 4 \"b\"\n", 3, "line 2"),
        ("Switch 4 \"a\"\n[1] \"b\"[1]\n", 2, "not defined"),
        ("Switch 4 \"a\"\nSwitch 4 \"a\"\n", 2, "line 1"),
        ("Switch 4000000000 \"a\"\n", 1, "number of ports"),
        ("Switch 4 \"a\"\n[0] \"a\"[1]\n", 2, "port 0"),
        ("Switch 4 \"a\"\n[99999] \"a\"[1]\n", 2, "port number"),
        ("Switch 4 \"a\" # \"a\" base port 0 lid 49152 lmc 0\n", 1, "not a unicast LID"),
        ("Ca 1 \"h\" # \"h\"\n", 1, "no switch"),
    ] {
        let e = read_fabric(bad.as_bytes()).unwrap_err();
        assert_eq!(e.line, line, "{e}");
        assert!(e.to_string().contains(word), "{e}");
    }
}

/// Name, switches, CAs and cables of fabrics in `DFDN_FABRICS`.
const FOREIGN: [(&str, [usize; 3]); 12] = [
    ("ufm_sdk/selene.storage.txt", [160, 1247, 3286]),
    ("ufm_sdk/ibnetdiscover_director.txt", [400, 2328, 8723]),
    ("ufm_sdk/small_topo_file", [2, 13, 16]),
    ("topograph/example.out", [40, 582, 1114]),
    ("tartu/topo", [8, 144, 192]),
    ("x5/X5.topofile", [11, 89, 159]),
    ("ibutils/subnet.lst", [62, 3, 172]),
    ("ibutils/RhinoBased512.lst", [216, 512, 2752]),
    ("pentagon/pentagon.ibnl.net", [5, 11, 21]),
    ("xpander/xpander_n16_d3.net", [16, 64, 88]),
    ("xpander/xpander_n128_d16.net", [128, 512, 1536]),
    ("xpander/xpander_n216_d11.net", [216, 864, 2052]),
];

fn foreign_folder() -> PathBuf {
    std::env::var_os("DFDN_FABRICS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/fabrics"), PathBuf::from)
}

/// The fabrics that exist, with their counts; reports the missing ones.
fn foreign_files() -> impl Iterator<Item = (PathBuf, [usize; 3])> {
    let dir = foreign_folder();
    FOREIGN.into_iter().map(move |(name, counts)| (dir.join(name), counts)).filter(|(path, _)| {
        if !path.exists() {
            println!("skipped: {} is not there", path.display());
        }
        path.exists()
    })
}

#[test]
fn fabrics_of_others_load() {
    for (path, counts) in foreign_files() {
        let name = path.display();
        let (f, warnings) = load_fabric(&path).unwrap_or_else(|e| panic!("{e}"));
        let cas = f.nodes().iter().filter(|n| n.kind == NodeKind::ChannelAdapter).count();
        let cables: usize = f.nodes().iter().flat_map(|n| &n.ports).filter(|p| p.peer.is_some()).count();
        println!("{name}: {f}, {cas} CAs, {cables} cable ends; {warnings:?}");
        assert_eq!([f.num_switches(), cas, cables / 2], counts, "{name}");
    }
    let bad = foreign_folder().join("topograph/example-bad.out");
    if bad.exists() {
        let e = load_fabric(&bad).unwrap_err();
        assert!(e.line > 0 && e.file.is_some(), "{e}");
    }
}

#[test]
fn a_link_that_is_down_is_kept_by_the_subnet_list() {
    let mut b = FabricBuilder::from_fabric(&sample());
    let spine = (0..b.len()).map(NodeId::at).find(|&n| b.node(n).description == "spine").unwrap();
    b.node_mut(spine).ports[5].state = LinkState::Down;
    let f = b.finish(Lmc::default()).unwrap();
    let (back, _) = read_fabric(&text(|out| subnet_lst::write(out, &f))).unwrap();
    assert_eq!(f.channels().as_slice(), back.channels().as_slice());
    assert!(f.channels().len() < sample().channels().len());
}

#[test]
fn what_other_simulators_read_has_a_line_for_each_description() {
    let ring = crate::topology::Ring { switches: 4, cas: 1 }.build().unwrap();
    let mut builder = FabricBuilder::from_fabric(&ring);
    for node in 0..builder.len() {
        builder.node_mut(NodeId::at(node)).description = "x\n}\r".to_owned();
    }
    let fabric = builder.finish(Lmc::default()).unwrap();
    let routes = Routes::on_one_vl("none", &fabric, Lft::new(&fabric));
    let folder = tempfile::tempdir().unwrap();
    booksim::write(folder.path(), &fabric, &routes).unwrap();
    ib_flit_sim::write(folder.path(), &fabric, &routes).unwrap();
    let lines = |name: &str| -> Vec<String> {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    assert_eq!(lines("fabric.names").len(), 8);
    let ned = lines("fabric.ned");
    assert_eq!(ned.iter().position(|line| line.starts_with('}')), Some(ned.len() - 1));
}
