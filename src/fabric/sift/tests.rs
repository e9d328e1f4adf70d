//! One bad node at a time.

use super::*;

/// Switches 1 to n in a ring, each with one adapter; the switches have LIDs 1 to n, the adapters
/// the LIDs that follow. The subnet manager runs on the first adapter.
fn ring(n: u16) -> Survey {
    let mut survey = Survey::default();
    for i in 0..n {
        let guid = Guid(u64::from(i) + 1);
        let mut switch = Node::new(NodeKind::Switch, guid, 4, &format!("S{}", i + 1));
        switch.ports[0].lid = Lid::new(i + 1);
        survey.builder.add(switch).unwrap();
    }
    for i in 0..n {
        let guid = Guid(u64::from(i) * 16 + 0x100);
        let mut host = Node::new(NodeKind::ChannelAdapter, guid, 1, &format!("H{}", i + 1));
        host.ports[1].lid = Lid::new(n + i + 1);
        survey.builder.add(host).unwrap();
    }
    let end = |i: u16, port| PortRef { node: NodeId(u32::from(i)), port: PortNum(port) };
    for i in 0..n {
        survey.connect(end(i, 1), end((i + 1) % n, 2));
        survey.connect(end(i, 3), end(n + i, 1));
    }
    survey.owners = vec![None];
    survey.owners.extend((0..2 * n).map(|i| Some(end(i, u8::from(i >= n)))));
    survey.home = Some(end(n, 1));
    survey
}

fn names(fabric: &Fabric, kept: bool) -> Vec<String> {
    let cabled = |node: &&Node| node.ports.iter().any(|port| port.peer.is_some());
    fabric.nodes().iter().filter(|n| cabled(n) == kept).map(|n| n.description.clone()).collect()
}

fn untrusted(fabric: &Fabric) -> Vec<(String, usize)> {
    let ports = |node: &Node| -> Vec<(String, usize)> {
        let ports = node.ports.iter().enumerate().filter(|(_, port)| port.untrusted);
        ports.map(|(number, _)| (node.description.clone(), number)).collect()
    };
    fabric.nodes().iter().flat_map(ports).collect()
}

#[test]
fn an_honest_fabric_stays_as_it_is() {
    let sifted = sift(ring(5)).unwrap();
    assert!(sifted.left_out.is_empty() && sifted.switches.is_empty() && sifted.adapters.is_empty());
    assert_eq!((sifted.fabric.num_switches(), sifted.fabric.num_links()), (5, 10));
    assert!(untrusted(&sifted.fabric).is_empty());
}

#[test]
fn the_table_of_lids_says_who_owns_one() {
    // An adapter claims the LID of another one, which comes before or after it.
    for (liar, honest) in [(7_u32, 8_u16), (8, 7)] {
        let mut survey = ring(5);
        survey.builder.node_mut(NodeId(liar)).ports[1].lid = Lid::new(honest + 1);
        let sifted = sift(survey).unwrap();
        let name = format!("H{}", liar - 4);
        assert_eq!(names(&sifted.fabric, false), std::slice::from_ref(&name));
        assert_eq!(sifted.left_out.len(), 1);
        let [owner, note] = [format!("'H{}'", honest - 4), sifted.left_out[0].clone()];
        for word in
            [&format!("'{name}'"), "port 1 is left out", &format!("LID {} with LMC 0", honest + 1), &owner]
        {
            assert!(note.contains(word), "{word}: {note}");
        }
        assert_eq!(sifted.adapters, [Guid(u64::from(liar - 5) * 16 + 0x101)]);
    }
    // A switch claims one: it forwards without a LID.
    let mut survey = ring(5);
    survey.builder.node_mut(NodeId(2)).ports[0].lid = Lid::new(7);
    let sifted = sift(survey).unwrap();
    assert!(names(&sifted.fabric, false).is_empty() && sifted.switches.is_empty());
    assert!(
        sifted.left_out[0].contains("'S3'") && sifted.left_out[0].contains("'H2'"),
        "{:?}",
        sifted.left_out
    );
    assert!(untrusted(&sifted.fabric).is_empty());
}

