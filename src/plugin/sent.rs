//! Checks after tables were sent whether they arrived.

use std::sync::atomic::Ordering;

use super::distrust::{Change, When, faulty_links, faulty_switches};
use super::hold::InForce;
use super::instance::{Plugin, Sent, locked};
use super::message::Message;
use super::psl;
use super::recheck::{Recheck, recheck};
use super::retry::{self, Lacking};
use crate::fabric::Guid;

/// Number of consecutive sweeps that may leave tables out of place before it counts as an error.
const SURPRISES: u32 = 3;

impl Plugin {
    /// OpenSM has sent tables, ours or another engine's, and they were acknowledged or not.
    pub(super) fn tables_sent(&self) {
        if self.is_ours() {
            self.sent.store(Sent::Ours as u8, Ordering::Relaxed);
            let in_force = self.in_force.load();
            let Some(in_force) = in_force.as_deref() else { return };
            if in_force.hold.is_some() {
                // Otherwise OpenSM would continue with these tables without a new computation.
                self.host.locked_exclusively(|| self.host.forget_cache());
                self.retry_later.store(true, Ordering::Relaxed);
            } else {
                self.count_faulty(in_force);
            }
            self.recheck(in_force);
        } else {
            let with_sls = self.host.engine_used().is_some_and(|engine| engine.path_sl.is_some());
            let sent = if with_sls { Sent::WithSls } else { Sent::WithoutSls };
            self.sent.store(sent as u8, Ordering::Relaxed);
            self.known_rows.sent_by_another();
            locked(&self.transit).forget();
            for count in [
                &self.failures,
                &self.failures_at_adapters,
                &self.failures_of_tops,
                &self.failures_of_arbitration,
                &self.failures_of_links,
            ] {
                count.is_over();
            }
            self.retry.cancel();
        }
    }

    /// Counts the switches that do not accept their tables. Leaving one out, or routing it again, needs a
    /// sweep.
    fn count_faulty(&self, in_force: &InForce) {
        let (faults, switches) = self.host.locked(|| faulty_switches(&self.host, &in_force.programmed));
        match self.distrust.count(When::TablesSent, &faults, switches, |guid| self.is_there(guid)) {
            Change::Routes => self.ask_for_sweep(),
            Change::Waits => self.retry_later.store(true, Ordering::Relaxed),
            Change::None => {}
        }
    }

    /// Whether OpenSM knows a node.
    fn is_there(&self, guid: Guid) -> bool {
        self.host.locked(|| self.host.node(guid.0.to_be()).is_some())
    }

    /// Requests another heavy sweep that asks our engine again, whatever OpenSM has cached. Threads that receive MADs set the
    /// same flag under OpenSM's lock.
    fn ask_for_sweep(&self) {
        self.host.locked_exclusively(|| self.host.route_anew());
    }

    /// Counts the links that did not come up. Avoiding one, or using it again, needs a sweep.
    fn count_links(&self) {
        let in_force = self.in_force.load();
        let Some(in_force) = in_force.as_deref().filter(|_| self.is_ours()) else { return };
        let (faults, links) = self.host.locked(|| faulty_links(&self.host, &in_force.programmed));
        let change = self.distrust.count(When::SubnetUp, &faults, links, |guid| self.is_there(guid));
        let new = faults.difference(&in_force.faults).count();
        match change {
            Change::Routes => {
                self.retry.cancel();
                self.ask_for_sweep();
            }
            Change::Waits => self.retry_later.store(true, Ordering::Relaxed),
            Change::None => {}
        }
        if new == 0 {
            self.failures_of_links.is_over();
        } else if change != Change::Routes {
            let text =
                format!("{new} of {links} links between switches are not in state ACTIVE at both ends");
            self.out_of_place(&text, &self.failures_of_links, "packets over them are lost");
        }
    }

    /// The sweep is over.
    pub(super) fn subnet_up(&self) {
        locked(&self.transit).swept(self.host.had_errors());
        self.count_links();
        if self.retry_later.swap(false, Ordering::Relaxed) {
            self.host.make_next_sweep_heavy();
        }
        if !self.host.dumps_routing() {
            return;
        }
        let ours = self.is_ours();
        if ours && self.in_force.load().as_deref().is_some_and(|in_force| in_force.hold.is_some()) {
            // Memory may be short, and the SLs are those of earlier tables.
            self.host.log(Message::PslSkipped, "psl stays as it is: the tables from before are in force");
        } else {
            self.write_psl(ours);
        }
    }

