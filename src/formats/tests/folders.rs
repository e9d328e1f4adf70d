//! Folders of tables.

use super::*;
use crate::engine::{Settings, route};
use crate::fabric::{EndPortId, Sl};
use crate::routing::{Hops, sssp};
use crate::tables::{ClassSl, Classes};
use crate::topology::Ring;
use crate::verify::verify;

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
    assert_eq!(slvl::read(&slvl_text[..], &f).unwrap().0.rows(), r.sl2vl.rows());
    let lids = std::fs::read(dir.path().join("guid2lid")).unwrap();
    assert_eq!(guid2lid::read(&lids[..], &f).unwrap().0.endports(), f.endports());
    // Without psl and SL2VL there is one lane.
    std::fs::remove_file(dir.path().join("psl")).unwrap();
    std::fs::remove_file(dir.path().join("opensm-sl2vl.dump")).unwrap();
    assert_eq!(load_tables(dir.path(), f.clone()).unwrap().1.path_sl, PathSl::one(Sl(0)));
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

/// Destinations on several VL sets have SLs of their own, though every SL serves every pair.
#[test]
fn the_sls_of_spread_destinations_are_written() {
    let f = sample();
    let classes = Classes { classes: 1, vl_sets: 2, vls: 1, sls: 1 };
    let to = |set: fn(usize) -> u8| {
        let vl_set_of = (0..f.lid_table_len()).map(set).collect();
        PathSl::Classes(ClassSl { classes, own: Box::new(PathSl::Any(u16::MAX)), vl_set_of })
    };
    let fate =
        |path_sl: PathSl| plan_tables(&f, &Routes { path_sl, ..routes(&f) }, WriteOptions::default())[4].fate;
    assert_eq!(fate(to(|_| 0)), Fate::NotNeeded);
    assert_eq!(fate(to(|lid| lid as u8 % 2)), Fate::Written);
    let r = Routes { path_sl: to(|lid| lid as u8 % 2), ..routes(&f) };
    let dir = tempfile::tempdir().unwrap();
    write_tables(dir.path(), &f, &r, WriteOptions::default()).unwrap();
    let (_, back) = load_tables(dir.path(), f.clone()).unwrap();
    for (source, lid) in f.adapters().flat_map(|(id, _)| f.endports().iter().map(move |e| (id, e.lid))) {
        assert_eq!(back.path_sl.get(&f, source, lid), r.path_sl.get(&f, source, lid), "{lid}");
    }
}

/// Adapters have one row: the VLs of most of them. None is taken to drop what another one sends.
#[test]
fn adapters_that_differ_are_read_as_most_of_them() {
    let f = sample();
    let text = String::from_utf8(text(|out| sl2vl_dump::write(out, &f, &routes(&f).sl2vl))).unwrap();
    let was = format!("0   0   :{}", " 0  1  2 ".repeat(5) + " 0 ");
    let rows = text.matches(&was).count();
    assert_eq!(rows, f.adapters().count());
    let drops = format!("0   0   :{}", " 15 5 ".repeat(8));
    let read = |text: &str| sl2vl_dump::read(text.as_bytes(), &f).unwrap();
    let (table, warnings) = read(&text.replacen(&was, &drops, 1));
    assert_eq!((table.adapters(), warnings.len()), (routes(&f).sl2vl.adapters(), 1), "{warnings:?}");
    let (table, warnings) = read(&text.replacen(&was, &drops, rows - 1));
    let vls = |even: fn(usize) -> u8| {
        SlVlRow::from_vls(std::array::from_fn(|sl| Vl(if sl % 2 == 0 { even(sl) } else { 5 })))
    };
    assert_eq!((table.adapters(), warnings.len()), (vls(|sl| sl as u8 % 3), 1), "{warnings:?}");
    let (table, warnings) = read(&text.replace(&was, &drops));
    assert_eq!((table.adapters(), warnings.len()), (vls(|_| 15), 0), "{warnings:?}");
    // One adapter says nothing: it sends on VL 0. A row of another fabric's adapter does not stand for it.
    let silent = text.replace(&was, &drops).replacen(&drops, "", 1);
    let other = format!("{silent}Channel Adapter 0x5, base LID 9, \"other\"\n{drops}\n");
    for text in [silent, other] {
        assert_eq!(read(&text).0.adapters(), vls(|_| 0));
    }
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

/// A ring of three switches whose adapters have two LIDs each.
fn two_lids() -> Fabric {
    Ring { switches: 3, cas: 1 }.build().unwrap().with_lmc(Lmc::new(1).unwrap()).unwrap()
}

/// The fabric with the LMC and without LIDs beyond the first.
fn without_lmc(fabric: &Fabric) -> Fabric {
    let mut builder = FabricBuilder::from_fabric(fabric);
    for end in fabric.endports() {
        builder.node_mut(end.node).ports[end.port.index()].lmc = Lmc::default();
    }
    builder.finish(Lmc::default()).unwrap()
}

/// Loads tables of which only some files are left, and returns the end ports and the remarks.
fn of_files(full: &Path, names: &[&str], fabric: &Fabric) -> (Fabric, String) {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        std::fs::copy(full.join(name), dir.path().join(name)).unwrap();
    }
    let (back, routes) = load_tables(dir.path(), fabric.clone()).unwrap();
    (back, routes.remarks.join("; "))
}

