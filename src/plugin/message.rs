//! The log lines: each kind has a stable id, which `docs/log-lines.md` explains.

use super::abi::{OSM_LOG_ERROR, OSM_LOG_INFO, OSM_LOG_SYS, OSM_LOG_VERBOSE};

/// The longest text that is logged, in bytes. `osm_log` formats into a buffer of 4096 bytes on the
/// stack, and a longer message aborts OpenSM.
const MAX_BYTES: usize = 3500;

macro_rules! messages {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $level:ident;)*) => {
        /// A kind of log line. An id never changes its meaning and is never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Message {
            $($(#[doc = $doc])* $name,)*
        }

        impl Message {
            /// All kinds.
            #[cfg(test)]
            const ALL: &[Message] = &[$(Message::$name,)*];

            /// The id.
            pub(super) fn code(self) -> &'static str {
                match self { $(Message::$name => $code,)* }
            }

            fn level(self) -> Level {
                match self { $(Message::$name => Level::$level,)* }
            }
        }
    };
}

messages! {
    /// The engine is registered; OpenSM will ask it for tables.
    Ready = "DF01", Info;
    /// `qos` was off and has been turned on: without it OpenSM programs no SL2VL tables.
    QosForcedOn = "DF02", Loud;
    /// Tables were computed, verified and handed to OpenSM.
    Routed = "DF03", Info;
    /// A part of the fabric that was left out or is not covered.
    FabricNote = "DF04", Info;
    /// The acknowledged tables are those that were verified.
    Programmed = "DF05", Info;
    /// How the switches get from the tables in force to new ones.
    Transition = "DF11", Info;
    /// `psl` was written.
    PslWritten = "DF06", Verbose;
    /// `psl` was not written, and why.
    PslSkipped = "DF07", Info;
    /// A deliberate panic was requested.
    Drill = "DF08", Loud;
    /// The settings in force, when they are new.
    Settings = "DF09", Info;
    /// An engine other than `dfdn` was refused because its name is in use.
    EngineRefused = "DF10", Info;
    /// A multicast group was routed on its tree.
    GroupRouted = "DF12", Verbose;
    /// Options of `opensm.conf` without effect on dfdn, when they are new.
    IgnoredOption = "DF15", Loud;
    /// Fewer threads could be started than there are cores.
    FewerThreads = "DF17", Loud;
    /// `routing_engine` names none of our engines.
    NotAsked = "DF16", Loud;
    /// Registration failed.
    NotRegistered = "DF20", Error;
    /// OpenSM's structures cannot be read as a fabric.
    SnapshotFailed = "DF21", Error;
    /// The fabric cannot be routed, or not with its lanes.
    RouteFailed = "DF22", Error;
    /// OpenSM's tables do not fit what was computed.
    CommitFailed = "DF23", Error;
    /// Forwarding tables were requested without lid matrices before.
    NothingToCommit = "DF24", Error;
    /// Rows or blocks of tables were not acknowledged as sent; another sweep was requested.
    RowsDiffer = "DF25", Loud;
    /// They still differ after several sweeps.
    RowsStayDifferent = "DF26", Error;
    /// `psl` could not be written.
    PslFailed = "DF27", Error;
    /// The configuration file cannot be read, makes no sense, or does not fit the fabric.
    ConfigFailed = "DF28", Error;
    /// The fabric could not be routed, and tables from before stay in force.
    Held = "DF29", Error;
    /// A multicast group has an SL that no tree serves, so it is not routed.
    GroupNotServed = "DF30", Error;
    /// The subnet differs from what was routed at a multicast group's tree.
    GroupHasGap = "DF31", Loud;
    /// A way from the tables in force to new ones that is not proven free of credit loops.
    TransitionNotProven = "DF32", Loud;
    /// `sweep_log` could not be written.
    SweepLogFailed = "DF33", Loud;
    /// There is less memory than routing the fabric needs.
    TooLittleMemory = "DF35", Error;
    /// A defect in dfdn; OpenSM continues without it.
    Panic = "DF99", Error;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Loud,
    Info,
    Verbose,
}

impl Message {
    /// OpenSM's log flags for the line. Errors and unexpected events also go to the system log.
    pub(super) fn flags(self) -> u8 {
        let flags = match self.level() {
            Level::Error => OSM_LOG_ERROR | OSM_LOG_SYS,
            Level::Loud => OSM_LOG_INFO | OSM_LOG_SYS,
            Level::Info => OSM_LOG_INFO,
            Level::Verbose => OSM_LOG_VERBOSE,
        };
        flags as u8
    }

    /// The whole line: id and text, on one line, short enough for `osm_log`.
    pub(super) fn line(self, text: &str) -> String {
        let error = if self.level() == Level::Error { "ERR " } else { "" };
        let mut line = format!("dfdn: {error}{}: {text}", self.code());
        if line.len() > MAX_BYTES {
            let cut = (0..=MAX_BYTES - 4).rev().find(|&i| line.is_char_boundary(i)).unwrap_or(0);
            line.truncate(cut);
            line.push_str(" ...");
        }
        line.replace(|c: char| c.is_control(), " ")
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, Message};

    #[test]
    fn ids_are_unique() {
        let mut codes: Vec<_> = Message::ALL.iter().map(|m| m.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Message::ALL.len());
    }

    #[test]
    fn lines_are_short_and_single() {
        let text = "é\n%s%n\t".repeat(4000);
        let line = Message::Panic.line(&text);
        assert!(line.len() <= MAX_BYTES, "{}", line.len());
        assert!(line.starts_with("dfdn: ERR DF99: é "));
        assert!(!line.contains(char::is_control));
    }
}
