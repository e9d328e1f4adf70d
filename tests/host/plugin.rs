//! The plugin under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::opensm::Config;

/// The folder of the `libdfdn.so` that belongs to the sources and profile under test, or the one
/// that `DFDN_PLUGIN` names.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(named) = std::env::var_os("DFDN_PLUGIN").map(PathBuf::from).or_else(super::built) {
            return named;
        }
        let command = Path::new(env!("CARGO_BIN_EXE_dfdn"));
        let folder = command.parent().expect("the command is in a folder").to_owned();
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        // Cargo builds the command for tests but not the library, so the latter may be missing or
        // old.
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--lib", "--profile", profile, "--manifest-path"]);
        build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let output = build.output().expect("cargo starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(folder.join("libdfdn.so").is_file(), "no libdfdn.so in {}", folder.display());
        folder
    })
}

/// The command that belongs to the library.
pub(crate) fn command() -> PathBuf {
    super::built().map_or_else(|| env!("CARGO_BIN_EXE_dfdn").into(), |built| built.join("dfdn"))
}

/// OpenSM with the plugin, and `engine` as its `routing_engine`.
pub(crate) fn config(engine: &str) -> Config {
    Config { engine: engine.into(), plugin: Some(folder().to_owned()), qos: false, ..Config::default() }
}

/// The same with `transition fast`: the tables depend on nothing but the fabric and the settings.
pub(crate) fn fast(config: Config) -> Config {
    static FILE: OnceLock<tempfile::NamedTempFile> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), "transition fast\n").expect("the settings are written");
        file
    });
    Config { env: vec![("DFDN_CONF".to_owned(), file.path().to_owned())], ..config }
}
