//! The real thing: stock OpenSM over ibsim, started, driven and stopped.
//!
//! Every process has its own simulator socket and its own folder, so that tests run in parallel; it
//! dies when its value is dropped, and with the test process itself (`setpriv --pdeathsig`). A test
//! that needs the host begins with `let Some(tools) = host::tools("what it tests") else { return
//! };`.

#![allow(dead_code, reason = "not every helper is used by the tests of every build")]

pub(crate) mod falsify;
pub(crate) mod foreign;
pub(crate) mod ibdmchk;
pub(crate) mod ibsim;
pub(crate) mod mcjoin;
pub(crate) mod opensm;
pub(crate) mod plugin;
pub(crate) mod readback;
pub(crate) mod saquery;
mod selftest;
pub(crate) mod sets;
pub(crate) mod sweeps;
pub(crate) mod walks;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Paths of the host's tools.
#[derive(Debug)]
pub(crate) struct Tools {
    /// The simulator.
    pub(crate) ibsim: PathBuf,
    /// Stock OpenSM.
    pub(crate) opensm: PathBuf,
    /// The SA's client.
    pub(crate) saquery: PathBuf,
    /// The independent checker.
    pub(crate) ibdmchk: PathBuf,
    /// Kills a child when its parent dies.
    setpriv: PathBuf,
    /// Preloaded into everything that talks to the simulator.
    umad2sim: PathBuf,
    /// `tests/tools/readback.c`, compiled.
    pub(crate) readback: PathBuf,
    /// `tests/tools/paths.c`, compiled.
    pub(crate) paths: PathBuf,
    /// `tests/tools/mcjoin.c`, compiled.
    pub(crate) mcjoin: PathBuf,
}

impl Tools {
    fn find() -> Result<Self, String> {
        let folders: Vec<PathBuf> = std::env::var_os("PATH")
            .map(|path| std::env::split_paths(&path).collect::<Vec<_>>())
            .unwrap_or_default()
            .into_iter()
            .chain(["/usr/sbin", "/usr/bin", "/sbin"].map(PathBuf::from))
            .collect();
        let tool = |name: &str| {
            let found = folders.iter().map(|f| f.join(name)).find(|p| p.is_file());
            found.ok_or_else(|| format!("there is no {name}"))
        };
        let umad2sim = ["/usr/lib", "/usr/lib64"]
            .iter()
            .flat_map(|lib| std::fs::read_dir(lib).into_iter().flatten().flatten().map(|e| e.path()))
            .chain(["/usr/lib", "/usr/lib64"].map(PathBuf::from))
            .map(|p| p.join("umad2sim/libumad2sim.so"))
            .find(|p| p.is_file());
        Ok(Self {
            ibsim: tool("ibsim")?,
            opensm: tool("opensm")?,
            saquery: tool("saquery")?,
            ibdmchk: tool("ibdmchk")?,
            setpriv: tool("setpriv")?,
            umad2sim: umad2sim.ok_or("there is no libumad2sim.so")?,
            readback: readback::compile("readback")?,
            mcjoin: mcjoin::compile()?,
            paths: readback::compile("paths")?,
        })
    }

    /// A command that dies with the thread that starts it.
    fn tied(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.setpriv);
        command.args(["--pdeathsig", "KILL"]).arg(program);
        command
    }

    /// A command attached to the simulated subnet at the adapter `host`; `env` is for itself. Its
    /// `LD_PRELOAD` is loaded first, preceded by `DFDN_PRELOAD` of our own environment.
    fn simulated(
        &self,
        socket: &str,
        host: &str,
        folder: &Path,
        env: &[(&str, &Path)],
        program: &Path,
    ) -> Command {
        // The preload is for the program alone, or setpriv and env would attach to the simulator
        // too.
        let mut command = self.tied(Path::new("env"));
        let mut preload = std::ffi::OsString::from("LD_PRELOAD=");
        if let Some(first) = std::env::var_os("DFDN_PRELOAD") {
            preload.push(first);
            preload.push(":");
        }
        for (_, library) in env.iter().filter(|(name, _)| *name == "LD_PRELOAD") {
            preload.push(library);
            preload.push(":");
        }
        preload.push(&self.umad2sim);
        command.arg(preload).env("IBSIM_SOCKNAME", socket).env("SIM_HOST", host).arg(program);
        // umad2sim creates folders where it runs, and leaves them there when it is killed.
        command
            .envs(env.iter().copied().filter(|(name, _)| *name != "LD_PRELOAD"))
            .current_dir(folder)
            .stdin(Stdio::null());
        command
    }
}

/// The tools; without them `None`, after saying why, or a panic if `DFDN_REQUIRE_HOST=1`.
pub(crate) fn tools(test: &str) -> Option<&'static Tools> {
    static TOOLS: OnceLock<Result<Tools, String>> = OnceLock::new();
    match TOOLS.get_or_init(Tools::find) {
        Ok(tools) => Some(tools),
        Err(why) => {
            let required = std::env::var_os("DFDN_REQUIRE_HOST").is_some_and(|v| v == "1");
            assert!(!required, "{test}: {why}, and DFDN_REQUIRE_HOST=1 forbids to skip");
            eprintln!("skipped: {test}: {why} (ci/install installs what is missing)");
            None
        }
    }
}

/// The folder with prebuilt `libdfdn.so`, `dfdn` and `readback`, as in the image of `docker/build`:
/// `DFDN_BUILT` names it, and nothing is compiled then.
fn built() -> Option<PathBuf> {
    std::env::var_os("DFDN_BUILT").map(PathBuf::from)
}

/// Polls until `done` returns a value; `None` after `limit`.
pub(crate) fn wait_for<T>(limit: Duration, mut done: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = done() {
            return Some(value);
        }
        if start.elapsed() > limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal, given by name, to a process that we started.
fn signal(pid: u32, name: &str) -> ExitStatus {
    let pid = pid.to_string();
    Command::new("kill").args(["-s", name, &pid]).status().expect("kill is part of every system")
}
