//! A folder of tables.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use tempfile::NamedTempFile;

use super::{
    FormatError, Warning, compact, far, fdbs, guid2lid, lfts_dump, lids, mcfdbs, open, psl, sl2vl_dump, slvl,
    subnet_lst,
};
use crate::fabric::{Fabric, Sl};
use crate::tables::{PathSl, Routes, Sl2Vl, VlArb};

/// A text larger than this many bytes is written only on request.
pub const LARGE_FILE: u64 = 500_000_000;

/// The files that [`write_tables`] may write.
pub const TABLE_FILES: [&str; 11] = [
    LFTS.text,
    LFTS.compact,
    SL2VL.text,
    SL2VL.compact,
    "slvl",
    "opensm-subnet.lst",
    "guid2lid",
    "opensm.fdbs",
    "opensm.mcfdbs",
    PSL.text,
    PSL.compact,
];

/// A table that a folder holds as text or in our compact form.
struct Forms {
    text: &'static str,
    compact: &'static str,
}

const LFTS: Forms = Forms { text: "opensm-lfts.dump", compact: "lfts.dfdn" };
const SL2VL: Forms = Forms { text: "opensm-sl2vl.dump", compact: "sl2vl.dfdn" };
const PSL: Forms = Forms { text: "psl", compact: "psl.dfdn" };

const WITH_HOPS: &str = "opensm.fdbs";
/// What ibdiagnet 2 writes.
const IBDIAGNET_FDBS: &str = "ibdiagnet2.fdbs";
const FAR: &str = "ibdiagnet2.far";

/// The file with the forwarding tables of a folder.
pub(super) enum LftFile {
    /// `opensm-lfts.dump`, which states the owners of LIDs.
    Text(PathBuf),
    /// `lfts.dfdn`, which states them with their LMC.
    Compact(PathBuf),
    /// `opensm.fdbs` or `ibdiagnet2.fdbs`, which do not state them.
    WithHops(PathBuf),
}

impl LftFile {
    /// # Errors
    /// There is none, or it is unclear which one holds.
    fn find(dir: &Path) -> Result<Self, FormatError> {
        let with_hops = only(dir, &[WITH_HOPS, IBDIAGNET_FDBS])?;
        match (only(dir, &[LFTS.text, LFTS.compact, IBDIAGNET_FDBS])?, with_hops) {
            (Some(path), _) if path.ends_with(LFTS.text) => Ok(Self::Text(path)),
            (Some(path), _) if path.ends_with(LFTS.compact) => Ok(Self::Compact(path)),
            (_, Some(path)) => Ok(Self::WithHops(path)),
            (_, None) => {
                let reason = match dir.exists() {
                    true => "no opensm-lfts.dump, lfts.dfdn, opensm.fdbs or ibdiagnet2.fdbs in this folder",
                    false => "there is no such folder",
                };
                Err(FormatError::new(0, reason)
                    .hint("write tables with 'dfdn route -o', or have OpenSM dump its tables with -D 0x43")
                    .in_file(dir))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Text(path) | Self::Compact(path) | Self::WithHops(path) => path,
        }
    }
}

/// The one of these files that a folder has.
///
/// # Errors
/// There are two: it is unclear which one holds.
fn only(dir: &Path, names: &[&str]) -> Result<Option<PathBuf>, FormatError> {
    let mut found = names.iter().filter(|name| dir.join(name).symlink_metadata().is_ok());
    match (found.next(), found.next()) {
        (Some(one), Some(other)) => Err(FormatError::new(0, format!("there are both {one} and {other}"))
            .hint("remove the one that does not belong to the other tables")
            .in_file(dir)),
        (one, _) => Ok(one.map(|name| dir.join(name))),
    }
}

/// Options of [`write_tables`].
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Texts larger than this many bytes are left out, or replaced by their compact form.
    pub largest_text: u64,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { largest_text: LARGE_FILE }
    }
}

/// The plan for one of the texts in a folder of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedText {
    /// Its name.
    pub name: &'static str,
    /// The name of the table's compact form, if it has one.
    pub compact: Option<&'static str>,
    /// Approximate size of the text in bytes.
    pub bytes: u64,
    /// How it is handled.
    pub fate: Fate,
}

/// How a text is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is written.
    Written,
    /// It is too large: the compact form replaces it, if there is one.
    TooLarge,
    /// SL 0 serves every pair and is assigned to it, which readers assume if there is no such file.
    NotNeeded,
}

