//! The file `psl`: which SL each pair of end ports is told, for whatever engine is in use, so that
//! ibdmchk and `dfdn verify` can judge the dumps of stock engines too. Switches are sources and
//! destinations beside the adapters: ibdmchk passes over their lines, `dfdn verify` needs them.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use super::host::Host;
use super::snapshot::snapshot;
use crate::fabric::{Lid, Sl};
use crate::formats;
use crate::tables::PathSl;

/// Up to how many lines are written, about 25 bytes each: those of 2500 end ports without LMC.
const MAX_LINES: usize = 2500 * 2500;

/// What was done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The file is there, with this many end ports.
    Written(usize),
    /// There is none, and why.
    Skipped(String),
}

/// Writes `psl` into OpenSM's dump folder, or removes one that is out of date.
///
/// `table`: the table behind the engine in use, where it is one of ours.
///
/// # Errors
/// The text of what went wrong.
pub(super) fn write(host: &Host, table: Option<&PathSl>) -> Result<Outcome, String> {
    let folder = host.dump_folder().ok_or("OpenSM names no dump folder")?;
    let file = Path::new(&folder).join("psl");
    let skip = |why: String| match std::fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", file.display()))
        }
        _ => Ok(Outcome::Skipped(why)),
    };
    let Some(engine) = host.engine_used() else { return skip("no engine is in use".to_owned()) };
    let Some(path_sl) = engine.path_sl else { return skip("the engine gives out no SLs".to_owned()) };
    if table.is_some_and(|table| table.any().is_some()) {
        return skip("every SL serves every pair".to_owned());
    }
    let fabric = snapshot(host, &HashSet::new()).map_err(|error| error.to_string())?.fabric;
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
    formats::write_file(&folder, "psl", |out| formats::psl::write(out, &fabric, classes, ask))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(Outcome::Written(endports))
}
