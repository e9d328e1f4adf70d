//! Remarks that are made once, not in each sweep.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// Most remarks that are reported in one sweep.
const MOST: usize = 200;

/// Remarks about the fabric that apply at present.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<BTreeSet<String>>);

impl Notes {
    /// Replaces the remarks by those of this sweep. Returns what to report: new remarks, and those
    /// that no longer apply; from [`MOST`] on only their number.
    pub(super) fn news(&self, now: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut held = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now: BTreeSet<String> = now.into_iter().collect();
        let over = held.difference(&now).map(|note| format!("no longer so: {note}"));
        let mut news: Vec<String> = over.chain(now.difference(&held).cloned()).collect();
        *held = now;
        if news.len() > MOST {
            let more = news.len() - MOST;
            news.truncate(MOST);
            news.push(format!("{more} more such remarks are not shown"));
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Notes};

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

    #[test]
    fn a_flood_is_counted() {
        let notes = Notes::default();
        let many = |n: usize| (0..n).map(|i| format!("{i:04}"));
        assert_eq!(notes.news(many(MOST)).len(), MOST);
        let news = Notes::default().news(many(MOST + 3));
        assert_eq!((news.len(), news[MOST].as_str()), (MOST + 1, "3 more such remarks are not shown"));
        // What is not shown is known all the same.
        assert!(notes.news(many(MOST)).is_empty());
    }
}
