//! The contents of `docs/deploy.md`. `packaging/test` runs its blocks for the subnet manager's host
//! in a container; this tests what needs none.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The fenced blocks of a file: the info string after the fence, and the text.
fn blocks(file: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join(file)).expect("there is the file");
    let mut pieces = text.split("```");
    pieces.next();
    let mut blocks = Vec::new();
    while let (Some(inside), Some(_)) = (pieces.next(), pieces.next()) {
        let (kind, block) = inside.split_once('\n').expect("a fence ends its line");
        // Inline code has one backquote and no line end after it: never a fence.
        blocks.push((kind.to_owned(), block.to_owned()));
    }
    blocks
}

#[test]
fn every_block_is_of_a_kind_that_something_runs() {
    let blocks = blocks("docs/deploy.md");
    for (kind, text) in &blocks {
        assert!(["sh manager", "sh build", "sh rhel"].contains(&kind.as_str()), "{kind}:\n{text}");
        let output = Command::new("bash").args(["-n", "-c", text]).output().expect("bash starts");
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }
    let script = fs::read_to_string(root().join("packaging/manager")).expect("there is packaging/manager");
    let shown = blocks.iter().filter(|(kind, _)| kind == "sh manager").count();
    let run: HashSet<&str> = script.lines().filter(|line| line.starts_with("run block_")).collect();
    let run = run.len();
    assert!(shown >= 6 && shown == run, "packaging/manager runs {run} of {shown} blocks");
}

#[test]
fn scripts_that_build_exist_and_ci_runs_them() {
    let ci = ["ci/docker", "ci/patches", "ci/test", "packaging/reproducible"]
        .map(|name| fs::read_to_string(root().join(name)).expect("there is the script"))
        .concat();
    let mut shown = blocks("docs/deploy.md");
    shown.retain(|(kind, _)| kind == "sh build");
    shown.extend(blocks("docker/README.md"));
    shown.extend(blocks("opensm-patches/README.md"));
    assert!(shown.len() >= 3, "{shown:?}");
    for line in shown.iter().flat_map(|(_, text)| text.lines()) {
        assert!(root().join(line).is_file(), "{line}");
        // ci/install does what install_missing of ci/lib.sh does.
        let run = ci.lines().any(|run| run == line || run.starts_with(&format!("{line} ")));
        assert!(run || line == "ci/install" && ci.contains("install_missing"), "{line}");
    }
}

/// Every script answers --help with its purpose and usage, and does nothing else then.
#[test]
fn scripts_say_what_they_are_for() {
    // Scripts that run inside containers and packages take no options.
    let inside = ["lib.sh", "role", "manager", "postinst", "prerm"];
    let mut asked = 0;
    for folder in ["ci", "docker", "packaging", "opensm-patches"] {
        for entry in fs::read_dir(root().join(folder)).expect("there is the folder") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                continue;
            }
            let text = fs::read_to_string(&path).expect("text");
            if !text.starts_with("#!") || inside.iter().any(|name| path.ends_with(name)) {
                continue;
            }
            let output = Command::new(&path).arg("--help").output().expect("the script starts");
            let said = String::from_utf8_lossy(&output.stdout);
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            assert!(output.status.success() && output.stderr.is_empty(), "{name}: {said}");
            assert!(said.contains(&format!("Usage: {name}")), "{name}: {said}");
            asked += 1;
        }
    }
    assert!(asked >= 20, "{asked}");
}

/// The two lines are the same in all places where an administrator finds them.
#[test]
fn the_two_lines_of_the_configuration() {
    for file in ["README.md", "docs/deploy.md", "packaging/postinst"] {
        let text = fs::read_to_string(root().join(file)).expect("the file is there");
        for line in ["event_plugin_name dfdn", "routing_engine dfdn,no_fallback"] {
            assert!(text.contains(line), "{file}: {line}");
        }
    }
}
