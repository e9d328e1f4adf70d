//! Builds the unit tests of a source tree with many mutants at once.
//!
//! A build for each mutant takes hours. Here one build has them all: where code is changed, it is there twice, and
//! `crate::mutant(NUMBER)` decides by the environment variable `MUTANT`. A process is one mutant, or none of them
//! with the number 0. It ends with the first panic. A process that has the variable `REACHED` instead is none of them,
//! and adds a line to that file for each mutant whose code it reaches.
//!
//! What does not compile is left out, and the build repeated without it.
//!
//! Usage: `switched TREE FILE... -- OPTION...`: changes these files of TREE. The options are those of `cargo test`. Prints
//! the path of the tests' binary, then a line for each mutant: its number, or "-" if it was left out, a tab, and the
//! change.

mod mutants;
mod switched;
#[cfg(test)]
mod tests;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use mutants::{Mutant, mutants};
use serde_json::Value;
use switched::Switched;

const SWITCH: &str = r#"
static MUTANT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(usize::MAX);

/// Whether this process is a mutant.
#[inline(always)]
pub(crate) fn mutant(number: usize) -> bool {
    let chosen = MUTANT.load(std::sync::atomic::Ordering::Relaxed);
    chosen == number || chosen == usize::MAX && chosen_late(number)
}

/// Reads which mutant this process is, or notes which ones it reaches: each is a line of the file REACHED.
#[cold]
#[inline(never)]
fn chosen_late(number: usize) -> bool {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    static CHOSEN: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| {
        if std::env::var_os("REACHED").is_some() {
            return usize::MAX;
        }
        std::panic::set_hook(Box::new(|_| std::process::exit(101)));
        std::env::var("MUTANT").map_or(0, |number| number.parse().expect("MUTANT is a number"))
    });
    static REACHED: [AtomicBool; 1 << 16] = [const { AtomicBool::new(false) }; 1 << 16];
    let chosen = *CHOSEN;
    MUTANT.store(chosen, Relaxed);
    if chosen == usize::MAX && !REACHED[number].load(Relaxed) && !REACHED[number].swap(true, Relaxed) {
        let file = std::env::var_os("REACHED").expect("it is set");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(file).expect("REACHED opens");
        std::io::Write::write_all(&mut &file, format!("{number}\n").as_bytes()).expect("REACHED takes a line");
    }
    chosen == number
}
"#;

/// A file as it was, and its mutants with their numbers.
struct Source {
    file: String,
    text: String,
    mutants: Vec<(usize, Mutant)>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut parts = arguments.split(|a| a == "--");
    let (Some([tree, files @ ..]), Some(options)) = (parts.next(), parts.next()) else {
        panic!("usage: switched TREE FILE... -- OPTION...")
    };
    let tree = Path::new(tree);
    let read = |file: &str| fs::read_to_string(tree.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut numbers = 1..;
    let sources: Vec<Source> = files
        .iter()
        .map(|file| {
            let text = read(file);
            let mutants = numbers.by_ref().zip(mutants(&text)).collect();
            Source { file: file.clone(), text, mutants }
        })
        .collect();
    write(&tree.join("src/lib.rs"), &(read("src/lib.rs") + SWITCH));
    let mut left_out = BTreeSet::new();
    let binary = loop {
        let switched: BTreeMap<&str, Switched> = sources
            .iter()
            .map(|Source { file, text, mutants }| {
                let kept = mutants.iter().filter(|(n, _)| !left_out.contains(n));
                let kept: Vec<_> = kept.map(|(n, mutant)| (*n, mutant)).collect();
                (file.as_str(), Switched::new(text, &kept))
            })
            .collect();
        switched.iter().for_each(|(file, switched)| write(&tree.join(file), &switched.text));
        let errors = match build(tree, options) {
            Ok(binary) => break binary,
            Err(errors) => errors,
        };
        let places = errors.iter().flat_map(|error| &error.places);
        let blamed = places.filter_map(|(file, byte)| Some(switched.get(file.as_str())?.blamed(*byte)));
        let blamed: Vec<usize> = blamed.flatten().collect();
        let texts: Vec<&str> = errors.iter().map(|error| error.text.as_str()).collect();
        assert!(!blamed.is_empty(), "no mutant makes these errors:\n{}", texts.join("\n"));
        left_out.extend(blamed);
        eprintln!("{} mutants do not compile", left_out.len());
    };
    println!("{binary}");
    for Source { file, text, mutants } in &sources {
        for (n, mutant) in mutants {
            let number = if left_out.contains(n) { "-".to_owned() } else { n.to_string() };
            println!("{number}\t{file} {}", mutant.describe(text));
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// An error of the compiler.
struct Error {
    /// As the compiler prints it.
    text: String,
    /// Files and bytes that it is about.
    places: Vec<(String, usize)>,
}

/// Builds the tests: their binary, or what is wrong.
fn build(tree: &Path, options: &[String]) -> Result<String, Vec<Error>> {
    let output = Command::new("cargo")
        .args(["test", "--no-run", "--message-format", "json"])
        .args(options)
        .current_dir(tree)
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let messages: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if output.status.success() {
        let binary = messages.iter().rev().find_map(|message| message["executable"].as_str());
        return Ok(binary.expect("a binary of tests").to_owned());
    }
    let errors = messages.iter().map(|message| &message["message"]).filter(|e| e["level"] == "error");
    Err(errors.map(Error::new).collect())
}

impl Error {
    fn new(message: &Value) -> Self {
        let spans = message["spans"].as_array().into_iter().flatten();
        let primary = spans.filter(|span| span["is_primary"] == true);
        let place = |span: &Value| {
            Some((span["file_name"].as_str()?.to_owned(), span["byte_start"].as_u64()? as usize))
        };
        let text = message["rendered"].as_str().unwrap_or_default().to_owned();
        Self { text, places: primary.filter_map(place).collect() }
    }
}
