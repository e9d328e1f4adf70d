//! Which module may use which: enforces the architecture's table.
//!
//! Change the table and the code together.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// (module, modules that it may use). `cli` belongs to the command and uses the library, all but `plugin`.
const MAY_USE: &[(&str, &[&str])] = &[
    ("fabric", &[]),
    ("topology", &["fabric"]),
    ("tables", &["fabric"]),
    ("ordering", &["fabric", "tables"]),
    ("routing", &["fabric", "tables", "ordering"]),
    ("lanes", &["fabric", "tables", "ordering"]),
    ("multicast", &["fabric", "tables", "ordering", "routing"]),
    ("engine", &["fabric", "tables", "ordering", "routing", "lanes", "multicast", "evaluate", "verify"]),
    ("verify", &["fabric", "tables"]),
    ("evaluate", &["fabric", "tables"]),
    ("simulate", &["fabric", "tables", "verify"]),
    ("whatif", &["fabric", "tables", "engine", "evaluate", "reconfigure"]),
    ("reconfigure", &["fabric", "tables", "ordering", "verify"]),
    ("cabling", &["fabric"]),
    ("report", &["fabric", "tables", "routing", "verify", "evaluate", "whatif"]),
    ("formats", &["fabric", "tables", "ordering"]),
    ("plugin", &["fabric", "tables", "engine", "evaluate", "reconfigure", "formats"]),
    (
        "cli",
        &[
            "fabric",
            "topology",
            "tables",
            "engine",
            "verify",
            "evaluate",
            "simulate",
            "formats",
            "whatif",
            "cabling",
            "report",
            "reconfigure",
        ],
    ),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The code of a file without its comments and without its test module at the end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Names of top-level modules in `ROOT::NAME` and `ROOT::{NAME..., NAME...}`. The root is `crate` in the library
/// and `dfdn` in the command.
fn used(root: &str, code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let root = format!("{root}::");
    let name = |text: &str| -> String {
        text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    for (at, _) in code.match_indices(&root) {
        let rest = &code[at + root.len()..];
        match rest.strip_prefix('{') {
            None => {
                names.insert(name(rest));
            }
            Some(list) => {
                let mut depth = 0;
                let mut item = String::new();
                for c in list.chars() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => {
                            names.insert(name(&item));
                            item.clear();
                            continue;
                        }
                        _ => {}
                    }
                    item.push(c);
                }
                names.insert(name(&item));
            }
        }
    }
    names.remove("");
    names
}

#[test]
fn modules_use_only_what_they_may() {
    let mut files = Vec::new();
    sources(&src(), &mut files);
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    let mut uses = BTreeSet::new();
    for file in files {
        let inside = file.strip_prefix(src()).expect("below src");
        let Some(module) = inside.iter().next().and_then(|m| m.to_str()).filter(|m| !m.ends_with(".rs"))
        else {
            continue;
        };
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("module {module} is not in the table"));
            continue;
        };
        // Test modules in their own files may use anything: they compare modules.
        if inside.iter().any(|part| part == "tests.rs" || part == "tests") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("readable source");
        let code = code(&text);
        seen.insert(module.to_owned());
        for name in used(if module == "cli" { "dfdn" } else { "crate" }, &code) {
            if name != module && !allowed.contains(&name.as_str()) {
                wrong.push(format!("{} uses {name}", inside.display()));
            }
            uses.insert((module.to_owned(), name));
        }
        if module == "cli" && !used("crate", &code).is_empty() {
            wrong.push(format!("{} uses the command's crate by its root", inside.display()));
        }
    }
    assert!(wrong.is_empty(), "not allowed:\n{}", wrong.join("\n"));
    assert!(seen.contains("fabric") && seen.contains("verify"), "the sources were not found");
    let unused: Vec<_> = MAY_USE
        .iter()
        .flat_map(|(module, allowed)| allowed.iter().map(move |name| (module.to_string(), name.to_string())))
        .filter(|entry| !uses.contains(entry))
        .map(|(module, name)| format!("{module} does not use {name}"))
        .collect();
    assert!(unused.is_empty(), "entries that nothing needs:\n{}", unused.join("\n"));
}