/// A list of the subnet has no LMC, and tables with hops have no owners of LIDs.
#[test]
fn all_lids_of_an_end_port_are_judged() {
    let f = two_lids();
    let dir = tempfile::tempdir().unwrap();
    write_tables(dir.path(), &f, &routes(&f), WriteOptions::default()).unwrap();
    let (fdbs, list) = ("opensm.fdbs", "opensm-subnet.lst");
    for names in [&[fdbs][..], &[fdbs, list], &["opensm-lfts.dump", list], &["opensm-lfts.dump"]] {
        let (back, remarks) = of_files(dir.path(), names, &f);
        assert_eq!(back.endports(), f.endports(), "{names:?}");
        assert!(!remarks.contains("LID"), "{names:?}: {remarks}");
        // What the fabric's file does not state, the tables show.
        let (back, remarks) = of_files(dir.path(), names, &without_lmc(&f));
        assert_eq!(back.endports(), f.endports(), "{names:?}");
        let word = if names.contains(&fdbs) { "more LIDs than" } else { "LIDs of 3 end ports taken" };
        assert!(remarks.contains(word), "{names:?}: {remarks}");
    }
}

/// OpenSM leaves LIDs out that a switch does not reach.
#[test]
fn a_lid_that_a_table_lacks_is_judged() {
    let f = two_lids();
    let dir = tempfile::tempdir().unwrap();
    let complete = Routes::on_one_vl("sssp", &f, sssp(&f, &Hops::new(&f).unwrap()));
    assert!(verify(&f, &complete).reachable);
    write_tables(dir.path(), &f, &complete, WriteOptions::default()).unwrap();
    let path = dir.path().join("opensm-lfts.dump");
    let whole = std::fs::read_to_string(&path).unwrap();
    let end = f.adapters().next().unwrap().1;
    for lid in end.lids() {
        let entry = format!("0x{:04x} ", lid.get());
        let tables: Vec<&str> = whole.split_inclusive(" lids dumped\n").collect();
        let without = |table: &str| -> String {
            table.split_inclusive('\n').filter(|line| !line.starts_with(&entry)).collect()
        };
        // In one table or in all.
        for lacking in [0..1, 1..2, 0..3] {
            let kept = |(i, table): (usize, &&str)| match lacking.contains(&i) {
                true => without(table),
                false => (*table).to_owned(),
            };
            std::fs::write(&path, tables.iter().enumerate().map(kept).collect::<String>()).unwrap();
            for (fabric, states_it) in [(&f, true), (&without_lmc(&f), lid == end.lid)] {
                let (back, read) = load_tables(dir.path(), fabric.clone()).unwrap();
                if lacking.len() < 3 || states_it {
                    assert_eq!(back.endports(), f.endports(), "LID {lid} in {lacking:?}");
                    assert!(!verify(&back, &read).reachable, "LID {lid} in {lacking:?}");
                }
            }
        }
    }
}

