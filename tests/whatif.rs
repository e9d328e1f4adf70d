//! `dfdn whatif`: what scripts may rely on.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::desk::{command, dfdn};
use crate::host;

fn desk(fabric: &str) -> TempDir {
    let desk = tempfile::tempdir().expect("a temporary folder");
    let made = dfdn(&desk, &["generate", fabric, "-o", "fabric.net"].join(" "));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    desk
}

fn json(desk: &TempDir, words: &str, code: i32) -> Value {
    let ran = dfdn(desk, &format!("whatif {words} --json"));
    assert_eq!(ran.status.code(), Some(code), "{words}: {}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|e| panic!("{words}: {e}"))
}

#[test]
fn each_link_and_switch_has_a_row() {
    let desk = desk("dragonfly --p 2");
    let value = json(&desk, "fabric.net", 0);
    let rows = value["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 36 * 5 / 2 + 36);
    assert_eq!(json(&desk, "fabric.net --links", 0)["rows"], Value::from(rows[..90].to_vec()));
    assert_eq!(json(&desk, "fabric.net --switches", 0)["rows"], Value::from(rows[90..].to_vec()));
    for row in rows {
        for key in
            ["vls", "sls", "nonminimal_share", "ebb", "cut_off", "cut_off_beyond", "lft_blocks", "pairs_cut"]
        {
            assert!(row[key].is_number(), "{key} in {row}");
        }
        assert_eq!(
            row["cut_off"],
            if row["failed"].as_str().expect("a name").contains(" - ") { 0 } else { 2 }
        );
    }
    let least = rows.iter().filter_map(|row| row["ebb"].as_f64()).fold(1.0, f64::min);
    assert_eq!(value["summary"]["extremes"]["ebb"].as_f64(), Some(least));
    let worst = &value["worst"];
    assert_eq!((worst[0]["ebb"].as_f64(), worst.as_array().map(Vec::len)), (Some(least), Some(10)));
    let text = dfdn(&desk, "whatif fabric.net --links");
    let out = String::from_utf8_lossy(&text.stdout);
    assert!(text.status.success() && text.stderr.is_empty());
    assert!(out.contains("the worst of each") && out.contains("failures               90"), "{out}");
    assert_eq!(
        json(&desk, "fabric.net --random-pairs 7 --seed 3", 0)["rows"].as_array().map(Vec::len),
        Some(7)
    );
}

/// Other tables would be better for a damaged torus, but no proven way would lead there.
#[test]
fn tori_stay_in_dimension_order() {
    for dims in ["5,5", "6,6"] {
        let desk = desk(&format!("torus --dims {dims} --cas 1"));
        for row in json(&desk, "fabric.net --links", 0)["rows"].as_array().expect("rows") {
            assert_eq!((&row["transition"]["proven"], &row["sls"]), (&true.into(), &1.into()), "{row}");
        }
    }
}

#[test]
fn tables_of_any_engine_are_those_before() {
    let desk = desk("dragonfly --p 2");
    let made = dfdn(&desk, "route fabric.net --engine sssp --allow-unsafe -o tables");
    assert_eq!(made.status.code(), Some(1), "they have a credit loop");
    let [ours, theirs] =
        ["fabric.net --links", "fabric.net tables --links"].map(|words| json(&desk, words, 0));
    let blocks = |value: &Value| value["summary"]["mean"]["lft_blocks"].as_f64().expect("a number");
    assert!(blocks(&theirs) > blocks(&ours), "{} {}", blocks(&theirs), blocks(&ours));
    // The same engine afterwards. It keeps to its own tables where that takes at most 1 % of the bandwidth.
    let ebb = |value: &Value| value["rows"][0]["ebb"].as_f64().expect("a number");
    assert!((ebb(&theirs) / ebb(&ours) - 1.0).abs() <= 0.01, "{} {}", ebb(&theirs), ebb(&ours));
    assert_ne!(theirs["rows"][0]["pairs_cut"], ours["rows"][0]["pairs_cut"]);
}

#[test]
fn named_parts_fail_together() {
    let desk = desk("ring --switches 6");
    let value = json(&desk, "fabric.net --down sw-1 --down sw-3", 0);
    let row = &value["rows"][0];
    assert_eq!((value["rows"].as_array().map(Vec::len), &row["cut_off"]), (Some(1), &3.into()), "{row}");
    assert_eq!(row["cut_off_beyond"], 1);
    fs::write(desk.path().join("list"), "# two\nsw-1\tsw-3\nsw-2 port 2\n").expect("a file is written");
    let list = json(&desk, "fabric.net --list list", 0);
    assert_eq!((&list["rows"][0], list["rows"].as_array().map(Vec::len)), (row, Some(2)));
    // Nothing but single hosts are left.
    let value = json(&desk, "fabric.net --down sw-1 --down sw-2 --down sw-3 --down sw-4 --down sw-5", 1);
    assert!(value["rows"][0]["error"].as_str().expect("a reason").contains("at least two"), "{value}");
    let text = dfdn(&desk, "whatif fabric.net --down sw-1 --down sw-2 --down sw-3 --down sw-4 --down sw-5");
    assert!(String::from_utf8_lossy(&text.stdout).contains("no tables: 'sw-1'"));
}

#[test]
fn parts_join_to_the_same_bytes_as_one_run() {
    let desk = desk("fat-tree --k 4");
    let one = dfdn(&desk, "whatif fabric.net --json").stdout;
    let two =
        command(&desk, "whatif fabric.net --json").env("RAYON_NUM_THREADS", "1").output().expect("it starts");
    assert_eq!(one, two.stdout);
    for i in 1..=3 {
        let part = dfdn(&desk, &format!("whatif fabric.net --json --part {i}/3"));
        fs::write(desk.path().join(format!("part-{i}")), part.stdout).expect("a file is written");
    }
    assert_eq!(dfdn(&desk, "whatif --json --merge part-2 part-3 part-1").stdout, one);
    refused(&desk, "--merge part-2 part-1", &["is in none of the files", "port"]);
    let other = dfdn(&desk, "whatif fabric.net --json --switches").stdout;
    fs::write(desk.path().join("other"), other).expect("a file is written");
    refused(&desk, "--merge part-1 other", &["other: ", "part-1", "failures"]);
    fs::write(desk.path().join("foreign"), "{\"rows\": [], \"runs\": []}").expect("a file is written");
    refused(&desk, "--merge foreign", &["foreign", "whatif --json"]);
}

fn refused(desk: &TempDir, words: &str, reasons: &[&str]) {
    let ran = dfdn(desk, &format!("whatif {words}"));
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0), "{words}: {err}");
    for reason in reasons {
        assert!(err.contains(reason), "{words}: no '{reason}' in {err}");
    }
}

