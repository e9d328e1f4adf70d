//! `dfdn doctor`: is this host ready to run the plugin?

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use serde_json::json;

use super::{Failure, Outcome, output};
use dfdn::engine::{self, Settings};

/// Look for what would keep OpenSM from using dfdn, or make it fall back silently
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    dfdn doctor\n  \
    dfdn doctor --conf /etc/opensm/opensm.conf --fabric fabric.net\n\n\
    Exit code 1 if something would keep dfdn from being used.")]
pub(super) struct Args {
    /// OpenSM's configuration
    #[arg(long, default_value = "/etc/opensm/opensm.conf")]
    conf: PathBuf,
    /// The opensm program
    #[arg(long, default_value = "/usr/sbin/opensm")]
    opensm: PathBuf,
    /// The plugin; by default, the one that the dynamic loader finds
    #[arg(long)]
    plugin: Option<PathBuf>,
    /// The plugin's own settings; the file need not exist
    #[arg(long, default_value = "/etc/opensm/dfdn.conf")]
    settings: PathBuf,
    /// A fabric, to check whether its VLs suffice
    #[arg(long)]
    fabric: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Ok,
    Warning,
    Fault,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Fault => "FAULT",
        }
    }
}

/// A check: what was found, and what to do if it is not well.
struct Finding {
    level: Level,
    what: &'static str,
    text: String,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, level: Level, what: &'static str, text: impl Into<String>) {
        self.0.push(Finding { level, what, text: text.into() });
    }
}

pub(super) fn run(args: &Args, json: bool) -> Result<Outcome, Failure> {
    let mut found = Findings::default();
    let running = opensm_version(args, &mut found);
    plugin(args, running.as_deref(), &mut found);
    configuration(&args.conf, &mut found);
    let settings = settings(&args.settings, &mut found);
    if let Some(path) = &args.fabric {
        fabric(path, &settings, &mut found)?;
    }
    let healthy = found.0.iter().all(|f| f.level != Level::Fault);
    if json {
        let row = |f: &Finding| json!({"level": f.level.name(), "what": f.what, "text": f.text});
        let rows: Vec<_> = found.0.iter().map(row).collect();
        output::json(&json!({ "ready": healthy, "findings": rows }))?;
    } else {
        output::stdout(|out| {
            for f in &found.0 {
                writeln!(out, "{:<8} {:<14} {}", f.level.name(), f.what, f.text)?;
            }
            writeln!(out, "\n{}", if healthy { "ready" } else { "NOT READY" })
        })?;
    }
    Ok(if healthy { Outcome::Fine } else { Outcome::Fails })
}

/// The output of `opensm --version`, e.g. `OpenSM 3.3.23`.
fn opensm_version(args: &Args, found: &mut Findings) -> Option<String> {
    let output = match Command::new(&args.opensm).arg("--version").output() {
        Ok(output) => output,
        Err(error) => {
            let text = format!(
                "cannot run {}: {error}; install it, or name it with --opensm",
                args.opensm.display()
            );
            found.add(Level::Fault, "opensm", text);
            return None;
        }
    };
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let version = version_in(text.as_bytes());
    match &version {
        Some(version) => found.add(Level::Ok, "opensm", format!("{} is {version}", args.opensm.display())),
        None => found.add(
            Level::Warning,
            "opensm",
            format!("{} does not print its version", args.opensm.display()),
        ),
    }
    version
}

/// The first `OpenSM a.b.c` in a text or a library.
fn version_in(bytes: &[u8]) -> Option<String> {
    let name = b"OpenSM ";
    let places = bytes.windows(name.len()).enumerate().filter(|(_, window)| window == name).map(|(at, _)| at);
    places
        .filter_map(|at| {
            let number: String = bytes[at + name.len()..]
                .iter()
                .take(32)
                .map(|&b| char::from(b))
                .take_while(|c| c.is_ascii_digit() || *c == '.')
                .collect();
            let number = number.trim_end_matches('.');
            (number.matches('.').count() == 2).then(|| format!("OpenSM {number}"))
        })
        .next()
}

fn plugin(args: &Args, running: Option<&str>, found: &mut Findings) {
    let Some(path) = args.plugin.clone().or_else(find_plugin) else {
        let text = "libdfdn.so is in no folder of the dynamic loader; install the package, or 'install libdfdn.so /usr/local/lib' \
             (RHEL-like: /usr/lib64) and run ldconfig";
        found.add(Level::Fault, "plugin", text);
        return;
    };
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            found.add(Level::Fault, "plugin", format!("cannot read {}: {error}", path.display()));
            return;
        }
    };
    let exported = bytes.windows(16).any(|w| w == b"osm_event_plugin");
    match (version_in(&bytes).filter(|_| exported), running) {
        (None, _) => {
            let text = format!(
                "{} is no OpenSM plugin; it may have been built without the feature plugin",
                path.display()
            );
            found.add(Level::Fault, "plugin", text);
        }
        (Some(built), Some(running)) if built != running => {
            let text = format!(
                "{} was built for {built} and {running} is installed, which refuses it and routes with minhop: \
                 rebuild it on this host",
                path.display()
            );
            found.add(Level::Fault, "plugin", text);
        }
        (Some(built), _) => {
            found.add(Level::Ok, "plugin", format!("{} was built for {built}", path.display()))
        }
    }
}