/// The texts that may be large, and what [`write_tables`] will do with them: the forwarding tables
/// with and without hops, SL to VL in OpenSM's format and in ibdmchk's, path SLs.
///
/// Cost: O(nodes + LIDs).
pub fn plan_tables(fabric: &Fabric, routes: &Routes, options: WriteOptions) -> [PlannedText; 5] {
    let planned = |name, compact, bytes| {
        let fate = if bytes <= options.largest_text { Fate::Written } else { Fate::TooLarge };
        PlannedText { name, compact, bytes, fate }
    };
    let mut psl = planned(PSL.text, Some(PSL.compact), psl::bytes(fabric));
    // ibdmchk assumes SL 0 if there is no file.
    if routes.path_sl.is_zero() {
        psl.fate = Fate::NotNeeded;
    }
    [
        planned(LFTS.text, Some(LFTS.compact), lfts_dump::bytes(fabric)),
        planned("opensm.fdbs", None, fdbs::bytes(fabric)),
        planned(SL2VL.text, Some(SL2VL.compact), sl2vl_dump::bytes(fabric)),
        planned("slvl", None, slvl::bytes(fabric)),
        psl,
    ]
}

/// Reads a folder of tables and gives the fabric the LIDs that they state. It takes
/// `opensm-lfts.dump`, `lfts.dfdn` or else `opensm.fdbs`; `opensm-sl2vl.dump`, `sl2vl.dfdn` or else
/// `ibdiagnet2.slvl` or else VL 0 for all; `psl`, `psl.dfdn` or else every SL on every path (SL 0 if there is only VL 0);
/// `opensm.mcfdbs` or else no multicast. `ibdiagnet2.fdbs` and `ibdiagnet2.mcfdbs` serve as those of OpenSM do, and
/// `ibdiagnet2.far` has the sets of next hops of adaptive routing.
/// [`Routes::remarks`] lists what was assumed or ignored.
///
/// # Errors
/// No forwarding tables, a table in two files, or a file that its reader refuses.
pub fn load_tables(dir: &Path, fabric: Fabric) -> Result<(Fabric, Routes), FormatError> {
    let lfts = LftFile::find(dir)?;
    let (owned, mut remarks) = lids::adopt(dir, &lfts, fabric)?;
    let fabric = &owned;
    let path = lfts.path();
    let input = open(path)?;
    let read = match lfts {
        LftFile::Text(_) => lfts_dump::read(input, fabric),
        LftFile::Compact(_) => compact::lfts::read(input, fabric),
        LftFile::WithHops(_) => fdbs::read(input, fabric),
    };
    let lft = kept(&mut remarks, path, read)?;
    let far = |path: PathBuf| kept(&mut remarks, &path, far::read(open(&path)?, fabric, &lft));
    let port_sets = only(dir, &[FAR])?.map(far).transpose()?;
    let doubt = lids::doubtful(fabric, &lft);
    let groups = |path: PathBuf| kept(&mut remarks, &path, mcfdbs::read(open(&path)?, fabric));
    let multicast = only(dir, &["opensm.mcfdbs", "ibdiagnet2.mcfdbs"])?.map(groups).transpose()?;
    let rows = |path: PathBuf| {
        let input = open(&path)?;
        let read = if path.ends_with(SL2VL.text) {
            sl2vl_dump::read(input, fabric)
        } else if path.ends_with(SL2VL.compact) {
            compact::sl2vl::read(input, fabric)
        } else {
            slvl::read(input, fabric)
        };
        kept(&mut remarks, &path, read)
    };
    let sl2vl = only(dir, &[SL2VL.text, SL2VL.compact, "ibdiagnet2.slvl"])?.map(rows).transpose()?;
    let sls = |path: PathBuf| {
        let input = open(&path)?;
        let read = if path.ends_with(PSL.text) {
            psl::read(input, fabric)
        } else {
            compact::psl::read(input, fabric)
        };
        kept(&mut remarks, &path, read)
    };
    let path_sl = only(dir, &[PSL.text, PSL.compact])?.map(sls).transpose()?;
    remarks.extend(doubt);
    if port_sets.is_some() {
        remarks.push(format!(
            "{FAR}: a verdict covers all that switches may choose; figures, paths and plans are those of the forwarding \
             tables"
        ));
    }
    if sl2vl.is_none() {
        remarks.push("no opensm-sl2vl.dump: one VL assumed".to_owned());
    }
    if path_sl.is_none() && sl2vl.is_some() {
        remarks.push("no psl: every SL may be used on every path".to_owned());
    }
    let assumed = if sl2vl.is_some() { PathSl::Any(u16::MAX) } else { PathSl::one(Sl(0)) };
    let path_sl = path_sl.unwrap_or(assumed);
    let sl2vl = sl2vl.unwrap_or_else(|| Sl2Vl::new(fabric));
    let vls = sl2vl.rows().iter().flat_map(|r| r.vls()).map(|vl| vl.0).filter(|&vl| vl < 15).max();
    let routes = Routes {
        engine: dir.display().to_string(),
        lft,
        sl2vl,
        path_sl,
        vlarb: VlArb::fair(vls.unwrap_or(0) + 1),
        multicast: multicast.unwrap_or_default(),
        port_sets,
        remarks,
    };
    Ok((owned, routes))
}