#[test]
fn a_table_in_two_files_is_refused() {
    let f = sample();
    let dir = tempfile::tempdir().unwrap();
    write_tables(dir.path(), &f, &routes(&f), WriteOptions::default()).unwrap();
    for (ours, theirs) in [
        ("opensm.fdbs", "ibdiagnet2.fdbs"),
        ("slvl", "ibdiagnet2.slvl"),
        ("opensm.mcfdbs", "ibdiagnet2.mcfdbs"),
    ] {
        std::fs::copy(dir.path().join(ours), dir.path().join(theirs)).unwrap();
        let refused = load_tables(dir.path(), f.clone()).unwrap_err().to_string();
        assert!(refused.contains(&format!("and {theirs}")) && refused.contains("remove"), "{refused}");
        std::fs::remove_file(dir.path().join(theirs)).unwrap();
    }
}

/// What a text leaves out is not called safe.
#[test]
fn missing_rows_drop_packets() {
    let f = two_lids();
    let complete = Routes::on_one_vl("sssp", &f, sssp(&f, &Hops::new(&f).unwrap()));
    assert!(verify(&f, &complete).is_safe());
    let dir = tempfile::tempdir().unwrap();
    write_tables(dir.path(), &f, &complete, WriteOptions::default()).unwrap();
    let (dump, slvl) = (dir.path().join("opensm-sl2vl.dump"), dir.path().join("slvl"));
    let of = |name: &str| {
        let (_, read) = load_tables(dir.path(), f.clone()).unwrap();
        assert!(!verify(&f, &read).reachable, "{name}");
        let word = format!("{name}: no row for two ports of a switch");
        assert!(read.remarks.iter().any(|remark| remark.contains(&word)), "{:?}", read.remarks);
    };
    let whole = std::fs::read_to_string(&dump).unwrap();
    // Cut between two switches, and without one row.
    let parts: Vec<&str> = whole.split("Switch 0x").collect();
    std::fs::write(&dump, parts[..parts.len() - 1].join("Switch 0x")).unwrap();
    of("opensm-sl2vl.dump");
    let is_used = |line: &&str| {
        let mut words = line.split_whitespace();
        let (in_port, out_port) = (words.next(), words.next());
        in_port.is_some_and(|port| port.parse().is_ok_and(|port: u8| port > 0)) && in_port != out_port
    };
    let row = whole.lines().find(is_used).unwrap();
    std::fs::write(&dump, whole.replacen(&format!("{row}\n"), "", 1)).unwrap();
    of("opensm-sl2vl.dump");
    // A row that contradicts an earlier one.
    let (ports, vls) = row.split_once(':').unwrap();
    let other = format!("{row}\n{ports}:{}\n", vls.replace('0', "1"));
    std::fs::write(&dump, whole.replacen(&format!("{row}\n"), &other, 1)).unwrap();
    let refused = load_tables(dir.path(), f.clone()).unwrap_err().to_string();
    assert!(refused.contains("another row from port"), "{refused}");

    std::fs::remove_file(&dump).unwrap();
    let last = f.switch(f.switch_ids().last().unwrap()).guid.to_string();
    let text = std::fs::read_to_string(slvl).unwrap();
    let kept: String = text.split_inclusive('\n').filter(|line| !line.starts_with(&last)).collect();
    std::fs::write(dir.path().join("ibdiagnet2.slvl"), kept).unwrap();
    of("ibdiagnet2.slvl");
    // A switch whose port 0 sends nothing may have no rows for it.
    let others = |line: &&str| line.split_whitespace().nth(1) != Some("0");
    let kept: String = text.split_inclusive('\n').filter(others).collect();
    std::fs::write(dir.path().join("ibdiagnet2.slvl"), kept).unwrap();
    assert!(verify(&f, &load_tables(dir.path(), f.clone()).unwrap().1).is_safe());
}

#[test]
fn port_255_stands_for_no_path() {
    let f = sample();
    let full = routes(&f);
    let dump = String::from_utf8(text(|out| lfts_dump::write(out, &f, &full.lft))).unwrap();
    let (lid, switch) = (f.endports()[0].lid, SwitchId(1));
    let lines = dump.lines().map(str::to_owned).collect::<Vec<_>>();
    let header = lines.iter().position(|l| l.contains(&f.switch(switch).guid.to_string())).unwrap();
    let start = format!("0x{:04x} ", lid.get());
    let entry = header + lines[header..].iter().position(|l| l.starts_with(&start)).unwrap();
    let with = |port: &str| {
        let mut lines = lines.clone();
        lines[entry] = format!("{start}{port} # : (an entry without a port)");
        lfts_dump::read(lines.join("\n").as_bytes(), &f)
    };
    let (lft, warnings) = with("255").unwrap_or_else(|e| panic!("{e}"));
    let mut expected = full.lft.clone();
    assert!(expected.get(switch, lid).is_some());
    expected.clear(switch, lid);
    assert_eq!((lft == expected, warnings), (true, Vec::new()));
    assert!(with("254").unwrap_err().to_string().contains("no port 254"));
}

