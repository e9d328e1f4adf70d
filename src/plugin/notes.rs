//! Remarks that are made once, not in each sweep.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// Remarks about the fabric that apply at present.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<BTreeSet<String>>);

impl Notes {
    /// Replaces the remarks by those of this sweep. Returns what to report: new remarks, and those
    /// that no longer apply.
    pub(super) fn news(&self, now: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut held = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now: BTreeSet<String> = now.into_iter().collect();
        let over = held.difference(&now).map(|note| format!("no longer so: {note}"));
        let news = over.chain(now.difference(&held).cloned()).collect();
        *held = now;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::Notes;

    #[test]
    fn each_note_is_said_once_and_once_when_it_is_over() {
        let notes = Notes::default();
        let say = |now: &[&str]| notes.news(now.iter().map(|&n| n.to_owned()));
        assert_eq!(say(&["b", "a"]), ["a", "b"]);
        assert!(say(&["a", "b"]).is_empty());
        assert_eq!(say(&["b", "c"]), ["no longer so: a", "c"]);
        assert_eq!(say(&[]), ["no longer so: b", "no longer so: c"]);
        assert_eq!(say(&["a"]), ["a"]);
    }
}
