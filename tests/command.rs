//! What scripts may rely on: output, exit codes and files of the command.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use dfdn::formats::{self, TABLE_FILES};
use dfdn::topology::{Dragonfly, Topology, small};

use crate::host::{self, foreign};

/// A folder for running the command.
struct Desk(TempDir);

/// Result of a run.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// A folder with `fabric.net`, as `dfdn generate` and these words write it.
    fn with(words: &str) -> Self {
        let desk = Self::new();
        let ran = desk.run(&format!("generate {words} -o fabric.net"));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dfdn"));
        command.args(words.split_whitespace()).current_dir(&self.0).env_remove("DFDN_LOG");
        command
    }

    fn run(&self, words: &str) -> Ran {
        ran(self.command(words).output().expect("dfdn starts"))
    }

    /// Runs it with `--json` and expects an exit code and one object.
    fn json(&self, words: &str, code: i32) -> Value {
        let ran = self.run(&format!("{words} --json"));
        assert_eq!(ran.code, Some(code), "{words}: {}", ran.err);
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{words}: {e}: {}", ran.out))
    }

    /// Runs it and expects exit code 2, nothing on standard output, and some words of the reason.
    fn refused(&self, words: &str, reason: &[&str]) {
        let ran = self.run(words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{words}: {}", ran.err);
        for word in reason {
            assert!(ran.err.contains(word), "{words}: no '{word}' in: {}", ran.err);
        }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).expect("a file is written");
    }

    /// The names in the folder, sorted.
    fn files(&self, folder: &str) -> Vec<String> {
        let names = fs::read_dir(self.path(folder)).expect("a folder");
        let mut names: Vec<String> =
            names.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn ran(output: Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn has(value: &Value, keys: &str) {
    for key in keys.split_whitespace() {
        assert!(value.get(key).is_some(), "no '{key}' in {value}");
    }
}

const ROUTE: &str = "engine switches cas links diameter vls sls vls_all sls_all deadlock_free minimal \
    nonminimal_share mean_stretch max_channel_load seconds";
const VERIFY: &str = "deadlock_free reachable loop_free minimal vls sls witness";
/// Roles change what is balanced, are measured for themselves, and a mistake in their file is named with its line.
#[test]
fn roles() {
    let desk = Desk::with("fat-tree --k 6 --fail-links 9");
    desk.write("roles", "# the third adapter of each leaf\n*-ca-3 storage 1 2\n*-ca-2 service\n");
    let routed = desk.run("route fabric.net --roles roles --balance full -o tables");
    assert_eq!(routed.code, Some(0), "{}", routed.err);
    assert!(routed.out.contains("18 store and 18 serve"), "{}", routed.out);
    assert_eq!(desk.run("verify fabric.net tables").code, Some(0));
    assert_eq!(desk.run("route fabric.net --balance full -o plain").code, Some(0));
    let figure = |tables: &str, what: &str| {
        let value = desk.json(&format!("evaluate fabric.net {tables} --roles roles --patterns 200"), 0);
        assert_eq!(
            (&value["with_storage"]["compute"], &value["with_storage"]["storage"]),
            (&18.into(), &18.into())
        );
        value["among_compute"][what].as_f64().expect("a number")
    };
    assert!(figure("tables", "ebb") > figure("plain", "ebb"));
    assert!(figure("tables", "largest_load") <= figure("plain", "largest_load"));
    let plain = desk.json("evaluate fabric.net plain --patterns 20", 0);
    assert!(
        plain.get("with_storage").is_none() && plain["shift_mean"].as_f64() >= plain["shift_least"].as_f64()
    );
    desk.write("bad", "*-ca-3 storage\n\nx stroage\n");
    desk.refused(
        "route fabric.net --roles bad",
        &["bad", "line 3", "'stroage' is none of compute, storage, service"],
    );
    desk.refused("route fabric.net --roles missing", &["missing", "cannot read"]);
}

/// The same fabric with the same GUIDs, on other switches.
#[test]
fn shuffled_guids() {
    let desk = Desk::with("fat-tree --k 4 --fail-links 3 --shuffle-guids");
    let shuffled = fs::read_to_string(desk.path("fabric.net")).expect("the fabric");
    let plain = desk.run("generate fat-tree --k 4 --fail-links 3").out;
    assert_ne!(plain, shuffled);
    let guids = |text: &str| {
        let guids = text.lines().filter(|line| line.starts_with("switchguid="));
        let mut guids: Vec<String> = guids.map(str::to_owned).collect();
        guids.sort();
        guids
    };
    assert_eq!(guids(&plain), guids(&shuffled));
    let routed = desk.json("route fabric.net", 0);
    assert_eq!((&routed["vls"], &routed["sls"], &routed["safe"]), (&1.into(), &1.into(), &true.into()));
}

/// The file says which links are slow, and whoever reads it counts load over rate.
#[test]
fn slow_links() {
    let desk = Desk::with("fat-tree --k 4 --slow-links 6 --seed 2");
    let text = fs::read_to_string(desk.path("fabric.net")).expect("the fabric");
    assert_eq!(text.matches(" 2xQDR\n").count(), 12, "{text}");
    assert_eq!(desk.run("route fabric.net -o tables").code, Some(0));
    assert_eq!(desk.run("verify fabric.net tables").code, Some(0));
    let evaluated = desk.run("evaluate fabric.net tables --patterns 20");
    let line = "link rates             26 of 4xQDR, 6 of 2xQDR: load counts over rate\n";
    assert!(evaluated.code == Some(0) && evaluated.out.contains(line), "{}", evaluated.out);
    let mean = |net: &str| {
        let value = desk.json(&format!("evaluate {net} tables --patterns 20"), 0);
        value["mean_channel_load"].as_f64().expect("a number")
    };
    desk.write("equal.net", text.replace(" 2xQDR\n", " 4xQDR\n"));
    assert!(mean("fabric.net") > mean("equal.net"));
    assert!(!desk.run("evaluate equal.net tables --patterns 20").out.contains("link rates"));
    desk.refused("generate ring --switches 4 --slow-links 5", &["only 4 of the 5 links"]);
}

/// Three cables for each link, of which five are down.
#[test]
fn parallel_links() {
    let desk = Desk::with("torus --dims 5,5 --cas 3 --parallel 3 --fail-links 5");
    let text = fs::read_to_string(desk.path("fabric.net")).expect("the fabric");
    assert!(text.contains("# Topology file: 25 switches, 75 adapters, 220 links"), "{text}");
    let routed = desk.json("route fabric.net", 0);
    assert_eq!((&routed["sls"], &routed["safe"]), (&1.into(), &true.into()));
    desk.refused("generate ring --switches 4 --parallel 0", &["parallel = 0 is not possible", "at least 1"]);
    desk.refused("generate ring --switches 4 --parallel 200", &["the largest switch would need 401 ports"]);
}

const EVALUATE: &str = "edge_forwarding_index ebb ebb_low ebb_high mean_hops max_hops hop_histogram \
    channel_load_histogram";

#[test]
fn every_subcommand_prints_the_object_that_is_promised() {
    let desk = Desk::with("torus --dims 4,4");
    let fabric = desk.json("generate ring --switches 5", 0);
    assert_eq!(fabric["format"], "dfdn-fabric-1");
    has(&desk.json("generate ring --switches 5 -o ring.net", 0), "family switches cas links");
    let routed = desk.json("route fabric.net -o tables", 0);
    has(&routed, ROUTE);
    assert_eq!((&routed["switches"], &routed["deadlock_free"]), (&16.into(), &true.into()));
    let judged = desk.json("verify fabric.net tables", 0);
    has(&judged, VERIFY);
    assert!(judged["witness"].is_null());
    for words in ["evaluate fabric.net tables --patterns 9", "evaluate fabric.net --engine sssp --patterns 9"]
    {
        has(&desk.json(words, 0), EVALUATE);
    }
    let table = desk.json("compare fabric.net --engines dfdn,sssp --tables tables --patterns 9", 0);
    let rows = table["rows"].as_array().expect("rows");
    let names: Vec<&str> = rows.iter().filter_map(|r| r["engine"].as_str()).collect();
    assert_eq!(names, ["tables", "dfdn", "sssp"]);
    rows.iter().for_each(|row| has(row, EVALUATE));
    assert_eq!(rows[2]["deadlock_free"], false, "a bare routing is marked");
    assert!(desk.run("compare fabric.net --engines sssp --patterns 9").out.contains("NO"));
}

#[test]
fn help_has_an_example() {
    let desk = Desk::new();
    for name in [
        "generate",
        "route",
        "verify",
        "evaluate",
        "compare",
        "simulate",
        "export",
        "hold",
        "config",
        "completions",
        "man",
    ] {
        let ran = desk.run(&format!("{name} --help"));
        assert_eq!(ran.code, Some(0));
        assert!(ran.out.contains("Example") && ran.out.contains(&format!("dfdn {name}")), "{}", ran.out);
    }
    assert_eq!(desk.run("--version").code, Some(0));
}

#[test]
fn bad_usage_and_input_have_exit_code_2_and_a_place() {
    let desk = Desk::with("torus --dims 4,4");
    desk.write("cut.net", "Switch 4 \"a\"\n[1] \"b\"[1]\n");
    desk.write("garbage", [0_u8, 159, 146, 150, b'{', b'"']);
    desk.refused("", &["Usage"]);
    desk.refused("nonsense", &["nonsense"]);
    desk.refused("route missing.net", &["missing.net"]);
    desk.refused("route cut.net", &["cut.net: line 2:", "'b'"]);
    desk.refused("route garbage", &["garbage"]);
    desk.refused("route .", &["directory"]);
    desk.refused("route fabric.net --engine dfndf", &["'dfndf'", "dfdn, dfd2"]);
    desk.refused("compare fabric.net --engines dfdn,dfndf", &["'dfndf'"]);
    desk.refused("route fabric.net --vls 0", &["--vls", "'0' is not auto or 1 to 15"]);
    desk.refused("route fabric.net --vls 16", &["--vls", "'16' is not auto or 1 to 15"]);
    desk.refused("route fabric.net --sls 17", &["--sls", "'17' is not 1 to 16"]);
    desk.refused("route fabric.net --lmc 8", &["0..=7"]);
    desk.refused(
        "route fabric.net --engine dfdn-paper --vls 1",
        &["4 VLs are needed and the setting vls allows 1"],
    );
    desk.refused("verify fabric.net nowhere", &["nowhere", "there is no such folder"]);
    fs::create_dir(desk.0.path().join("empty")).expect("a folder");
    desk.refused("verify fabric.net empty", &["empty", "opensm-lfts.dump"]);
    desk.refused("compare fabric.net --tables nowhere --engines dfdn", &["nowhere"]);
    desk.refused("evaluate fabric.net", &["TABLES"]);
    desk.refused("generate ring --switches 2", &["at least 3"]);
    desk.refused("generate torus --dims 60000,60000", &[]);
    desk.refused("generate ring --switches 4 -o nowhere/x.net", &["nowhere/x.net"]);
    desk.refused("route fabric.net -o fabric.net", &["fabric.net"]);

    // Tables: which file, which line.
    assert_eq!(desk.run("route fabric.net --engine dfdn-paper -o tables").code, Some(0));
    for name in ["opensm-lfts.dump", "opensm-sl2vl.dump", "psl"] {
        let text = fs::read_to_string(desk.path("tables").join(name)).expect("a table");
        let cut = text.lines().position(|l| l.starts_with("0x") || l.contains(" in ")).unwrap_or(1) + 1;
        let mut lines: Vec<&str> = text.lines().collect();
        lines.insert(cut, "0xnothing at all");
        fs::write(desk.path("tables").join(name), lines.join("\n")).expect("a damaged table");
        let place = format!("{name}: line {}", cut + 1);
        desk.refused("verify fabric.net tables", &[&place]);
        fs::write(desk.path("tables").join(name), text).expect("the table again");
    }
    assert_eq!(desk.run("verify fabric.net tables").code, Some(0));
}

#[test]
fn a_fabric_in_two_parts_is_refused_with_a_switch_of_each() {
    let desk = Desk::new();
    desk.write(
        "two.net",
        "Switch 4 \"left\"\n[1] \"H1\"[1]\nSwitch 4 \"right\"\n[1] \"H2\"[1]\nHca 1 \"H1\"\n[1] \"left\"[1]\n\
         Hca 1 \"H2\"\n[1] \"right\"[1]\n",
    );
    desk.refused("route two.net -o tables", &["'left'", "'right'"]);
    assert_eq!(desk.files("."), ["two.net"]);
}

#[test]
fn a_dash_is_standard_input() {
    let desk = Desk::with("torus --dims 3,3");
    assert_eq!(desk.run("route fabric.net -o tables").code, Some(0));
    for words in ["route -", "verify - tables", "evaluate - tables", "compare - --engines dfdn --patterns 9"]
    {
        let fabric = fs::File::open(desk.path("fabric.net")).expect("the fabric");
        let ran = ran(desk.command(words).stdin(fabric).output().expect("dfdn starts"));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words}");
    }
    let ran = ran(desk.command("route -").stdin(Stdio::null()).output().expect("dfdn starts"));
    assert_eq!(ran.code, Some(2));
}

#[test]
fn a_closed_pipe_is_no_error_and_changes_no_verdict() {
    let desk = Desk::with("torus --dims 4,4");
    assert_eq!(desk.run("route fabric.net --engine sssp --allow-unsafe -o bare").code, Some(1));
    for (words, code) in [
        ("generate dragonfly --p 5", 0),
        ("generate dragonfly --p 5 --json", 0),
        ("verify fabric.net bare", 1),
        ("verify fabric.net bare --json", 1),
        ("route fabric.net --engine sssp", 1),
        ("evaluate fabric.net bare --json", 0),
        ("compare fabric.net --patterns 9", 0),
        ("config", 0),
        ("completions bash", 0),
        ("man route", 0),
    ] {
        let mut child =
            desk.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("dfdn starts");
        // The reader exits before or at the first line.
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        if words.starts_with("generate") {
            BufReader::new(out).read_line(&mut line).expect("a line");
        } else {
            drop(out);
        }
        let mut err = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
        assert_eq!(child.wait().expect("dfdn ends").code(), Some(code), "{words}: {err}");
        assert!(!err.contains("panicked") && !err.contains("pipe"), "{words}: {err}");
    }
    // A full disk is an error.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("there is /dev/full");
    let output = desk.command("route fabric.net").stdout(full).output().expect("dfdn starts");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn tables_that_may_deadlock_are_written_only_when_asked() {
    let desk = Desk::with("torus --dims 4,4");
    let ran = desk.run("route fabric.net --engine minhop -o tables");
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("--allow-unsafe") && ran.out.contains("NOT SAFE"), "{}", ran.err);
    assert_eq!(desk.files("."), ["fabric.net"]);
    assert_eq!(desk.run("route fabric.net --engine minhop -o tables --allow-unsafe").code, Some(1));
    let judged = desk.json("verify fabric.net tables", 1);
    assert_eq!((&judged["deadlock_free"], &judged["reachable"]), (&false.into(), &true.into()));
    check_credit_loop(&judged["witness"]);
    // Safe tables replace them: all files are of one set, and none of the old ones is left.
    assert!(!desk.path("tables/psl").exists());
    assert_eq!(desk.run("route fabric.net --engine dfdn-paper -o tables").code, Some(0));
    let mut all = TABLE_FILES.map(str::to_owned).to_vec();
    all.retain(|name| !name.ends_with(".dfdn"));
    all.sort();
    assert_eq!(desk.files("tables"), all);
    assert_eq!(desk.json("verify fabric.net tables", 0)["safe"], true);
    assert_eq!(desk.run("route fabric.net --engine minhop -o tables --allow-unsafe").code, Some(1));
    assert!(!desk.path("tables/psl").exists(), "one SL serves, and the old psl would say otherwise");
}

/// Checks that the channels of a credit loop form a cycle, each wait with a pair of adapters.
pub(crate) fn check_credit_loop(witness: &Value) {
    assert_eq!(witness["kind"], "credit_loop", "{witness}");
    let waits = witness["waits"].as_array().expect("waits");
    assert!(waits.len() > 1, "{witness}");
    for (wait, next) in waits.iter().zip(waits.iter().cycle().skip(1)) {
        assert_eq!(wait["to"], next["from"], "the next channel starts where this one ends");
        assert!(wait["vl"].is_u64() && wait["out_port"].is_u64() && wait["in_port"].is_u64());
        let (name, packet) = (&wait["from"]["name"], &wait["packet"]);
        assert!(name.as_str().is_some_and(|n| !n.is_empty()), "{wait}");
        for end in ["source", "destination"] {
            let name = packet[end]["name"].as_str();
            assert!(name.is_some_and(|n| n.contains("-ca-")), "{end} is an adapter: {wait}");
        }
        assert_ne!(packet["source"], packet["destination"]);
    }
}

/// A desk with a fabric whose tables take a moment to write.
fn big_desk() -> Desk {
    let desk = Desk::new();
    let big = Dragonfly::balanced(6).build().expect("a Dragonfly");
    let mut text = Vec::new();
    formats::ibnetdiscover::write(&mut text, &big).expect("text");
    desk.write("fabric.net", text);
    desk
}

/// Sends a signal to a run once it writes: at least one table exists.
fn interrupt(desk: &Desk, child: &mut Child, signal: &str) -> ExitStatus {
    let staged = || desk.files(".").into_iter().find(|n| n.starts_with(".dfdn-"));
    let writing = host::wait_for(Duration::from_secs(120), || {
        let ended = child.try_wait().expect("it can be asked").is_some();
        let tables = staged().and_then(|n| fs::read_dir(desk.path(&n)).ok()).is_some_and(|d| d.count() > 0);
        (ended || tables).then_some(tables)
    });
    assert_eq!(writing, Some(true), "tables are written beside their place");
    let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(kill.expect("kill").success());
    child.wait().expect("dfdn ends")
}

#[test]
fn nothing_is_left_of_an_interrupted_run() {
    let desk = big_desk();
    for signal in ["INT", "TERM", "HUP"] {
        // The tests themselves may run under nohup.
        let mut run = Command::new("env");
        run.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_dfdn"), "route", "fabric.net", "-o", "tables"]);
        let mut child = run.current_dir(desk.path(".")).stdout(Stdio::null()).spawn().expect("env");
        let status = interrupt(&desk, &mut child, signal);
        assert_eq!(status.code(), None, "it ends by the signal: {status}");
        assert_eq!(desk.files("."), ["fabric.net"], "{signal}");
    }
}

/// `nohup` starts it so that it ignores SIGHUP.
#[test]
fn a_run_goes_on_after_a_signal_that_it_is_to_ignore() {
    let desk = big_desk();
    let mut run = Command::new("sh");
    run.args(["-c", "trap '' HUP; exec \"$0\" route fabric.net -o tables", env!("CARGO_BIN_EXE_dfdn")]);
    let mut child = run.current_dir(desk.path(".")).stdout(Stdio::null()).spawn().expect("sh");
    assert_eq!(interrupt(&desk, &mut child, "HUP").code(), Some(0));
    assert_eq!(desk.files("."), ["fabric.net", "tables"]);
}

/// Whenever it is interrupted, the folder has all tables or none.
#[test]
fn interruptions_at_any_moment_leave_nothing_behind() {
    let desk = Desk::with("torus --dims 4,4");
    let start = std::time::Instant::now();
    assert_eq!(desk.run("route fabric.net -o tables").code, Some(0));
    let usual = start.elapsed();
    let whole = desk.files("tables");
    fs::remove_dir_all(desk.path("tables")).expect("removed");
    let mut interrupted = 0;
    for i in 0..60_u32 {
        let mut command = desk.command("route fabric.net -o tables");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("dfdn");
        // Most of these moments are in the second half, when the files are written.
        std::thread::sleep(usual * (20 + i * 37 % 100) / 100);
        let kill =
            Command::new("kill").args(["-s", "INT", &child.id().to_string()]).stderr(Stdio::null()).status();
        kill.expect("kill");
        let code = child.wait().expect("dfdn ends").code();
        assert!(code.is_none() || code == Some(0), "{code:?}");
        interrupted += u32::from(code.is_none());
        let left = desk.files(".");
        if left != ["fabric.net"] {
            assert_eq!(left, ["fabric.net", "tables"], "after {i} interruptions");
            assert_eq!(desk.files("tables"), whole, "all or nothing");
            fs::remove_dir_all(desk.path("tables")).expect("removed");
        }
    }
    println!("{interrupted} of 60 runs were interrupted");
}

/// Path SLs would take 530 MB as text. Without them every SL would have to be safe on every path,
/// which is not the case here.
#[test]
fn path_sls_of_many_pairs_are_written_in_little_room() {
    let desk = Desk::with("mesh --dims 4,4 --cas 34");
    let words = "route fabric.net --engine updn-trees --trees 2 --lmc 6 -o tables";
    let ran = desk.run(words);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.err.contains("not written: psl of about 5") && ran.err.contains("MB; psl.dfdn holds the same"),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("not written") && ran.out.contains("--large-files"), "{}", ran.out);
    let files = desk.files("tables");
    assert!(files.contains(&"psl.dfdn".to_owned()) && !files.contains(&"psl".to_owned()), "{files:?}");
    assert!(fs::metadata(desk.path("tables/psl.dfdn")).expect("it is there").len() < 1_000_000);
    let judged = desk.json("verify fabric.net tables", 0);
    assert_eq!((&judged["safe"], &judged["sls"]), (&true.into(), &2.into()));
    assert_eq!(desk.run("evaluate fabric.net tables --patterns 3").code, Some(0));
    fs::remove_file(desk.path("tables/psl.dfdn")).expect("removed");
    assert_eq!(desk.json("verify fabric.net tables", 1)["safe"], false, "path SLs do matter");
    let bytes = fs::read(desk.path("tables/guid2lid")).expect("a file");
    desk.write("tables/psl.dfdn", bytes);
    desk.refused("verify fabric.net tables", &["tables/psl.dfdn: not one of dfdn's compact tables"]);
}

