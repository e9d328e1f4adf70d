//! Long work in rows: in parts on several machines, and ended early.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::Failure;

/// Part number `i` of `n`, from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    i: usize,
    n: usize,
}

impl Part {
    /// What belongs to a part; all without one.
    pub(super) fn of<T: Clone>(part: Option<Self>, all: &[T]) -> Vec<T> {
        let Self { i, n } = part.unwrap_or(Self { i: 1, n: 1 });
        all.iter().skip(i - 1).step_by(n).cloned().collect()
    }
}

/// `2/4`
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.i, self.n)
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((i, n)) if (1..=n).contains(&i) => Ok(Self { i, n }),
            _ => Err("it takes a part and the number of parts, from 1/4 to 4/4 for four".to_owned()),
        }
    }
}

/// A flag that an interruption sets, so that finished rows can be printed. The second interruption ends the process
/// at once.
pub(super) fn interruptions() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// How the JSON of a subcommand lists its `rows`.
pub(super) struct Rows {
    /// The subcommand that writes it.
    pub(super) command: &'static str,
    /// The key of the list of all rows that there should be, one element a row.
    pub(super) list: &'static str,
    /// Whether an element of that list stands for a row.
    pub(super) is_row: fn(&Value, &Value) -> bool,
    /// The name of a row, or of an element of that list.
    pub(super) name: fn(&Value) -> String,
}

/// Joins the JSON of all parts.
///
/// # Errors
/// A file that is not of this subcommand, that belongs to other work than the first, or a row that none has.
pub(super) fn merge(files: &[PathBuf], rows: &Rows) -> Result<Value, Failure> {
    let mut joined: Option<(Value, &Path)> = None;
    let mut found: BTreeMap<usize, Value> = BTreeMap::new();
    for path in files {
        let at = |why: String| format!("{}: {why}", path.display());
        let text = fs::read_to_string(path).map_err(|e| at(format!("cannot be read: {e}")))?;
        let mut value: Value = serde_json::from_str(&text).map_err(|e| at(e.to_string()))?;
        let foreign = || at(format!("not what '{}' writes", rows.command));
        let part = value.get_mut("rows").map(Value::take);
        let (Some(Value::Array(part)), Some(head)) = (part, value.as_object_mut()) else {
            return Err(foreign().into());
        };
        if !head.get(rows.list).is_some_and(Value::is_array) {
            return Err(foreign().into());
        }
        for key in ["rows", "part", "interrupted", "summary", "worst"] {
            head.remove(key);
        }
        let (head, first) = joined.get_or_insert_with(|| (value.clone(), path));
        if *head != value {
            let keys = head.as_object().into_iter().flatten().filter(|(key, of)| value[key.as_str()] != **of);
            let keys: Vec<&str> = keys.map(|(key, _)| key.as_str()).collect();
            let first = first.display();
            return Err(at(format!("belongs to a different sweep than {first}: {}", keys.join(", "))).into());
        }
        let all = head[rows.list].as_array().map_or(&[][..], Vec::as_slice);
        for row in part {
            // What was requested twice has two rows; a part that is given twice has the same ones again.
            let places = || (0..all.len()).filter(|&i| (rows.is_row)(&all[i], &row));
            let Some(place) = places().find(|i| !found.contains_key(i)).or_else(|| places().next()) else {
                return Err(at(format!("{} is not part of the sweep", (rows.name)(&row))).into());
            };
            found.insert(place, row);
        }
    }
    let Some((mut value, _)) = joined else { return Err("no files to join".into()) };
    let all = value[rows.list].as_array().cloned().unwrap_or_default();
    if let Some(missing) = (0..all.len()).find(|i| !found.contains_key(i)) {
        return Err(format!("{} is in none of the files", (rows.name)(&all[missing])).into());
    }
    value["rows"] = found.into_values().collect();
    Ok(value)
}