#[test]
fn the_owner_has_back_what_was_taken_away_for_a_liar() {
    for answers in [false, true] {
        // The last adapter claimed the LID of the subnet manager's switch, and both lost theirs.
        let mut survey = ring(5);
        for (node, port) in [(0, 0), (9, 1)] {
            survey.builder.node_mut(NodeId(node)).ports[port].lid = None;
        }
        (survey.owners[1], survey.owners[10]) = (None, None);
        let switch = PortRef { node: NodeId(0), port: PortNum(0) };
        survey.answered.extend(answers.then_some((switch, Lid::new(1).unwrap())));
        let sifted = sift(survey).unwrap();
        assert_eq!(names(&sifted.fabric, false), ["H5"], "{:?}", sifted.left_out);
        assert_eq!(sifted.fabric.num_switches(), 5);
        let owner = sifted.fabric.owner_of(Lid::new(1).unwrap());
        assert_eq!(owner.map(|e| sifted.fabric.endport(e).guid), answers.then_some(Guid(1)));
    }
}

#[test]
fn a_range_that_reaches_into_others_is_cut() {
    let mut survey = ring(5);
    survey.builder.node_mut(NodeId(6)).ports[1].lmc = Lmc::new(2).unwrap();
    survey.builder.node_mut(NodeId(3)).ports[0].lmc = Lmc::new(3).unwrap();
    let sifted = sift(survey).unwrap();
    assert_eq!(sifted.left_out.len(), 2, "{:?}", sifted.left_out);
    assert!(names(&sifted.fabric, false).is_empty());
    assert!(sifted.fabric.endports().iter().all(|end| end.lmc.get() == 0));
    assert!(sifted.left_out[1].contains("'H2'") && sifted.left_out[1].contains("LID 7 with LMC 2"));
    // It keeps what the table assigns to it, up to its last LID.
    let mut survey = ring(5);
    survey.builder.node_mut(NodeId(9)).ports[1].lmc = Lmc::new(2).unwrap();
    survey.owners.push(survey.owners[10]);
    let sifted = sift(survey).unwrap();
    assert_eq!(sifted.fabric.endports().iter().map(|end| end.lmc.get()).max(), Some(1));
}

#[test]
fn of_two_parts_that_of_the_subnet_manager_counts() {
    let mut survey = ring(7);
    survey.bad.insert(NodeId(1), "it is bad".to_owned());
    survey.bad.insert(NodeId(5), "it is bad".to_owned());
    let sifted = sift(survey).unwrap();
    // S1 and S7 are between the parts. The subnet manager's part counts, though the other is
    // larger.
    let kept: Vec<_> = sifted.fabric.switch_ids().map(|s| sifted.fabric.switch(s).guid.0).collect();
    assert_eq!(kept, [1, 7]);
    let note = sifted.left_out.last().unwrap();
    assert!(note.contains("3 switches") && note.contains("'S4'"), "{note}");
    assert_eq!((sifted.switches.len(), sifted.adapters.len()), (5, 5));
    // If its own switch is bad, the larger part counts.
    let mut survey = ring(7);
    survey.bad.insert(NodeId(0), "it is bad".to_owned());
    survey.bad.insert(NodeId(2), "it is bad".to_owned());
    assert_eq!(sift(survey).unwrap().fabric.num_switches(), 4);
}

#[test]
fn a_doubtful_switch_stays_where_the_subnet_manager_hangs_off_it() {
    for (switch, kept) in [(0, 5), (2, 4)] {
        let mut survey = ring(5);
        survey.doubtful.insert(NodeId(switch), "it takes no tables".to_owned());
        assert_eq!(sift(survey).unwrap().fabric.num_switches(), kept);
    }
}

#[test]
fn without_sl2vl_tables_links_have_one_vl_unless_foreign_packets_may_come() {
    let mut survey = ring(5);
    survey.one_vl.insert(NodeId(2), "has no tables".to_owned());
    let sifted = sift(survey).unwrap();
    let fabric = &sifted.fabric;
    assert!(fabric.switch(crate::fabric::SwitchId(2)).ports.iter().all(|p| p.data_vls == Some(1)));
    assert_eq!((fabric.num_switches(), sifted.left_out.len()), (5, 1));
    let mut survey = ring(6);
    survey.one_vl.extend([NodeId(2), NodeId(3)].map(|id| (id, "has no tables".to_owned())));
    survey.bad.insert(NodeId(1), "it is bad".to_owned());
    let sifted = sift(survey).unwrap();
    let kept: Vec<_> = sifted.fabric.switch_ids().map(|s| sifted.fabric.switch(s).guid.0).collect();
    assert_eq!(kept, [1, 5, 6]);
}

/// GUIDs of the switches at the ends of each channel.
fn channels(fabric: &Fabric) -> Vec<(u64, u64)> {
    let guid = |s| fabric.switch(s).guid.0;
    let mut ends: Vec<_> = fabric.channels().iter().map(|(_, c)| (guid(c.from), guid(c.to))).collect();
    ends.sort_unstable();
    ends
}

