//! Nodes that lie to OpenSM.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::opensm::Config;
use super::readback;

/// `tests/tools/falsify.c` and its orders, which may change while OpenSM runs. At first everybody
/// tells the truth.
pub(crate) struct Falsifier {
    library: PathBuf,
    folder: TempDir,
}

impl Falsifier {
    /// # Panics
    /// If the C program does not compile.
    pub(crate) fn new() -> Self {
        let library = readback::compile_shared("falsify").unwrap_or_else(|why| panic!("{why}"));
        Self { library, folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// An OpenSM that receives what the orders say.
    pub(crate) fn config(&self, config: Config) -> Config {
        let mut env = config.env;
        env.push(("LD_PRELOAD".to_owned(), self.library.clone()));
        env.push(("FALSIFY_ORDERS".to_owned(), self.orders()));
        Config { env, ..config }
    }

    /// From the next datagram on, exactly these orders are in force: lines as `falsify.c` explains
    /// them.
    pub(crate) fn order<T: AsRef<str>>(&self, lines: &[T]) {
        let text: String = lines.iter().map(|l| format!("{}\n", l.as_ref())).collect();
        let new = self.folder.path().join("new");
        fs::write(&new, text).expect("the orders are written");
        fs::rename(&new, self.orders()).expect("the orders are in place");
    }

    /// The orders that have changed an answer so far, in the order of their first effect, once for
    /// each time that they were given.
    pub(crate) fn seen(&self) -> Vec<String> {
        let text = fs::read_to_string(self.orders().with_extension("seen")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn orders(&self) -> PathBuf {
        self.folder.path().join("orders")
    }
}