/// The command lines for ibdmchk in the help, with and without path SLs.
#[test]
fn ibdmchk_takes_what_the_help_of_route_says() {
    let Some(tools) = host::tools("ibdmchk as the help says") else { return };
    let desk = Desk::with("torus --dims 4,4");
    let help = desk.run("route --help").out;
    // A backslash continues the line, as in a shell.
    let joined = help.replace("\\\n", " ");
    let line = joined.lines().find(|l| l.trim_start().starts_with("ibdmchk -s")).expect("a line for ibdmchk");
    for (engine, needs_psl) in [("dfdn", false), ("dfdn-paper", true), ("apot", false)] {
        assert_eq!(desk.run(&format!("route fabric.net --engine {engine} -o tables")).code, Some(0));
        assert_eq!(desk.path("tables/psl").exists(), needs_psl);
        let words = if needs_psl { line.to_owned() } else { line.replace("-c tables/psl", "") };
        assert!(
            needs_psl
                || words != line && help.contains("Leave '-c tables/psl' out where there is no such file")
        );
        let mut command = Command::new(&tools.ibdmchk);
        command.args(words.split_whitespace().skip(1)).current_dir(&desk.0);
        let text = ran(command.output().expect("ibdmchk starts")).out;
        assert!(text.contains("no credit loops found") && !text.contains("-E-"), "{engine}: {text}");
    }
}

