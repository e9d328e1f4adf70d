//! The file of hold-outs: in OpenSM, and the proposals of `dfdn hold`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dfdn::fabric::{EndPort, Fabric, SwitchId};
use dfdn::topology::{Dragonfly, Ring};

use crate::host::ibsim::{Ibsim, net};
use crate::host::opensm::OpenSm;
use crate::host::readback::Readback;
use crate::host::sweeps::{End, Sweeps};
use crate::host::{self, plugin};

/// The entries in the switches: port by switch GUID and LID.
fn entries(sim: &Ibsim) -> BTreeMap<(u64, u16), u8> {
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("a number");
    let (mut switch, mut found) = (0, BTreeMap::new());
    for line in Readback::of(sim).lfts().lines() {
        if let Some((_, rest)) = line.split_once(" guid ") {
            switch = hex(rest.split_whitespace().next().expect("a GUID"));
        } else if line.starts_with("0x") {
            let mut words = line.split_whitespace();
            let lid = hex(words.next().expect("a LID")) as u16;
            found.insert((switch, lid), words.next().and_then(|port| port.parse().ok()).expect("a port"));
        }
    }
    found
}

/// The LIDs that OpenSM gave the end ports of a switch and of the adapters on it.
fn lids_on(sm: &OpenSm, fabric: &Fabric, switch: SwitchId) -> Vec<u16> {
    let text = fs::read_to_string(sm.path("guid2lid")).expect("OpenSM keeps its LIDs");
    let ends: Vec<&EndPort> = fabric.endports_on(switch).iter().map(|&end| fabric.endport(end)).collect();
    let lid = |line: &str| {
        let mut words =
            line.split_whitespace().map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16));
        let (guid, lid) = (words.next()?.ok()?, words.next()?.ok()?);
        ends.iter().any(|end| end.guid.0 == guid).then_some(lid as u16)
    };
    let lids: Vec<u16> = text.lines().filter_map(lid).collect();
    assert_eq!(lids.len(), ends.len(), "{text}");
    lids
}

#[test]
fn a_drained_switch_carries_nothing_of_others_and_can_be_switched_off() {
    let Some(tools) = host::tools("a drained switch") else { return };
    let fabric = Dragonfly::balanced(2).build().expect("a fabric");
    let drained =
        fabric.switch_ids().find(|&s| fabric.switch(s).description == "sw-1-2").expect("it is there");
    let node = fabric.switch(drained);
    let folder = tempfile::tempdir().expect("a folder");
    let (conf, list) = (folder.path().join("dfdn.conf"), folder.path().join("hold"));
    fs::write(&conf, format!("hold {}\n", list.display())).expect("it is written");
    let write = |text: &str| fs::write(&list, text).expect("it is written");
    // A mistake before there are any settings does not keep the fabric from being routed.
    write("drian sw-1-2\n");
    let mut sim = Ibsim::start(tools, &net(&fabric));
    let mut config = plugin::config("dfdn");
    config.env.push(("DFDN_CONF".to_owned(), conf));
    let mut sm = OpenSm::up(&sim, &config);
    let said = |sm: &OpenSm, words: &[&str]| {
        let log = sm.log();
        assert!(log.lines().any(|line| words.iter().all(|word| line.contains(word))), "{words:?}: {log}");
    };
    said(&sm, &["DF28", "hold: line 1: 'drian' is neither avoid nor drain", "Routed without that line"]);
    assert_eq!(sm.engine_used().as_deref(), Some("dfdn"));
    let mut sweeps = Sweeps::of(&sm);

    // While it is in use, packets of others pass through it.
    let own = lids_on(&sm, &fabric, drained);
    let to_drained = |guid: u64, port: u8| {
        let switch = fabric.switch_ids().find(|&s| fabric.switch(s).guid.0 == guid).expect("a switch");
        let channel = fabric.channels().at_port(switch, dfdn::fabric::PortNum(port));
        channel.is_some_and(|channel| fabric.channels().get(channel).to == drained)
    };
    let transit = |entries: &BTreeMap<(u64, u16), u8>| {
        entries.iter().filter(|((guid, lid), port)| !own.contains(lid) && to_drained(*guid, **port)).count()
    };
    assert!(transit(&entries(&sim)) > 0, "the test needs a switch that is used");

    write("drain sw-1-2 # to be replaced\n");
    assert_eq!(sweeps.settle(&mut sm), End::Up);
    said(&sm, &["DF04", "'sw-1-2'", "is drained (line 1 of", "no path leads through it, and its 2 adapters"]);
    let before = entries(&sim);
    assert_eq!(transit(&before), 0);
    let reached = |lid: u16| before.iter().filter(|((_, l), port)| *l == lid && **port != 255).count();
    assert!(own.iter().all(|&lid| reached(lid) == fabric.num_switches()), "it and its adapters are reached");

    // A mistake leaves what was.
    write("drain sw-1-2\ndrain sw-2-0 99999\n");
    assert_eq!(sweeps.settle(&mut sm), End::Up);
    said(&sm, &["DF28", "hold: line 2: port '99999' is not 1 to 254", "settings of the last good file"]);
    assert_eq!(entries(&sim), before);

    // Switched off: nothing changes for others, so no packet of theirs is lost.
    write("drain sw-1-2\n");
    let cables = (1..=node.num_ports()).filter(|&port| node.ports[usize::from(port)].peer.is_some());
    sim.commands(
        &cables.map(|port| format!("Unlink \"S-{:016x}\"[{port}]", node.guid.0)).collect::<Vec<_>>(),
    );
    assert_eq!(sweeps.settle(&mut sm), End::Up);
    let after = entries(&sim);
    let others = |entries: &BTreeMap<(u64, u16), u8>| {
        let mut entries = entries.clone();
        entries.retain(|(guid, lid), port| *guid != node.guid.0 && !own.contains(lid) && *port != 255);
        entries
    };
    assert!(!others(&after).is_empty() && others(&after) == others(&before));
    assert!(sweeps.defects.iter().all(|line| line.contains("DF28")), "{:?}", sweeps.defects);
}