/// The path at which the loader finds the library: LD_LIBRARY_PATH, then its cache.
fn find_plugin() -> Option<PathBuf> {
    const NAME: &str = "libdfdn.so";
    let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let beside = std::env::split_paths(&folders).map(|f| f.join(NAME)).find(|p| p.is_file());
    beside.or_else(|| {
        let cache = Command::new("/sbin/ldconfig").arg("-p").output().ok()?;
        let cache = String::from_utf8_lossy(&cache.stdout).into_owned();
        let line = cache.lines().find(|line| line.trim_start().starts_with(NAME))?;
        line.split(" => ").nth(1).map(PathBuf::from)
    })
}

/// The relevant lines of opensm.conf. OpenSM uses the last of several.
fn configuration(path: &Path, found: &mut Findings) {
    let text = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            let text =
                format!("cannot read {}: {error}; name OpenSM's configuration with --conf", path.display());
            found.add(Level::Fault, "opensm.conf", text);
            return;
        }
    };
    let values: HashMap<&str, &str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(char::is_whitespace))
        .map(|(key, value)| (key, value.trim()))
        .collect();
    let list = |key: &str| -> Vec<&str> {
        let value = values.get(key).copied().unwrap_or_default();
        value.split([',', ' ', '\t']).filter(|word| !word.is_empty() && *word != "(null)").collect()
    };

    // OpenSM 3.3.23 ends the first name at a comma too, but any further one only at white space.
    let plugins = values.get("event_plugin_name").copied().unwrap_or_default();
    let (first, rest) = plugins.split_once([',', ' ', '\t']).unwrap_or((plugins, ""));
    let plugins: Vec<&str> = std::iter::once(first).chain(rest.split_whitespace()).collect();
    match plugins.iter().filter(|name| **name == "dfdn").count() {
        0 if plugins.iter().any(|name| name.split(',').any(|part| part == "dfdn")) => {
            let text = "separate the names in event_plugin_name by spaces: OpenSM takes the commas here for a \
                        part of a name";
            found.add(Level::Fault, "opensm.conf", text);
        }
        0 => {
            let text = "event_plugin_name does not name dfdn: add 'event_plugin_name dfdn'";
            found.add(Level::Fault, "opensm.conf", text);
        }
        1 => found.add(Level::Ok, "opensm.conf", "event_plugin_name names dfdn"),
        _ => found.add(Level::Warning, "opensm.conf", "event_plugin_name names dfdn twice; once is enough"),
    }
    let engines = list("routing_engine");
    let ours = |name: &&&str| engine::ENGINES.iter().any(|e| e.deadlock_free && e.name == **name);
    match engines.iter().position(|name| ours(&name)) {
        None => found.add(
            Level::Fault,
            "opensm.conf",
            "routing_engine does not name dfdn (names are case-sensitive)",
        ),
        Some(0) => {
            found.add(Level::Ok, "opensm.conf", format!("routing_engine begins with {}", engines[0]));
        }
        Some(at) => {
            let text = format!("{} is used only if {} fails", engines[at], engines[0]);
            found.add(Level::Warning, "opensm.conf", text);
        }
    }
    if engines.contains(&"no_fallback") {
        found.add(Level::Ok, "opensm.conf", "no_fallback: if dfdn cannot route, OpenSM reports it");
    } else {
        let text = "without no_fallback OpenSM routes with minhop and says nothing when dfdn cannot: consider \
                    'routing_engine dfdn,no_fallback'";
        found.add(Level::Warning, "opensm.conf", text);
    }
    if values.get("qos").is_some_and(|v| v.eq_ignore_ascii_case("TRUE")) {
        found.add(Level::Ok, "opensm.conf", "qos is on");
    } else {
        found.add(Level::Warning, "opensm.conf", "qos is not TRUE; dfdn will turn it on by itself");
    }
    if values.get("suppress_sl2vl_mad_status_errors").is_some_and(|v| v.eq_ignore_ascii_case("TRUE")) {
        let text = "suppress_sl2vl_mad_status_errors TRUE: OpenSM takes SL2VL rows that a switch refuses for \
                    acknowledged, and nobody notices; leave it FALSE";
        found.add(Level::Warning, "opensm.conf", text);
    }
    if let Some(text) = engine::ignored_options(|name| values.get(name).map(|&v| v.to_owned())) {
        found.add(Level::Warning, "opensm.conf", text);
    }
    if let Some(code) = values.get("max_op_vls").and_then(|v| v.parse::<u8>().ok()).filter(|code| *code < 3) {
        let vls = [1, 1, 2][usize::from(code)];
        let text =
            format!("max_op_vls {code} leaves {vls} VLs: many fabrics need more (the default, 5, is best)");
        found.add(Level::Warning, "opensm.conf", text);
    }
}

