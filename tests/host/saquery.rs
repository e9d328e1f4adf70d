//! The SA's answers to applications.

use super::ibsim::Ibsim;

/// The SL of the PathRecord between two LIDs; `None` if the SA has none.
pub(crate) fn path_sl(sim: &Ibsim, slid: u16, dlid: u16) -> Option<u8> {
    path_sl_for(sim, slid, dlid, &[])
}

/// The same for a query with further components, e.g. `--pkey 0x10`.
pub(crate) fn path_sl_for(sim: &Ibsim, slid: u16, dlid: u16, components: &[&str]) -> Option<u8> {
    let mut command = sim.run(&[], &sim.tools().saquery);
    command.args(["-p", "--slid", &slid.to_string(), "--dlid", &dlid.to_string()]).args(components);
    let output = command.output().expect("saquery starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|l| l.trim_start().starts_with("sl."))?;
    u8::from_str_radix(line.rsplit("0x").next()?.trim(), 16).ok()
}