/// A request that is not met is reported and sets the exit code; the tables are safe and written.
#[test]
fn a_preference_that_is_not_met_is_said() {
    let desk = Desk::with("torus --dims 6,6");
    let met = desk.json("route fabric.net --prefer minimal -o tables", 0);
    assert_eq!((&met["minimal"], &met["unmet"]), (&true.into(), &Value::Array(Vec::new())));
    let words = "route fabric.net --prefer minimal --vls 1 -o tables";
    let ran = desk.run(words);
    assert_eq!(ran.code, Some(1));
    let said = "--prefer minimal is not met with 1 VL and 16 SLs: ";
    for text in [&ran.err, &ran.out] {
        assert!(text.contains(said) && text.contains("% of the adapter pairs take longer paths"), "{text}");
    }
    assert!(ran.out.contains("\nSAFE"), "{}", ran.out);
    assert_eq!(desk.json("verify fabric.net tables", 0)["minimal"], false, "they are written");
    let unmet = desk.json(words, 1);
    assert!(unmet["unmet"][0].as_str().is_some_and(|s| s.starts_with(said)), "{unmet}");
    let ran = desk.run("route fabric.net --vls 1 --max-nonminimal 0.001 -o others");
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("--max-nonminimal 0.001 is not met with 1 VL"), "{}", ran.err);
    desk.json("verify fabric.net others", 0);
    // Without a request, the same detours are not reported.
    let ran = desk.run("route fabric.net --vls 1");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let ran = desk.run("route fabric.net --engine updn-trees --prefer one-sl");
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("--prefer one-sl is not met: 2 SLs"), "{}", ran.out);
    let ran = desk.run("route fabric.net --engine updn-trees --max-nonminimal 0.001");
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("--max-nonminimal 0.001 is not met"), "{}", ran.out);
    let ran = desk.run("evaluate fabric.net --engine dfdn --prefer minimal --vls 1 --patterns 3");
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.contains(said), "{}", ran.err);
}

