//! Results on standard output and in files.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::Value;
use tempfile::NamedTempFile;

/// Prints one JSON object.
pub(super) fn json(value: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    out.flush()
}

/// Lets `write` fill a file, or standard output for none. A file gets its name only when it is
/// complete, so that an interruption leaves nothing half-written.
pub(super) fn to_file_or_stdout(
    file: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let Some(path) = file.filter(|p| *p != Path::new("-")) else {
        let mut out = BufWriter::new(io::stdout().lock());
        write(&mut out)?;
        return out.flush();
    };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()));
    let mut out = BufWriter::new(NamedTempFile::new_in(folder).map_err(named)?);
    write(&mut out)?;
    let beside = out.into_inner().map_err(|e| named(e.into_error()))?;
    beside.persist(path).map_err(|e| named(e.error))?;
    Ok(())
}

/// `yes` or `NO`.
pub(super) fn yes(holds: bool) -> &'static str {
    if holds { "yes" } else { "NO" }
}

/// A line of a report: name and value in columns.
pub(super) fn line(out: &mut impl Write, name: &str, value: impl std::fmt::Display) -> io::Result<()> {
    writeln!(out, "{name:<22} {value}")
}