#[test]
fn bad_input_is_named() {
    let desk = desk("ring --switches 4");
    refused(&desk, "fabric.net --down nobody", &["'nobody'"]);
    refused(&desk, "fabric.net --down sw-1 --links", &["--links"]);
    refused(&desk, "fabric.net --list nowhere", &["nowhere"]);
    refused(&desk, "fabric.net nowhere", &["nowhere"]);
    fs::write(desk.path().join("list"), "sw-1\nsw-9\n").expect("a file is written");
    refused(&desk, "fabric.net --list list", &["list: line 2", "sw-9"]);
    refused(&desk, "fabric.net --part 3/2", &["1/4 to 4/4"]);
    refused(&desk, "", &["FABRIC"]);
}

/// Finished rows are printed when it is interrupted.
#[test]
fn an_interruption_keeps_what_is_there() {
    let desk = desk("dragonfly --p 4");
    let mut run = command(&desk, "whatif fabric.net --json");
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("dfdn starts");
    let pid = run.id().to_string();
    // Once it handles the signal.
    let caught = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let set = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        (u64::from_str_radix(set.trim(), 16).ok()? & 1 << 1 != 0).then_some(())
    };
    assert!(host::wait_for(Duration::from_secs(120), caught).is_some(), "it catches SIGINT");
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill starts").success());
    let mut text = String::new();
    std::io::Read::read_to_string(run.stdout.as_mut().expect("piped"), &mut text).expect("UTF-8");
    let status = run.wait().expect("it ends");
    assert!(!status.success());
    let value: Value = serde_json::from_str(&text).expect("one object");
    assert_eq!(value["interrupted"], true);
    assert!(value["rows"].as_array().is_some_and(|rows| rows.len() < 1716), "some are left out");
}
