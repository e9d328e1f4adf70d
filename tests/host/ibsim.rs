//! The simulator.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dfdn::fabric::Fabric;
use dfdn::formats;

use tempfile::TempDir;

use super::sweeps::Tail;
use super::{Tools, wait_for};

/// A running ibsim; killed when dropped.
pub(crate) struct Ibsim {
    tools: &'static Tools,
    folder: TempDir,
    child: Child,
    socket: String,
    host: String,
    tail: Tail,
}

impl Ibsim {
    /// Starts ibsim on a network in its own or ibnetdiscover's text format. OpenSM and the
    /// diagnostics run on the first adapter of the text.
    ///
    /// # Panics
    /// If ibsim does not accept the network.
    pub(crate) fn start(tools: &'static Tools, net: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let socket = format!("dfdn-test-{}-{number}", std::process::id());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("fabric.net");
        fs::write(&file, net).expect("the network is written");
        let starts = |word: &str| net.lines().filter(|l| l.starts_with(word)).count();
        let (switches, adapters) = (starts("Switch"), starts("Hca") + starts("Ca") + starts("Rt"));
        let header = net.lines().find(|l| l.starts_with("Hca") || l.starts_with("Ca"));
        let host = header.and_then(|l| l.split('"').nth(1)).expect("the network has an adapter");
        // Ports by the headers' counts, and port 0 of each switch.
        let ports: usize = net
            .lines()
            .filter(|l| ["Switch", "Hca", "Ca", "Rt"].iter().any(|w| l.starts_with(w)))
            .filter_map(|l| l.split_whitespace().nth(1)?.parse::<usize>().ok())
            .map(|n| n + 1)
            .sum();
        let log = fs::File::create(folder.path().join("ibsim.log")).expect("the log is created");
        let mut child = tools
            .tied(&tools.ibsim)
            .arg("-s")
            .args(["-N", &(switches + adapters + 1).to_string()])
            .args(["-S", &(switches + 1).to_string()])
            .args(["-P", &(ports + 1).to_string()])
            .arg(&file)
            .env("IBSIM_SOCKNAME", &socket)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("the log has a second handle"))
            .stderr(log)
            .spawn()
            .expect("ibsim starts");
        let text = || fs::read_to_string(folder.path().join("ibsim.log")).unwrap_or_default();
        let ready = wait_for(Duration::from_secs(20), || {
            let up = text().contains("Network simulator ready");
            let gone = child.try_wait().expect("ibsim can be asked").is_some();
            (up || gone).then_some(up)
        });
        if ready != Some(true) {
            let _ = child.kill();
            let _ = child.wait();
            panic!("ibsim did not start:\n{}", text());
        }
        let tail = Tail::new(folder.path().join("ibsim.log"));
        Self { tools, folder, child, socket, host: host.to_owned(), tail }
    }

    /// A command of the simulator's console, such as `Unlink "S1"[3]`.
    pub(crate) fn command(&mut self, line: &str) {
        let console = self.child.stdin.as_mut().expect("the console is open");
        writeln!(console, "{line}").and_then(|()| console.flush()).expect("ibsim reads its console");
    }

    /// Several commands of the console; returns when ibsim has executed them.
    ///
    /// # Panics
    /// If it refuses one.
    pub(crate) fn commands(&mut self, lines: &[String]) {
        for line in lines {
            self.command(line);
        }
        // A command without effect that shows in the output marks the end.
        self.command("Verbose");
        let mut refused = Vec::new();
        let done = wait_for(Duration::from_secs(20), || {
            let lines = self.tail.lines();
            refused.extend(lines.iter().filter(|l| l.contains("# ")).cloned());
            lines.iter().any(|l| l.contains("simulator verbose level is")).then_some(())
        });
        assert!(done.is_some() && refused.is_empty(), "ibsim does not do {lines:?}: {refused:?}");
    }

    /// All output of ibsim.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("ibsim.log")).expect("ibsim has a log")
    }

    /// The tools that it was started with.
    pub(super) fn tools(&self) -> &'static Tools {
        self.tools
    }

    /// `tests/tools/paths.c`, compiled.
    pub(crate) fn paths(&self) -> &Path {
        &self.tools.paths
    }

    /// The adapter that OpenSM runs on, by its name in the network.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// A program attached to the simulated subnet.
    pub(crate) fn run(&self, env: &[(&str, &Path)], program: &Path) -> Command {
        self.run_on(&self.host, env, program)
    }

    /// A program attached to the simulated subnet at another adapter.
    pub(crate) fn run_on(&self, host: &str, env: &[(&str, &Path)], program: &Path) -> Command {
        self.tools.simulated(&self.socket, host, self.folder.path(), env, program)
    }
}

impl Drop for Ibsim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A fabric as ibsim reads it, GUIDs stated.
pub(crate) fn net(fabric: &Fabric) -> String {
    let mut text = Vec::new();
    formats::ibnetdiscover::write(&mut text, fabric).expect("a vector takes everything");
    String::from_utf8(text).expect("text")
}
