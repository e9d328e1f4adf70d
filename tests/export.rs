//! `dfdn export`: what other simulators read.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use dfdn::formats::read_fabric;

use crate::desk::{dfdn, fine};

/// A folder with `fabric.net` and `tables`.
fn desk(fabric: &str, route: &str) -> TempDir {
    let desk = tempfile::tempdir().expect("a temporary folder");
    for words in [format!("generate {fabric} -o fabric.net"), format!("route fabric.net -o tables {route}")] {
        let ran = dfdn(&desk, &words);
        assert!(ran.status.success(), "{words}: {}", String::from_utf8_lossy(&ran.stderr));
    }
    desk
}

fn export(desk: &TempDir, simulator: &str) -> Value {
    let ran = dfdn(desk, &format!("export {simulator} fabric.net tables -o out --json"));
    assert!(ran.status.success() && ran.stderr.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).expect("an object")
}

fn read(desk: &TempDir, name: &str) -> String {
    fs::read_to_string(desk.path().join(name)).expect("the file")
}

/// Pairs of numbers, the lower first.
type Links = BTreeSet<(usize, usize)>;

/// Of a topology file: the routers, the router of each node, and the links.
fn anynet(text: &str) -> (BTreeSet<usize>, BTreeMap<usize, usize>, Links) {
    let (mut routers, mut nodes, mut links) = (BTreeSet::new(), BTreeMap::new(), Links::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let mut pairs = words.chunks(2).map(|w| (w[0], w[1].parse::<usize>().expect("a number")));
        let (kind, head) = pairs.next().expect("a head");
        assert_eq!((kind, routers.insert(head)), ("router", true), "{line}");
        for (kind, id) in pairs {
            match kind {
                "node" => assert_eq!(nodes.insert(id, head), None, "node {id} twice"),
                "router" => assert!(links.insert((head, id)), "{line}"),
                other => panic!("{other}"),
            }
        }
    }
    (routers, nodes, links)
}

#[test]
fn booksim_gets_each_switch_adapter_and_link_once() {
    // A fat tree with parallel cables, and a Dragonfly.
    for fabric in ["dragonfly --p 2", "ring --switches 5 --cas 2", "director"] {
        let desk = desk(fabric, "");
        let value = export(&desk, "booksim");
        assert_eq!(value["files"], serde_json::json!(["fabric.anynet", "booksim.cfg", "fabric.names"]));
        let (fabric, _) = read_fabric(read(&desk, "fabric.net").as_bytes()).expect("a fabric");
        let (routers, nodes, links) = anynet(&read(&desk, "out/fabric.anynet"));
        assert!(routers.into_iter().eq(0..fabric.num_switches()));
        let homes = fabric.adapters().map(|(_, end)| end.attachment.expect("attached").0.index());
        assert!(nodes.into_iter().eq((0..).zip(homes)));
        let cables = fabric.channels().as_slice().iter().map(|c| (c.from.index(), c.to.index()));
        let cables: Vec<_> = cables.filter(|(a, b)| a < b).collect();
        assert_eq!(links, cables.iter().copied().collect());
        let twins = value["not_carried"].as_array().expect("a list").iter().filter_map(Value::as_str);
        let twins: Vec<&str> =
            twins.filter_map(|what| what.split_once(" cables beside").map(|w| w.0)).collect();
        let expected = cables.len() - links.len();
        assert_eq!(twins, if expected == 0 { vec![] } else { vec![expected.to_string()] });
        let names = read(&desk, "out/fabric.names");
        assert_eq!(names.lines().count(), fabric.num_switches() + fabric.adapters().count());
        assert!(names.contains(&format!("router 1 {}\n", fabric.describe_switch(dfdn::fabric::SwitchId(1)))));
    }
    let lost = |fabric: &str, route: &str| {
        let value = export(&desk(fabric, route), "booksim");
        let list = value["not_carried"].as_array().expect("a list").iter().filter_map(Value::as_str);
        let starts =
            |what: &&str| ["rates of links", "further LIDs"].iter().any(|lost| what.starts_with(lost));
        list.filter(starts).count()
    };
    assert_eq!(lost("ring --switches 5", ""), 0);
    assert_eq!(lost("ring --switches 5 --slow-links 2", "--lmc 1"), 2);
    let desk = desk("dragonfly --p 2", "--engine dfdn-paper");
    export(&desk, "booksim");
    assert!(read(&desk, "out/booksim.cfg").contains("num_vcs = 3;"), "{}", read(&desk, "out/booksim.cfg"));
}