/// The plugin's own file, read as the plugin does at its start: without a file the defaults count, and of a file with
/// mistakes the lines that can be read.
fn settings(path: &Path, found: &mut Findings) -> Settings {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => {
            let text =
                format!("cannot read {}: {error}. The plugin starts with the defaults", path.display());
            found.add(Level::Fault, "dfdn.conf", text);
            return Settings::default();
        }
        Ok(text) => text,
    };
    let (settings, mistakes) = Settings::as_far_as_readable(&text);
    for mistake in &mistakes {
        let text = format!("{}: {mistake}. The plugin starts without that line", path.display());
        found.add(Level::Fault, "dfdn.conf", text);
    }
    if mistakes.is_empty() {
        found.add(Level::Ok, "dfdn.conf", format!("{}: {}", path.display(), settings.describe()));
    }
    settings
}

fn fabric(path: &Path, settings: &Settings, found: &mut Findings) -> Result<(), Failure> {
    let fabric = super::load_fabric(path)?;
    match engine::route(&fabric, settings) {
        Ok(routed) => {
            let text =
                format!("{fabric}: {} of {} VLs are needed", routed.verdict.vls_all, routed.limits.vls);
            found.add(Level::Ok, "fabric", text);
        }
        Err(error) => found.add(Level::Fault, "fabric", error.to_string()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Findings, Level, configuration, settings, version_in};

    #[test]
    fn versions_are_found_in_texts_and_libraries() {
        assert_eq!(version_in(b"OpenSM 3.3.23\nmore").as_deref(), Some("OpenSM 3.3.23"));
        assert_eq!(version_in(b"\0OpenSM is\0OpenSM 3.3.23\0x").as_deref(), Some("OpenSM 3.3.23"));
        assert_eq!(version_in(b"OpenSM "), None);
    }

    fn faults(conf: &str) -> (usize, usize) {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), conf).expect("it is written");
        let mut found = Findings::default();
        configuration(file.path(), &mut found);
        let count = |level| found.0.iter().filter(|f| f.level == level).count();
        (count(Level::Fault), count(Level::Warning))
    }

    #[test]
    fn the_plugins_own_file_is_read() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        for (text, level) in [("vls 3\n", Level::Ok), ("vls three\n", Level::Fault)] {
            std::fs::write(file.path(), text).expect("it is written");
            let mut found = Findings::default();
            let read = settings(file.path(), &mut found);
            assert!(found.0.len() == 1 && found.0[0].level == level, "{}", found.0[0].text);
            assert_eq!(read.vls.is_some(), level == Level::Ok);
        }
        let mut found = Findings::default();
        settings(std::path::Path::new("/nonexistent/dfdn.conf"), &mut found);
        assert!(found.0[0].level == Level::Ok && found.0[0].text.contains("engine dfdn"));
        settings(std::path::Path::new("/"), &mut found);
        assert!(found.0[1].level == Level::Fault, "a folder");
    }

    #[test]
    fn misconfigurations_are_found() {
        let good = "qos TRUE\nevent_plugin_name dfdn\nrouting_engine dfdn,no_fallback\n";
        assert_eq!(faults(good), (0, 0));
        assert_eq!(faults("# routing_engine dfdn\n").0, 2);
        assert_eq!(faults("event_plugin_name dfdn\nrouting_engine DFDN\nqos TRUE\n"), (1, 1));
        let rest = "\nrouting_engine dfdn no_fallback\nqos TRUE\n";
        assert_eq!(faults(&format!("event_plugin_name dfdn,other{rest}")), (0, 0));
        assert_eq!(faults(&format!("event_plugin_name a,dfdn,b{rest}")), (1, 0));
        assert_eq!(faults("event_plugin_name dfdn\nrouting_engine minhop dfdn\n"), (0, 3));
        assert_eq!(
            faults("event_plugin_name dfdn\nrouting_engine updn-trees,no_fallback\nqos TRUE\n"),
            (0, 0)
        );
        assert_eq!(faults("event_plugin_name dfdn\nrouting_engine sssp,no_fallback\nqos TRUE\n"), (1, 0));
        assert_eq!(faults(&format!("{good}max_op_vls 1\n")), (0, 1));
        assert_eq!(faults(&format!("{good}port_shifting FALSE\nscatter_ports 0\n")), (0, 0));
        assert_eq!(faults(&format!("{good}port_shifting TRUE\nqos_sl2vl 0,1\n")), (0, 1));
        assert_eq!(faults(&format!("{good}event_plugin_name other\n")).0, 1, "the last line counts");
    }
}
