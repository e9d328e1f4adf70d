//! Members of multicast groups join and leave.

use std::path::PathBuf;

use dfdn::fabric::Guid;

use super::ibsim::Ibsim;

/// IPoIB's broadcast group of the default partition, which OpenSM creates by itself.
pub(crate) const BROADCAST: &str = "ff12401bffff000000000000ffffffff";

/// Joins ports to a group; returns the group's LID for each of them.
pub(crate) fn join(sim: &Ibsim, mgid: &str, ports: &[Guid]) -> Vec<u16> {
    run(sim, &["join", mgid], ports)
}

/// Takes ports out of a group.
pub(crate) fn leave(sim: &Ibsim, mgid: &str, ports: &[Guid]) {
    run(sim, &["leave", mgid], ports);
}

fn run(sim: &Ibsim, words: &[&str], ports: &[Guid]) -> Vec<u16> {
    let ports = ports.iter().map(Guid::to_string);
    let output = sim.run(&[], &sim.tools().mcjoin).args(words).args(ports).output().expect("mcjoin starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |line: &str| u16::from_str_radix(line.trim_start_matches("0x"), 16).expect("an MLID");
    text.lines().map(number).collect()
}

/// Compiles the C program if that was not done yet.
pub(super) fn compile() -> Result<PathBuf, String> {
    super::readback::compile("mcjoin")
}