/// The exit code and standard output of the command.
fn dfdn(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(plugin::command()).args(args).current_dir(folder).output().expect("dfdn starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn entries_are_proposed_and_added_to_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let fabric = Ring { switches: 4, cas: 1 }.build().expect("a ring");
    fs::write(folder.path().join("fabric.net"), net(&fabric)).expect("it is written");
    let guid = |name: &str| fabric.nodes().iter().find(|n| n.description == name).expect("a node").guid;
    let errors = format!(
        "Errors for {0} \"sw-1\"\n   GUID {0} port ALL: [SymbolErrorCounter == 500]\n   \
         GUID {0} port 2: [SymbolErrorCounter == 500] [PortXmitWait == 7]\n   GUID {0} port 3: [LinkDownedCounter == 1]\n\
         ## Summary: 8 nodes checked, 1 bad nodes found\n",
        guid("sw-1")
    );
    fs::write(folder.path().join("errors"), errors).expect("it is written");
    let from = ["hold", "--from", "ibqueryerrors", "errors", "fabric.net"];
    let (code, out, _) = dfdn(folder.path(), &from);
    assert_eq!(code, Some(0));
    let entry = format!("avoid {} 2 # 'sw-1' port 2 - 'sw-2' port 3: SymbolErrorCounter 500", guid("sw-1"));
    assert!(out.lines().next() == Some(&entry) && out.contains("nothing was written"), "{out}");
    let hold: PathBuf = folder.path().join("hold");
    assert!(!hold.exists());

    // Written once; a second time there is nothing new.
    let with = |more: &[&str]| dfdn(folder.path(), &[&from[..], &["-o", "hold"], more].concat());
    let (_, out, _) = with(&[]);
    assert!(out.contains("1 entries added to hold"), "{out}");
    assert_eq!(fs::read_to_string(&hold).expect("it is there"), entry.clone() + "\n");
    let (_, out, _) = with(&[]);
    assert!(out.contains("no link between switches has 100 errors that is not held"), "{out}");
    // The other link would cut the ring now: it is proposed, and said to stay in use.
    let (_, out, _) = with(&["--least", "10"]);
    assert!(out.contains("cannot be avoided") && out.contains("the fabric would be cut without it"), "{out}");
    // As it stays in use, its entry is there and is not added again.
    let written = fs::read_to_string(&hold).expect("it is there");
    let (_, out, _) = with(&["--least", "10"]);
    assert!(out.contains("cannot be avoided") && out.contains("that is not held already"), "{out}");
    assert!(written.lines().count() == 2 && fs::read_to_string(&hold).is_ok_and(|now| now == written));

    let (code, out, _) = dfdn(folder.path(), &["route", "fabric.net", "--hold", "hold"]);
    assert!(code == Some(0) && out.contains("cannot be avoided"), "{out}");
    // Of the switches of the ring, two have three hops to each other in place of one.
    assert!(
        out.contains("without the links that are held, 16.67 % of the adapter pairs have more hops"),
        "{out}"
    );
    let (code, out, _) =
        dfdn(folder.path(), &["compare", "fabric.net", "--engines", "dfdn", "--hold", "hold"]);
    assert!(code == Some(0) && out.contains("dfdn"), "{out}");
    fs::write(&hold, "drain sw-1\nkeep sw-2\n").expect("it is written");
    for args in [&["route", "fabric.net", "--hold", "hold"][..], &["whatif", "fabric.net", "--hold", "hold"]]
    {
        let (code, _, why) = dfdn(folder.path(), args);
        assert!(code == Some(2) && why.contains("hold: line 2: 'keep' is neither avoid nor drain"), "{why}");
    }
    let (code, _, why) = with(&[]);
    assert!(code == Some(2) && why.contains("hold: line 2"), "{why}");
    fs::write(folder.path().join("errors"), "nothing\n").expect("it is written");
    let (code, _, why) = dfdn(folder.path(), &from);
    assert!(
        code == Some(2) && why.contains("errors") && why.contains("not what ibqueryerrors prints"),
        "{why}"
    );
}