/// The sibling files of a file, or of its folder if it is a `mod.rs`, that it names by `super::`.
fn siblings_used(file: &Path, code: &str) -> BTreeSet<PathBuf> {
    let folder = file.parent().expect("a file in a folder");
    let is_mod = file.file_name().is_some_and(|name| name == "mod.rs");
    let base = if is_mod { folder.parent().unwrap_or(folder) } else { folder };
    let found = used("super", code).into_iter().flat_map(|name| {
        [base.join(format!("{name}.rs")), base.join(name).join("mod.rs")]
            .into_iter()
            .filter(|path| path.is_file())
    });
    found.collect()
}

#[test]
fn no_two_files_import_each_other() {
    let mut files = Vec::new();
    sources(&src(), &mut files);
    let mut imports = BTreeSet::new();
    for file in files.iter().filter(|file| !file.iter().any(|part| part == "tests.rs" || part == "tests")) {
        let text = fs::read_to_string(file).expect("readable source");
        for other in siblings_used(file, &code(&text)) {
            imports.insert((file.clone(), other));
        }
    }
    assert!(imports.len() > 100, "only {} imports were found", imports.len());
    let both = |(a, b): &&(PathBuf, PathBuf)| a < b && imports.contains(&(b.clone(), a.clone()));
    let cycles: Vec<_> = imports.iter().filter(both).collect();
    assert!(cycles.is_empty(), "these import each other: {cycles:#?}");
}

/// Everything that `ci/ablate` switches off is in the sources, and `ci/ablate.list` has every tuned number of
/// the engine `dfdn`.
#[test]
fn every_tuned_number_can_be_switched_off() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checked = Command::new(root.join("ci/ablate")).arg("--check").output().expect("it starts");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let list = fs::read_to_string(root.join("ci/ablate.list")).expect("there is a list");
    let tuning = fs::read_to_string(src().join("engine/dfdn/tuning.rs")).expect("there are tuned numbers");
    let names = tuning.lines().filter_map(|line| line.strip_prefix("pub(super) const ")?.split(':').next());
    let missing: Vec<_> = names.filter(|name| !list.contains(&format!("\n{name} | "))).collect();
    assert!(missing.is_empty(), "ci/ablate.list has no line for {missing:?}");
}

/// Finds syntax that is newer than the Rust version in `Cargo.toml`. Clippy finds only newer calls
/// (`incompatible_msrv`).
#[test]
fn no_condition_has_a_let_beside_another_condition() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("build.rs")];
    for folder in ["src", "tests", "benches", "examples", "ci"] {
        sources(&root.join(folder), &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).expect("readable source");
        let chained =
            text.split_whitespace().collect::<Vec<_>>().windows(2).any(|pair| pair == ["&&", "let"]);
        assert!(
            !chained && !let_beside_condition(&text),
            "{}: Rust 1.85 has no chains of let",
            file.display()
        );
    }
    // The text is assembled here, as this file is checked too.
    assert!(let_beside_condition(&"if let Some(a) = f(|x| x && y) {} a { b }".replace("{}", "&&")));
    assert!(!let_beside_condition("if let Some(A { a }) = f(x && y) { a && b }"));
}

/// Whether an `if let` or `while let` has `&&` before its block, outside of brackets.
fn let_beside_condition(text: &str) -> bool {
    ["if let ", "while let "].into_iter().flat_map(|head| text.split(head).skip(1)).any(|rest| {
        let (mut depth, mut assigned) = (0, false);
        for (at, c) in rest.char_indices() {
            match c {
                '{' if assigned && depth == 0 => return false,
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ if depth == 0 && ["= ", "=\n"].iter().any(|sign| rest[at..].starts_with(sign)) => {
                    assigned = true
                }
                _ if depth == 0 && rest[at..].starts_with("&& ") => return assigned,
                _ => {}
            }
        }
        false
    })
}

/// The lint `unsafe_code` is denied for the crate; this finds the modules that allow it.
#[test]
fn unsafe_stays_in_the_plugin() {
    let mut files = Vec::new();
    sources(&src(), &mut files);
    for file in files.iter().filter(|f| !f.starts_with(src().join("plugin"))) {
        let text = fs::read_to_string(file).expect("readable source");
        assert!(!code(&text).contains("unsafe_code"), "the lint is lifted in {}", file.display());
    }
}

#[test]
fn the_reader_of_imports_reads_groups() {
    let code = "use crate::fabric::{A, B};\nuse crate::{tables::Lft, verify::{x, y}, lanes};\ncrate::engine::route()";
    let names: Vec<_> = used("crate", code).into_iter().collect();
    assert_eq!(names, ["engine", "fabric", "lanes", "tables", "verify"]);
}