#[test]
fn a_fabric_with_all_adapters_on_one_switch_uses_no_vl_between_switches() {
    let desk = Desk::new();
    desk.write(
        "one.net",
        "Switch 4 \"a\"\n[1] \"H1\"[1]\n[2] \"H2\"[1]\n[3] \"b\"[1]\nSwitch 4 \"b\"\n[1] \"a\"[3]\n\
         Hca 1 \"H1\"\n[1] \"a\"[1]\nHca 1 \"H2\"\n[1] \"a\"[2]\n",
    );
    let ran = desk.run("route one.net");
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.contains("none between switches, 1 (with switches as ends: 1, 1)"), "{}", ran.out);
}

/// JSON fabrics are accepted, and named, wherever others are.
#[test]
fn json_is_named_where_fabrics_are() {
    let desk = Desk::new();
    let json = desk.run("generate torus --dims 3,3 --json").out;
    desk.write("fabric.json", &json);
    assert_eq!(desk.json("route fabric.json -o tables", 0)["switches"], 9);
    assert_eq!(desk.run("verify fabric.json tables").code, Some(0));
    for name in ["route", "verify", "evaluate", "compare", "export"] {
        let help = desk.run(&format!("{name} --help")).out;
        assert!(help.contains("JSON of 'dfdn generate --json'"), "{help}");
    }
    assert!(desk.run("--help").out.contains("JSON as 'dfdn generate --json' prints it"));
    desk.write("prose", "What is this?\n");
    desk.refused("route prose", &["the JSON of 'dfdn generate --json'"]);
    desk.write("other.json", "{\"format\": \"other\", \"nodes\": []}");
    desk.refused("route other.json", &["dfdn generate --json", "dfdn-fabric-1"]);
    desk.write("bad.json", json.replacen("\"num", "num", 1).replacen("\"guid\"", "guid", 1));
    desk.refused("route bad.json", &["bad.json: line "]);
}

