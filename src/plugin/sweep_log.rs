//! A line of JSON after each heavy sweep, for monitoring: the key `sweep_log`.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::pending::Pending;
use super::recheck::Recheck;
use crate::evaluate::channel_load;

/// What is known of the sweep that is under way.
#[derive(Default)]
pub(super) struct SweepLog {
    file: Option<PathBuf>,
    line: Map<String, Value>,
    /// What went wrong last, so that it is said once.
    failed: Option<String>,
}

impl SweepLog {
    /// Begins a line with what was computed.
    ///
    /// - `transition`: what the log says of the way to these tables.
    ///
    /// Cost: O(S D) with S switches and D LIDs, for the loads, if there is a file.
    pub(super) fn begin(&mut self, file: Option<PathBuf>, pending: &Pending, transition: Option<&str>) {
        self.line.clear();
        self.file = file;
        if self.file.is_none() {
            return;
        }
        let Pending { fabric, routed, started, reading, planning, writing, .. } = pending;
        let verdict = &routed.verdict;
        let load = channel_load(fabric, &routed.routes).map_or(0, |load| load.edge_forwarding_index);
        let value = json!({
            "engine": routed.routes.engine,
            "switches": fabric.num_switches(),
            "cas": fabric.adapters().count(),
            "links": fabric.num_links(),
            "vls": verdict.vls_all,
            "sls": verdict.sls_all,
            "nonminimal_share": routed.detours(fabric),
            "max_channel_load": load,
            "multicast_proven": verdict.multicast.is_some(),
            "remarks": routed.routes.remarks,
            "transition": transition,
            "seconds": {
                "reading": reading.as_secs_f64(),
                "computing": routed.computing.as_secs_f64(),
                "verifying": routed.judging.as_secs_f64(),
                "planning": planning.as_secs_f64(),
                "writing": writing.as_secs_f64(),
                "all": started.elapsed().as_secs_f64(),
            },
        });
        if let Value::Object(value) = value {
            self.line = value;
        }
    }

    /// Ends the line with what arrived, and adds it to the file. Returns why that failed, if that is news.
    ///
    /// - `held`: whether the tables from before stay in force.
    pub(super) fn end(&mut self, held: bool, arrived: &Recheck) -> Option<String> {
        let file = self.file.clone()?;
        let mut line = std::mem::take(&mut self.line);
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        line.insert("time".to_owned(), seconds.into());
        line.insert("held".to_owned(), held.into());
        let rows = arrived.between_switches.different + arrived.at_adapters.different;
        line.insert("missing_rows".to_owned(), rows.into());
        line.insert("missing_blocks".to_owned(), arrived.forwarding.missing.into());
        let tables = rows == 0 && arrived.forwarding.missing == 0;
        let in_place = tables && arrived.short_tops.is_empty() && arrived.arbitration.lacking == 0;
        line.insert("in_place".to_owned(), in_place.into());
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        let failed = append(&file, &text).err();
        let news = failed.clone().filter(|failed| self.failed.as_ref() != Some(failed));
        self.failed = failed;
        news
    }
}

/// Adds a line with one write. The file is opened each time, so it may be rotated at any time.
///
/// # Errors
/// The file, and why it cannot be written. What is no regular file is refused, as it might block.
fn append(path: &Path, line: &str) -> Result<(), String> {
    let open = || -> std::io::Result<File> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o644).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path)?;
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(std::io::Error::other("it is not a regular file"))
        }
    };
    let written = open().and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|error| format!("sweep_log {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_and_a_failure_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sweeps.json");
        let mut log = SweepLog { file: Some(file.clone()), ..SweepLog::default() };
        for held in [false, true] {
            assert_eq!(log.end(held, &Recheck::default()), None);
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0]["in_place"] == true && lines[0]["held"] == false && lines[1]["held"] == true);
        assert!(lines[1]["time"].as_u64().unwrap() > 1_700_000_000);
        log.file = Some(folder.path().to_owned());
        assert!(log.end(false, &Recheck::default()).is_some_and(|why| why.contains("sweep_log")));
        assert_eq!(log.end(false, &Recheck::default()), None);
    }

    #[test]
    fn without_a_file_nothing_is_written() {
        assert_eq!(SweepLog::default().end(false, &Recheck::default()), None);
    }
}
