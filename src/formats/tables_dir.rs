//! A folder of tables.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

use super::{
    FormatError, Warning, fdbs, guid2lid, lfts_dump, lids, mcfdbs, open, psl, sl2vl_dump, slvl, subnet_lst,
};
use crate::fabric::{Fabric, Sl};
use crate::tables::{PathSl, Routes, Sl2Vl, VlArb};

/// `psl` of more pairs and `opensm.fdbs` of more entries than this are written only when asked:
/// about 500 MB.
pub const MAX_UNASKED_ENTRIES: usize = 20_000_000;

/// The files that [`write_tables`] may write.
pub const TABLE_FILES: [&str; 8] = [
    "opensm-lfts.dump",
    "opensm-sl2vl.dump",
    "slvl",
    "opensm-subnet.lst",
    "guid2lid",
    "opensm.fdbs",
    "opensm.mcfdbs",
    "psl",
];

/// What [`write_tables`] may do.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// Write `psl` and `opensm.fdbs` however large they are.
    pub large_files: bool,
}

/// Reads a folder of tables, and gives the fabric the LIDs that they speak of: `opensm-lfts.dump` or
/// else `opensm.fdbs`; `opensm-sl2vl.dump` or else all on VL 0; `psl` or else every SL on every path
/// (SL 0 where there is only VL 0); `opensm.mcfdbs` or else no multicast. What was assumed or passed over is in [`Routes::remarks`].
///
/// # Errors
/// No forwarding tables, or a file that its reader refuses.
pub fn load_tables(dir: &Path, fabric: Fabric) -> Result<(Fabric, Routes), FormatError> {
    let (owned, adopted) = lids::adopt(dir, fabric)?;
    let fabric = &owned;
    let mut remarks: Vec<String> = adopted.into_iter().collect();
    let mut keep = |name: &str, warnings: Vec<Warning>| {
        remarks.extend(warnings.iter().map(|w| format!("{name}: {w}")));
    };
    let existing = |name: &str| Some(dir.join(name)).filter(|path| path.exists());

    let lft = if let Some(path) = existing("opensm-lfts.dump") {
        let (lft, warnings) = lfts_dump::read(open(&path)?, fabric).map_err(|e| e.in_file(&path))?;
        keep("opensm-lfts.dump", warnings);
        lft
    } else if let Some(path) = existing("opensm.fdbs") {
        let (lft, warnings) = fdbs::read(open(&path)?, fabric).map_err(|e| e.in_file(&path))?;
        keep("opensm.fdbs", warnings);
        lft
    } else {
        return Err(FormatError::new(0, "neither opensm-lfts.dump nor opensm.fdbs is in this folder")
            .hint("write one with 'dfdn route -o', or have OpenSM dump its tables with -D 0x43")
            .in_file(dir));
    };
    let multicast = match existing("opensm.mcfdbs") {
        Some(path) => {
            let (groups, warnings) = mcfdbs::read(open(&path)?, fabric).map_err(|e| e.in_file(&path))?;
            keep("opensm.mcfdbs", warnings);
            groups
        }
        None => Vec::new(),
    };
    let sl2vl_path = existing("opensm-sl2vl.dump");
    let sl2vl = match &sl2vl_path {
        Some(path) => {
            let (table, warnings) = sl2vl_dump::read(open(path)?, fabric).map_err(|e| e.in_file(path))?;
            keep("opensm-sl2vl.dump", warnings);
            table
        }
        None => Sl2Vl::new(fabric),
    };
    let psl_path = existing("psl");
    let path_sl = match &psl_path {
        Some(path) => {
            let (table, warnings) = psl::read(open(path)?, fabric).map_err(|e| e.in_file(path))?;
            keep("psl", warnings);
            table
        }
        None if sl2vl_path.is_some() => PathSl::Any(u16::MAX),
        None => PathSl::one(Sl(0)),
    };
    if sl2vl_path.is_none() {
        remarks.push("no opensm-sl2vl.dump: taken as one VL".to_owned());
    }
    if psl_path.is_none() && sl2vl_path.is_some() {
        remarks.push("no psl: every SL may be used on every path".to_owned());
    }
    let vls = sl2vl.rows().iter().flat_map(|r| r.vls()).map(|vl| vl.0).filter(|&vl| vl < 15).max();
    let routes = Routes {
        engine: dir.display().to_string(),
        lft,
        sl2vl,
        path_sl,
        vlarb: VlArb::fair(vls.unwrap_or(0) + 1),
        multicast,
        remarks,
    };
    Ok((owned, routes))
}