#[test]
fn a_device_is_written_to_and_a_link_stays_a_link() {
    let desk = Desk::new();
    assert_eq!(desk.run("generate ring --switches 4 -o /dev/full").code, Some(2));
    desk.write("real.net", "");
    std::os::unix::fs::symlink("real.net", desk.path("link.net")).expect("a link");
    assert_eq!(desk.run("generate ring --switches 4 -o link.net").code, Some(0));
    assert!(fs::symlink_metadata(desk.path("link.net")).expect("it is there").is_symlink());
    assert_eq!(desk.run("route real.net").code, Some(0));
    assert_eq!(desk.files("."), ["link.net", "real.net"]);
}

#[test]
fn lmc_gives_lids_anew() {
    let desk = Desk::with("torus --dims 3,3");
    let plain = desk.json("route fabric.net", 0);
    let two = desk.json("route fabric.net --lmc 1 -o tables", 0);
    assert_eq!(two["pairs"], plain["pairs"].as_u64().expect("a number") * 2);
    assert_eq!(desk.json("verify fabric.net tables", 0)["pairs"], two["pairs"]);
}

#[test]
fn tables_that_lose_an_adapter_fail_by_name() {
    let desk = Desk::with("mesh --dims 3,3");
    assert_eq!(desk.run("route fabric.net -o tables").code, Some(0));
    let path = desk.path("tables/opensm-lfts.dump");
    let text = fs::read_to_string(&path).expect("the tables");
    let at = text.lines().position(|l| l.contains("Channel Adapter")).expect("an entry");
    let lost = text.lines().nth(at).and_then(|l| l.split('\'').nth(1)).expect("a name");
    let rest: Vec<&str> = text.lines().enumerate().filter(|&(i, _)| i != at).map(|(_, l)| l).collect();
    fs::write(&path, rest.join("\n")).expect("the tables without it");
    let judged = desk.json("verify fabric.net tables", 1);
    assert_eq!((&judged["reachable"], &judged["witness"]["kind"]), (&false.into(), &"unreachable".into()));
    assert_eq!(judged["witness"]["packet"]["destination"]["name"], lost);
    let ran = desk.run("evaluate fabric.net tables");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains(lost), "{}", ran.err);
    let row = &desk.json("compare fabric.net --tables tables", 0)["rows"][0];
    assert!(row["failed"].as_str().is_some_and(|why| why.contains(lost)), "{row}");
}

