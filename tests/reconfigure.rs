//! `dfdn reconfigure` and the certificates: what scripts may rely on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::desk::{dfdn, fine};

/// A fabric `whole.net` without a link as `damaged.net`, both with tables.
fn desk(family: &str) -> TempDir {
    let desk = tempfile::tempdir().expect("a temporary folder");
    fine(&desk, &format!("generate {family} -o whole.net"));
    fine(&desk, &format!("generate {family} --fail-links 1 --seed 2 -o damaged.net"));
    fine(&desk, "route whole.net -o whole");
    fine(&desk, "route damaged.net -o damaged");
    desk
}

const THERE: &str = "whole.net whole damaged.net damaged";
const BACK: &str = "damaged.net damaged whole.net whole";

/// Every file of one folder is in the other, byte for byte.
fn same_folders(desk: &TempDir, a: &str, b: &str) {
    let names = |folder: &str| {
        let list = fs::read_dir(desk.path().join(folder)).expect("a folder");
        let mut names: Vec<PathBuf> = list.map(|e| e.expect("an entry").file_name().into()).collect();
        names.sort();
        names
    };
    assert_eq!(names(a), names(b));
    for name in names(a) {
        let read = |folder: &str| fs::read(desk.path().join(folder).join(&name)).expect("a file");
        assert!(read(a) == read(b), "{} differs", name.display());
    }
}

/// Python is needed, as it is for ibsim's tools; without it the test says so.
fn checker(desk: &TempDir, words: &[&str]) -> Option<(bool, String)> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("ci/check-certificate");
    let ran = Command::new("python3").arg(program).args(words).current_dir(desk).output();
    let Ok(ran) = ran else {
        eprintln!("skipped: ci/check-certificate, there is no python3");
        return None;
    };
    let out = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.stderr.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
    Some((ran.status.success(), out))
}

#[test]
fn a_plan_leads_to_the_new_tables_byte_for_byte() {
    for family in ["fat-tree --k 4 --levels 3", "dragonfly --p 2", "mesh --dims 4,4"] {
        let desk = desk(family);
        for (fabrics, to) in [(THERE, "damaged"), (BACK, "whole")] {
            let json = fine(&desk, &format!("reconfigure {fabrics} -o plan.json --tables made --json"));
            same_folders(&desk, "made", to);
            let plan: Value = serde_json::from_str(&json).expect("an object");
            assert_eq!((&plan["proven"], &plan["loop_free"]), (&true.into(), &true.into()), "{family}");
            let steps = plan["steps"].as_array().expect("steps");
            assert!(steps.iter().all(|step| step["proven"] == true && step["witness"].is_null()));
            let entries: usize = steps.iter().map(|s| s["lft"].as_array().map_or(0, Vec::len)).sum();
            assert!(entries > 0 && entries >= plan["changed_entries"].as_u64().unwrap_or(0) as usize);
            let out = fine(&desk, &format!("reconfigure {fabrics} --apply plan.json --tables applied"));
            assert!(out.contains("given") && out.ends_with("\nPROVEN\n"), "{out}");
            same_folders(&desk, "applied", to);
        }
    }
}

#[test]
fn an_unproven_step_has_a_credit_loop_and_exit_code_1() {
    let desk = desk("fat-tree --k 4 --levels 3");
    let ran = dfdn(&desk, &format!("reconfigure {THERE} --strategy one-step"));
    let out = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(ran.status.code(), Some(1), "{out}");
    assert!(
        out.contains("wait for each other in a credit loop:") && out.ends_with("\nNOT PROVEN\n"),
        "{out}"
    );
    assert!(out.contains(" waits for ") && out.contains("because of a packet from"), "{out}");
    let ran = dfdn(&desk, &format!("reconfigure {THERE} --strategy one-step --json"));
    let plan: Value = serde_json::from_slice(&ran.stdout).expect("an object");
    assert_eq!((ran.status.code(), &plan["proven"]), (Some(1), &false.into()));
    assert!(plan["steps"][0]["witness"]["text"].as_str().is_some_and(|text| text.contains("credit loop")));
    // Half a plan is proven, and does not lead there.
    let json = fine(&desk, &format!("reconfigure {THERE} --json"));
    let mut plan: Value = serde_json::from_str(&json).expect("an object");
    plan["steps"].as_array_mut().expect("steps").pop();
    fs::write(desk.path().join("half.json"), plan.to_string()).expect("a file");
    let ran = dfdn(&desk, &format!("reconfigure {THERE} --apply half.json"));
    let err = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(1) && err.contains("does not lead to NEW_TABLES"), "{err}");
}

