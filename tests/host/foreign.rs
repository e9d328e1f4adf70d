//! Fabrics that this project did not write. They are not part of it: where they are missing, a test
//! says so and goes on without them.

use std::path::PathBuf;

use dfdn::fabric::Fabric;
use dfdn::formats;

/// Their folder: `DFDN_FABRICS`, or the one beside the project. `None`, after saying so, if it does
/// not exist.
pub(crate) fn folder() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/fabrics");
    let folder = std::env::var_os("DFDN_FABRICS").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    if !folder.is_dir() {
        eprintln!("skipped: {} is not there (DFDN_FABRICS names a folder of fabrics)", folder.display());
        return None;
    }
    Some(folder)
}

/// One of them, by its path in the folder. `None`, after saying so, if it does not exist.
///
/// # Panics
/// If it does not load.
pub(crate) fn fabric(file: &str) -> Option<Fabric> {
    let path = folder()?.join(file);
    if !path.exists() {
        eprintln!("skipped: {file} is not there (DFDN_FABRICS names the folder of such fabrics)");
        return None;
    }
    Some(formats::load_fabric(&path).expect("it loads").0)
}
