//! Input that is easily mistaken: what has no effect is said, nothing that is read is lost, and errors name the way out.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::desk::{command, dfdn, fine};

/// A ring of four, and tables for it.
fn desk() -> TempDir {
    let desk = tempfile::tempdir().expect("a temporary folder");
    fine(&desk, "generate ring --switches 4 -o fabric.net");
    fine(&desk, "route fabric.net -o tables");
    desk
}

fn write(desk: &TempDir, name: &str, text: &str) {
    fs::write(desk.path().join(name), text).expect("a file is written");
}

fn json(desk: &TempDir, words: &str) -> Value {
    serde_json::from_str(&fine(desk, &format!("{words} --json"))).expect("an object")
}

/// Runs it, and expects exit code 2, nothing on standard output, and these words.
fn refused(desk: &TempDir, words: &str, reason: &[&str]) {
    let ran = command(desk, words).stdin(Stdio::null()).output().expect("dfdn starts");
    let error = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(2) && ran.stdout.is_empty(), "{words}: {error}");
    reason.iter().for_each(|word| assert!(error.contains(word), "{words}: no '{word}' in: {error}"));
}

#[test]
fn entries_that_name_nothing_are_remarks() {
    let desk = desk();
    write(&desk, "held", "drain sw-9-9\navoid sw-0 99\n");
    write(&desk, "roles", "oss* storage\n");
    write(&desk, "roots", "0x77\n");
    let words = "fabric.net --hold held --roles roles --roots roots";
    let said = [
        "line 1 of held has no effect: no node",
        "line 2 of held has no effect: ",
        "roles: 'oss*' has no effect",
        "roots: 0x0000000000000077 has no effect",
    ];
    let remarks = json(&desk, &format!("route {words}"))["remarks"].to_string();
    for run in ["route", "evaluate --engine dfdn", "compare --engines dfdn", "whatif --down sw-0"] {
        let out = fine(&desk, &format!("{run} {words}"));
        for text in said {
            assert!(out.contains(text) && remarks.contains(text), "{run}: no '{text}' in {out}{remarks}");
        }
    }
    let out = fine(&desk, "evaluate fabric.net tables --roles roles");
    assert!(out.contains("roles: 'oss*' has no effect"), "{out}");
}

/// A switch, a host with two ports cabled to each other, hosts that are cabled to each other, and a router.
const BESIDE: &str = "\
Switch 8 \"S\"\n[1] \"H1\"[1]\n[2] \"H2\"[1]\n[3] \"S\"[4]\n[6] \"R\"[1]\n\
Ca 3 \"H1\"\n[1] \"S\"[1]\n[2] \"H1\"[3]\nCa 2 \"H2\"\n[1] \"S\"[2]\n[2] \"H3\"[1]\nCa 1 \"H3\"\n[1] \"H2\"[2]\n\
Rt 1 \"R\"\n[1] \"S\"[6]\n";

#[test]
fn what_a_verdict_leaves_out_is_a_note() {
    let desk = desk();
    write(&desk, "beside.net", BESIDE);
    fine(&desk, "route beside.net -o beside");
    let said =
        ["is not cabled to a switch and left out; so are 3 more adapter ports", "is a router: credit loops"];
    for run in ["route beside.net", "verify beside.net beside", "evaluate beside.net beside"] {
        let (out, remarks) = (fine(&desk, run), json(&desk, run)["remarks"].to_string());
        for text in said {
            assert!(out.contains(text) && remarks.contains(text), "{run}: no '{text}' in {out}{remarks}");
        }
    }
    let assigned = "8 end ports had no LID";
    assert!(fine(&desk, "route beside.net").contains(assigned));
    assert!(!fine(&desk, "route beside.net --lmc 1").contains(assigned), "that is what was asked for");
    let compared = fine(&desk, "compare beside.net --engines dfdn");
    assert!(compared.contains("note: ") && compared.contains(said[1]), "{compared}");
    let moved = json(&desk, "reconfigure beside.net beside beside.net beside");
    assert!(moved["remarks"].to_string().contains(said[1]), "{moved}");
    // The cable of the switch to itself changes no verdict.
    let ran = command(&desk, "route beside.net").env("DFDN_LOG", "info").output().expect("dfdn starts");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("back to its own port 4 left out"));
    assert!(fine(&desk, "--help").contains("DFDN_LOG"));
}