#[test]
fn bad_plans_are_named() {
    let desk = desk("ring --switches 5");
    for (text, why) in [
        ("", "EOF"),
        (r#"{"steps": [{"lft": [["0x1", 1, 1]]}]}"#, "step 1: there is no switch 0x0000000000000001"),
        (r#"{"steps": [{"lft": [["x", 1, 1]]}]}"#, "bad.json: step 1: 'x' is not a GUID"),
    ] {
        fs::write(desk.path().join("bad.json"), text).expect("a file");
        let ran = dfdn(&desk, &format!("reconfigure {THERE} --apply bad.json"));
        let err = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(2) && ran.stdout.is_empty() && err.contains(why), "{err}");
    }
}

/// A program that shares nothing with dfdn agrees, and notices if anything is wrong.
#[test]
fn certificates_are_checked_by_another_program() {
    for family in ["dragonfly --p 2", "fat-tree --k 4 --levels 3", "hypercube --n 4"] {
        let desk = desk(family);
        let verdict = fine(&desk, "verify whole.net whole --certificate order.json --json");
        let verdict: Value = serde_json::from_str(&verdict).expect("an object");
        let Some((holds, out)) = checker(&desk, &["order.json", "whole"]) else { return };
        assert!(holds && out.starts_with("holds: "), "{out}");
        // The judge counts what does not cross multicast trees.
        let forward: u64 = out.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
        assert!(forward >= verdict["virtual_channels"].as_u64().unwrap_or(0) / 2, "{out}");
        let mut order: Value =
            serde_json::from_slice(&fs::read(desk.path().join("order.json")).expect("it")).expect("JSON");
        order["order"].as_array_mut().expect("a list").reverse();
        fs::write(desk.path().join("wrong.json"), order.to_string()).expect("a file");
        let (holds, out) = checker(&desk, &["wrong.json", "whole"]).expect("Python");
        assert!(!holds && out.contains("does NOT hold"), "{out}");

        let json = fine(&desk, &format!("reconfigure {THERE} --certificates -o plan.json --json"));
        let plan: Value = serde_json::from_str(&json).expect("an object");
        let (holds, out) = checker(&desk, &["plan.json", "whole", "damaged"]).expect("Python");
        assert!(holds, "{out}");
        for (i, step) in plan["steps"].as_array().expect("steps").iter().enumerate() {
            let said = format!("step {} holds: {} dependencies", i + 1, step["dependencies"]);
            assert!(out.contains(&said), "'{said}' in {out}");
        }
        // A plan that does everything at once is not proven by the orders of the steps.
        let mut rushed = plan.clone();
        let steps = rushed["steps"].as_array_mut().expect("steps");
        if let [first, .., last] = &mut steps[..] {
            for part in ["lft", "sl2vl", "mcast"] {
                let more = last[part].as_array().expect("a list").clone();
                first[part].as_array_mut().expect("a list").extend(more);
            }
            fs::write(desk.path().join("rushed.json"), rushed.to_string()).expect("a file");
            let (holds, out) = checker(&desk, &["rushed.json", "whole", "damaged"]).expect("Python");
            assert!(!holds, "{out}");
        }
    }
}

/// A Double Scheme in full: planned, judged again, certified for another program, and played.
#[test]
fn a_double_scheme_is_planned_and_played() {
    let desk = tempfile::tempdir().expect("a temporary folder");
    fine(&desk, "generate mesh --dims 3,3 --cas 2 -o whole.net");
    fine(&desk, "generate mesh --dims 3,3 --cas 2 --fail-links 1 --seed 2 -o damaged.net");
    fine(&desk, "route whole.net --lmc 1 -o whole");
    fine(&desk, "route damaged.net --lmc 1 -o damaged");
    let plan = format!(
        "reconfigure {THERE} --strategy double-scheme --vls 4 --certificates -o plan.json --tables made"
    );
    let text = fine(&desk, &plan);
    assert!(
        text.contains("SLs 0-7 and 8-15, VLs 0-1 and 2-3") && text.contains("all hosts go over"),
        "{text}"
    );
    assert!(text.contains(" control packets") && text.ends_with("\nPROVEN\n"), "{text}");
    same_folders(&desk, "made", "damaged");
    let plan = fs::read_to_string(desk.path().join("plan.json")).expect("the plan");
    let plan: Value = serde_json::from_str(&plan).expect("an object");
    let steps = plan["steps"].as_array().expect("steps");
    assert_eq!(plan["path_sl"], "by step");
    assert_eq!((&steps[0]["path_lids"], &steps[1]["path_lids"]), (&"lower".into(), &"upper".into()));
    assert_eq!(steps[1]["path_sl"].as_array().map(Vec::len), Some(8));
    assert!(steps[..2].iter().all(|step| step["control_packets"].as_u64() > Some(0)));
    let out = fine(&desk, &format!("reconfigure {THERE} --apply plan.json --tables applied"));
    assert!(out.ends_with("\nPROVEN\n"), "{out}");
    same_folders(&desk, "applied", "damaged");
    if let Some((holds, out)) = checker(&desk, &["plan.json", "whole", "damaged"]) {
        assert!(holds, "{out}");
        for (i, step) in steps.iter().enumerate() {
            let said = format!("step {} holds: {} dependencies", i + 1, step["dependencies"]);
            assert!(out.contains(&said), "'{said}' in {out}");
        }
        // If hosts could use all paths at all times, the orders would prove nothing.
        let mut mixed = plan.clone();
        for step in mixed["steps"].as_array_mut().expect("steps") {
            step.as_object_mut().expect("an object").remove("path_sl");
        }
        fs::write(desk.path().join("mixed.json"), mixed.to_string()).expect("a file");
        assert!(!checker(&desk, &["mixed.json", "whole", "damaged"]).expect("Python").0);
    }
    let played = fine(&desk, "simulate whole.net whole --update plan.json --load .5 --mads 1000000 --json");
    let played: Value = serde_json::from_str(&played).expect("an object");
    let update = &played["rows"][0]["update"];
    assert!(update["drained_ns"].as_f64() > Some(0.0) && update["missed"] == 0, "{update}");
    // One LID a port, and one VL.
    fine(&desk, "route whole.net -o single");
    for (words, why) in [
        ("whole.net single whole.net single", "has one LID"),
        (&format!("{THERE} --vls 1"), "switches have 1 data VL"),
    ] {
        let ran = dfdn(&desk, &format!("reconfigure {words} --strategy double-scheme"));
        let err = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(2) && ran.stdout.is_empty() && err.contains(why), "{err}");
    }
}