#[test]
fn every_family_is_generated_routed_and_verified() {
    let desk = Desk::new();
    for topology in small() {
        let fabric = topology.build().expect("it is valid");
        let mut text = Vec::new();
        formats::ibnetdiscover::write(&mut text, &fabric).expect("text");
        desk.write("fabric.net", text);
        assert_eq!(desk.run("route fabric.net -o tables").code, Some(0), "{topology:?}");
        assert_eq!(desk.run("verify fabric.net tables").code, Some(0), "{topology:?}");
    }
    let help = desk.run("generate --help").out;
    for name in Topology::NAMES {
        assert!(help.contains(&format!("  {name} ")), "{name}");
    }
}

/// The arguments of each family, with the expected counts: (switches, adapters, links).
#[test]
fn every_family_takes_its_arguments() {
    let desk = Desk::new();
    let families = [
        ("dragonfly --p 2", (36, 72, 162)),
        ("dragonfly --p 1 --a 4 --h 2 --g 4", (16, 16, 56)),
        ("megafly --groups 9 --leaves 4 --spines 4 --h 2 --cas 3", (72, 108, 288)),
        ("grown --islands 3 --spines 4 --cas 8 --seed 2", (37, 151, 264)),
        (
            "rails --pods 2 --units 4 --rails 4 --spines 4 --width 2 --cores 4 --cross 4 --services 1",
            (81, 276, 670),
        ),
        ("slim-fly --q 5 --cas 4", (50, 200, 375)),
        ("slim-fly --q 3", (18, 90, 135)),
        ("oft --k 3", (21, 42, 84)),
        ("fat-tree --k 8", (80, 128, 384)),
        ("fat-tree --k 24 --levels 2 --down 16", (32, 384, 576)),
        ("xgft --m 2,2,3 --w 1,2,2", (16, 12, 36)),
        ("torus --dims 4,4,4 --cas 2", (64, 128, 320)),
        ("mesh --dims 3,4", (12, 12, 29)),
        ("hypercube --n 6", (64, 64, 256)),
        ("hyperx --dims 4,4,4 --cas 4", (64, 256, 544)),
        ("kautz --d 3 --n 3", (36, 36, 138)),
        ("random --switches 64 --degree 6 --seed 1", (64, 64, 256)),
        ("random-irregular --switches 43 --ports 24 --cas 12", (43, 516, 774)),
        ("scale-free --switches 60 --stubs 20 --cas 2", (60, 120, 3 + 2 * 37 + 20 + 120)),
        ("ring --switches 8", (8, 8, 16)),
        ("director --ports 288", (36, 288, 576)),
        ("odin", (18, 128, 272)),
        ("deimos", (108, 724, 1648)),
        ("dragonfly --p 2 --fail-links 9 --seed 3", (36, 72, 153)),
        ("fat-tree --k 8 --fail-switches 1", (79, 128, 0)),
    ];
    for (words, (switches, cas, links)) in families {
        let made = desk.json(&format!("generate {words} -o made.net"), 0);
        assert_eq!((&made["switches"], &made["cas"]), (&switches.into(), &cas.into()), "{words}");
        assert!(links == 0 || made["links"] == links, "{words}: {made}");
        assert_eq!(desk.run("route made.net").code, Some(0), "{words}");
    }
    let used: BTreeSet<&str> = families.iter().filter_map(|(words, _)| words.split(' ').next()).collect();
    assert_eq!(used, Topology::NAMES.iter().copied().collect(), "every family is here");
}

