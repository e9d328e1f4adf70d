//! The Slurm job array of `docs/simulations.md`, in a Slurm of our own: one host, both daemons in the foreground,
//! nothing of the system's configuration.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::simulate::Desk;

/// A controller and a node; both end with this value.
struct Slurm {
    daemons: Vec<Child>,
    folder: tempfile::TempDir,
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let ran = Command::new(program).args(arguments).stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
}

impl Slurm {
    /// # Errors
    /// Why it cannot be started.
    fn start() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let at = |name: &str| folder.path().join(name).display().to_string();
        let host = output("hostname", &["-s"]).ok_or("there is no hostname")?;
        let user = output("id", &["-un"]).ok_or("there is no id")?;
        // Both are free when they are asked for.
        let ports: Vec<TcpListener> = (0..2)
            .map(|_| TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string()))
            .collect::<Result<_, _>>()?;
        let port = |i: usize| ports[i].local_addr().map(|a| a.port()).map_err(|e| e.to_string());
        let lines = [
            "ClusterName=one".to_owned(),
            format!("SlurmctldHost={host}(127.0.0.1)"),
            format!("SlurmUser={user}"),
            format!("SlurmdUser={user}"),
            format!("SlurmctldPort={}", port(0)?),
            format!("SlurmdPort={}", port(1)?),
            "AuthType=auth/none\nCredType=cred/none".to_owned(),
            format!("StateSaveLocation={}", at("state")),
            format!("SlurmdSpoolDir={}", at("spool")),
            format!("SlurmctldPidFile={}", at("slurmctld.pid")),
            format!("SlurmdPidFile={}", at("slurmd.pid")),
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none".to_owned(),
            "JobAcctGatherType=jobacct_gather/none\nSelectType=select/linear\nReturnToService=2".to_owned(),
            format!("NodeName={host} NodeAddr=127.0.0.1 CPUs=1"),
            "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP".to_owned(),
        ];
        fs::write(at("slurm.conf"), lines.join("\n") + "\n").map_err(|e| e.to_string())?;
        for name in ["state", "spool"] {
            fs::create_dir(at(name)).map_err(|e| e.to_string())?;
        }
        drop(ports);
        let mut slurm = Self { daemons: Vec::new(), folder };
        let arguments: [&[&str]; 2] = [&["-D", "-c"], &["-D", "-N", &host]];
        for (daemon, arguments) in ["slurmctld", "slurmd"].into_iter().zip(arguments) {
            let log = fs::File::create(slurm.folder.path().join(daemon)).map_err(|e| e.to_string())?;
            let started = Command::new(daemon)
                .args(arguments)
                .env("SLURM_CONF", slurm.conf())
                .stdout(log.try_clone().map_err(|e| e.to_string())?)
                .stderr(log)
                .spawn();
            slurm.daemons.push(started.map_err(|e| format!("{daemon} does not start: {e}"))?);
        }
        for _ in 0..300 {
            let nodes = slurm.command("sinfo").args(["-h", "-o", "%t"]).output();
            if nodes.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).trim() == "idle") {
                return Ok(slurm);
            }
            sleep(Duration::from_millis(100));
        }
        let log = |name: &str| fs::read_to_string(slurm.folder.path().join(name)).unwrap_or_default();
        Err(format!("its node does not become idle: {}{}", log("slurmctld"), log("slurmd")))
    }

    fn conf(&self) -> std::path::PathBuf {
        self.folder.path().join("slurm.conf")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.conf());
        command
    }
}

/// The job of the page, and the command that joins its parts.
fn page() -> (String, String) {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/simulations.md"));
    let text = text.expect("there is the page");
    let job = text.split("```bash\n").skip(1).filter_map(|rest| rest.split("```").next());
    let job = job.into_iter().find(|block| block.contains("#SBATCH")).expect("a job").to_owned();
    let merge =
        text.split('`').find(|code| code.starts_with("dfdn simulate --json --merge")).expect("a command");
    (job, merge.to_owned())
}

#[test]
fn a_job_array_computes_the_same_bytes_as_one_run() {
    let (job, merge) = page();
    let line = job.lines().find(|line| line.starts_with("dfdn ")).expect("the command of a task");
    let slurm = match Slurm::start() {
        Ok(slurm) => slurm,
        Err(why) => return eprintln!("skipped: Slurm's job array: {why}"),
    };
    let desk = Desk::new("ring --switches 4", "");
    desk.write("job.sh", &job);
    let program = Path::new(env!("CARGO_BIN_EXE_dfdn")).parent().expect("a folder").display().to_string();
    let path = format!("{program}:{}", std::env::var("PATH").unwrap_or_default());
    let ran = slurm
        .command("sbatch")
        .args(["--wait", "job.sh"])
        .current_dir(desk.folder())
        .env("PATH", path)
        .output()
        .expect("sbatch starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    // The command of a task without its part is the whole sweep.
    let whole = line.split(" --part").next().expect("what is before it").trim_start_matches("dfdn simulate ");
    let whole = desk.timeless(whole.trim_end_matches(" --json"));
    let tasks = (1..).take_while(|i| desk.folder().join(format!("part-{i}.json")).exists()).count();
    assert!(job.contains(&format!("--array=1-{tasks}\n")), "a file for each task");
    let parts: Vec<String> = (1..=tasks).map(|i| format!("part-{i}.json")).collect();
    assert!(merge.ends_with("part-*.json"), "{merge}");
    assert_eq!(desk.timeless(&format!("--merge {}", parts.join(" "))), whole);
}
