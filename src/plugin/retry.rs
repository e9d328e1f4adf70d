//! Sweeps requested because tables did not arrive: at once, then with growing delays.
//!
//! A node that keeps refusing a table must not make the whole fabric be swept again and again.
//! OpenSM reports nothing between two heavy sweeps, so a thread waits. It starts with the plugin: later, a new thread
//! may find no memory for its thread-local data, and then the C library ends OpenSM. It is joined when the plugin is
//! deleted.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::host::Host;

/// The first wait; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The delay after the `failures`-th incomplete sweep in a row, counted from 1. The first retry
/// follows at once, as what was clipped in a first sweep is in place after a second.
pub(super) fn wait(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        n => FIRST_WAIT.saturating_mul(1 << (n - 2).min(16)).min(LONGEST_WAIT),
    }
}

/// Requests sweeps after a delay.
#[derive(Debug)]
pub(super) struct Retry {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// When to request a sweep.
    due: Option<Instant>,
    over: bool,
}

impl Retry {
    /// Nothing is pending.
    pub(super) fn new(host: Host) -> Self {
        Self::asking(move || host.force_heavy_sweep())
    }

    fn asking(ask: impl Fn() + Send + 'static) -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let waiting = shared.clone();
        let named = std::thread::Builder::new().name("dfdn-retry".to_owned()).stack_size(256 << 10);
        Self { shared, thread: named.spawn(move || waiting.run(ask)).ok() }
    }

    /// Requests a heavy sweep after a delay; a pending one that is due before stays. Returns when it comes, `None` if no
    /// thread could be started to wait; then none is requested.
    pub(super) fn after(&self, host: &Host, wait: Duration) -> Option<Duration> {
        if wait.is_zero() {
            self.cancel();
            host.force_heavy_sweep();
            return Some(wait);
        }
        self.thread.as_ref()?;
        let now = Instant::now();
        let due = now + wait;
        let mut state = self.shared.lock();
        let due = state.due.map_or(due, |before| before.min(due));
        state.due = Some(due);
        drop(state);
        self.shared.changed.notify_all();
        Some(due.saturating_duration_since(now))
    }

    /// Whether a sweep will be requested.
    pub(super) fn is_pending(&self) -> bool {
        self.shared.lock().due.is_some()
    }

    /// Cancels a pending request.
    pub(super) fn cancel(&self) {
        self.shared.lock().due = None;
    }
}

/// What is not in place, of one kind, and how many sweeps of ours did not help.
#[derive(Debug, Default)]
pub(super) struct Lacking(Mutex<(u32, String)>);

impl Lacking {
    fn lock(&self) -> MutexGuard<'_, (u32, String)> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// All is in place.
    pub(super) fn is_over(&self) {
        *self.lock() = Default::default();
    }

    /// Whether something was not in place after the last sweep.
    pub(super) fn lasts(&self) -> bool {
        self.lock().0 > 0
    }

    /// Takes note of what is not in place after a sweep, and returns how many did not help. While one of ours is still to come,
    /// others asked for this one: it does not count then, and there is nothing to say if it shows the same (`None`).
    pub(super) fn found(&self, what: &str, is_pending: bool) -> Option<u32> {
        let mut known = self.lock();
        let is_others = known.0 > 0 && is_pending;
        if is_others && known.1 == what {
            return None;
        }
        *known = (known.0.saturating_add(u32::from(!is_others)), what.to_owned());
        Some(known.0)
    }
}

impl Drop for Retry {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn run(&self, ask: impl Fn()) {
        let mut state = self.lock();
        while !state.over {
            let now = Instant::now();
            match state.due {
                None => state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
                Some(due) if due <= now => {
                    state.due = None;
                    drop(state);
                    ask();
                    state = self.lock();
                }
                Some(due) => {
                    let waited = self.changed.wait_timeout(state, due - now);
                    state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn waits_double_up_to_an_hour() {
        let seconds: Vec<u64> = (0..8).map(|n| wait(n).as_secs()).collect();
        assert_eq!(seconds, [0, 0, 1, 2, 4, 8, 16, 32]);
        assert_eq!([wait(14), wait(1000), wait(u32::MAX)], [LONGEST_WAIT; 3]);
        assert!(wait(13) < LONGEST_WAIT);
    }

    /// Hosts that come and go bring many sweeps, in which nothing was tried.
    #[test]
    fn only_sweeps_of_ours_count() {
        let lacking = Lacking::default();
        assert_eq!((lacking.lasts(), lacking.found("a", true)), (false, Some(1)));
        assert_eq!(
            [("a", true), ("a", true), ("b", true), ("b", true), ("b", false)]
                .map(|(what, is_pending)| { lacking.found(what, is_pending) }),
            [None, None, Some(1), None, Some(2)]
        );
        lacking.is_over();
        assert_eq!((lacking.lasts(), lacking.found("b", false)), (false, Some(1)));
    }

    #[test]
    fn it_asks_once_when_it_is_due_and_ends_when_told() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let retry = Retry::asking(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        retry.shared.lock().due = Some(Instant::now() + Duration::from_millis(20));
        retry.shared.changed.notify_all();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        retry.shared.lock().due = Some(Instant::now() + Duration::from_secs(3600));
        retry.cancel();
        drop(retry);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
