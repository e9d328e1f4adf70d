//! Files that settings name.

use std::fs::{self, File};
use std::io::Read as _;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use glob::Pattern;

use crate::fabric::{Guid, Nodes};

/// The entries of a file that a setting names.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    /// The file; `None` where the setting names none.
    pub path: Option<PathBuf>,
    /// Its entries.
    pub entries: Vec<T>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { path: None, entries: Vec::new() }
    }
}

impl<T> Deref for Listed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.entries
    }
}

impl<T> Listed<T> {
    /// The word for no file.
    const NONE: &'static str = "none";

    /// The setting as the configuration file says it: the file, or `none`.
    pub(super) fn value(&self) -> String {
        self.path.as_ref().map_or(Self::NONE.to_owned(), |path| path.display().to_string())
    }

    /// Takes the value of a setting, and what `read` finds in the file that it names.
    ///
    /// # Errors
    /// Those of `read`.
    pub(super) fn set(
        &mut self,
        value: &str,
        read: impl Fn(&Path) -> Result<Vec<T>, String>,
    ) -> Result<(), String> {
        *self = match value {
            Self::NONE => Self::default(),
            name => Self { path: Some(name.into()), entries: read(Path::new(name))? },
        };
        Ok(())
    }
}

/// The largest file that is read. OpenSM waits for it; 10,000 entries take half of that.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a file of entries.
///
/// # Errors
/// The file and why it cannot be read. What is no regular file is refused, as it might block or never end.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let bad = |reason: String| format!("{}: {reason}", path.display());
    let unreadable = |error: std::io::Error| bad(format!("cannot read it: {error}"));
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(bad("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(bad(format!("it has more than {} KiB", MAX_BYTES >> 10)));
    }
    String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8".to_owned()))
}

/// The words of a line up to a comment. Quotes keep blanks together.
///
/// # Errors
/// A quote is not closed.
pub(super) fn words(line: &str) -> Result<Vec<&str>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with('#') {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or("a quote is not closed")?,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// The nodes that a word names: by a GUID if it begins with `0x`, else by a pattern for their descriptions.
///
/// # Errors
/// It is no GUID, or no pattern.
pub(super) fn nodes(word: &str) -> Result<Nodes, String> {
    match word.strip_prefix("0x") {
        Some(digits) => guid(digits).map(Nodes::Guid).ok_or_else(|| format!("'{word}' is not a GUID")),
        None => {
            let pattern = Pattern::new(word);
            pattern.map(Nodes::Described).map_err(|error| format!("'{word}' is not a pattern: {error}"))
        }
    }
}

/// A GUID in hexadecimal digits, without the `0x` before them.
pub(super) fn guid(digits: &str) -> Option<Guid> {
    u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')).map(Guid)
}
