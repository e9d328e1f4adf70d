//! `dfdn cabling`: what scripts may rely on.

use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn dfdn(desk: &TempDir, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dfdn"));
    command.args(words).current_dir(desk).env_remove("DFDN_LOG").output().expect("dfdn starts")
}

fn desk() -> TempDir {
    let desk = tempfile::tempdir().expect("a temporary folder");
    let made = dfdn(&desk, &["generate", "ring", "--switches", "5", "--cas", "2", "-o", "plan.net"]);
    assert!(made.status.success());
    desk
}

#[test]
fn a_plan_is_a_file_or_a_generator() {
    let desk = desk();
    let same = dfdn(&desk, &["cabling", "ring --switches 5 --cas 2", "plan.net"]);
    let out = String::from_utf8_lossy(&same.stdout);
    assert!(same.status.success() && out.contains("differences            0"), "{out}");
    let ran = dfdn(&desk, &["cabling", "plan.net", "plan.net", "--json"]);
    let value: Value = serde_json::from_slice(&ran.stdout).expect("an object");
    assert_eq!(
        (value["in_place"].as_u64(), value["differences"].as_array().map(Vec::len)),
        (Some(15), Some(0))
    );
    assert_eq!(value["matched"]["by_guid"], 15);
}

#[test]
fn what_is_missing_is_named() {
    let desk = desk();
    let made = dfdn(
        &desk,
        &["generate", "ring", "--switches", "5", "--cas", "2", "--fail-links", "1", "-o", "now.net"],
    );
    assert!(made.status.success());
    let ran = dfdn(&desk, &["cabling", "plan.net", "now.net"]);
    let out = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(ran.status.code(), Some(1), "{out}");
    assert!(out.contains("15 planned, 14 found, 14 in place") && out.contains("\nmissing: 'sw-"), "{out}");
    let back = dfdn(&desk, &["cabling", "now.net", "plan.net", "--json"]);
    let value: Value = serde_json::from_slice(&back.stdout).expect("an object");
    assert_eq!((back.status.code(), &value["differences"][0]["kind"]), (Some(1), &"additional".into()));
    assert!(value["differences"][0]["cable"][0]["port"].as_u64() > Some(0));
}

#[test]
fn bad_input_is_named() {
    let desk = desk();
    for (words, why) in [
        (["cabling", "no such plan", "plan.net"], "'no such plan' is neither a file nor"),
        (["cabling", "plan.net", "nowhere"], "nowhere"),
        (["cabling", "-", "-"], "standard input"),
        (["cabling", "ring --switches", "plan.net"], "neither a file"),
    ] {
        let ran = dfdn(&desk, &words);
        let err = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.code() == Some(2) && ran.stdout.is_empty() && err.contains(why),
            "{words:?}: {err}"
        );
    }
}
