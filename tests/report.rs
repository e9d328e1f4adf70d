//! `dfdn report` and `dfdn path`: the page says what the JSON says, and a browser shows it without an error.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::desk::{dfdn, fine};
use crate::host::foreign;

fn desk(fabric: &str) -> TempDir {
    let desk = tempfile::tempdir().expect("a temporary folder");
    fine(&desk, &format!("generate {fabric} -o fabric.net"));
    fine(&desk, "route fabric.net -o tables");
    desk
}

fn page(desk: &TempDir) -> String {
    fs::read_to_string(desk.path().join("report.html")).expect("the page")
}

/// All numbers of a page: their places in the JSON, and their texts.
fn numbers(html: &str) -> Vec<(String, String)> {
    let parts = html.split("<span data-key=\"").skip(1);
    let number = |part: &str| {
        let (key, rest) = part.split_once("\">")?;
        Some((key.to_owned(), rest.split_once('<')?.0.to_owned()))
    };
    parts.filter_map(number).collect()
}

/// How the page shows a number with as many digits as `like`.
fn shown(value: &Value, like: &str) -> String {
    let digits = like.split_once('.').map_or(0, |(_, digits)| digits.len());
    match value {
        Value::Null => "–".to_owned(),
        _ => format!("{:.digits$}", value.as_f64().expect("a number")),
    }
}

fn equal(html: &str, report: &Value, least: usize) {
    let numbers = numbers(html);
    assert!(numbers.len() >= least, "only {} numbers", numbers.len());
    for (key, text) in numbers {
        let plain = text.replace('\u{202f}', "");
        let value = report.pointer(&key).cloned().unwrap_or_default();
        assert_eq!(plain, shown(&value, &plain), "{key}");
    }
}

#[test]
fn numbers_on_the_page_are_those_of_the_json() {
    for fabric in
        ["dragonfly --p 2", "fat-tree --k 4", "ring --switches 5 --cas 2", "random --switches 310 --degree 4"]
    {
        let desk = desk(fabric);
        let json = fine(&desk, "report fabric.net tables -o report.html --json --patterns 100");
        let report: Value = serde_json::from_str(&json).expect("an object");
        equal(&page(&desk), &report, 50);
        let judged = dfdn(&desk, "verify fabric.net tables --json").stdout;
        let judged: Value = serde_json::from_slice(&judged).expect("an object");
        assert_eq!(report["tables"][0]["verdict"]["vls"], judged["vls"]);
        let measured = fine(&desk, "evaluate fabric.net tables --json --patterns 100");
        let measured: Value = serde_json::from_str(&measured).expect("an object");
        assert_eq!(report["tables"][0]["metrics"]["ebb"], measured["ebb"]);
        // The subject is routed by the same engine.
        assert_eq!(report["tables"][0]["metrics"], report["tables"][1]["metrics"]);
        assert_eq!(report["sources"][0]["sha256"].as_str().map(str::len), Some(64));
    }
}

#[test]
fn the_page_is_one_file_that_asks_nobody() {
    let desk = desk("dragonfly --p 2");
    fine(&desk, "whatif fabric.net tables --links --json --patterns 5 --part 1/10");
    let whatif = fine(&desk, "whatif fabric.net tables --switches --json --patterns 5");
    fs::write(desk.path().join("whatif.json"), whatif).expect("a file is written");
    let json = fine(&desk, "report fabric.net tables --whatif whatif.json -o report.html --json");
    let html = page(&desk);
    equal(&html, &serde_json::from_str(&json).expect("an object"), 100);
    for word in ["http:", "https:", "src=", "@import", "url(h"] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(html.contains("default-src 'none'") && html.contains("The worst failures"));
    // The same input gives the same bytes.
    fine(&desk, "report fabric.net tables --whatif whatif.json -o report.html --json");
    assert!(html == page(&desk));
    let piped = fine(&desk, "report fabric.net tables --whatif whatif.json");
    assert!(piped.starts_with("<!DOCTYPE html>"));
    for (words, why) in [
        ("report nowhere -o report.html", "nowhere"),
        ("report fabric.net nowhere -o other.html", "nowhere"),
        ("report fabric.net --whatif fabric.net -o other.html", "fabric.net"),
        ("report fabric.net -o no/such/folder/x.html", "no/such/folder"),
    ] {
        let ran = dfdn(&desk, words);
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0), "{words}: {err}");
        assert!(err.contains(why) && !desk.path().join("other.html").exists(), "{words}: {err}");
    }
}

#[test]
fn a_credit_loop_is_drawn() {
    let desk = desk("ring --switches 6 --cas 2");
    let made = dfdn(&desk, "route fabric.net --engine sssp --allow-unsafe -o loop");
    assert_eq!(made.status.code(), Some(1));
    let ran = dfdn(&desk, "report fabric.net loop tables -o report.html");
    assert_eq!(ran.status.code(), Some(1), "{}", String::from_utf8_lossy(&ran.stderr));
    let html = page(&desk);
    assert!(
        html.contains("<strong id=word>NOT SAFE</strong>") && html.contains("aria-label=\"A credit loop of ")
    );
    assert!(html.matches("class=good>SAFE").count() == 2, "the others are safe");
}

/// Node descriptions belong to whoever owns a host.
#[test]
fn descriptions_are_only_text() {
    let desk = desk("ring --switches 4 --cas 1");
    let net = desk.path().join("fabric.net");
    let hostile = "</td></script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;'";
    let text = fs::read_to_string(&net).expect("a file").replace("sw-0-ca-1", hostile);
    fs::write(&net, text).expect("a file is written");
    let json = fine(&desk, "report fabric.net -o report.html --json");
    assert!(json.len() > 100);
    let html = page(&desk);
    assert!(!html.contains("<script>alert") && !html.contains("<img"), "it got out");
    assert!(html.contains("&lt;script&gt;alert(1)"), "it is shown as text");
    assert_eq!(html.matches("<script").count(), 2, "the data and our own script");
}