#[test]
fn a_pipe_has_no_hash() {
    let desk = desk();
    let fabric = fs::File::open(desk.path().join("fabric.net")).expect("the fabric");
    let mut cat = Command::new("cat").stdin(fabric).stdout(Stdio::piped()).spawn().expect("cat starts");
    let mut report = command(&desk, "report /dev/stdin tables --json");
    let ran = report.stdin(cat.stdout.take().expect("a pipe")).output().expect("dfdn starts");
    cat.wait().expect("cat ends");
    let value: Value = serde_json::from_slice(&ran.stdout).expect("an object");
    assert_eq!(
        (&value["sources"][0]["name"], &value["sources"][0]["sha256"]),
        (&"/dev/stdin".into(), &"".into())
    );
    assert_eq!(value["sources"][1]["sha256"].as_str().map(str::len), Some(64));
}

/// Names that are not UTF-8 are names of files.
#[test]
fn any_name_is_the_name_of_a_file() {
    let desk = desk();
    let name = |text: &str| OsString::from_vec([text.as_bytes(), b"\xff"].concat());
    let copy = |from: &str, to: &str| fs::copy(desk.path().join(from), desk.path().join(name(to)));
    copy("fabric.net", "f").expect("a copy");
    write(&desk, "pairs", "sw-0-ca-1 sw-1-ca-1\n");
    copy("pairs", "p").expect("a copy");
    copy("fabric.net", "h").expect("a copy");
    let run = |words: &str, names: &[&OsStr]| {
        let ran = command(&desk, words).args(names).output().expect("dfdn starts");
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    assert_eq!(run("report -o page.html", &[&name("f")]).0, Some(0));
    assert_eq!(run("cabling", &[&name("f"), &name("f")]).0, Some(0));
    assert_eq!(run("simulate fabric.net tables --load .1 --time 9us --traffic", &[&name("p")]).0, Some(0));
    // Settings are text, as in the file of the plugin.
    let (code, error) = run("route fabric.net --hold", &[&name("h")]);
    assert!(
        code == Some(2) && error.contains("a file of settings needs a name in UTF-8: link to it"),
        "{error}"
    );
}

#[test]
fn an_input_is_never_replaced() {
    let desk = desk();
    let path = |name: &str| desk.path().join(name);
    fs::write(path("w.json"), fine(&desk, "whatif fabric.net --down sw-0 --json")).expect("a file");
    symlink("fabric.net", path("link.net")).expect("a link");
    let names = ["fabric.net", "w.json", "tables/opensm-subnet.lst", "tables/opensm-lfts.dump"];
    let read = || names.map(|name| fs::read(path(name)).expect("an input"));
    let before = read();
    for words in [
        "report fabric.net -o fabric.net",
        "report fabric.net -o link.net",
        "report fabric.net --whatif w.json -o w.json",
        "report fabric.net tables -o tables/opensm-lfts.dump",
        "verify fabric.net tables --certificate fabric.net",
        "reconfigure fabric.net tables fabric.net tables -o fabric.net",
        "reconfigure fabric.net tables fabric.net tables --tables tables",
        "route tables/opensm-subnet.lst -o tables",
        "hold --from ibqueryerrors w.json fabric.net -o fabric.net",
    ] {
        refused(&desk, words, &["is read and would be replaced"]);
        assert!(read() == before, "{words}");
    }
    // Earlier results are no input.
    for _ in 0..2 {
        fine(&desk, "route fabric.net -o tables");
        fine(&desk, "report fabric.net tables -o tables/report.html");
    }
}

#[test]
fn a_link_to_nothing_stays_a_link() {
    let desk = desk();
    let path = |name: &str| desk.path().join(name);
    for (name, to) in [("link.net", "there.net"), ("link", "there"), ("circle", "circle")] {
        symlink(to, path(name)).expect("a link");
    }
    fine(&desk, "generate ring --switches 5 -o link.net");
    fine(&desk, "route link.net -o link");
    assert!(path("link.net").is_symlink() && path("there.net").is_file());
    assert!(path("link").is_symlink() && path("there/opensm.fdbs").is_file());
    refused(
        &desk,
        "generate ring --switches 5 -o circle",
        &["cannot write circle: its links lead in a circle"],
    );
    refused(&desk, "route fabric.net -o circle", &["cannot write circle: its links lead in a circle"]);
}

#[test]
fn what_is_requested_twice_is_joined() {
    let desk = desk();
    for (words, name) in [
        ("simulate fabric.net tables --time 9us --load .2,.2", "load"),
        ("whatif fabric.net --list failures", "failed"),
    ] {
        write(&desk, "failures", "sw-0\nsw-0\n");
        for part in ["1", "2"] {
            fs::write(desk.path().join(part), fine(&desk, &format!("{words} --json --part {part}/2")))
                .expect("a file");
        }
        let command = words.split(' ').next().expect("a word");
        let rows = json(&desk, &format!("{command} --merge 1 2"))["rows"].clone();
        assert!(
            rows.as_array().is_some_and(|rows| rows.len() == 2) && rows[0][name] == rows[1][name],
            "{rows}"
        );
    }
}

#[test]
fn errors_name_the_way_out() {
    let desk = desk();
    let text = fine(&desk, "generate ring --switches 4 --json");
    let mut fabric: Value = serde_json::from_str(&text).expect("a fabric");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut changed = fabric.clone();
        change(&mut changed["nodes"][1]);
        changed.to_string()
    };
    let files = [
        ("ports", with(&|node| node["ports"] = Value::Array(Vec::new())), ["node 1 ('sw-1')", "no ports"]),
        (
            "few",
            with(&|node| node["ports"][2]["data_vls"] = 0.into()),
            ["node 1 ('sw-1'): port 2", "1 to 15, not 0"],
        ),
        ("many", with(&|node| node["ports"][2]["data_vls"] = 200.into()), ["port 2", "1 to 15, not 200"]),
        ("foreign", with(&|node| node["ports"][2]["untrusted"] = true.into()), ["port 2", "give it no peer"]),
    ];
    for (name, text, reason) in &files {
        write(&desk, name, text);
        refused(&desk, &format!("route {name}"), &[&[*name][..], reason].concat());
    }
    fabric["nodes"] = Value::Array(Vec::new());
    write(&desk, "none", &fabric.to_string());
    for words in ["route none", "verify none tables", "whatif none", "report none"] {
        refused(&desk, words, &["none: no switch in the file"]);
    }
    refused(
        &desk,
        "reconfigure - tables - tables",
        &["only one of OLD_FABRIC and NEW_FABRIC can be standard input"],
    );
    refused(&desk, "route - --after -", &["only one of FABRIC and --after can be standard input"]);
    for text in ["{", "[]", "{\"rows\": 1}"] {
        write(&desk, "bad", text);
        refused(&desk, "report fabric.net --whatif bad", &["bad: not what 'dfdn whatif --json' writes"]);
    }
    refused(&desk, "evaluate fabric.net", &["<TABLES|--engine <ENGINE>>"]);
    refused(&desk, "evaluate fabric.net tables --vls 3", &["--vls has no effect on tables"]);
    refused(
        &desk,
        "compare fabric.net --tables tables --prefer one-sl",
        &["--prefer has no effect on tables"],
    );
    refused(
        &desk,
        "simulate fabric.net tables --traffic nonsense",
        &["'nonsense'", "adversarial, and files of pairs"],
    );
    refused(&desk, "simulate fabric.net tables --buffer 4294967295", &["1..=65536"]);
    for words in
        ["evaluate fabric.net tables", "whatif fabric.net", "report fabric.net", "compare fabric.net"]
    {
        refused(&desk, &format!("{words} --patterns 4294967295"), &["1 to 10000000"]);
    }
    for words in ["config", "completions bash", "man"] {
        refused(&desk, &format!("{words} --json"), &["--json is not for config, completions and man"]);
    }
}

