//! File formats, one per file, each with its reader and writer; those of other programs are only written. `read` takes a [`BufRead`] and what
//! the format depends on; `write` takes an output. No reader panics on any input, and none takes
//! more memory than a small multiple of the file and the fabric.

pub mod booksim;
pub mod compact;
pub mod far;
pub mod fdbs;
mod foreign;
pub mod graphviz;
pub mod guid2lid;
pub mod ib_flit_sim;
pub mod ibnetdiscover;
pub mod json;
pub mod lfts_dump;
mod lids;
mod lines;
pub mod mcfdbs;
pub mod plan;
pub mod port_errors;
pub mod psl;
pub mod sl2vl_dump;
pub mod slurm;
pub mod slvl;
pub mod subnet_lst;
mod tables_dir;
#[cfg(test)]
mod tests;
pub mod torus_2qos;

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::fabric::{EndPort, Fabric, FabricBuilder, FabricError, Guid, Node, PortNum, PortRef};
use tables_dir::LftFile;
pub use tables_dir::{
    Fate, LARGE_FILE, PlannedText, TABLE_FILES, WriteOptions, load_tables, plan_tables, write_file,
    write_tables,
};

/// Why a text was refused.
#[derive(Debug, Error)]
#[error("{}{}{reason}{}", place(.file), at_line(*.line), hint_text(.hint))]
pub struct FormatError {
    /// The file; `None` for a text from elsewhere.
    pub file: Option<PathBuf>,
    /// Line number from 1; 0 if the error is not in a single line.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
    /// Advice; empty if there is none.
    pub hint: &'static str,
}

fn place(file: &Option<PathBuf>) -> String {
    file.as_ref().map(|f| format!("{}: ", f.display())).unwrap_or_default()
}

fn at_line(line: usize) -> String {
    if line == 0 { String::new() } else { format!("line {line}: ") }
}

fn hint_text(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!(" ({hint})") }
}

impl FormatError {
    fn new(line: usize, reason: impl Into<String>) -> Self {
        Self { file: None, line, reason: reason.into(), hint: "" }
    }

    fn hint(mut self, hint: &'static str) -> Self {
        self.hint = hint;
        self
    }

    fn in_file(mut self, file: &Path) -> Self {
        self.file.get_or_insert_with(|| file.to_owned());
        self
    }

    /// An error that appears only when the fabric is built.
    fn fabric(line: usize, error: &FabricError) -> Self {
        Self::new(line, error.to_string())
    }
}

/// A part of a text that was ignored, or an assumption about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Line number from 1, the first one if `count` is above 1; 0 if it is not about a line.
    pub line: usize,
    /// Number of lines or occurrences.
    pub count: usize,
    /// What was ignored or assumed.
    pub reason: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.line, self.count) {
            (0, 1) => write!(f, "{}", self.reason),
            (0, count) => write!(f, "{} ({count} times)", self.reason),
            (line, 1) => write!(f, "line {line}: {}", self.reason),
            (line, count) => write!(f, "line {line}: {} ({count} such lines)", self.reason),
        }
    }
}

/// Warnings of a reader, one per reason.
#[derive(Debug, Default)]
struct Warnings(Vec<Warning>);

impl Warnings {
    fn add(&mut self, line: usize, reason: &str) {
        match self.0.iter_mut().find(|w| w.reason == reason) {
            Some(w) => w.count += 1,
            None => self.0.push(Warning { line, count: 1, reason: reason.to_owned() }),
        }
    }
}

/// The largest fabric, with as many switches as LIDs, is smaller in every format.
const LARGEST_FABRIC: u64 = 1 << 30;

/// Reads a fabric from a file, or from standard input for `-`. The first non-empty line decides
/// between ibnetdiscover's format, `opensm-subnet.lst` and JSON.
///
/// # Errors
/// A [`FormatError`] with the file and, if there is one, the line.
pub fn load_fabric(path: &Path) -> Result<(Fabric, Vec<Warning>), FormatError> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(LARGEST_FABRIC + 1).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|f| f.take(LARGEST_FABRIC + 1).read_to_end(&mut bytes))
    }
    .map_err(|e| FormatError::new(0, format!("cannot read it: {e}")).in_file(path))?;
    if bytes.len() as u64 > LARGEST_FABRIC {
        return Err(FormatError::new(0, "larger than 1 GiB: no subnet needs that").in_file(path));
    }
    read_fabric(&bytes).map_err(|e| e.in_file(path))
}

