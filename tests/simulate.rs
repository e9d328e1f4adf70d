//! `dfdn simulate`: what scripts may rely on.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// A folder with `fabric.net` and `tables`.
pub(crate) struct Desk(TempDir);

impl Desk {
    pub(crate) fn new(fabric: &str, route: &str) -> Self {
        let desk = Self(tempfile::tempdir().expect("a temporary folder"));
        for words in
            [format!("generate {fabric} -o fabric.net"), format!("route fabric.net -o tables {route}")]
        {
            let ran = desk.run(&words);
            // Exit code 1: tables with a credit loop, requested here.
            let fine =
                ran.status.success() || ran.status.code() == Some(1) && words.contains("--allow-unsafe");
            assert!(fine, "{words}: {}", String::from_utf8_lossy(&ran.stderr));
        }
        desk
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dfdn"));
        command.args(words.split_whitespace()).current_dir(&self.0).env_remove("DFDN_LOG");
        command
    }

    fn run(&self, words: &str) -> Output {
        self.command(words).output().expect("dfdn starts")
    }

    pub(crate) fn json(&self, words: &str, code: i32) -> Value {
        let ran = self.run(&format!("simulate {words} --json"));
        assert_eq!(ran.status.code(), Some(code), "{words}: {}", String::from_utf8_lossy(&ran.stderr));
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|e| panic!("{words}: {e}"))
    }

    /// The JSON as it is printed, without the lines of wall-clock times: all else depends on the input alone.
    pub(crate) fn timeless(&self, words: &str) -> String {
        let text = self.printed(words);
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("\"seconds\":"));
        let kept: String = lines.map(|line| format!("{line}\n")).collect();
        assert!(kept.len() < text.len(), "{words}: rows have times");
        kept
    }

    fn printed(&self, words: &str) -> String {
        let ran = self.run(&format!("simulate {words} --json"));
        assert!(ran.status.success(), "{words}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("text")
    }

    fn refused(&self, words: &str, reason: &[&str]) {
        let ran = self.run(&format!("simulate {words}"));
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0), "{words}: {err}");
        for word in reason {
            assert!(err.contains(word), "{words}: no '{word}' in: {err}");
        }
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("a file is written");
    }
}

#[test]
fn a_sweep_has_a_row_for_each_load_and_seed() {
    let desk = Desk::new("dragonfly --p 2", "");
    let value = desk.json("fabric.net tables --load .2,.9 --seed 1,2 --time 30us", 0);
    let rows = value["rows"].as_array().expect("rows");
    let of = |row: &Value| (row["load"].as_f64().unwrap(), row["seed"].as_u64().unwrap());
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), [(0.2, 1), (0.2, 2), (0.9, 1), (0.9, 2)]);
    for row in rows {
        let latency: Vec<f64> = ["mean", "p50", "p95", "p99"]
            .iter()
            .map(|key| row["latency_ns"][key].as_f64().unwrap())
            .collect();
        assert!(latency[1] <= latency[2] && latency[2] <= latency[3] && latency[0] > 637.0, "{row}");
        assert!(row["deadlock"].is_null() && row["packets"].as_u64() > Some(500), "{row}");
        assert!(row["packet_hops"].as_u64() > row["packets"].as_u64(), "{row}");
        let fairness = row["fairness"].as_f64().unwrap();
        assert!(fairness > 0.0 && fairness <= 1.0, "{row}");
        assert!(row.get("links").is_none());
    }
    assert!((rows[0]["accepted"].as_f64().unwrap() - 0.2).abs() < 0.02, "{}", rows[0]);
    let links = desk.json("fabric.net tables --load .2 --time 30us --links", 0);
    let links = links["rows"][0]["links"].as_array().expect("links").clone();
    assert_eq!(links.len(), 36 * 5, "36 switches with 5 links each");

    let text = desk.run("simulate fabric.net tables --load .5 --time 20us");
    let (out, err) = (String::from_utf8_lossy(&text.stdout), String::from_utf8_lossy(&text.stderr));
    assert!(text.status.success() && err.is_empty(), "{err}");
    assert!(out.contains("accepted") && out.contains("0.500     1"), "{out}");
    let all = desk.json("fabric.net tables --time 5us", 0);
    assert_eq!(all["rows"].as_array().map(Vec::len), Some(10), "from .1 to 1");
}

