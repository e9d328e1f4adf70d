//! What goes on, on a terminal only.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on standard error that says what goes on and for how long. It is gone with the value, and
/// never there where standard error is no terminal.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Of work whose share done is not known.
    pub(super) fn on(what: impl Into<Cow<'static, str>>) -> Self {
        let progress = Self::new(ProgressBar::no_length(), "{spinner} {msg} {elapsed}");
        progress.say(what);
        progress
    }

    /// Of work in steps.
    pub(super) fn steps(count: usize) -> Self {
        Self::new(ProgressBar::new(count as u64), "{bar:30} {pos}/{len} {msg} {elapsed}")
    }

    fn new(bar: ProgressBar, template: &str) -> Self {
        let terminal = io::stderr().is_terminal();
        bar.set_draw_target(if terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if terminal {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Self(bar)
    }

    /// What is being done now.
    pub(super) fn say(&self, what: impl Into<Cow<'static, str>>) {
        self.0.set_message(what);
    }

    /// One more step is done.
    pub(super) fn done(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
