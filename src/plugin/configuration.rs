//! The plugin's configuration file: read again at each heavy sweep.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::engine::Settings;

/// The default file, used unless [`VARIABLE`] is set. It need not exist.
const DEFAULT_PATH: &str = "/etc/opensm/dfdn.conf";

/// Environment variable for another file, which must exist.
const VARIABLE: &str = "DFDN_CONF";

/// The largest file that is read. OpenSM waits for it with its lock held, and it has some ten
/// lines.
const MAX_BYTES: u64 = 64 << 10;

/// The file, and the last settings read from it.
#[derive(Debug)]
pub(super) struct Configuration {
    path: PathBuf,
    must_exist: bool,
    last: Option<Settings>,
    /// Whether the last valid file had any content.
    had_text: bool,
    announced: Option<String>,
}

/// The result of reading the file.
#[derive(Debug)]
pub(super) struct Read {
    /// The settings to route with.
    pub(super) settings: Settings,
    /// What is wrong with the file, if the settings are others, and which.
    pub(super) kept_in_spite_of: Option<String>,
    /// All settings, if they differ from those announced before.
    pub(super) news: Option<String>,
}

impl Configuration {
    /// Takes the path from the environment; reads nothing yet.
    pub(super) fn new() -> Self {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        Self {
            must_exist: named.is_some(),
            path: named.unwrap_or_else(|| PathBuf::from(DEFAULT_PATH)),
            last: None,
            had_text: false,
            announced: None,
        }
    }

    /// The path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file. With earlier settings, a mistake in it changes nothing: it must not disable
    /// the routing of a running subnet.
    ///
    /// # Errors
    /// What is wrong with the file, if there are no earlier settings.
    pub(super) fn read(&mut self) -> Result<Read, String> {
        let (settings, kept_in_spite_of) = match (self.parse(), &self.last) {
            (Ok(settings), _) => (settings, None),
            (Err(error), Some(last)) => (last.clone(), Some(format!("{error}. {KEPT}"))),
            // A file that a setting names must not keep a fabric from being routed.
            (Err(error), None) => match self.text().map(|text| Settings::without_files(&text)) {
                Ok(Ok(settings)) => (settings, Some(format!("{error}. Routed without that file"))),
                _ => return Err(error),
            },
        };
        self.last = Some(settings.clone());
        let text = format!("settings ({}): {}", self.path.display(), settings.describe());
        let news = (self.announced.as_ref() != Some(&text)).then(|| text.clone());
        self.announced = Some(text);
        Ok(Read { settings, kept_in_spite_of, news })
    }

    fn parse(&mut self) -> Result<Settings, String> {
        let text = self.text()?;
        let settings =
            Settings::from_config(&text).map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.had_text = !text.is_empty();
        Ok(settings)
    }

    fn text(&self) -> Result<String, String> {
        let path = self.path.display();
        match read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound && !self.must_exist => Ok(String::new()),
            Err(error) => Err(format!("cannot read {path}: {error}")),
            // Some editors and scripts first empty the file and then write it.
            Ok(text) if text.is_empty() && self.had_text => Err(format!(
                "{path} is empty, as if it were being written. For the defaults leave a comment in it"
            )),
            Ok(text) => Ok(text),
        }
    }
}

/// What is done if there are earlier settings.
const KEPT: &str = "The settings of the last good file stay in force";

/// Reads a small regular file; never blocks on a pipe.
fn read(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {} KiB", MAX_BYTES >> 10)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::{Configuration, MAX_BYTES};
    use std::path::PathBuf;

    fn of(path: PathBuf) -> Configuration {
        Configuration { path, must_exist: true, last: None, had_text: false, announced: None }
    }

    #[test]
    fn an_empty_file_is_one_that_is_being_written() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let mut configuration = of(file.path().to_owned());
        let write = |text: &str| std::fs::write(file.path(), text).expect("it is written");
        assert!(configuration.read().expect("empty from the start").kept_in_spite_of.is_none());
        write("vls 3\n");
        assert_eq!(configuration.read().expect("a good file").settings.vls, Some(3));
        for _ in 0..2 {
            write("");
            let read = configuration.read().expect("the settings from before");
            assert_eq!(read.settings.vls, Some(3));
            assert!(read.kept_in_spite_of.expect("a reason").contains("is empty"));
        }
        write("# nothing\n");
        let read = configuration.read().expect("the defaults");
        assert!(read.settings.vls.is_none() && read.kept_in_spite_of.is_none());
    }

    #[test]
    fn only_small_regular_files_are_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is of coreutils");
        assert!(made.success());
        let error = of(pipe).read().expect_err("a pipe without a writer");
        assert!(error.contains("not a regular file"), "{error}");
        let error = of("/dev/zero".into()).read().expect_err("a device");
        assert!(error.contains("not a regular file"), "{error}");
        let long = folder.path().join("long");
        std::fs::write(&long, vec![b'\n'; MAX_BYTES as usize]).expect("it is written");
        assert!(of(long.clone()).read().is_ok());
        std::fs::write(&long, vec![b'\n'; MAX_BYTES as usize + 1]).expect("it is written");
        let error = of(long).read().expect_err("too long");
        assert!(error.contains("64 KiB"), "{error}");
    }

    #[test]
    fn a_slip_keeps_what_was_in_force() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let path = file.path().to_owned();
        let mut configuration = of(path);
        let write = |text: &str| std::fs::write(file.path(), text).expect("it is written");
        write("vls none\n");
        assert!(configuration.read().expect_err("nothing to fall back on").contains("line 1"));
        write("vls 3\n");
        let read = configuration.read().expect("a good file");
        assert!(read.settings.vls == Some(3) && read.news.is_some() && read.kept_in_spite_of.is_none());
        write("vls none\n");
        let read = configuration.read().expect("the settings from before");
        assert!(read.settings.vls == Some(3) && read.news.is_none() && read.kept_in_spite_of.is_some());
    }
}
