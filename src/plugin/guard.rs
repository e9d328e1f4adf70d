//! No panic leaves the plugin: an unwinding panic in an `extern "C"` function would abort OpenSM.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once};

/// Text and location of the last panic on any thread, from the hook.
static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Makes panics leave their text and location for [`guarded`] instead of on standard error. The
/// hook is that of this library's own copy of the standard library; OpenSM and other plugins keep
/// theirs.
pub(super) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(set_hook);
}

fn set_hook() {
    std::panic::set_hook(Box::new(|info| {
        if let Ok(mut last) = LAST.lock() {
            *last = Some(info.to_string());
        }
    }));
}

/// Runs `body`; a panic becomes its text.
pub(super) fn guarded<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let text = LAST.lock().ok().and_then(|mut last| last.take());
        // A payload's own destructor may panic too: it is leaked, not dropped.
        std::mem::forget(payload);
        text.unwrap_or_else(|| "panic without text".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::guarded;

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(guarded(|| 7), Ok(7));
        assert!(guarded(|| -> u8 { panic!("on purpose") }).is_err());
    }
}
