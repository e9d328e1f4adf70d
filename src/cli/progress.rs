//! Progress, on a terminal only.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on standard error with the current work and its time. It disappears with the value, and
/// never appears if standard error is not a terminal.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// For work of unknown length.
    pub(super) fn on(what: impl Into<Cow<'static, str>>) -> Self {
        let progress = Self::new(ProgressBar::no_length(), "{spinner} {msg} {elapsed}");
        progress.say(what);
        progress
    }

    /// For work in steps.
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

    /// States the current work.
    pub(super) fn say(&self, what: impl Into<Cow<'static, str>>) {
        self.0.set_message(what);
    }

    /// Counts a finished step.
    pub(super) fn done(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
