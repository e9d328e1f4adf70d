//! The command in a folder of its own.

use std::process::{Command, Output};

use tempfile::TempDir;

/// A run to start, by the words behind `dfdn`.
pub(crate) fn command(folder: &TempDir, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dfdn"));
    command.args(words.split_whitespace()).current_dir(folder).env_remove("DFDN_LOG");
    command
}

/// What comes of a run.
pub(crate) fn dfdn(folder: &TempDir, words: &str) -> Output {
    command(folder, words).output().expect("dfdn starts")
}

/// What a run with exit code 0 prints.
pub(crate) fn fine(folder: &TempDir, words: &str) -> String {
    let ran = dfdn(folder, words);
    assert!(ran.status.success(), "{words}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("UTF-8")
}
