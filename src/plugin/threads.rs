//! Threads of our own, which end with the work.

use std::cell::OnceCell;
use std::num::NonZeroUsize;

use rayon::{ThreadPool, ThreadPoolBuilder};

thread_local! {
    /// A pool of the thread alone, which rayon lets a thread make but once.
    static ALONE: OnceCell<ThreadPool> = const { OnceCell::new() };
}

/// How many threads there should be: one for each core.
pub(super) fn wanted() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Runs `body` with as many threads as there are cores, and joins them before it returns: a thread
/// that outlived the library would run in unmapped memory after OpenSM closed it. Where the system lets
/// the process start no more threads (`ulimit -u`, a limit of its control group), with half as many,
/// and so on, in the end in the calling thread. Tables do not depend on the number.
///
/// Returns what `body` returned, and how many threads there were.
///
/// # Errors
/// The text of what went wrong.
pub(super) fn in_own_threads<T: Send>(body: impl FnOnce() -> T + Send) -> Result<(T, usize), String> {
    let mut body = Some(body);
    let mut threads = wanted();
    while threads > 0 && body.is_some() {
        let builder = ThreadPoolBuilder::new().num_threads(threads);
        // The body is taken only when all threads have started.
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
