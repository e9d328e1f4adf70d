//! What the README and the pages of `docs` show is true: commands run, tables are those of the
//! code, links are valid.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::host;

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("there is the page")
}

fn readme() -> String {
    page("README.md")
}

/// The lines of all blocks marked as `language`.
fn lines(language: &str) -> Vec<String> {
    let text = readme();
    let start = format!("```{language}\n");
    let blocks = text.split(&start).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

#[test]
fn commands_at_a_desk() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut ran = 0;
    for line in lines("sh").iter().filter(|line| line.starts_with("dfdn ")) {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let output = Command::new(env!("CARGO_BIN_EXE_dfdn")).args(words).current_dir(&folder).output();
        let output = output.expect("dfdn starts");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        ran += 1;
    }
    assert!(ran >= 4, "the README shows the command");
}

/// Every script that is shown exists; `ci/test` runs this test, and `ci/demo` is run with one stock
/// engine beside dfdn to be quick.
#[test]
fn scripts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shown: Vec<String> = lines("sh").into_iter().filter(|line| line.starts_with("ci/")).collect();
    assert_eq!(shown, ["ci/demo", "ci/test"], "the two commands");
    assert!(fs::read_to_string(root.join(".ci/run")).expect("there is .ci/run").contains("ci/test"));
    if std::env::var_os("DFDN_REQUIRE_HOST").is_none() {
        eprintln!(
            "skipped: ci/demo, which builds and installs (DFDN_REQUIRE_HOST=1 runs it, as ci/test does)"
        );
        return;
    }
    let Some(_) = host::tools("ci/demo") else { return };
    let output = Command::new(root.join("ci/demo")).arg("minhop").output().expect("ci/demo starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("\ndfdn ") && text.contains("\nminhop "), "{text}");
}

/// The comparison of times runs, with dfdn as the reference.
#[test]
fn times() {
    if std::env::var_os("DFDN_REQUIRE_HOST").is_none() {
        eprintln!(
            "skipped: ci/bench, which builds and installs (DFDN_REQUIRE_HOST=1 runs it, as ci/test does)"
        );
        return;
    }
    let Some(_) = host::tools("ci/bench") else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("ci/bench");
    let arguments = ["--engines", "dfdn,minhop", "--fabrics", "dragonfly --p 2", "--limit", "60"];
    let output = Command::new(script).args(arguments).output().expect("ci/bench starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let row = |engine: &str| {
        let start = format!("| {engine} |");
        let row = text.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{text}"));
        row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    let (ours, minhop) = (row("dfdn"), row("minhop"));
    assert_eq!((&*ours[6], &*ours[7], &*ours[8], &*ours[9]), ("2", "1", "1.00", "1.00"), "{text}");
    let number = |cell: &str| cell.parse::<f64>().unwrap_or_else(|_| panic!("'{cell}' in {text}"));
    assert!([&ours, &minhop].iter().all(|row| number(&row[4]) > 0.0 && number(&row[5]) > 0.0), "{text}");
}

/// Exactly the log ids of the plugin are explained.
#[test]
fn log_ids() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/plugin/message.rs");
    let source = fs::read_to_string(source).expect("the plugin's messages");
    let ids = |text: &str| {
        let found = text.match_indices("DF").map(|(at, _)| text[at..].chars().take(4).collect::<String>());
        let mut ids: Vec<String> =
            found.filter(|id| id.len() == 4 && id[2..].chars().all(|c| c.is_ascii_digit())).collect();
        ids.sort();
        ids.dedup();
        ids
    };
    assert_eq!(ids(&page("docs/log-lines.md")), ids(&source));
}

/// The table of settings is that of the code.
#[test]
fn settings() {
    use dfdn::engine::KEYS;
    let text = page("docs/settings.md");
    for key in KEYS {
        let row = format!("| `{}` | {} | {} | {} |", key.name, key.values, key.default(), key.about);
        assert!(text.contains(&row), "no such line: {row}");
    }
}

/// Every page of `docs` is linked from the README or from a linked page, and every link is valid.
#[test]
fn links() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(readme().lines().count() <= 150, "the README is short");
    let mut found = vec!["README.md".to_owned()];
    let mut next = 0;
    while let Some(name) = found.get(next).cloned() {
        next += 1;
        let folder = Path::new(&name).parent().expect("below the root");
        for target in page(&name).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.starts_with("http") {
                continue;
            }
            let linked = folder.join(target).display().to_string();
            assert!(root.join(&linked).exists(), "{name} links to {target}");
            if linked.ends_with(".md") && !found.contains(&linked) {
                found.push(linked);
            }
        }
    }
    for entry in fs::read_dir(root.join("docs")).expect("there is docs") {
        let name = format!("docs/{}", entry.expect("it can be listed").file_name().to_string_lossy());
        assert!(!name.ends_with(".md") || found.contains(&name), "nothing links to {name}");
    }
}

/// The table of engines names exactly the existing ones.
#[test]
fn engines() {
    let text = readme();
    for engine in dfdn::engine::ENGINES {
        assert!(text.contains(&format!("`{}`", engine.name)), "{} is not in the README", engine.name);
    }
    for script in ["ci/engines", "ci/trends", "ci/bench", "ci/growth"] {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(script).is_file(), "{script}");
    }
}

/// Source files named in the documentation exist.
#[test]
fn source_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).expect("there is docs");
    let pages = docs.map(|entry| format!("docs/{}", entry.expect("an entry").file_name().to_string_lossy()));
    let mut named = 0;
    for name in
        pages.filter(|name| name.ends_with(".md")).chain(["README.md", "CONTRIBUTING.md"].map(str::to_owned))
    {
        for path in page(&name).split('`').skip(1).step_by(2).filter(|text| text.starts_with("src/")) {
            assert!(root.join(path).exists(), "{name} names {path}");
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}