/// The gate that each gate leads to, by module, and the LIDs of hosts.
fn ned(text: &str) -> (BTreeMap<String, String>, BTreeMap<String, usize>) {
    let (mut wires, mut lids) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines().map(|line| line.trim().trim_end_matches(';')) {
        if let [a, wire, b] = line.split(" <--> ").collect::<Vec<_>>()[..] {
            assert!(wire.starts_with("IBWire { width = 4; speed = ") && wire.ends_with("Gbps; }"), "{line}");
            for (a, b) in [(a, b), (b, a)] {
                assert_eq!(wires.insert(a.to_owned(), b.to_owned()), None, "{a} has two wires");
            }
        } else if let Some((host, rest)) = line.split_once(": HCA { parameters: srcLid = ") {
            lids.insert(host.to_owned(), rest.trim_end_matches("; }").parse().expect("a LID"));
        } else if let Some((switch, rest)) = line.split_once(": Switch { parameters: numSwitchPorts = ") {
            let ports: usize = rest.split(';').next().and_then(|n| n.parse().ok()).expect("a number");
            assert!(rest.ends_with(&format!("gates: port[{ports}]; }}")), "{line}");
            lids.insert(switch.to_owned(), ports);
        }
    }
    (wires, lids)
}

/// All packets arrive by the files alone, over as many switches as in `verify`.
#[test]
fn ib_flit_sim_gets_tables_that_lead_to_each_host() {
    for (fabric, route) in [("dragonfly --p 2", ""), ("director", ""), ("ring --switches 150", "")] {
        let desk = desk(fabric, route);
        export(&desk, "ib_flit_sim");
        let (wires, modules) = ned(&read(&desk, "out/fabric.ned"));
        let mut tables: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for line in read(&desk, "out/fabric.fdbs").lines() {
            assert!(line.len() < 1000, "the model reads no longer lines");
            let (switch, gates) = line.split_once(": ").expect("a switch");
            let gates = gates.split(' ').map(|gate| gate.parse::<usize>().expect("a gate"));
            tables.entry(format!("SW_{switch}")).or_default().extend(gates);
        }
        let ini = read(&desk, "out/fabric.ini");
        for (switch, ports) in modules.iter().filter(|(name, _)| name.starts_with("SW_")) {
            let index = &switch["SW_".len()..];
            assert!(ini.contains(&format!("\n**.{switch}.pktfwd.fdbIndex = {index}\n")), "{switch}");
            assert!(
                (0..*ports).all(|gate| wires.contains_key(&format!("{switch}.port[{gate}]"))),
                "{switch}"
            );
        }
        let hosts: Vec<_> = modules.iter().filter(|(name, _)| name.starts_with("H_")).collect();
        let (mut hops, mut pairs) = (0, 0);
        for (from, _) in &hosts {
            for (to, lid) in hosts.iter().filter(|(to, _)| to != from) {
                let mut at = wires[&format!("{from}.port")].clone();
                let mut switches = 0;
                while let Some((switch, _)) = at.split_once(".port[") {
                    assert!(switches < 200, "{from} to {to}: a loop");
                    switches += 1;
                    at = wires[&format!("{switch}.port[{}]", tables[switch][**lid])].clone();
                }
                assert_eq!(at, format!("{to}.port"), "{from} to {to}");
                (hops, pairs) = (hops + switches - 1, pairs + 1);
            }
        }
        let judged = dfdn(&desk, "verify fabric.net tables --json");
        let judged: Value = serde_json::from_slice(&judged.stdout).expect("an object");
        let mean = judged["mean_hops"].as_f64().expect("a number");
        assert!((mean - f64::from(hops) / f64::from(pairs)).abs() < 1e-9, "{mean}, {hops} of {pairs}");
    }
}

