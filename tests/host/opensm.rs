//! OpenSM.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::Duration;

use tempfile::TempDir;

use super::ibsim::Ibsim;
use super::{signal, wait_for};

/// Options for starting OpenSM; `..Config::default()` for the rest.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// `routing_engine`, names separated by spaces.
    pub(crate) engine: String,
    /// Folder of `libdfdn.so`, which is loaded if this is set.
    pub(crate) plugin: Option<PathBuf>,
    /// `qos`: the stock engines program SL2VL tables only then.
    pub(crate) qos: bool,
    /// `max_op_vls`, as PortInfo codes it: 1 = VL 0, 2 = VL 0-1, 3 = VL 0-3, 4 = VL 0-7.
    pub(crate) max_op_vls: Option<u8>,
    /// `lmc`.
    pub(crate) lmc: u8,
    /// Whether the log flags request dumps of routing tables.
    pub(crate) dumps: bool,
    /// Further lines of the configuration file.
    pub(crate) extra: String,
    /// Further environment.
    pub(crate) env: Vec<(String, PathBuf)>,
    /// A command with arguments that runs OpenSM, such as valgrind.
    pub(crate) under: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            engine: "minhop".into(),
            plugin: None,
            qos: true,
            max_op_vls: None,
            lmc: 0,
            dumps: true,
            extra: String::new(),
            env: Vec::new(),
            under: Vec::new(),
        }
    }
}

/// A running OpenSM in the foreground; killed when dropped.
pub(crate) struct OpenSm {
    folder: TempDir,
    child: Child,
}

impl OpenSm {
    /// Starts OpenSM on a simulated subnet without waiting for it.
    pub(crate) fn start(sim: &Ibsim, config: &Config) -> Self {
        Self::start_on(sim, sim.host(), config)
    }

