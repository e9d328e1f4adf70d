//! Fabrics.

use super::*;
use crate::fabric::{FabricError, LinkState, NodeId};

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

#[test]
fn of_end_ports_with_one_lid_the_first_keeps_it() {
    let shared_lid = "Switch 4 \"S-0000000000000011\" # \"a\" base port 0 lid 3 lmc 0\n[1] \"S-0000000000000012\"[1]\n\
        [2] \"H-0000000000000021\"[1](22) # \"h\" lid 4\nSwitch 4 \"S-0000000000000012\" # \"b\" base port 0 lid 3 lmc 0\n\
        Ca 1 \"H-0000000000000021\" # \"h\"\n[1](22) \"S-0000000000000011\"[2] # lid 4 lmc 2 \"a\" lid 3\n";
    let (f, warnings) = read_fabric(shared_lid.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    let lids = |f: &Fabric| f.endports().iter().map(|end| (end.lid.get(), end.lmc.get())).collect::<Vec<_>>();
    assert_eq!(lids(&f), [(4, 2), (3, 0), (1, 0)]);
    let shared = warnings.iter().map(Warning::to_string).filter(|w| w.contains("stated twice"));
    let shared: Vec<String> = shared.collect();
    assert_eq!(shared.len(), 1, "{warnings:?}");
    assert!(shared[0].starts_with("line 4: LID 3 is stated twice: it stays with 'a', and 'b'"), "{shared:?}");
    assert!(f.limits_of_verdicts().iter().any(|limit| limit.contains("LIDs were assigned")));
    // In the other format.
    let twice =
        String::from_utf8(text(|out| subnet_lst::write(out, &f))).unwrap().replace("LID:0001", "LID:0003");
    let (f, warnings) = read_fabric(twice.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(lids(&f), [(4, 0), (3, 0), (1, 0)]);
    assert!(
        warnings.iter().any(|w| w.line == 2 && w.reason.contains("LID 3 is stated twice")),
        "{warnings:?}"
    );
    // A LID within the range of another port.
    let mut b = FabricBuilder::from_fabric(&f);
    let of = |name: &str| (0..b.len()).map(NodeId::at).find(|&n| b.node(n).description == name).unwrap();
    let (a, h) = (of("a"), of("h"));
    b.node_mut(a).ports[0].lid = Lid::new(6);
    b.node_mut(h).ports[1].lmc = Lmc::new(2).unwrap();
    let refused = b.clone().finish(Lmc::default());
    assert!(matches!(refused, Err(FabricError::DuplicateLid { lid: 6, .. })));
    let shared = b.part_shared_lids();
    assert_eq!(shared.iter().map(|s| (s.lid, s.kept.node, s.parted.node)).collect::<Vec<_>>(), [(6, h, a)]);
    assert_eq!(lids(&b.finish(Lmc::default()).unwrap()), [(4, 2), (2, 0), (1, 0)]);
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
