//! Deliberate failures, to see how OpenSM reacts, with the library that is deployed.

use std::sync::atomic::{AtomicU32, Ordering};

/// Environment variable that names a callback that shall panic: always (`path_sl`), or after a
/// number of calls (`build_lid_matrices:3`).
const VARIABLE: &str = "DFDN_DRILL_PANIC";

/// A callback that shall panic.
#[derive(Debug)]
pub(super) struct Drill {
    name: String,
    /// Number of calls that still succeed.
    spared: AtomicU32,
}

impl Drill {
    /// The drill that [`VARIABLE`] asks for.
    pub(super) fn from_environment() -> Option<Self> {
        std::env::var(VARIABLE).ok().map(|text| Self::new(&text))
    }

    fn new(text: &str) -> Self {
        let counted = text.rsplit_once(':').and_then(|(name, count)| Some((name, count.parse().ok()?)));
        let (name, spared) = counted.unwrap_or((text, 0));
        Self { name: name.to_owned(), spared: AtomicU32::new(spared) }
    }

    /// What will happen.
    pub(super) fn describe(&self) -> String {
        let (name, spared) = (&self.name, self.spared.load(Ordering::Relaxed));
        let after = if spared > 0 { format!(" after {spared} calls") } else { String::new() };
        format!("{VARIABLE} is set: {name} will panic on purpose{after}")
    }

    /// Called at the start of each callback.
    ///
    /// # Panics
    /// If this is the callback and enough calls have succeeded.
    pub(super) fn at(&self, name: &str) {
        if self.name == name {
            let spare = |left: u32| left.checked_sub(1);
            let spared = self.spared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spare).is_ok();
            assert!(spared, "{VARIABLE}={name} asks for it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Drill;

    fn fails(drill: &Drill, name: &str) -> bool {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drill.at(name))).is_err()
    }

    #[test]
    fn calls_are_spared_as_asked() {
        let always = Drill::new("setup");
        assert!(fails(&always, "setup") && !fails(&always, "create"));
        let third = Drill::new("setup:2");
        assert_eq!([(); 4].map(|()| fails(&third, "setup")), [false, false, true, true]);
    }
}
