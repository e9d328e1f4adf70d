//! Tables as ibdiagnet 2 writes them, adaptive routing groups among them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use dfdn::fabric::{Fabric, Lid};
use dfdn::formats;
use dfdn::tables::Lft;

use crate::host::plugin;

/// The exit code and standard output of the command.
fn dfdn(folder: &Path, args: &str) -> (Option<i32>, String) {
    let output = Command::new(plugin::command()).args(args.split(' ')).current_dir(folder).output();
    let output = output.expect("dfdn starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// `ibdiagnet2.far`: all that is not on the switch itself goes by a group of all ports to switches if `free`, otherwise by
/// the port of the forwarding table.
fn far(fabric: &Fabric, lft: &Lft, free: bool) -> String {
    let mut text = String::from("# adaptive routing\n");
    for s in fabric.switch_ids() {
        let ports: Vec<String> = fabric.channels().out(s).map(|(_, c)| c.out_port.to_string()).collect();
        let guid = fabric.switch(s).guid;
        writeln!(text, "\nSwitch {guid}\nGroups Definition:\nGroup  SubGroup  WHBF  Ports\n-----")
            .expect("text");
        writeln!(
            text,
            "7      0         NO    {}\nLFT Definition:\nLID StaticPort LidState Group\n-----",
            ports.join(",")
        )
        .expect("text");
        for lid in (0..fabric.lid_table_len() as u16).filter_map(Lid::new) {
            let Some(port) = lft.get(s, lid) else { continue };
            let own = fabric.channels().at_port(s, port).is_none();
            let state = if free && !own { "Free   7" } else { "Static 0" };
            writeln!(text, "0x{:04x} {port} {state}", lid.get()).expect("text");
        }
    }
    text
}

#[test]
fn tables_of_any_subnet_manager_are_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    assert_eq!(dfdn(folder.path(), "generate ring --switches 6 --cas 1 -o fabric.net").0, Some(0));
    assert_eq!(dfdn(folder.path(), "route fabric.net -o tables").0, Some(0));
    fs::create_dir(at("found")).expect("a folder");
    for (ours, theirs) in
        [("opensm-subnet.lst", "lst"), ("opensm.fdbs", "fdbs"), ("slvl", "slvl"), ("opensm.mcfdbs", "mcfdbs")]
    {
        fs::copy(at("tables").join(ours), at("found").join(format!("ibdiagnet2.{theirs}")))
            .expect("it is copied");
    }
    let verify = || dfdn(folder.path(), "verify found/ibdiagnet2.lst found");
    let (code, said) = verify();
    assert!(code == Some(0) && said.contains("SAFE") && !said.contains("one VL assumed"), "{said}");
    assert!(!said.contains("adaptive"), "{said}");
    let (code, said) = dfdn(folder.path(), "evaluate found/ibdiagnet2.lst found --patterns 9");
    assert!(code == Some(0), "{said}");

    let (fabric, _) = formats::load_fabric(&at("found/ibdiagnet2.lst")).expect("it loads");
    let (fabric, routes) = formats::load_tables(&at("found"), fabric).expect("they load");
    fs::write(at("found/ibdiagnet2.far"), far(&fabric, &routes.lft, false)).expect("it is written");
    let (code, said) = verify();
    assert!(code == Some(0) && said.contains("0 entries with more than one port"), "{said}");
    assert!(said.contains("safe whatever is chosen yes"), "{said}");

    fs::write(at("found/ibdiagnet2.far"), far(&fabric, &routes.lft, true)).expect("it is written");
    let (code, said) = verify();
    assert!(code == Some(1) && said.contains("adaptive routing may close a credit loop"), "{said}");
    assert!(said.contains("safe whatever is chosen NO") && said.contains("NOT SAFE"), "{said}");
    let (code, said) = dfdn(folder.path(), "verify found/ibdiagnet2.lst found --json");
    let value: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert!(
        code == Some(1) && value["deadlock_free"] == false && value["adaptive"]["deadlock_free"] == false,
        "{said}"
    );
    assert!(value["safe"] == false && value["safe_with_sls"]["any"] == false, "{said}");
    // No order of the channels proves what is not so, and no way is called proven.
    let (_, said) = dfdn(folder.path(), "verify found/ibdiagnet2.lst found --certificate order.json");
    assert!(!at("order.json").exists() && said.contains("no certificate"), "{said}");
    let (code, said) =
        dfdn(folder.path(), "reconfigure found/ibdiagnet2.lst found found/ibdiagnet2.lst tables");
    assert!(code == Some(2) && said.contains("with adaptive routing"), "{said}");
    // All commands that judge say the same.
    let (code, said) = dfdn(folder.path(), "report found/ibdiagnet2.lst found -o page.html --patterns 9");
    assert!(code == Some(1), "{said}");
    let page = fs::read_to_string(at("page.html")).expect("a page");
    assert!(page.contains("NOT SAFE") && page.contains("adaptive routing may close a credit loop"), "{page}");
    let (_, said) = dfdn(folder.path(), "compare found/ibdiagnet2.lst --tables found --engines dfdn --json");
    let rows: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let row = rows["rows"].as_array().and_then(|rows| rows.iter().find(|row| row["adaptive"].is_object()));
    assert!(row.is_some_and(|row| row["safe"] == false && row["deadlock_free"] == false), "{said}");
    assert!(value["adaptive"]["credit_loop"].as_array().is_some_and(|l| l.len() >= 2), "{said}");

    fs::write(at("found/ibdiagnet2.far"), "Switch leaf\n").expect("it is written");
    let (code, said) = verify();
    assert!(code == Some(2) && said.contains("ibdiagnet2.far: line 1: no GUID"), "{said}");
}
