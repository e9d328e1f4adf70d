//! Results on standard output and in files.

use std::fmt::Display;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tempfile::TempDir;

use dfdn::formats::TABLE_FILES;

/// Calls `write` with standard output. The reader may close the pipe early: that is no error and
/// does not change the exit code.
pub(super) fn stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let result = write(&mut out).and_then(|()| out.flush());
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            // The rest of the buffer has no reader, and dropping it would try again.
            let _ = out.into_parts();
            Ok(())
        }
        result => result,
    }
}

/// Prints one JSON object.
pub(super) fn json(value: &Value) -> io::Result<()> {
    stdout(|mut out| {
        serde_json::to_writer_pretty(&mut out, value)?;
        writeln!(out)
    })
}

/// Calls `write` with a file, or with standard output if none is given. A file gets its name only
/// when it is complete; a device or a pipe is written to directly, and a link stays a link, even if it leads to nothing
/// yet.
pub(super) fn to_file_or_stdout(
    file: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let Some(path) = file.filter(|p| *p != Path::new("-")) else { return stdout(write) };
    let fill = || {
        if fs::metadata(path).is_ok_and(|m| !m.is_file()) {
            let mut out = BufWriter::new(File::create(path)?);
            write(&mut out)?;
            return out.flush();
        }
        let target = behind_links(path)?;
        let staging = Staging::within(parent(&target))?;
        let complete = staging.path().join("file");
        let mut out = BufWriter::new(File::create_new(&complete)?);
        write(&mut out)?;
        out.flush()?;
        fs::rename(complete, target)
    };
    fill().map_err(|error| cannot_write(path, &error))
}

/// A folder of tables in preparation: all its files are moved into place at once.
pub(super) struct Tables {
    staging: Staging,
    target: PathBuf,
}

impl Tables {
    /// Call before long work: a folder that cannot be written is refused at once.
    pub(super) fn for_folder(folder: &Path) -> io::Result<Self> {
        let stage = || {
            let target = behind_links(folder)?;
            let staging = match fs::metadata(&target) {
                Ok(found) if !found.is_dir() => return Err(io::Error::from(ErrorKind::NotADirectory)),
                Ok(_) => Staging::within(&target)?,
                Err(_) => {
                    fs::create_dir_all(parent(&target))?;
                    Staging::within(parent(&target))?
                }
            };
            Ok(Self { staging, target })
        };
        stage().map_err(|error| cannot_write(folder, &error))
    }

    /// Calls `write` with the folder, which exists and must not be created again: an interruption
    /// may just have removed it.
    pub(super) fn fill(&self, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        write(self.staging.path()).map_err(|error| {
            // An interruption that removed the folder holds the lock until it ends the process: the
            // error then does not matter.
            drop(unfinished());
            cannot_write(&self.target, &error)
        })
    }

    /// Moves the tables into place. If the folder exists, files of earlier tables are replaced, or
    /// removed if the new tables have no such file; an interruption waits until this is done.
    ///
    /// - `files`: the names that they may have.
    pub(super) fn finish(self, files: &[&str]) -> io::Result<()> {
        let from = self.staging.path();
        let finish = || {
            let _uninterrupted = unfinished();
            if !self.target.exists() {
                return fs::rename(from, &self.target);
            }
            for name in files {
                let (new, old) = (from.join(name), self.target.join(name));
                if new.exists() {
                    fs::rename(new, old)?;
                } else if old.exists() {
                    fs::remove_file(old)?;
                }
            }
            Ok(())
        };
        finish().map_err(|error| cannot_write(&self.target, &error))
    }
}

/// A folder for files in preparation, beside their destination. It is removed with the value, and
/// when the process is interrupted.
struct Staging(TempDir);