#[test]
fn completions_and_manual_name_what_there_is() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = desk.run(&format!("completions {shell}"));
        assert_eq!(ran.code, Some(0));
        assert!(ran.out.contains("allow-unsafe") && ran.out.contains("slim-fly"), "{shell}");
    }
    // Bash itself accepts them and offers subcommands.
    let script = format!(
        "{}\nCOMP_WORDS=(dfdn ver); COMP_CWORD=1; _dfdn dfdn ver dfdn; echo \"${{COMPREPLY[@]}}\"",
        desk.run("completions bash").out
    );
    let output = Command::new("bash").args(["--norc", "-c", &script]).output().expect("there is bash");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "verify\n");
    let page = desk.run("man").out;
    for name in
        ["generate", "route", "verify", "evaluate", "compare", "simulate", "export", "doctor", "config"]
    {
        assert!(page.contains(&format!("dfdn\\-{name}(1)")), "{name}: {page}");
        let page = desk.run(&format!("man {name}")).out;
        assert!(page.contains(".TH ") && page.contains(&format!("dfdn {name}")), "{page}");
    }
    desk.refused("man nonsense", &["nonsense"]);
}

#[test]
fn progress_is_for_terminals() {
    let desk = Desk::with("dragonfly --p 3");
    let dfdn = env!("CARGO_BIN_EXE_dfdn");
    let words = "compare fabric.net --patterns 200 --engines dfdn,sssp,minhop";
    assert_eq!(desk.run(words).err, "");
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{dfdn} {words} >table"), "log"]).current_dir(&desk.0);
    script.stdin(Stdio::null()).stdout(Stdio::null());
    match script.status() {
        Ok(status) => assert!(status.success()),
        Err(e) => return eprintln!("skipped: no terminal to test with: {e}"),
    }
    let seen = String::from_utf8_lossy(&fs::read(desk.path("log")).expect("script writes it")).into_owned();
    assert!(seen.contains("minhop"), "{seen:?}");
    let table = fs::read_to_string(desk.path("table")).expect("the table");
    assert!(table.contains("minhop") && !table.contains('\x1b'), "{table}");
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path());
    let mut all: Vec<PathBuf> =
        entries.flat_map(|p| if p.is_dir() { files_below(&p) } else { vec![p] }).collect();
    all.sort();
    all
}

