//! A checker that is not ours.

use std::path::Path;
use std::process::Command;

use super::Tools;

/// What ibdmchk found.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// Every pair of adapters is connected.
    pub(crate) reachable: bool,
    /// There is no credit loop. Also false if paths are missing: then it does not check.
    pub(crate) deadlock_free: bool,
    /// Its whole output.
    pub(crate) text: String,
}

/// Judges tables. `subnet` is an `opensm-subnet.lst`, `fdbs` an `opensm.fdbs`, `sl2vl` an
/// `opensm-sl2vl.dump`; without a `psl` every path has SL 0. LMC must be 0.
///
/// # Panics
/// If it prints no verdict. Its exit code is useless: Debian's build crashes at exit.
pub(crate) fn judge(tools: &Tools, subnet: &Path, fdbs: &Path, sl2vl: &Path, psl: Option<&Path>) -> Verdict {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let multicast = folder.path().join("opensm.mcfdbs");
    std::fs::write(&multicast, "").expect("an empty file is written");
    judge_all(tools, subnet, fdbs, &multicast, sl2vl, psl)
}

/// [`judge`] with an `opensm.mcfdbs` of multicast groups, which it checks for loops and missing
/// paths.
///
/// # Panics
/// As above.
pub(crate) fn judge_all(
    tools: &Tools,
    subnet: &Path,
    fdbs: &Path,
    multicast: &Path,
    sl2vl: &Path,
    psl: Option<&Path>,
) -> Verdict {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(&tools.ibdmchk);
    command.current_dir(&folder).arg("-s").arg(subnet).arg("-f").arg(fdbs).arg("-m").arg(multicast);
    command.arg("-d").arg(sl2vl);
    if let Some(psl) = psl {
        command.arg("-c").arg(psl);
    }
    let output = command.output().expect("ibdmchk starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let free = text.contains("no credit loops found");
    let looped = text.contains("credit loops in routing");
    let missing = text.contains("missing paths");
    assert!(
        free != looped || missing,
        "ibdmchk gives no verdict:\n{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let reachable = text.contains("-I- Scanned:") && !missing;
    Verdict { reachable, deadlock_free: free, text }
}
