//! Threads of our own that end with the work.

use std::cell::OnceCell;
use std::num::NonZeroUsize;

use rayon::{ThreadPool, ThreadPoolBuilder};

thread_local! {
    /// A pool of only this thread; rayon allows a thread to make one only once.
    static ALONE: OnceCell<ThreadPool> = const { OnceCell::new() };
}

/// The number of threads wanted: one per core.
pub(super) fn wanted() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Runs `body` with a thread per core and joins all threads before it returns: a thread that
/// outlived the library would run in unmapped memory after OpenSM closed it. If the system does not
/// allow that many threads (`ulimit -u`, a limit of its control group), tries half as many and so
/// on, finally only the calling thread. Tables do not depend on the number.
///
/// Returns the result of `body` and the number of threads.
///
/// # Errors
/// What went wrong, as text.
pub(super) fn in_own_threads<T: Send>(body: impl FnOnce() -> T + Send) -> Result<(T, usize), String> {
    let mut body = Some(body);
    let mut threads = wanted();
    while threads > 0 && body.is_some() {
        let builder = ThreadPoolBuilder::new().num_threads(threads);
        // The body is taken only after all threads have started.
        let run = |pool: &ThreadPool| pool.install(|| body.take().map(|body| body()));
        if let Ok(Some(value)) = builder.build_scoped(|thread| thread.run(), run) {
            return Ok((value, threads));
        }
        threads /= 2;
    }
    let body = body.ok_or("the work began and did not end")?;
    ALONE.with(|alone| {
        if alone.get().is_none() {
            let pool = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
            let _ = alone.set(pool.map_err(|error| format!("no thread can be started, and {error}"))?);
        }
        let pool = alone.get().ok_or("no thread can be started")?;
        Ok((pool.install(body), 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;

    #[test]
    fn there_are_as_many_as_cores() {
        let (sum, threads) = in_own_threads(|| (0..1000_u64).into_par_iter().sum::<u64>()).expect("threads");
        assert_eq!((sum, threads), (499_500, wanted()));
    }
}