/// What a file has; its warnings become remarks.
fn kept<T>(
    remarks: &mut Vec<String>,
    path: &Path,
    read: Result<(T, Vec<Warning>), FormatError>,
) -> Result<T, FormatError> {
    let (table, warnings) = read.map_err(|e| e.in_file(path))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    remarks.extend(warnings.iter().map(|warning| format!("{name}: {warning}")));
    Ok(table)
}

/// Writes tables to an existing folder: `opensm-lfts.dump`, `opensm-sl2vl.dump`,
/// `opensm-subnet.lst`, `opensm.fdbs`, `opensm.mcfdbs`, `psl`, `slvl`, and `guid2lid`, which makes
/// OpenSM assign the same LIDs. In `opensm.mcfdbs` each multicast tree is a group of all end ports,
/// from 0xC000 on; it is empty if there are no trees. `psl` is left out if SL 0 serves every pair and is assigned to it.
/// A text that would be too large is replaced by its [compact form](super::compact); see
/// [`plan_tables`]. Files from an earlier run that are not written again are removed. Each file is
/// complete before it gets its name.
///
/// # Errors
/// Those of the file system.
pub fn write_tables(dir: &Path, fabric: &Fabric, routes: &Routes, options: WriteOptions) -> io::Result<()> {
    let Routes { lft, sl2vl, path_sl, .. } = routes;
    let none = |_: &mut Out| Ok(());
    let [lfts, hops, sl2vl_text, slvl_text, psl_text] = plan_tables(fabric, routes, options);
    let known = |source, dlid| path_sl.known(fabric, source, dlid);
    let write_lfts = || {
        write_either(
            dir,
            lfts,
            |out| lfts_dump::write(out, fabric, lft),
            |out| compact::lfts::write(out, fabric, lft),
        )
    };
    let write_sl2vl = || {
        write_either(
            dir,
            sl2vl_text,
            |out| sl2vl_dump::write(out, fabric, sl2vl),
            |out| compact::sl2vl::write(out, fabric, sl2vl),
        )
    };
    let write_psl = || {
        write_either(
            dir,
            psl_text,
            |out| psl::write(out, fabric, path_sl.classes(), known),
            |out| compact::psl::write(out, fabric, path_sl),
        )
    };
    let files: [&(dyn Fn() -> io::Result<()> + Sync); 8] = [
        &write_lfts,
        &write_sl2vl,
        &|| write_either(dir, hops, |out| fdbs::write(out, fabric, lft), none),
        &|| write_either(dir, slvl_text, |out| slvl::write(out, fabric, sl2vl), none),
        &write_psl,
        &|| write_file(dir, "opensm-subnet.lst", |out| subnet_lst::write(out, fabric)),
        &|| write_file(dir, "guid2lid", |out| guid2lid::write(out, fabric)),
        &|| write_file(dir, "opensm.mcfdbs", |out| mcfdbs::write(out, fabric, &routes.multicast)),
    ];
    let written: Vec<io::Result<()>> = files.par_iter().with_max_len(1).map(|write| write()).collect();
    written.into_iter().collect()
}

type Out = BufWriter<NamedTempFile>;

/// Writes a text or the compact form of its table as planned, and removes what is not written.
fn write_either(
    dir: &Path,
    planned: PlannedText,
    text: impl FnOnce(&mut Out) -> io::Result<()>,
    compact: impl FnOnce(&mut Out) -> io::Result<()>,
) -> io::Result<()> {
    match planned.fate {
        Fate::Written => write_file(dir, planned.name, text)?,
        Fate::TooLarge | Fate::NotNeeded => remove(dir, planned.name)?,
    }
    match planned.compact {
        Some(name) if planned.fate == Fate::TooLarge => write_file(dir, name, compact),
        Some(name) => remove(dir, name),
        None => Ok(()),
    }
}

/// Writes the file `name` in a folder. It appears with its full content; after an error it is
/// unchanged.
///
/// # Errors
/// Those of the file and of `write`.
pub fn write_file(dir: &Path, name: &str, write: impl FnOnce(&mut Out) -> io::Result<()>) -> io::Result<()> {
    // A temporary file is private by default; a table gets the permissions of the umask.
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
