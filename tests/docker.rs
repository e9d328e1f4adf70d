//! What `docker/` holds, where a Docker engine answers.

use std::path::Path;
use std::process::{Command, Output};

use crate::host::plugin;

/// Whether to go on: a Docker engine answers, and `DFDN_REQUIRE_HOST=1`. Otherwise says why not.
fn engine(test: &str) -> bool {
    if std::env::var_os("DFDN_REQUIRE_HOST").is_none_or(|v| v != "1") {
        eprintln!("skipped: {test}: DFDN_REQUIRE_HOST=1 is not set, and images take a minute to build");
        return false;
    }
    let answer = Command::new("docker").args(["info", "--format", "{{.ServerVersion}}"]).output();
    let answers = answer.is_ok_and(|o| o.status.success());
    if !answers {
        eprintln!("skipped: {test}: no Docker engine answers");
    }
    answers
}

fn run(script: &str, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docker").join(script);
    let Output { status, stdout, stderr } =
        Command::new(&script).args(arguments).output().expect("the script starts");
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{}:\n{text}", script.display());
    text
}

/// The image is built of this very test's artifacts, runs a part of the tests with the real OpenSM
/// (`docker/test` runs all of them), and the scenario of a fabric in containers.
#[test]
fn image_and_fabric_of_containers() {
    if !engine("docker") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = |from: &Path, name| std::fs::copy(from, folder.path().join(name)).expect("it is copied");
    copy(&plugin::folder().join("libdfdn.so"), "libdfdn.so");
    copy(&plugin::command(), "dfdn");
    copy(&std::env::current_exe().expect("this test has a file"), "tests");
    run("build", &[folder.path().to_str().expect("a path of text")]);
    let text = run("test", &["plugin::dragonfly", "plugin::minhop", "host::"]);
    assert!(text.contains("test plugin::dragonfly ... ok"), "{text}");
    let text = run("scenario", &[]);
    assert!(text.contains("scenario passed"), "{text}");
}
