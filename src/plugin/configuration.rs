//! The plugin's configuration file: read again at each heavy sweep.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::engine::Settings;

/// Where the file is, unless [`VARIABLE`] says otherwise. It need not exist.
const DEFAULT_PATH: &str = "/etc/opensm/dfdn.conf";

/// Environment variable that names another file, which must exist.
const VARIABLE: &str = "DFDN_CONF";

/// The file, and the last settings that it gave.
#[derive(Debug)]
pub(super) struct Configuration {
    path: PathBuf,
    must_exist: bool,
    last: Option<Settings>,
    announced: Option<String>,
}

/// What a look at the file gave.
#[derive(Debug)]
pub(super) struct Read {
    /// What to route with.
    pub(super) settings: Settings,
    /// What is wrong with the file, where the settings are those of an earlier one.
    pub(super) kept_in_spite_of: Option<String>,
    /// All choices, where they are not those announced before.
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
            announced: None,
        }
    }

    /// Reads the file. A mistake in it changes nothing while there are settings of an earlier one: a
    /// slip in a running subnet must not take its routing away.
    ///
    /// # Errors
    /// What is wrong with the file, where there are no earlier settings.
    pub(super) fn read(&mut self) -> Result<Read, String> {
        let (settings, kept_in_spite_of) = match (self.parse(), &self.last) {
            (Ok(settings), _) => (settings, None),
            (Err(error), Some(last)) => (last.clone(), Some(error)),
            (Err(error), None) => return Err(error),
        };
        self.last = Some(settings.clone());
        let text = format!("settings ({}): {}", self.path.display(), settings.describe());
        let news = (self.announced.as_ref() != Some(&text)).then(|| text.clone());
        self.announced = Some(text);
        Ok(Read { settings, kept_in_spite_of, news })
    }

    fn parse(&self) -> Result<Settings, String> {
        let path = self.path.display();
        match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound && !self.must_exist => Ok(Settings::default()),
            Err(error) => Err(format!("cannot read {path}: {error}")),
            Ok(text) => Settings::from_config(&text).map_err(|error| format!("{path}: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Configuration;

    #[test]
    fn a_slip_keeps_what_was_in_force() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let path = file.path().to_owned();
        let mut configuration = Configuration { path, must_exist: true, last: None, announced: None };
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