#[test]
fn what_a_simulator_cannot_load_is_refused() {
    let desk = desk("ring --switches 4", "");
    let refused = |words: &str, reason: &str| {
        let ran = dfdn(&desk, words);
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0), "{words}: {err}");
        assert!(err.contains(reason), "{words}: {err}");
        assert!(!desk.path().join("out").exists(), "{words} wrote something");
    };
    refused("export omnest fabric.net tables -o out", "ib_flit_sim");
    refused("export booksim fabric.net tables", "--output");
    refused("export booksim fabric.net nowhere -o out", "nowhere");
    refused("export booksim fabric.net tables -o fabric.net", "fabric.net");
    // Two of the four cables of the ring are cut.
    let text = read(&desk, "fabric.net");
    let cut = |text: &str, names: [&str; 2]| {
        let mut within = String::new();
        let keep = |line: &&str| {
            if let Some(rest) = line.strip_prefix("Switch") {
                within = rest.split('"').nth(3).unwrap_or_default().to_owned();
            }
            let other =
                |a: &str, b: &str| within == a && line.starts_with('[') && line.contains(&format!("\"{b}\""));
            !other(names[0], names[1]) && !other(names[1], names[0])
        };
        text.lines().filter(keep).map(|line| format!("{line}\n")).collect::<String>()
    };
    let parts = cut(&cut(&text, ["sw-0", "sw-3"]), ["sw-1", "sw-2"]);
    fs::write(desk.path().join("parts.net"), parts).expect("a file is written");
    refused("export booksim parts.net tables -o out", "parts.net: BookSim needs a connected network");
}

/// BookSim itself loads the files and runs, where `DFDN_BOOKSIM` names its source: a folder or a tar archive.
#[test]
fn booksim_loads_what_is_exported() {
    let Some(source) = env::var_os("DFDN_BOOKSIM") else {
        return eprintln!("skipped: DFDN_BOOKSIM does not name the source of BookSim 2");
    };
    let work = tempfile::tempdir().expect("a temporary folder");
    let status = match Path::new(&source).is_dir() {
        true => Command::new("cp").arg("-r").arg(&source).arg(work.path()).status(),
        false => Command::new("tar").arg("-xf").arg(&source).arg("-C").arg(work.path()).status(),
    };
    assert!(status.expect("it starts").success(), "the source can be had");
    let top = fs::read_dir(&work).expect("a folder").next().expect("an entry").expect("an entry").path();
    // Its own options for the compiler take minutes.
    let flags = "CPPFLAGS=-I. -Iarbiters -Iallocators -Irouters -Inetworks -Ipower";
    let built = Command::new("make").args(["-j2", flags]).current_dir(top.join("src")).output();
    let built = built.expect("make starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for fabric in ["dragonfly --p 2", "director"] {
        let desk = desk(fabric, "");
        let value = export(&desk, "booksim");
        // At a rate that the shortest paths of BookSim sustain.
        let arguments = ["booksim.cfg", "sample_period=200", "max_samples=3", "injection_rate=0.01"];
        let mut booksim = Command::new(top.join("src/booksim"));
        let ran = booksim.args(arguments).current_dir(desk.path().join("out")).output().expect("it starts");
        let text = String::from_utf8_lossy(&ran.stdout);
        let count = |is: fn(&str) -> bool| Some(text.lines().filter(|line| is(line)).count() as u64);
        assert_eq!(count(|line| line.contains(" radix ")), value["switches"].as_u64(), "{text}");
        assert_eq!(count(|line| line.starts_with("Node ")), value["cas"].as_u64(), "{text}");
        assert!(text.contains("Overall Traffic Statistics"), "{text}");
    }
}

/// The words of `Nodes=` or `Switches=` by the name before them.
fn slurm(text: &str, kind: &str) -> BTreeMap<String, Vec<String>> {
    let lines = text.lines().filter_map(|line| line.split_once(&format!(" {kind}=")));
    let name = |head: &str| head.split_once('=').expect("a name").1.to_owned();
    lines.map(|(head, list)| (name(head), list.split(',').map(str::to_owned).collect())).collect()
}

#[test]
fn slurm_gets_each_host_once() {
    for fabric in ["dragonfly --p 2", "fat-tree --k 4", "director"] {
        let desk = tempfile::tempdir().expect("a temporary folder");
        fine(&desk, &format!("generate {fabric} -o fabric.net"));
        fine(&desk, "export slurm fabric.net -o out");
        let (fabric, _) = read_fabric(read(&desk, "fabric.net").as_bytes()).expect("a fabric");
        let [tree, block] =
            ["topology.conf", "topology-block.conf"].map(|name| read(&desk, &format!("out/{name}")));
        for text in [&tree, &block] {
            let nodes = slurm(text, "Nodes");
            let all: Vec<&String> = nodes.values().flatten().collect();
            let hosts: BTreeSet<&String> =
                fabric.nodes().iter().filter(|n| !n.is_switch()).map(|n| &n.description).collect();
            assert_eq!((all.len(), all.into_iter().collect::<BTreeSet<_>>()), (hosts.len(), hosts));
        }
        // Every switch with hosts is below the root, over groups or directly.
        let above = slurm(&tree, "Switches");
        let mut front = vec!["dfdn-root".to_owned()];
        let mut leaves = BTreeSet::new();
        while let Some(name) = front.pop() {
            match above.get(&name) {
                Some(below) => front.extend(below.iter().cloned()),
                None => assert!(leaves.insert(name), "twice"),
            }
        }
        assert_eq!(leaves, slurm(&tree, "Nodes").into_keys().collect());
        assert!(block.lines().last().is_some_and(|line| line.starts_with("BlockSizes=")));
    }
}

