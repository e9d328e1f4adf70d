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

/// The file, and what was read from it.
#[derive(Debug)]
pub(super) struct Configuration {
    path: PathBuf,
    must_exist: bool,
    /// Those of the last good file.
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
    /// What is wrong with the file, and what these settings are instead.
    pub(super) mistake: Option<String>,
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

    /// Reads the file. A mistake in it must not keep a subnet from being routed: the settings of the last good file stay
    /// in force. Without one the lines count that can be read.
    pub(super) fn read(&mut self) -> Read {
        let (settings, mistake) = match (self.parse(), &self.last) {
            (Ok(settings), _) => (settings, None),
            (Err(error), Some(last)) => (last.clone(), Some(format!("{error}. {KEPT}"))),
            (Err(error), None) => match self.text() {
                Ok(text) => {
                    let (settings, mistakes) = Settings::as_far_as_readable(&text);
                    let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
                    let lines = if mistakes.len() == 1 { "that line" } else { "these lines" };
                    let path = self.path.display();
                    (settings, Some(format!("{path}: {}. Routed without {lines}", mistakes.join("; "))))
                }
                Err(_) => (Settings::default(), Some(format!("{error}. Routed with the defaults"))),
            },
        };
        Read { settings, mistake }
    }

    /// All settings, if they differ from those announced before.
    pub(super) fn news(&mut self, settings: &Settings) -> Option<String> {
        let text = format!("settings ({}): {}", self.path.display(), settings.describe());
        let is_news = self.announced.as_ref() != Some(&text);
        self.announced = Some(text.clone());
        is_news.then_some(text)
    }

    /// What the file says now.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(&mut self) -> Result<Settings, String> {
        let text = self.text()?;
        let settings =
            Settings::from_config(&text).map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.had_text = !text.is_empty();
        self.last = Some(settings.clone());
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
    use super::{Configuration, MAX_BYTES, Settings};
    use crate::engine::Prefer;
    use std::path::PathBuf;

    fn of(path: PathBuf) -> Configuration {
        Configuration { path, must_exist: true, last: None, had_text: false, announced: None }
    }

    #[test]
    fn an_empty_file_is_one_that_is_being_written() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let mut configuration = of(file.path().to_owned());
        let write = |text: &str| std::fs::write(file.path(), text).expect("it is written");
        assert!(configuration.read().mistake.is_none());
        write("vls 3\n");
        assert_eq!(configuration.read().settings.vls, Some(3));
        for _ in 0..2 {
            write("");
            let read = configuration.read();
            assert_eq!(read.settings.vls, Some(3));
            assert!(read.mistake.expect("a reason").contains("is empty"));
        }
        write("# nothing\n");
        let read = configuration.read();
        assert!(read.settings.vls.is_none() && read.mistake.is_none());
    }

    #[test]
    fn only_small_regular_files_are_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is of coreutils");
        assert!(made.success());
        let error = of(pipe).parse().expect_err("a pipe without a writer");
        assert!(error.contains("not a regular file"), "{error}");
        let error = of("/dev/zero".into()).parse().expect_err("a device");
        assert!(error.contains("not a regular file"), "{error}");
        let long = folder.path().join("long");
        std::fs::write(&long, vec![b'\n'; MAX_BYTES as usize]).expect("it is written");
        assert!(of(long.clone()).parse().is_ok());
        std::fs::write(&long, vec![b'\n'; MAX_BYTES as usize + 1]).expect("it is written");
        let error = of(long).parse().expect_err("too long");
        assert!(error.contains("64 KiB"), "{error}");
    }

    #[test]
    fn a_slip_keeps_what_was_in_force() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let path = file.path().to_owned();
        let mut configuration = of(path);
        let write = |text: &str| std::fs::write(file.path(), text).expect("it is written");
        // Without a good file before, what can be read of it counts.
        write("vls none\nprefer one-sl\nlanes 3\nvls 4\nvls 5\n");
        for _ in 0..2 {
            let read = configuration.read();
            assert!(read.settings.prefer == Prefer::OneSl && read.settings.vls.is_none());
            let mistake = read.mistake.expect("a reason");
            let named =
                ["line 1: vls", "line 3: there is no key", "line 4: vls is set a second time", "line 5"];
            assert!(named.iter().all(|line| mistake.contains(line)), "{mistake}");
            assert!(mistake.ends_with("Routed without these lines"), "{mistake}");
        }
        std::fs::remove_file(file.path()).expect("it is removed");
        let read = configuration.read();
        assert_eq!(read.settings, Settings::default());
        let mistake = read.mistake.expect("a reason");
        assert!(mistake.contains("cannot read") && mistake.ends_with("with the defaults"), "{mistake}");
        write("vls 3\n");
        let read = configuration.read();
        assert!(read.settings.vls == Some(3) && read.mistake.is_none());
        assert!(configuration.news(&read.settings).is_some());
        write("vls none\n");
        let read = configuration.read();
        assert!(read.settings.vls == Some(3) && read.mistake.is_some());
        assert!(configuration.news(&read.settings).is_none());
    }
}
