//! The tables in the simulated switches.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::ibsim::Ibsim;

/// Tables read back by management packets: a folder with `opensm-lfts.dump`, `opensm-sl2vl.dump`,
/// `opensm.fdbs`, `opensm.mcfdbs` and `op_vls`; see `tests/tools/readback.c`.
pub(crate) struct Readback {
    folder: TempDir,
}

/// A table of VL arbitration: node GUID, port, whether it has high priority, VLs and weights.
pub(crate) type Arbitration = (u64, u8, bool, Vec<(u8, u8)>);

impl Readback {
    /// Reads all tables.
    ///
    /// # Panics
    /// If a switch that was found does not answer.
    pub(crate) fn of(sim: &Ibsim) -> Self {
        Self::try_of(sim).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Reads all tables, or says which switch does not answer.
    pub(crate) fn try_of(sim: &Ibsim) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = sim.run(&[], &sim.tools().readback).arg(folder.path()).output();
        let output = output.expect("readback starts");
        let why = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        output.status.success().then_some(Self { folder }).ok_or_else(why)
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// One file of the folder.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect("readback writes all its files")
    }

    /// The LFTs in OpenSM's form.
    pub(crate) fn lfts(&self) -> String {
        self.text("opensm-lfts.dump")
    }

    /// The SL2VL tables in OpenSM's form.
    pub(crate) fn sl2vl(&self) -> String {
        self.text("opensm-sl2vl.dump")
    }

    /// The tables of VL arbitration of switch ports that are up.
    pub(crate) fn vlarb(&self) -> Vec<Arbitration> {
        let parse = |line: &str| {
            let mut words = line.split(' ');
            let guid = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
            let (port, high) = (words.next()?.parse().ok()?, words.next()? == "high");
            let entry = |word: &str| {
                let (vl, weight) = word.split_once(':')?;
                Some((vl.parse().ok()?, weight.parse().ok()?))
            };
            Some((guid, port, high, words.map(entry).collect::<Option<_>>()?))
        };
        self.text("vlarb").lines().map(|l| parse(l).expect("readback writes numbers")).collect()
    }

    /// Number of operational VLs of each switch port that is up: (node GUID, port, VLs).
    pub(crate) fn op_vls(&self) -> Vec<(u64, u8, u8)> {
        let parse = |line: &str| {
            let mut words = line.split(' ');
            let guid = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
            Some((guid, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        };
        self.text("op_vls").lines().map(|l| parse(l).expect("readback writes numbers")).collect()
    }
}

/// Compiles a library of `tests/tools` for preloading.
pub(crate) fn compile_shared(name: &str) -> Result<PathBuf, String> {
    compile_as(name, ".so", &["-shared", "-fPIC"])
}

/// Compiles a C program of `tests/tools` if that was not done yet.
pub(super) fn compile(name: &str) -> Result<PathBuf, String> {
    compile_as(name, "", &[])
}

fn compile_as(name: &str, ending: &str, options: &[&str]) -> Result<PathBuf, String> {
    let file = format!("{name}{ending}");
    let built = super::built().map(|built| built.join(&file)).filter(|tool| tool.exists());
    if let Some(built) = built {
        return Ok(built);
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools").join(name).with_extension("c");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let modified = |p: &Path| fs::metadata(p).and_then(|m| m.modified()).ok();
    if modified(&target) >= modified(&source) {
        return Ok(target);
    }
    let folder =
        tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(|e| format!("no temporary folder: {e}"))?;
    let own = folder.path().join(name);
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&own, &source])
        .args(options)
        .args(["-libmad", "-libumad"])
        .output()
        .map_err(|e| format!("there is no C compiler: {e}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("tests/tools/{name}.c does not compile (libibmad-dev installed?):\n{text}"));
    }
    // Renamed at the end, so that parallel tests and test processes see all of it or nothing. Each
    // compiles in a folder of its own: two tests may come here at the same time.
    fs::rename(&own, &target).map_err(|e| format!("cannot rename {}: {e}", own.display()))?;
    Ok(target)
}