/// What `ci/transitions --under-load` prints in its short form, if there is Python.
fn tabled(words: &[&str]) -> Option<String> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("ci/transitions");
    let all = ["--under-load", "--quick", "--dfdn", env!("CARGO_BIN_EXE_dfdn")];
    let Ok(ran) = Command::new("python3").arg(program).args(all).args(words).output() else {
        eprintln!("skipped: ci/transitions, there is no python3");
        return None;
    };
    let out = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{out}{}", String::from_utf8_lossy(&ran.stderr));
    Some(out)
}

/// The cells of a table.
fn rows(out: &str) -> Vec<Vec<&str>> {
    let cells = |row| str::trim_matches(row, '|').split('|').map(str::trim).collect();
    out.lines().skip(2).map(cells).collect()
}

/// A change of engines, beside a failed link: by a Double Scheme nothing deadlocks, and without a failure nothing is lost.
#[test]
fn double_schemes_under_load_are_tabled() {
    let Some(out) = tabled(&["--double-scheme", "--only", "fat-tree"]) else { return };
    let rows = rows(&out);
    let names = ["at once", "steps", "hosts wait", "Double Scheme"];
    assert_eq!(rows.iter().map(|row| row[1]).collect::<Vec<_>>(), [names, names].concat(), "{out}");
    for (row, proven, loses) in [(&rows[3], "2 of 2", true), (&rows[7], "1 of 1", false)] {
        assert_eq!(row[2..6], ["3.0", proven, "10", "0"], "{out}");
        assert_eq!(row[6] != "0", loses, "{out}");
        assert!(row[11..].iter().all(|cell| cell.parse::<f64>().is_ok_and(|n| n > 0.0)), "{out}");
    }
    assert_ne!(rows[4][5], "0", "some deadlock: {out}");
}

/// The experiment of the page, in its short form: everything at once is not proven and the steps are, and by these
/// nothing deadlocks.
#[test]
fn failed_links_under_load_are_tabled() {
    let Some(out) = tabled(&["--only", "fat-tree"]) else { return };
    let rows = rows(&out);
    let cells = |row: usize, first: usize| &rows[row][first..first + 4];
    assert_eq!(
        rows.iter().map(|row| row[1]).collect::<Vec<_>>(),
        ["at once", "steps", "hosts wait"],
        "{out}"
    );
    assert_eq!(cells(0, 2)[..3], ["1", "0 of 2", "10"], "{out}");
    assert_eq!(cells(1, 3)[..3], ["2 of 2", "10", "0"], "{out}");
    assert_eq!(cells(2, 2), ["-", "-", "10", "0"], "{out}");
    assert_ne!(rows[0][5], "0", "some deadlock: {out}");
}

/// All commands of the page, one after another.
#[test]
fn the_page_shows_what_works() {
    let desk = tempfile::tempdir().expect("a temporary folder");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reconfigure.md");
    let page = fs::read_to_string(page).expect("the page");
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut ran = 0;
    for line in blocks.flat_map(str::lines) {
        if let Some(words) = line.strip_prefix("dfdn ") {
            fine(&desk, words);
            ran += 1;
        } else if let Some(words) = line.strip_prefix("ci/check-certificate ") {
            let words: Vec<&str> = words.split_whitespace().collect();
            let Some((holds, out)) = checker(&desk, &words) else { continue };
            assert!(holds, "{out}");
        } else {
            panic!("nothing runs '{line}'");
        }
    }
    assert!(ran >= 7);
    same_folders(&desk, "after", "damaged");
}