#[test]
fn parts_join_to_the_same_bytes_as_one_run() {
    let desk = Desk::new("ring --switches 5 --cas 2", "");
    let sweep = "fabric.net tables --load .1,.5,.9 --seed 7,8 --time 20us --traffic hotspot:1:20";
    let one = desk.timeless(sweep);
    for i in 1..=4 {
        let part = desk.printed(&format!("{sweep} --part {i}/4"));
        assert!(part.contains(&format!("\"part\": \"{i}/4\"")), "{part}");
        desk.write(&format!("part-{i}.json"), &part);
    }
    assert_eq!(desk.timeless("--merge part-3.json part-1.json part-2.json part-4.json"), one);
    desk.refused("--merge part-3.json part-1.json part-2.json", &["load 0.5 seed 8", "none of the files"]);
    let other = desk.json("fabric.net tables --load .3 --time 20us", 0);
    desk.write("other.json", &other.to_string());
    desk.refused("--merge part-1.json other.json", &["other.json", "part-1.json", "runs"]);
    desk.write("no.json", "{}");
    desk.refused("--merge no.json", &["no.json", "simulate --json"]);
    desk.refused(&format!("{sweep} --part 5/4"), &["1/4 to 4/4"]);
}

#[test]
fn a_deadlock_is_shown_as_a_credit_loop() {
    let desk = Desk::new("ring --switches 5 --cas 2", "--engine minhop --allow-unsafe");
    let words = "fabric.net tables --traffic cycle --message 128KiB";
    let value = desk.json(words, 1);
    let row = &value["rows"][0];
    assert!(row["load"].is_null() && row["finished_ns"].is_null(), "{row}");
    let waits = row["deadlock"]["waits"].as_array().expect("a cycle");
    assert_eq!(row["deadlock"]["cycle"], row["deadlock"]["waits"]);
    assert!(row["deadlock"]["time_ns"].as_f64() > Some(0.0));
    for (wait, next) in waits.iter().zip(waits.iter().cycle().skip(1)) {
        assert_eq!(wait["to"], next["from"]);
    }
    let text = desk.run(&format!("simulate {words}"));
    let out = String::from_utf8_lossy(&text.stdout);
    assert_eq!(text.status.code(), Some(1));
    assert!(out.contains("DEADLOCK at") && out.contains("wait for each other in a credit loop"), "{out}");

    let desk = Desk::new("ring --switches 5 --cas 2", "");
    for model in ["default", "schneider", "flich"] {
        let row = &desk.json(&format!("{words} --model {model}"), 0)["rows"][0];
        assert!(row["finished_ns"].as_f64() > Some(0.0) && row["deadlock"].is_null(), "{row}");
    }
}

/// A link fails, and the switches are programmed in three ways; then it returns.
#[test]
fn tables_change_under_load() {
    let desk = Desk::new("fat-tree --k 4 --levels 3", "");
    for words in [
        "generate fat-tree --k 4 --levels 3 --fail-links 1 -o damaged.net",
        "route damaged.net -o damaged",
        "reconfigure fabric.net tables damaged.net damaged -o plan.json",
        "reconfigure damaged.net damaged fabric.net tables -o back.json",
    ] {
        let ran = desk.run(words);
        assert!(ran.status.success(), "{words}: {}", String::from_utf8_lossy(&ran.stderr));
    }
    let words = "fabric.net tables --load .4 --seed 1,2 --update plan.json --mads 200000 --way";
    let mut mads = Vec::new();
    for way in ["steps", "rewriting", "static"] {
        let value = desk.json(&format!("{words} {way}"), 0);
        assert_eq!((&value["update"]["way"], &value["update"]["plan"]), (&way.into(), &"plan.json".into()));
        for row in value["rows"].as_array().expect("rows") {
            let update = &row["update"];
            let (lost, number) = (&update["lost"], |key: &str| update[key].as_f64().expect("a number"));
            // Hosts that wait may have nothing under way to the failed link.
            assert!(way == "static" || lost["no_link"].as_u64() > Some(0), "{way}: {update}");
            assert_eq!((&lost["cut_off"], &lost["no_entry"]), (&0.into(), &0.into()), "{way}: {update}");
            assert_eq!(number("failed_ns"), 25_000.0);
            assert!(number("programmed_ns") >= 25_000.0 + number("mads") * 5000.0, "{way}: {update}");
            assert_eq!(number("stopped_ns") > 0.0, way == "static");
            assert!((number("without_service_ns") + 25_000.0 - number("flows_ns")).abs() < 0.001, "{update}");
            mads.push(update["mads"].as_u64());
        }
    }
    assert_eq!(mads[2..4], mads[4..]);
    let text = desk.run(&format!("simulate {words} static"));
    let out = String::from_utf8_lossy(&text.stdout);
    assert!(out.contains("all flows after") && !out.contains("never"), "{out}");
    // A link that returns is there before the tables know it.
    let value = desk.json("fabric.net damaged --load .4 --update back.json", 0);
    let update = &value["rows"][0]["update"];
    assert!(update["lost"]["no_link"] == 0 && update["mads"].as_u64() > Some(0), "{update}");
    desk.refused("damaged.net damaged --update plan.json", &["no cable at port", "another fabric"]);
    desk.refused("fabric.net tables --way static", &["--update"]);
    desk.refused("fabric.net tables --update nothing.json", &["nothing.json"]);
    let usual = desk.json("fabric.net tables --load .4", 0);
    assert!(usual["update"].is_null() && usual["rows"][0].get("update").is_none());
}