#[test]
fn tables_that_keep_nothing_of_earlier_ones_say_so() {
    let desk = desk();
    fine(&desk, "generate torus --dims 5,5 -o other.net");
    fine(&desk, "generate torus --dims 5,5 --fail-links 1 -o damaged.net");
    let kept = |words: &str| {
        !json(&desk, words)["remarks"].to_string().contains("nothing of the tables of other.net")
    };
    assert!(!kept("route fabric.net --after other.net"));
    assert!(kept("route damaged.net --after other.net"));
}

/// The whole fabric fails.
#[test]
fn a_failure_that_leaves_no_switch_has_a_row() {
    let desk = desk();
    write(
        &desk,
        "one.net",
        "Switch 4 \"S\"\n[1] \"H1\"[1]\n[2] \"H2\"[1]\nCa 1 \"H1\"\n[1] \"S\"[1]\nCa 1 \"H2\"\n[1] \"S\"[2]\n",
    );
    for (words, hosts, pairs) in
        [("fabric.net --down sw-0 --down sw-1 --down sw-2 --down sw-3", 4, 12), ("one.net", 2, 2)]
    {
        let ran = dfdn(&desk, &format!("whatif {words} --json"));
        assert_eq!(ran.status.code(), Some(1), "{words}: {}", String::from_utf8_lossy(&ran.stderr));
        let value: Value = serde_json::from_slice(&ran.stdout).expect("an object");
        let row = &value["rows"][0];
        assert_eq!((&row["cut_off"], &row["pairs_cut"]), (&hosts.into(), &pairs.into()), "{row}");
        assert_eq!(row["error"], "there is no switch");
    }
}
