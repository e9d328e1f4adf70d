//! The event loop's part of a change of tables: failures, management packets, and packets that are lost.

use super::kernel::Kernel;
use super::network::NONE;
use super::update::Action;

impl Kernel<'_> {
    /// Does what is next; returns when the one after it is due, if that does not depend on the network.
    pub(super) fn advance(&mut self) -> Option<u64> {
        let now = self.now;
        let motion = self.motion.as_mut()?;
        let (interval, barrier) = (motion.script.update.interval, motion.script.update.barrier);
        let action = motion.actions.pop()?;
        let mut pause = 0;
        if let Action::Empty(step) = action {
            if let Some(again) = self.drain(step) {
                self.motion.as_mut()?.actions.push(action);
                return Some(again);
            }
        }
        let motion = self.motion.as_mut()?;
        match action {
            Action::Fail => {
                motion.report.failed = now;
                let script = motion.script;
                script.failed.iter().for_each(|&wire| motion.dead[wire as usize] = true);
                for (host, _) in script.cut_off.iter().enumerate().filter(|(_, cut)| **cut) {
                    self.senders[host].silence();
                }
                script.failed.iter().for_each(|&wire| self.drop_waiting(wire));
            }
            Action::Write(step, mad) => {
                let script = motion.script;
                motion.live.write(&script.steps[step][mad]);
                motion.report.mads += 1;
            }
            Action::Barrier | Action::Empty(_) => {}
            Action::GoOver(step) => motion.paths = motion.script.paths[step],
            Action::Stop => motion.stopped = true,
            Action::Drain => {
                motion.draining = motion.inside > 0;
                if motion.draining {
                    return None;
                }
            }
            Action::Go => {
                (motion.stopped, motion.went_on) = (false, now);
                motion.report.stopped = now - motion.report.failed;
                (0..self.net.hosts.len()).for_each(|host| self.serve(self.net.injection(host)));
            }
        }
        let motion = self.motion.as_mut()?;
        match motion.actions.last() {
            Some(Action::Write(..)) => pause = interval,
            Some(Action::Barrier) => pause = barrier,
            Some(_) => {}
            None => {
                motion.report.programmed = Some(now);
                self.span.until = self.span.until.min(now.saturating_add(self.span.afterwards));
                return None;
            }
        }
        Some(now + pause)
    }

    /// Drops all heads that wait for a wire that has failed.
    fn drop_waiting(&mut self, wire: u32) {
        for vl in 0..self.net.vls as u32 {
            let lane = self.net.wires[wire as usize].lane(vl) as usize;
            let mut q = std::mem::replace(&mut self.slots[lane].first, NONE);
            self.slots[lane].last = NONE;
            while q != NONE {
                let next = self.slots[q as usize].next;
                self.drop_head(q, true);
                q = next;
            }
        }
        self.wires[wire as usize].waiting = 0;
    }

    /// Drops the head of a queue, which waits for nothing.
    ///
    /// - `without_link`: its entry leads to a port without a link.
    pub(super) fn drop_head(&mut self, q: u32, without_link: bool) {
        let net = self.net;
        let slot = &self.slots[q as usize];
        let (p, behind) = (slot.head, slot.wire);
        let packet = self.packets[p as usize];
        let through = self.now.max(packet.ready + u64::from(packet.tail));
        self.leave(q, packet.next, through, packet.credits(), false);
        self.packets[p as usize].next = self.free;
        self.free = p;
        let Some(motion) = self.motion.as_mut() else { return };
        let to = net.host_of_lid[usize::from(packet.dlid)];
        motion.lose(self.now, packet.source.into(), to, without_link);
        if let Some(pause) = if behind == NONE { None } else { motion.leaves() } {
            self.update_at(through + pause);
        }
    }
}