impl Staging {
    fn within(parent: &Path) -> io::Result<Self> {
        clean_up_when_interrupted()?;
        let mut unfinished = unfinished();
        // Private by default; tables get the permissions of the umask.
        let mode = Permissions::from_mode(0o777);
        let folder = tempfile::Builder::new().prefix(".dfdn-").permissions(mode).tempdir_in(parent)?;
        *unfinished = Some(folder.path().to_owned());
        Ok(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// The staging folder in use, if any. An interruption waits for this lock.
fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an interruption remove the staging folder before it ends the process as usual.
fn clean_up_when_interrupted() -> io::Result<()> {
    static STARTED: Once = Once::new();
    if STARTED.is_completed() {
        return Ok(());
    }
    let mut signals = Signals::new(interruptions())?;
    STARTED.call_once(|| {
        thread::spawn(move || {
            for signal in signals.forever() {
                let unfinished = unfinished();
                unfinished.as_deref().inspect(|folder| remove(folder));
                let _ = emulate_default_handler(signal);
            }
        });
    });
    Ok(())
}

/// The signals that interrupt the process. SIGHUP does not where it is ignored from the start on, as after `nohup`.
fn interruptions() -> impl Iterator<Item = i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    let hang_up = (ignored >> (SIGHUP - 1) & 1 == 0).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hang_up)
}

/// Removes a staging folder while its writer may be active. Once it is removed, the writer can put
/// nothing there: it creates files, never the folder.
fn remove(folder: &Path) {
    // The writer may put another file into it meanwhile.
    let gone = || fs::remove_dir_all(folder).is_ok() || !folder.exists();
    let _ = (0..100).any(|_| gone());
}

/// Where a name leads over links, whether or not something is there.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    const MOST: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST {
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        path = parent(&path).join(next);
    }
    Err(io::Error::other("its links lead in a circle"))
}

/// Refuses outputs that would replace what is read. Call before any work.
///
/// - `inputs`: files, and folders of tables.
///
/// # Errors
/// The first output that is an input.
pub(super) fn spare<'a>(
    inputs: impl IntoIterator<Item = &'a Path>,
    outputs: impl IntoIterator<Item = PathBuf>,
) -> Result<(), String> {
    let file = |path: &Path| fs::metadata(path).ok().filter(|m| m.is_file()).map(|m| (m.dev(), m.ino()));
    let is_table = |name: &str| TABLE_FILES.contains(&name) || name.starts_with("ibdiagnet2.");
    let mut read = Vec::new();
    for input in inputs {
        read.extend(file(input));
        for entry in fs::read_dir(input).into_iter().flatten().flatten() {
            read.extend(file(&entry.path()).filter(|_| entry.file_name().to_str().is_some_and(is_table)));
        }
    }
    match outputs.into_iter().find(|output| file(output).is_some_and(|id| read.contains(&id))) {
        Some(output) => {
            let output = output.display();
            Err(format!("{output} is read and would be replaced: give the output another name"))
        }
        None => Ok(()),
    }
}

/// The files of a folder, by their names.
pub(super) fn files_in(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| folder.join(name)).collect()
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn cannot_write(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}

/// `yes` or `NO`.
pub(super) fn yes(holds: bool) -> &'static str {
    if holds { "yes" } else { "NO" }
}

/// A line of a report: name and value in columns.
pub(super) fn line(out: &mut (impl Write + ?Sized), name: &str, value: impl Display) -> io::Result<()> {
    writeln!(out, "{name:<22} {value}")
}

/// A readable number of bytes: `11.4 GB`.
pub(super) fn size(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.into_iter().find(|&(unit, _)| bytes >= unit) {
        Some((unit, name)) if bytes >= 100 * unit => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfdn::engine::{self, Settings};
    use dfdn::formats::{WriteOptions, write_tables};
    use dfdn::topology::Ring;

    /// The writer never creates the folder of an interrupted run again, whenever it writes.
    #[test]
    fn what_an_interruption_removed_stays_away() {
        let fabric = Ring { switches: 4, cas: 1 }.build().unwrap();
        let routed = engine::route(&fabric, &Settings::default()).unwrap();
        let desk = tempfile::tempdir().unwrap();
        let target = desk.path().join("tables");
        let tables = Tables::for_folder(&target).unwrap();
        let staged = unfinished().clone().expect("it is known from the moment that it is there");
        assert_eq!(staged, tables.staging.path());
        remove(&staged);
        let write = |folder: &Path| write_tables(folder, &fabric, &routed.routes, WriteOptions::default());
        assert!(tables.fill(write).is_err());
        assert_eq!(fs::read_dir(desk.path()).unwrap().count(), 0, "nothing is there again");
        // And during writing.
        let tables = Tables::for_folder(&target).unwrap();
        let interrupted = |folder: &Path| {
            write(folder)?;
            remove(folder);
            write(folder)
        };
        assert!(tables.fill(interrupted).is_err());
        assert_eq!(fs::read_dir(desk.path()).unwrap().count(), 0);
    }

    #[test]
    fn sizes_are_short() {
        let of = [7, 1_234, 99_960_000, 211_000_000, 11_400_000_000].map(size);
        assert_eq!(of, ["7 bytes", "1.2 kB", "100.0 MB", "211 MB", "11.4 GB"]);
    }
}
