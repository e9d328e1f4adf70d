//! The file `psl`: the SL assigned to each pair of end ports, for any engine in use, so that
//! ibdmchk and `dfdn verify` can judge the dumps of stock engines too. Switches are sources and
//! destinations as well as adapters: ibdmchk ignores their lines, `dfdn verify` needs them.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::fault::Faults;
use super::host::Host;
use super::snapshot::{Discovered, snapshot};
use crate::fabric::{Lid, Sl};
use crate::formats;
use crate::tables::PathSl;

/// The largest number of lines written, about 25 bytes each: those of 2500 end ports without LMC.
const MAX_LINES: usize = 2500 * 2500;

/// What was done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The file was written, for this many end ports.
    Written(usize),
    /// No file was written, and why.
    Skipped(String),
}

/// Writes `psl` into OpenSM's dump folder, or removes an outdated one.
///
/// `table`: the path SLs of the engine in use, if it is one of ours.
///
/// # Errors
/// What went wrong, as text.
pub(super) fn write(host: &Host, table: Option<&PathSl>) -> Result<Outcome, String> {
    let folder = host.dump_folder().ok_or("OpenSM names no dump folder")?;
    let file = Path::new(&folder).join("psl");
    let skip = |why: String| match remove(&file) {
        Err(error) => Err(format!("cannot remove {}: {error}", file.display())),
        Ok(()) => Ok(Outcome::Skipped(why)),
    };
    let Some(engine) = host.engine_used() else { return skip("no engine is in use".to_owned()) };
    let Some(path_sl) = engine.path_sl else { return skip("the engine assigns no SLs".to_owned()) };
    if table.is_some_and(PathSl::is_zero) {
        return skip("SL 0 serves every pair".to_owned());
    }
    let fabric =
        snapshot(host, &Faults::new(), &Discovered::new()).map_err(|error| error.to_string())?.fabric;
    let endports = fabric.endports().len();
    let lids: usize = fabric.endports().iter().map(|e| usize::from(e.lmc.lids())).sum();
    if endports * lids > MAX_LINES {
        return skip(format!("{endports} end ports to {lids} LIDs are more than {MAX_LINES} lines"));
    }
    let ask = |source, dlid: Lid| {
        let slid = fabric.endport(source).lid.get();
        // SAFETY: the callback and the context of the engine in use, LIDs in network order, under
        // OpenSM's lock as its SA calls it.
        Some(Sl(unsafe { path_sl(engine.context, 0, slid.to_be(), dlid.get().to_be()) } & 0xf))
    };
    let classes = table.map_or(1, PathSl::classes);
    put(&folder, "psl", |out| formats::psl::write(out, &fabric, classes, ask))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(Outcome::Written(endports))
}

/// Writes the file `name` in a folder. It appears with its full content, and a process killed while
/// writing leaves nothing behind: the file has no name until it is complete. If the file system has
/// no unnamed files, it has a fixed temporary name.
fn put(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let (at, part) = (folder.join(name), folder.join(format!("{name}.part")));
    let nameless = OpenOptions::new()
        .write(true)
        .mode(0o666)
        .custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC)
        .open(folder);
    let has_name = nameless.is_err();
    let file = match nameless {
        Ok(file) => file,
        Err(_) => {
            // It may exist, left by a killed process; never writes to another file or through a
            // link.
            remove(&part)?;
            OpenOptions::new().write(true).create_new(true).mode(0o666).open(&part)?
        }
    };
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let written = write(&mut out).and_then(|()| out.into_inner().map_err(io::IntoInnerError::into_error));
    match written {
        Err(error) => {
            if has_name {
                remove(&part)?;
            }
            Err(error)
        }
        Ok(mut file) if has_name => file.flush().and_then(|()| fs::rename(&part, &at)),
        Ok(file) => {
            // A hard link replaces nothing, so for a moment there is no such file.
            remove(&at)?;
            link(&file, &at)
        }
    }
}

/// Gives an unnamed file a name.
fn link(file: &File, at: &Path) -> io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let to = CString::new(at.as_os_str().as_bytes())?;
    let (here, flags) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both paths are NUL-terminated, and the file is open.
    match unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::put;
    use std::fs;
    use std::io::{self, Write as _};

    #[test]
    fn a_file_appears_whole_and_nothing_is_left_of_one_that_fails() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let names = || -> Vec<String> {
            let entries = fs::read_dir(folder.path()).expect("it can be listed");
            entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
        };
        for text in ["one", "two"] {
            put(folder.path(), "psl", |out| {
                // No new name appears while it is written, so a killed process leaves nothing.
                assert!(names().iter().all(|name| name == "psl"), "{:?}", names());
                out.write_all(text.as_bytes())
            })
            .expect("it is written");
            assert_eq!(fs::read_to_string(folder.path().join("psl")).expect("it is there"), text);
        }
        let failed = put(folder.path(), "psl", |_| Err(io::Error::other("on purpose")));
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(folder.path().join("psl")).expect("as before"), "two");
        assert_eq!(names(), ["psl"]);
    }
}