#[test]
fn a_path_is_shown_hop_by_hop() {
    let desk = desk("mesh --dims 4,4");
    let found: Value =
        serde_json::from_str(&fine(&desk, "path fabric.net tables sw-0-0-ca-1 sw-3-3-ca-1 --json"))
            .expect("an object");
    assert_eq!(found["hops"].as_array().map(Vec::len), Some(7));
    let text = fine(&desk, "path fabric.net tables sw-0-0-ca-1 sw-3-3-ca-1");
    assert!(text.contains("links between switches 6") && text.contains("  7  'sw-3-3'"), "{text}");
    let ran = dfdn(&desk, "path fabric.net tables nobody sw-3-3-ca-1");
    assert!(ran.status.code() == Some(2) && String::from_utf8_lossy(&ran.stderr).contains("'nobody'"));
}

/// A headless browser, if there is one.
fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        eprintln!("skipped: no chromium (Debian: chromium)");
    }
    found
}

/// The page as a browser shows it once its script ran, and what the browser's console says.
fn shown_by(browser: &str, folder: &Path, file: &str) -> (String, String) {
    let ran = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
        ])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("file://{}", folder.join(file).display()))
        .output()
        .expect("the browser starts");
    let log = String::from_utf8_lossy(&ran.stderr);
    let console: String =
        log.lines().filter(|line| line.contains("CONSOLE")).map(|line| format!("{line}\n")).collect();
    (String::from_utf8_lossy(&ran.stdout).into_owned(), console)
}

#[test]
fn a_browser_shows_it_without_an_error() {
    let Some(browser) = browser() else { return };
    let desk = desk("dragonfly --p 2");
    let json = fine(&desk, "report fabric.net tables -o report.html --json");
    let (dom, console) = shown_by(browser, desk.path(), "report.html");
    assert_eq!(console, "");
    equal(&dom, &serde_json::from_str(&json).expect("an object"), 70);
    assert!(dom.contains("<div class=\"script\">"), "its script did not run");
    // Every picture and every field has a name.
    let tags = |tag: &str| {
        dom.split(&format!("<{tag} ")).skip(1).filter_map(|rest| rest.split('>').next()).collect::<Vec<_>>()
    };
    assert!(
        tags("svg").len() >= 4
            && tags("svg").iter().all(|svg| svg.contains("role=\"img\"") && svg.contains("aria-label=\""))
    );
    for input in tags("input") {
        let id = input.split("id=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
        assert!(dom.contains(&format!("<label for=\"{id}\">")), "{id} has no label");
    }
    assert!(
        dom.contains("<html lang=\"en\">") && dom.contains("<main>") && dom.contains("aria-live=\"polite\"")
    );

    // Its script finds the path that the command finds; the policy of the page would not let the test drive it.
    let html = page(&desk);
    let policy =
        html.split("<meta http-equiv").nth(1).and_then(|rest| rest.split('>').next()).expect("a policy");
    let (from, to) = ("sw-0-0-ca-1", "sw-4-2-ca-2");
    let drive = format!(
        "<script>document.getElementById('from').value='{from}';document.getElementById('to').value='{to}';\
         document.getElementById('pair').requestSubmit();document.getElementById('switch').value='sw-0-0';\
         document.getElementById('port').value='3';document.getElementById('link').requestSubmit()</script></body>"
    );
    let driven = html.replace(&format!("<meta http-equiv{policy}>"), "").replace("</body>", &drive);
    fs::write(desk.path().join("driven.html"), driven).expect("a file is written");
    let (dom, console) = shown_by(browser, desk.path(), "driven.html");
    assert_eq!(console, "");
    let found = fine(&desk, &format!("path fabric.net tables {from} {to} --json"));
    let found: Value = serde_json::from_str(&found).expect("an object");
    let lines: Vec<String> = found["hops"]
        .as_array()
        .expect("a list")
        .iter()
        .enumerate()
        .map(|(i, hop)| {
            let name = hop["switch"].as_str().and_then(|name| name.split('\'').nth(1)).expect("a name");
            format!(
                "<div>{}. {name}: in by port {}, out by port {}</div>",
                i + 1,
                hop["in_port"],
                hop["out_port"]
            )
        })
        .collect();
    assert!(lines.len() > 2 && dom.contains(&lines.concat()), "{} in {dom}", lines.concat());
    let report: Value = serde_json::from_str(&json).expect("an object");
    let users =
        dom.split("sw-0-0 port 3 to ").nth(1).and_then(|rest| rest.split(": ").nth(1)).expect("who uses it");
    let count: u64 = users.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(
        count > 0
            && count <= report["tables"][0]["metrics"]["edge_forwarding_index"].as_u64().expect("a number")
    );
}

/// Fabrics of others, where they are.
#[test]
fn real_fabrics_have_pages() {
    let Some(folder) = foreign::folder() else { return };
    let desk = tempfile::tempdir().expect("a temporary folder");
    let mut seen = 0;
    for name in ["tartu/topo", "x5/X5.topofile", "topograph/example.out", "ufm_sdk/selene.storage.txt"] {
        let file = folder.join(name);
        if !file.is_file() {
            continue;
        }
        let ran = dfdn(&desk, &format!("report {} -o report.html --json", file.display()));
        assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
        equal(&page(&desk), &serde_json::from_slice(&ran.stdout).expect("an object"), 50);
        seen += 1;
    }
    assert!(seen > 0, "{} has none of them", folder.display());
}