#[test]
fn pairs_come_from_a_file() {
    let desk = Desk::new("ring --switches 4", "");
    let fabric = fs::read_to_string(desk.0.path().join("fabric.net")).expect("it is there");
    let hosts: Vec<&str> =
        fabric.lines().filter(|l| l.starts_with("Ca")).filter_map(|l| l.split('"').nth(3)).collect();
    desk.write(
        "pairs",
        &format!("# who sends\n{} {}\n\n{}\t{} # comment\n", hosts[0], hosts[2], hosts[1], hosts[3]),
    );
    let value = desk.json("fabric.net tables --traffic pairs --message 4KiB", 0);
    assert_eq!(value["rows"][0]["packets"], 4, "two pairs, two packets each");
    desk.write("three", &format!("{} {} x\n", hosts[0], hosts[2]));
    desk.refused("fabric.net tables --traffic three", &["three: line 1", "3 words"]);
    desk.write("who", &format!("{} {}\n{} nobody\n", hosts[0], hosts[2], hosts[0]));
    desk.refused("fabric.net tables --traffic who", &["who: line 2", "'nobody'"]);
}

#[test]
fn bad_input_is_refused_with_its_place() {
    let desk = Desk::new("ring --switches 4", "");
    desk.refused("", &["FABRIC"]);
    let help = desk.run("simulate --help");
    assert!(String::from_utf8_lossy(&help.stdout).contains("Examples:\n  dfdn simulate "));
    desk.refused("fabric.net tables --load 1.5", &["1.5", "at most 1"]);
    desk.refused("fabric.net tables --traffic unifrom", &["'unifrom'", "hotspot:N:PERCENT"]);
    desk.refused("fabric.net tables --traffic incast:4", &["incast:4", "4 hosts"]);
    desk.refused("fabric.net tables --model best", &["'best'", "schneider"]);
    desk.refused("fabric.net tables --buffer 8", &["8 credits", "takes 32"]);
    desk.refused("fabric.net tables --packet 8KiB", &["8192"]);
    desk.refused("fabric.net tables --time 5", &["5"]);
    desk.refused("fabric.net tables --sl 16", &["16"]);
    desk.refused("fabric.net nowhere", &["nowhere"]);
    // A hole in a table.
    let dump = desk.0.path().join("tables/opensm-lfts.dump");
    let text = fs::read_to_string(&dump).expect("it is there");
    let (at, line) =
        text.lines().enumerate().find(|(_, l)| l.starts_with("0x0005 ")).expect("an entry for LID 5");
    let without: Vec<&str> = text.lines().enumerate().filter(|(i, _)| *i != at).map(|(_, l)| l).collect();
    fs::write(&dump, without.join("\n")).expect("it is written");
    desk.refused("fabric.net tables", &["LID 5", "no entry", "does not arrive"]);
    assert!(!line.is_empty());
}

#[test]
fn an_interrupted_sweep_prints_what_it_has() {
    let desk = Desk::new("ring --switches 4", "");
    // The second row would take hours.
    let mut child = desk
        .command("simulate fabric.net tables --load .1,.5 --time 2000s --traffic shift:1 --json --part 1/1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("dfdn starts");
    sleep(Duration::from_secs(1));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("there is kill").success());
    let status = child.wait().expect("it ends");
    let output = {
        use std::io::Read;
        let mut text = String::new();
        child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
        text
    };
    assert!(!status.success());
    let value: Value = serde_json::from_str(&output).expect("one object");
    assert_eq!(value["interrupted"], true);
    assert_eq!(value["runs"].as_array().map(Vec::len), Some(2));
    assert_eq!(value["rows"].as_array().map(Vec::len), Some(0), "none was through");
}