#[test]
fn an_entry_that_contradicts_an_earlier_one_is_refused() {
    let f = two_lids();
    let dir = tempfile::tempdir().unwrap();
    write_tables(dir.path(), &f, &routes(&f), WriteOptions::default()).unwrap();
    let path = dir.path().join("opensm-lfts.dump");
    let whole = std::fs::read_to_string(&path).unwrap();
    let entry = whole.lines().find(|line| line.starts_with("0x")).unwrap();
    let other = entry.replacen(" 00", " 01", 1);
    std::fs::write(&path, whole.replacen(entry, &format!("{entry}\n{other}"), 1)).unwrap();
    let refused = load_tables(dir.path(), f.clone()).map(drop).map_err(|e| e.to_string());
    assert!(other != entry && refused.as_ref().is_err_and(|e| e.contains("line 3")), "{refused:?}");
}

/// Another switch in its place has the same name.
#[test]
fn tables_of_another_switch_of_the_same_name_do_not_count() {
    let names = [("0x11", "S-0000000000000011"), ("0x12", "S-0000000000000012")];
    let (f, _) = read_fabric(chassis(names).as_bytes()).unwrap();
    let new = chassis([names[0], ("0x13", "S-0000000000000013")]);
    let (other, _) = read_fabric(new.as_bytes()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let complete = Routes::on_one_vl("sssp", &f, sssp(&f, &Hops::new(&f).unwrap()));
    write_tables(dir.path(), &f, &complete, WriteOptions::default()).unwrap();
    assert!(verify(&f, &load_tables(dir.path(), f.clone()).unwrap().1).is_safe());
    let (other, read) = load_tables(dir.path(), other).unwrap();
    assert!(!verify(&other, &read).reachable, "{:?}", read.remarks);
}

/// The ports of an adapter may have unlike SLs to the same LID.
#[test]
fn path_sls_of_each_port_survive_a_folder() {
    let f = sample();
    let table: Vec<u8> = (0..f.endports().len() * f.lid_table_len()).map(|i| (i % 7) as u8).collect();
    let r = Routes { path_sl: PathSl::ByEndPort(table), ..routes(&f) };
    let ports = |node| f.endports().iter().filter(|end| end.node == node && end.attachment.is_some()).count();
    assert!(f.endports().iter().any(|end| ports(end.node) > 1), "an adapter with two ports");
    let dir = tempfile::tempdir().unwrap();
    write_tables(dir.path(), &f, &r, WriteOptions::default()).unwrap();
    let back = load_tables(dir.path(), f.clone()).unwrap().1.path_sl;
    for (i, source) in f.endports().iter().enumerate().filter(|(_, end)| end.attachment.is_some()) {
        for (j, to) in f.endports().iter().enumerate().filter(|&(j, _)| j != i) {
            for lid in to.lids() {
                let of = |path_sl: &PathSl| path_sl.allowed(&f, EndPortId::at(i), lid);
                assert_eq!(of(&back), of(&r.path_sl), "{source:?} to LID {lid} of end port {j}");
            }
        }
    }
}

/// One switch is taken from an earlier dump.
#[test]
fn lids_too_far_apart_for_one_end_port_are_refused() {
    let f = two_lids();
    let dir = tempfile::tempdir().unwrap();
    write_tables(dir.path(), &f, &routes(&f), WriteOptions::default()).unwrap();
    let path = dir.path().join("opensm-lfts.dump");
    let whole = std::fs::read_to_string(&path).unwrap();
    let lid = f.adapters().next().unwrap().1.lid;
    std::fs::write(&path, whole.replacen(&format!("0x{:04x} ", lid.get()), "0x0521 ", 1)).unwrap();
    let refused = load_tables(dir.path(), f.clone()).map(drop).map_err(|e| e.to_string());
    assert!(
        refused.as_ref().is_err_and(|e| e.contains("and 1313 are both stated for port 1 of")),
        "{refused:?}"
    );
}

/// A left-over entry is not taken for a LID of the adapter that it leads to, nor an LMC that only an old file states.
#[test]
fn no_lids_are_made_up_from_tables_with_hops() {
    let f = without_lmc(&two_lids());
    let dir = tempfile::tempdir().unwrap();
    let complete = Routes::on_one_vl("sssp", &f, sssp(&f, &Hops::new(&f).unwrap()));
    write_tables(dir.path(), &f, &complete, WriteOptions::default()).unwrap();
    let path = dir.path().join("opensm.fdbs");
    let whole = std::fs::read_to_string(&path).unwrap();
    let (_, end) = f.adapters().last().unwrap();
    // The third LID after its own, wherever that is routed.
    let (own, other) = (format!("\n0x{:04X} : 0", end.lid.get()), end.lid.get() | 3);
    assert!(f.owner_of(Lid::new(other).unwrap()).is_none() && other > end.lid.get() + 1);
    let double = |line: &str| match format!("\n{line}").starts_with(&own) {
        true => format!("{line}{}", line.replacen(&own[1..7], &format!("0x{other:04X}"), 1)),
        false => line.to_owned(),
    };
    std::fs::write(&path, whole.split_inclusive('\n').map(double).collect::<String>()).unwrap();
    let names = ["opensm.fdbs", "opensm-subnet.lst"];
    let (back, remarks) = of_files(dir.path(), &names, &f);
    assert!(back.endports() == f.endports() && remarks.contains("a LID not in the fabric"), "{remarks}");
    // An old file has other LIDs, and more of them.
    let old = f.with_lmc(Lmc::new(2).unwrap()).unwrap();
    std::fs::write(&path, whole).unwrap();
    let (back, remarks) = of_files(dir.path(), &names, &old);
    let lids = |f: &Fabric| f.adapters().map(|(_, end)| (end.lid, end.lmc)).collect::<Vec<_>>();
    assert_eq!(lids(&back), lids(&f), "{remarks}");
}

/// Switches that route adaptively may have several tables.
#[test]
fn the_first_of_several_tables_of_a_switch_counts() {
    let f = two_lids();
    let dir = tempfile::tempdir().unwrap();
    let r = routes(&f);
    write_tables(dir.path(), &f, &r, WriteOptions::default()).unwrap();
    let whole = std::fs::read_to_string(dir.path().join("opensm.fdbs")).unwrap();
    let mut text = String::new();
    for table in whole.split_inclusive("Optimal\n").skip(1) {
        let entries: String = table.split_inclusive('\n').filter(|line| line.starts_with("0x")).collect();
        let title = table.split_inclusive('\n').filter(|line| !line.starts_with("0x")).collect::<String>();
        text += &format!("PLFT_NUM: 0\n{entries}PLFT_NUM: 1\n{}{title}", entries.replace(": 00", ": 01"));
    }
    let head = whole.split_inclusive("Optimal\n").next().unwrap();
    std::fs::write(dir.path().join("ibdiagnet2.fdbs"), format!("{head}{text}")).unwrap();
    for ours in ["opensm.fdbs", "opensm-lfts.dump"] {
        std::fs::remove_file(dir.path().join(ours)).unwrap();
    }
    let (_, read) = load_tables(dir.path(), f).unwrap();
    assert_eq!(read.lft, r.lft);
    assert!(
        read.remarks.iter().any(|remark| remark.contains("a further table of a switch")),
        "{:?}",
        read.remarks
    );
}

/// What lies behind the switches that are missing does not count as a member.
#[test]
fn a_multicast_table_that_was_cut_is_named_as_such() {
    let f = two_lids();
    let dir = tempfile::tempdir().unwrap();
    let routed = route(&f, &Settings::default()).unwrap();
    write_tables(dir.path(), &f, &routed.routes, WriteOptions::default()).unwrap();
    let remarks = || load_tables(dir.path(), f.clone()).unwrap().1.remarks.join("; ");
    let word = "opensm.mcfdbs: group with copies that end at a switch without an entry";
    assert!(!remarks().contains(word), "{}", remarks());
    let path = dir.path().join("opensm.mcfdbs");
    let whole = std::fs::read_to_string(&path).unwrap();
    let at = whole.rfind("Switch 0x").unwrap();
    std::fs::write(&path, &whole[..at]).unwrap();
    assert!(remarks().contains(word), "{}", remarks());
}
