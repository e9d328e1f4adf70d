//! OpenSM's sweeps, according to its log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use super::opensm::OpenSm;
use super::wait_for;

/// New lines of a growing file. An hour's log is too long to be read from its start each time.
pub(crate) struct Tail {
    file: PathBuf,
    read: u64,
    partial: Vec<u8>,
}

impl Tail {
    /// Starts at the file's beginning; it need not exist yet.
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file, read: 0, partial: Vec::new() }
    }

    /// The complete lines added since the last call.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        let Ok(mut file) = File::open(&self.file) else { return Vec::new() };
        file.seek(SeekFrom::Start(self.read)).expect("a log can be read from its middle");
        let came = file.read_to_end(&mut self.partial).expect("a log can be read");
        self.read += came as u64;
        let Some(end) = self.partial.iter().rposition(|&b| b == b'\n') else { return Vec::new() };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
    }
}

/// How a sweep ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// SUBNET UP.
    Up,
    /// SUBNET UP with the tables from before, as dfdn could not route the fabric; its message.
    Held(Vec<String>),
    /// No engine routed the fabric; the errors of dfdn.
    Refused(Vec<String>),
    /// OpenSM had errors while it configured the subnet, and will sweep again.
    Errors,
    /// The port that OpenSM runs on is down.
    PortDown,
}

/// Follows the log of one OpenSM.
pub(crate) struct Sweeps {
    log: Tail,
    started: usize,
    /// Number and result of the last sweep that ended.
    ended: Option<(usize, End)>,
    /// Lines of dfdn since the sweep began.
    ours: Vec<String>,
    /// Whether everything written after SUBNET UP (`psl` is the last) is written.
    written: bool,
    /// Sweeps that dfdn requested and that have not begun.
    asked: bool,
    /// All errors of dfdn except refusals, with their ids.
    pub(crate) defects: Vec<String>,
}

impl Sweeps {
    /// For an OpenSM that runs with log flags 0x47, as [`OpenSm::start`] starts it.
    pub(crate) fn of(sm: &OpenSm) -> Self {
        Self {
            log: Tail::new(sm.path("opensm.log")),
            started: 0,
            ended: None,
            ours: Vec::new(),
            written: false,
            asked: false,
            defects: Vec::new(),
        }
    }

    /// Number of heavy sweeps that have begun.
    pub(crate) fn started(&self) -> usize {
        self.started
    }

    /// Lines of dfdn in the last sweep.
    pub(crate) fn said(&self) -> &[String] {
        &self.ours
    }

    fn look(&mut self) {
        for line in self.log.lines() {
            if line.contains("INITIATING HEAVY SWEEP") {
                self.started += 1;
                self.ours.clear();
                self.written = false;
                self.asked = false;
            } else if line.contains("-> SUBNET UP") {
                let held = self.ours.iter().any(|line| line.starts_with("ERR DF29"));
                let end = if held { End::Held(self.ours.clone()) } else { End::Up };
                self.ended = Some((self.started, end));
            } else if line.contains("Errors during initialization") {
                self.ended = Some((self.started, End::Errors));
            } else if line.contains("No routing engine able") {
                self.ended = Some((self.started, End::Refused(self.ours.clone())));
            } else if line.contains("SM port is down") {
                self.ended = Some((self.started, End::PortDown));
            } else if let Some((_, text)) = line.split_once("dfdn: ") {
                let refusal = ["DF21", "DF22", "DF29"].iter().any(|id| text.contains(id));
                if text.starts_with("ERR") && !refusal {
                    self.defects.push(text.to_owned());
                }
                self.asked |= text.starts_with("DF25") || another_step(text);
                self.written |= ["DF06", "DF07", "ERR DF27"].iter().any(|id| text.starts_with(id));
                self.ours.push(text.to_owned());
            }
        }
    }

    /// Makes OpenSM sweep and waits until a sweep that began after this call has ended and no
    /// requested sweep is pending.
    ///
    /// # Panics
    /// With OpenSM's log, if it ends or does not settle within two minutes.
    pub(crate) fn settle(&mut self, sm: &mut OpenSm) -> End {
        self.look();
        let before = self.started;
        sm.hang_up();
        self.rest(sm, before)
    }

    /// Waits until a sweep with a number above `before` has ended and no requested sweep is
    /// pending.
    pub(crate) fn rest(&mut self, sm: &mut OpenSm, before: usize) -> End {
        let mut alive = true;
        let end = wait_for(Duration::from_secs(120), || {
            self.look();
            alive = sm.alive();
            let (number, end) = self.ended.as_ref()?;
            let over = *number > before && *number == self.started && !self.asked;
            let whole = !matches!(end, End::Up | End::Held(_)) || self.written;
            // OpenSM sweeps again by itself after errors.
            let last = *end != End::Errors;
            (!alive || over && whole && last).then(|| end.clone())
        });
        match end {
            Some(end) if alive => end,
            _ => {
                let log = sm.log();
                let tail: Vec<&str> = log.lines().rev().take(80).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                panic!("OpenSM does not come to rest (alive: {alive}):\n{}\n{}", tail.join("\n"), sm.output())
            }
        }
    }
}

/// Whether a line about a transition says that a further sweep follows.
fn another_step(text: &str) -> bool {
    let Some(text) = text.strip_prefix("DF11: ") else { return false };
    match text.strip_prefix("step ").and_then(|text| text.split_once(" of ")) {
        Some((step, of)) => step != of,
        None => text.contains("a sweep each"),
    }
}