#[test]
fn a_switch_that_is_avoided_becomes_a_leaf_where_others_lead_around_it() {
    let mut survey = ring(5);
    survey.avoid.insert(NodeId(2), "it drops packets".to_owned());
    let sifted = sift(survey).unwrap();
    // Of its links to switches 2 and 4 the first one stays, as the ring is a path then.
    let path = [(1, 2), (1, 5), (2, 1), (2, 3), (3, 2), (4, 5), (5, 1), (5, 4)];
    assert_eq!(channels(&sifted.fabric), path);
    assert_eq!(sifted.fabric.adapters().count(), 5);
    let [note] = &sifted.left_out[..] else { panic!("{:?}", sifted.left_out) };
    assert!(note.contains("'S3'") && note.contains("it drops packets. 1 of its links"), "{note}");
    assert!(sifted.switches.is_empty() && sifted.adapters.is_empty());
}

#[test]
fn what_nothing_leads_around_is_used_although_it_is_in_doubt() {
    // Switch 3 lies between 2 and 4, as the link from 5 to 1 is gone.
    let mut survey = ring(5);
    survey.builder.disconnect(PortRef { node: NodeId(4), port: PortNum(1) });
    survey.avoid.insert(NodeId(2), "it drops packets".to_owned());
    let sifted = sift(survey).unwrap();
    assert_eq!(channels(&sifted.fabric).len(), 8);
    assert!(sifted.left_out[0].contains("2 of its links"), "{:?}", sifted.left_out);
    // The same of links. One of two in doubt is used, whichever end names it.
    let end = |i, port| PortRef { node: NodeId(i), port: PortNum(port) };
    let mut survey = ring(5);
    survey.avoid_links = [end(1, 1), end(4, 2)].map(|end| (end, "it is down".to_owned())).into();
    let sifted = sift(survey).unwrap();
    assert_eq!(channels(&sifted.fabric), [(1, 2), (1, 5), (2, 1), (2, 3), (3, 2), (3, 4), (4, 3), (5, 1)]);
}

#[test]
fn a_switch_without_a_lid_forwards_for_others() {
    for (lid, owner) in [(None, None), (Lid::new(9), Some(6))] {
        let mut survey = ring(5);
        survey.builder.node_mut(NodeId(2)).ports[0].lid = lid;
        survey.owners[3] = None;
        let sifted = sift(survey).unwrap();
        let fabric = &sifted.fabric;
        let switch = fabric.switch_ids().nth(2).unwrap();
        assert_eq!((fabric.num_switches(), channels(fabric).len(), fabric.endports().len()), (5, 10, 9));
        assert_eq!((fabric.num_adapters_on(switch), fabric.endports_on(switch).len()), (1, 1));
        assert_eq!(fabric.owner_of(Lid::new(3).unwrap()), None);
        let [note] = &sifted.left_out[..] else { panic!("{:?}", sifted.left_out) };
        assert!(note.contains("'S3'") && note.contains("has no LID"), "{note}");
        assert!(owner.is_none() || note.contains("LID 9 belongs to 'H4'"), "{note}");
        assert_eq!((sifted.switches.len(), sifted.adapters.as_slice()), (0, &[Guid(3)][..]));
    }
}

#[test]
fn what_does_not_answer_behind_a_port_that_is_up_is_named() {
    let mut survey = ring(5);
    survey.unknown =
        vec![PortRef { node: NodeId(3), port: PortNum(4) }, PortRef { node: NodeId(6), port: PortNum(1) }];
    let sifted = sift(survey).unwrap();
    assert_eq!(untrusted(&sifted.fabric), [("S4".to_owned(), 4)]);
    assert!(sifted.left_out.len() == 1 && sifted.left_out[0].contains("'S4'"), "{:?}", sifted.left_out);
}

#[test]
fn a_cable_that_contradicts_another_is_left_out() {
    let mut survey = ring(5);
    let end = |i, port| PortRef { node: NodeId(i), port: PortNum(port) };
    survey.connect(end(0, 1), end(3, 4));
    survey.connect(end(2, 9), end(4, 4));
    let sifted = sift(survey).unwrap();
    assert_eq!(sifted.fabric.num_links(), 10);
    assert_eq!(untrusted(&sifted.fabric), [("S1".to_owned(), 1), ("S4".to_owned(), 4), ("S5".to_owned(), 4)]);
}