    /// [`OpenSm::start`] on an adapter other than the first, by its name in the network.
    pub(crate) fn start_on(sim: &Ibsim, host: &str, config: &Config) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = folder.path();
        let mut conf = format!(
            "routing_engine {}\nqos {}\nlmc {}\nforce_log_flush TRUE\n",
            config.engine,
            if config.qos { "TRUE" } else { "FALSE" },
            config.lmc
        );
        if let Some(code) = config.max_op_vls {
            conf += &format!("max_op_vls {code}\n");
        }
        if config.plugin.is_some() {
            conf += "event_plugin_name dfdn\n";
        }
        conf += &config.extra;
        conf.push('\n');
        fs::write(at.join("opensm.conf"), conf).expect("the configuration is written");
        let output = fs::File::create(at.join("output")).expect("the output file is created");
        let mut env = vec![("OSM_TMP_DIR", at), ("OSM_CACHE_DIR", at)];
        env.extend(config.env.iter().map(|(name, value)| (name.as_str(), value.as_path())));
        let opensm = &sim.tools().opensm;
        let mut command = match config.under.split_first() {
            Some((program, arguments)) => {
                let mut command = sim.run_on(host, &env, Path::new(program));
                command.args(arguments).arg(opensm);
                command
            }
            None => sim.run_on(host, &env, opensm),
        };
        if let Some(plugin) = &config.plugin {
            command.env("LD_LIBRARY_PATH", plugin);
        }
        command.arg("-F").arg(at.join("opensm.conf")).arg("-f").arg(at.join("opensm.log"));
        // Errors, info and timing of engines (0x07); dumps (0x40).
        command.args(["-D", if config.dumps { "0x47" } else { "0x07" }]);
        command.stdout(output.try_clone().expect("the output has a second handle")).stderr(output);
        let child = command.spawn().expect("OpenSM starts");
        Self { folder, child }
    }

    /// Starts OpenSM and waits for SUBNET UP.
    ///
    /// # Panics
    /// With the log, if it does not come up within a minute.
    pub(crate) fn up(sim: &Ibsim, config: &Config) -> Self {
        let mut this = Self::start(sim, config);
        this.wait_log("-> SUBNET UP", 1, Duration::from_secs(60));
        if !config.dumps {
            return this;
        }
        // The dumps are written after that line; the subnet list is the last.
        let whole = |text: String| text.ends_with('\n').then_some(());
        let at = this.path("opensm-subnet.lst");
        let list = wait_for(Duration::from_secs(10), || fs::read_to_string(&at).ok().and_then(whole));
        assert!(list.is_some(), "OpenSM wrote no dumps:\n{}", this.log());
        this
    }

    /// Waits until `pattern` occurs at least `times` times in the log.
    ///
    /// # Panics
    /// After `limit`, or if OpenSM ends before, with the end of the log.
    pub(crate) fn wait_log(&mut self, pattern: &str, times: usize, limit: Duration) {
        let mut ended = None;
        let found = wait_for(limit, || {
            ended = self.child.try_wait().expect("OpenSM can be asked");
            let seen = self.log().matches(pattern).count() >= times;
            (seen || ended.is_some()).then_some(seen)
        });
        if found != Some(true) {
            let log = self.log();
            let tail = log.lines().count().saturating_sub(60);
            let tail: Vec<&str> = log.lines().skip(tail).collect();
            panic!(
                "no '{pattern}' in OpenSM's log (ended: {ended:?}):\n{}\n{}",
                tail.join("\n"),
                self.output()
            );
        }
    }

    /// Makes OpenSM do a heavy sweep and waits for the next SUBNET UP.
    pub(crate) fn resweep(&mut self) {
        let before = self.log().matches("-> SUBNET UP").count();
        signal(self.child.id(), "HUP");
        self.wait_log("-> SUBNET UP", before + 1, Duration::from_secs(60));
    }

    /// Makes OpenSM do a heavy sweep without waiting for it.
    pub(crate) fn hang_up(&self) {
        signal(self.child.id(), "HUP");
    }

    /// The process, for signals and `/proc`.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills OpenSM as a power failure would, and waits until it has ended.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("OpenSM can be killed");
        self.child.wait().expect("OpenSM can be waited for");
    }

    /// Address space that OpenSM has mapped, in KiB.
    pub(crate) fn address_space(&self) -> Option<u64> {
        self.status("VmSize:")
    }

    /// Resident memory of OpenSM, in KiB.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.status("VmRSS:")
    }

    /// Ends OpenSM properly: engines and plugins are destroyed.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        signal(self.child.id(), "TERM");
        let ended = wait_for(Duration::from_secs(20), || self.child.try_wait().expect("OpenSM can be asked"));
        ended.unwrap_or_else(|| panic!("OpenSM does not end:\n{}", self.log()))
    }

    /// Whether it is still running.
    pub(crate) fn alive(&mut self) -> bool {
        self.child.try_wait().expect("OpenSM can be asked").is_none()
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(self.path("opensm.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Its output on standard output and error.
    pub(crate) fn output(&self) -> String {
        let bytes = fs::read(self.path("output")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The folder with the dumps, `opensm.log` and `opensm.conf`.
    pub(crate) fn dumps(&self) -> &Path {
        self.folder.path()
    }

    /// A file in the folder of the dumps.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The engine whose tables were configured last.
    pub(crate) fn engine_used(&self) -> Option<String> {
        let log = self.log();
        let line = log.lines().rfind(|l| l.contains("tables configured on all switches"))?;
        line.split("osm_ucast_mgr_process: ").nth(1)?.split(' ').next().map(str::to_owned)
    }

    /// The last sweep's time from 'building routing' to 'tables configured', sending included.
    pub(crate) fn engine_time(&self) -> Option<Duration> {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines.iter().rposition(|l| l.contains("tables configured on all switches"))?;
        let start = lines[..end].iter().rposition(|l| l.contains("building routing with"))?;
        // At midnight the difference is negative: add a day.
        let day = 86_400_000_000_i64;
        let micros = (timestamp(lines[end])? - timestamp(lines[start])?).rem_euclid(day);
        Some(Duration::from_micros(micros.unsigned_abs()))
    }

    /// Peak resident memory of OpenSM so far, in KiB.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|l| l.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }
}

impl Drop for OpenSm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Microseconds since midnight of a log line such as `Nov 21 01:15:32 385579 [...`.
fn timestamp(line: &str) -> Option<i64> {
    let mut words = line.split_whitespace().skip(2);
    let (clock, micros) = (words.next()?, words.next()?);
    let mut seconds = 0;
    for part in clock.split(':') {
        seconds = seconds * 60 + part.parse::<i64>().ok()?;
    }
    Some(seconds * 1_000_000 + micros.parse::<i64>().ok()?)
}