/// Writes a folder of tables: `opensm-lfts.dump`, `opensm-sl2vl.dump`, `opensm-subnet.lst`,
/// `opensm.fdbs`, `opensm.mcfdbs`, `psl`, `slvl`, and `guid2lid`, with which OpenSM gives the same LIDs.
/// In `opensm.mcfdbs` each tree for multicast is a group of all end ports, from 0xC000 on. It is left out
/// where there is no tree, `psl` where one SL serves every pair; it and `opensm.fdbs` beyond [`MAX_UNASKED_ENTRIES`]. A file
/// that is left out and was there before is removed. Each file is complete before it gets its name.
///
/// Returns a sentence for each file that was left out.
///
/// # Errors
/// Those of the file system.
pub fn write_tables(
    dir: &Path,
    fabric: &Fabric,
    routes: &Routes,
    options: WriteOptions,
) -> io::Result<Vec<String>> {
    fs::create_dir_all(dir)?;
    let mut left_out = Vec::new();
    let lids = fabric.lid_table_len();
    write_file(dir, "opensm-lfts.dump", |out| lfts_dump::write(out, fabric, &routes.lft))?;
    write_file(dir, "opensm-sl2vl.dump", |out| sl2vl_dump::write(out, fabric, &routes.sl2vl))?;
    write_file(dir, "slvl", |out| slvl::write(out, fabric, &routes.sl2vl))?;
    write_file(dir, "opensm-subnet.lst", |out| subnet_lst::write(out, fabric))?;
    write_file(dir, "guid2lid", |out| guid2lid::write(out, fabric))?;
    if routes.multicast.is_empty() {
        remove(dir, "opensm.mcfdbs")?;
    } else {
        write_file(dir, "opensm.mcfdbs", |out| mcfdbs::write(out, fabric, &routes.multicast))?;
    }
    let fits = |entries: usize| options.large_files || entries <= MAX_UNASKED_ENTRIES;
    if fits(fabric.num_switches() * lids) {
        write_file(dir, "opensm.fdbs", |out| fdbs::write(out, fabric, &routes.lft))?;
    } else {
        remove(dir, "opensm.fdbs")?;
        left_out.push(format!("opensm.fdbs would have more than {MAX_UNASKED_ENTRIES} entries"));
    }
    // ibdmchk assumes SL 0 where there is no file.
    if routes.path_sl.any().is_some_and(|set| set & 1 != 0) {
        remove(dir, "psl")?;
        left_out.push("psl: SL 0 serves every pair".to_owned());
    } else if fits(fabric.endports().len() * lids) {
        write_file(dir, "psl", |out| psl::write(out, fabric, &routes.path_sl))?;
    } else {
        remove(dir, "psl")?;
        left_out.push(format!("psl would have more than {MAX_UNASKED_ENTRIES} pairs"));
    }
    Ok(left_out)
}

type Output = BufWriter<NamedTempFile>;

fn write_file(dir: &Path, name: &str, write: impl FnOnce(&mut Output) -> io::Result<()>) -> io::Result<()> {
    // A temporary file is its owner's alone by default; a table is for whoever the umask lets.
    let mode = fs::Permissions::from_mode(0o666);
    let temporary = tempfile::Builder::new().permissions(mode).tempfile_in(dir)?;
    let mut out = BufWriter::with_capacity(1 << 20, temporary);
    write(&mut out)?;
    out.flush()?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.persist(dir.join(name)).map_err(|e| e.error)?;
    Ok(())
}

fn remove(dir: &Path, name: &str) -> io::Result<()> {
    match fs::remove_file(dir.join(name)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