    /// Checks for tables that were clipped or not acknowledged, and requests another sweep if there
    /// are any.
    fn recheck(&self, in_force: &InForce) {
        let found = self.host.locked(|| recheck(&self.host, in_force));
        if let Some(why) = locked(&self.sweep_log).end(in_force.hold.is_some(), &found) {
            self.host.log(Message::SweepLogFailed, &why);
        }
        let Recheck { between_switches, at_adapters, forwarding, short_tops, arbitration } = found;
        let rows = between_switches.compared + at_adapters.compared;
        let safe = between_switches.different == 0 && forwarding.missing == 0;
        if safe {
            self.failures.is_over();
        }
        if at_adapters.different == 0 {
            self.failures_at_adapters.is_over();
        }
        if short_tops.is_empty() {
            self.failures_of_tops.is_over();
        }
        if arbitration.lacking == 0 {
            self.failures_of_arbitration.is_over();
        }
        // The rows of adapters make no credit loop, so the way goes on without them.
        let arrived = safe && short_tops.is_empty() && in_force.hold.is_none();
        if arrived && locked(&self.transit).arrived() {
            self.ask_for_sweep();
        }
        if safe && at_adapters.different == 0 && short_tops.is_empty() {
            if arbitration.lacking > 0 {
                let danger = "packets on such a VL wait, and those behind them";
                self.out_of_place(&arbitration.in_words(), &self.failures_of_arbitration, danger);
            } else {
                if !self.failures_of_links.lasts() {
                    self.retry.cancel();
                }
                let text = format!(
                    "all {rows} SL2VL rows that matter and all {} blocks of forwarding tables are in place as verified",
                    forwarding.compared
                );
                self.host.log(Message::Programmed, &text);
            }
        } else if safe && at_adapters.different == 0 {
            let danger = "such a switch drops packets";
            self.out_of_place(&short_tops.join("; "), &self.failures_of_tops, danger);
        } else if safe {
            let danger = "links to adapters do not keep classes of service apart, which makes no credit loop";
            self.out_of_place(&at_adapters.in_words(), &self.failures_at_adapters, danger);
        } else {
            let mut what = Vec::new();
            if between_switches.different > 0 {
                what.push(between_switches.in_words());
            }
            if forwarding.missing > 0 {
                what.push(forwarding.in_words());
            }
            self.out_of_place(&what.join("; "), &self.failures, "the fabric is not safe from credit loops");
        }
    }

    /// Requests another sweep; the delay grows with each sweep of ours that did not help. `danger`: the consequence
    /// until then.
    fn out_of_place(&self, what: &str, failures: &Lacking, danger: &str) {
        let Some(count) = failures.found(what, self.retry.is_pending()) else { return };
        if count > 1 {
            // The same tables from OpenSM's cache would not fit better.
            self.host.locked_exclusively(|| self.host.forget_cache());
        }
        let wait = self.retry.after(&self.host, retry::wait(count));
        if wait.is_none() {
            self.retry_later.store(true, Ordering::Relaxed);
        }
        let when = match wait.map(|wait| wait.as_secs_f64().ceil() as u64) {
            None => "at the next regular sweep".to_owned(),
            Some(0) => "at once".to_owned(),
            Some(seconds) => format!("in {seconds} s"),
        };
        if count <= SURPRISES {
            let text = format!(
                "{what}. Until another heavy sweep, which is asked for {when} and which opensm -o does not make, \
                 {danger}"
            );
            self.host.log(Message::RowsDiffer, &text);
        } else {
            let text = format!(
                "{what}, after {} more sweeps: {danger}. Look for failed MADs above and for nodes that refuse their \
                 tables. Tried again {when}",
                count - 1
            );
            self.host.log(Message::RowsStayDifferent, &text);
        }
    }

    fn write_psl(&self, ours: bool) {
        let in_force = self.in_force.load();
        let path_sl = in_force.as_deref().filter(|_| ours).map(|f| &f.programmed.routes.path_sl);
        match self.host.locked(|| psl::write(&self.host, path_sl)) {
            Ok(psl::Outcome::Written(endports)) => {
                self.host.log(Message::PslWritten, &format!("SLs of {endports} end ports written to psl"));
            }
            Ok(psl::Outcome::Skipped(why)) => self.host.log(Message::PslSkipped, &format!("no psl: {why}")),
            Err(why) => self.host.log(Message::PslFailed, &why),
        }
    }
}