/// Every foreign fabric is routed safely; other files are refused with a reason.
#[test]
fn fabrics_of_others() {
    let Some(folder) = foreign::folder() else { return };
    let desk = Desk::new();
    let mut routed = 0;
    for path in files_below(&folder) {
        let name = path.strip_prefix(&folder).expect("below").display().to_string();
        let file = path.display().to_string();
        let is_fabric =
            ["topo", "topo_file", "topofile", ".net", ".lst", ".out", "director.txt", "storage.txt"]
                .iter()
                .any(|end| name.ends_with(end));
        if !is_fabric {
            desk.refused(&format!("route {file}"), &[&file]);
            continue;
        }
        if name.ends_with("example-bad.out") {
            desk.refused(&format!("route {file}"), &[&file, ": line ", "switch"]);
            continue;
        }
        let ran = desk.run(&format!("route {file} -o tables"));
        println!("{name}: {:?} {}", ran.code, ran.err.trim());
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.err);
        let judged = desk.json(&format!("verify {file} tables"), 0);
        assert_eq!(judged["safe"], true, "{name}");
        routed += 1;
    }
    assert!(routed > 0, "no fabric in {}", folder.display());
    // Tables of an old OpenSM: all packets arrive, and there is a credit loop.
    let old = folder.join("ibutils/osm.fdbs");
    if old.is_file() {
        fs::create_dir(desk.path("old")).expect("a folder");
        fs::copy(&old, desk.path("old/opensm.fdbs")).expect("the tables");
        let list = folder.join("ibutils/subnet.lst").display().to_string();
        let judged = desk.json(&format!("verify {list} old"), 1);
        assert_eq!((&judged["reachable"], &judged["deadlock_free"]), (&true.into(), &false.into()));
        assert_eq!(judged["witness"]["kind"], "credit_loop");
    }
}

/// A pipe in place of a table does not block.
#[test]
fn a_pipe_is_no_table() {
    let desk = Desk::with("torus --dims 4,4");
    for name in ["opensm-lfts.dump", "opensm-sl2vl.dump", "psl", "opensm.mcfdbs", "psl.dfdn"] {
        assert_eq!(desk.run("route fabric.net --engine dfdn-paper -o tables").code, Some(0));
        let _ = fs::remove_file(desk.path("tables").join(name));
        if name == "psl.dfdn" {
            fs::remove_file(desk.path("tables/psl")).expect("removed");
        }
        let pipe = Command::new("mkfifo").arg(desk.path("tables").join(name)).status();
        assert!(pipe.expect("mkfifo").success());
        desk.refused("verify fabric.net tables", &[name, "not a regular file"]);
        fs::remove_dir_all(desk.path("tables")).expect("removed");
    }
    // Endless input is not a fabric either.
    let command = format!("ulimit -v 6000000; exec {} route /dev/zero", env!("CARGO_BIN_EXE_dfdn"));
    let ran = ran(Command::new("bash").args(["-c", &command]).output().expect("there is bash"));
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("/dev/zero: larger than 1 GiB"), "{}", ran.err);
}

/// An endless file is not read forever, and one that claims a huge size gets no memory for it.
#[test]
fn hostile_files_are_refused_within_bounds() {
    let desk = Desk::new();
    desk.write("line", vec![b'x'; 30_000_000]);
    desk.write("braces", vec![b'{'; 5_000_000]);
    desk.write("deep.json", format!("{{\"format\":{}", "[".repeat(1_000_000)));
    let ports: String = (0..60_000).map(|i| format!("Switch 254 \"s{i}\"\n")).collect();
    desk.write("many.net", ports);
    for name in ["line", "braces", "deep.json", "many.net"] {
        // Limits the address space, of which threads reserve a large part.
        let command = format!("ulimit -v 1000000; exec {} route {name}", env!("CARGO_BIN_EXE_dfdn"));
        let output = Command::new("bash").args(["-c", &command]).current_dir(&desk.0).output();
        let ran = ran(output.expect("there is bash"));
        assert_eq!(ran.code, Some(2), "{name}: {}", ran.err);
        assert!(ran.err.contains(name) && ran.err.len() < 1000, "{name}: {}", ran.err);
    }
    let mut child =
        desk.command("route -").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("dfdn");
    let _ = child.stdin.take().expect("a pipe").write_all(&[b'\n'; 100_000]);
    assert_eq!(child.wait().expect("dfdn ends").code(), Some(2));
}