/// [`load_fabric`] for a text in memory.
///
/// # Errors
/// A [`FormatError`] without a file.
pub fn read_fabric(bytes: &[u8]) -> Result<(Fabric, Vec<Warning>), FormatError> {
    // Some editors put a byte order mark before UTF-8 text.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut significant = bytes.iter().copied().filter(|b| !b.is_ascii_whitespace());
    let first = [significant.next(), significant.next()].map(Option::unwrap_or_default);
    let format = FABRIC_FORMATS.iter().find(|format| (format.recognizes)(first));
    let read = (format.expect("the last one recognizes every text").read)(Cursor::new(bytes));
    read.map_err(|error| foreign::recognize(bytes).unwrap_or(error))
}

/// A format of fabrics.
struct FabricFormat {
    /// Whether a text has this format, judged by its first two characters other than white space; 0
    /// if there are fewer.
    recognizes: fn([u8; 2]) -> bool,
    read: ReadFabric,
}

/// A reader of fabrics, with its warnings.
type ReadFabric = fn(Cursor<&[u8]>) -> Result<(Fabric, Vec<Warning>), FormatError>;

/// All formats of fabrics. The first that recognizes a text reads it. A new format is one file and one line
/// in this list.
const FABRIC_FORMATS: &[FabricFormat] = &[
    json::FABRIC,
    subnet_lst::FABRIC,
    // It accepts every text, so it is last.
    ibnetdiscover::FABRIC,
];

/// Hint for a port that a switch does not have.
const OTHER_FABRIC: &str = "the tables may be for another fabric or for other LIDs";

/// Checks that no two end ports of a subnet share a GUID: OpenSM identifies them by it.
///
/// - `lines`: the lines of the text that state a GUID.
///
/// # Errors
/// If two share one.
fn distinct_port_guids(fabric: &Fabric, lines: impl Fn(Guid) -> Vec<usize>) -> Result<(), FormatError> {
    let twice = fabric.endports().windows(2).find(|w| w[0].guid == w[1].guid);
    let Some([a, b]) = twice else { return Ok(()) };
    let name = |end: &EndPort| port_of(end.port, fabric.node(end.node));
    let lines = lines(a.guid);
    let (first, last) = (lines.first().copied().unwrap_or(0), lines.last().copied().unwrap_or(0));
    let earlier = if first < last { format!(", on line {first}") } else { String::new() };
    let reason = format!("port GUID {} is used twice: by {} and by {}{earlier}", a.guid, name(a), name(b));
    Err(FormatError::new(last, reason).hint("one of the two adapters needs another GUID"))
}

/// Takes a LID that several end ports state from all but [one](FabricBuilder::part_shared_lids), and warns of the first.
///
/// - `place`: the line of the text that states a port GUID last.
fn part_shared_lids(
    builder: &mut FabricBuilder,
    warnings: &mut Warnings,
    place: impl Fn(Guid) -> Option<usize>,
) {
    let shared = builder.part_shared_lids();
    let Some(&first) = shared.first() else { return };
    let name = |end: PortRef| match builder.node(end.node) {
        switch if end.port == PortNum::ZERO => format!("'{}'", switch.description),
        adapter => port_of(end.port, adapter),
    };
    let reason = format!(
        "LID {} is stated twice: it stays with {}, and {} gets another one here; OpenSM gives one of them a new LID, too",
        first.lid,
        name(first.kept),
        name(first.parted)
    );
    let parted = &builder.node(first.parted.node).ports[first.parted.port.index()];
    warnings.0.push(Warning { line: place(parted.guid).unwrap_or(0), count: shared.len(), reason });
}

/// `port 1 of 'H1'`.
fn port_of(port: PortNum, node: &Node) -> String {
    format!("port {port} of '{}'", node.description)
}

/// Opens a file of a folder of tables. Reading one that is not a regular file might block or never end.
fn open(path: &Path) -> Result<impl BufRead + use<>, FormatError> {
    let bad = |reason: String| FormatError::new(0, reason).in_file(path);
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => return Err(bad("not a regular file".to_owned())),
        _ => {}
    }
    let file = File::open(path).map_err(|e| bad(format!("cannot open it: {e}")))?;
    Ok(BufReader::with_capacity(1 << 20, file))
}