/// The controller of the distribution reads it and shows it.
#[test]
fn slurm_loads_what_is_exported() {
    if !Path::new("/usr/sbin/slurmctld").exists() {
        return eprintln!("skipped: no slurmctld (Debian: slurmctld, slurm-client)");
    }
    let desk = tempfile::tempdir().expect("a temporary folder");
    fine(&desk, "generate dragonfly --p 2 -o fabric.net");
    fine(&desk, "export slurm fabric.net -o out");
    let hosts: Vec<String> =
        slurm(&read(&desk, "out/topology.conf"), "Nodes").into_values().flatten().collect();
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
    let folder = desk.path().join("out");
    let this =
        String::from_utf8(Command::new("hostname").output().expect("hostname starts").stdout).expect("UTF-8");
    let conf = format!(
        "ClusterName=dfdn\nSlurmctldHost={}(127.0.0.1)\nSlurmUser=root\nAuthType=auth/none\nCryptoType=crypto/none\n\
         CredType=cred/none\nStateSaveLocation={f}/state\nSlurmctldPidFile={f}/pid\nSlurmctldPort={port}\nSlurmctldLogFile={f}/log\n\
         SlurmctldDebug=debug\nReturnToService=2\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         TopologyPlugin=topology/tree\nSelectType=select/linear\nSwitchType=switch/none\nMpiDefault=none\n\
         NodeName={} NodeAddr=127.0.0.1 State=UNKNOWN\nPartitionName=all Nodes=ALL Default=YES State=UP\n",
        this.trim(),
        hosts.join(","),
        f = folder.display(),
    );
    fs::create_dir(folder.join("state")).expect("a folder");
    fs::write(folder.join("slurm.conf"), conf.replace("CryptoType=crypto/none\n", ""))
        .expect("a file is written");
    let mut controller = Command::new("/usr/sbin/slurmctld");
    let mut controller = controller
        .args(["-D", "-c", "-f"])
        .arg(folder.join("slurm.conf"))
        .env("SLURM_CONF", folder.join("slurm.conf"))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("slurmctld starts");
    let mut shown = String::new();
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let ran = Command::new("scontrol")
            .args(["show", "topology"])
            .env("SLURM_CONF", folder.join("slurm.conf"))
            .output();
        shown = String::from_utf8_lossy(&ran.expect("scontrol starts").stdout).into_owned();
        if shown.contains("SwitchName=") || controller.try_wait().expect("it can be asked").is_some() {
            break;
        }
    }
    let _ = controller.kill();
    let _ = controller.wait();
    let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
    assert_eq!(shown.matches("SwitchName=").count(), 36 + 9 + 1, "{shown}\n{log}");
    assert!(!log.contains("error: topology") && !log.contains("WARNING: switches lack access"), "{log}");
}

#[test]
fn graphviz_loads_what_is_exported() {
    let desk = tempfile::tempdir().expect("a temporary folder");
    fine(&desk, "generate ring --switches 4 --cas 1 -o fabric.net");
    let hostile = "a\\\"]; b -- c; &<x>";
    let text = read(&desk, "fabric.net").replace("sw-0-ca-1", &hostile.replace('"', "'"));
    fs::write(desk.path().join("fabric.net"), text).expect("a file is written");
    fine(&desk, "export graphviz fabric.net -o out");
    let dot = read(&desk, "out/fabric.dot");
    assert_eq!(dot.matches(" -- ").count(), 4 + 4 + 1, "four hosts, four links, and one in a name");
    let Ok(ran) = Command::new("dot").arg("-Tjson").arg(desk.path().join("out/fabric.dot")).output() else {
        return eprintln!("skipped: no dot (Debian: graphviz)");
    };
    assert!(ran.status.success() && ran.stderr.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
    let graph: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let nodes = graph["objects"].as_array().expect("a list").iter().filter(|o| o["label"].is_string());
    assert_eq!((nodes.count(), graph["edges"].as_array().map(Vec::len)), (8, Some(8)));
}
