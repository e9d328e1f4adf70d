//! The options of every subcommand with an engine: one for each of the [`KEYS`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser as _, ValueParser};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};

use dfdn::engine::{self, Baseline, EngineError, KEYS, Key, Prefer, Routed, Settings, Values};
use dfdn::fabric::Fabric;

/// The settings of an engine except its name, for which each subcommand has its own argument.
#[derive(Clone, Debug)]
pub(super) struct EngineArgs {
    settings: Settings,
    /// The options on the command line, as `--vls`.
    given: Vec<String>,
}

impl EngineArgs {
    /// Requests that the tables do not meet, one sentence each.
    pub(super) fn unmet(&self, fabric: &Fabric, routed: &Routed) -> Vec<String> {
        let Settings { prefer, max_nonminimal, .. } = self.settings;
        let v = &routed.verdict;
        let share = routed.detours(fabric);
        let detours = format!("{:.3} % of the adapter pairs take longer paths", 100.0 * share);
        let mut unmet = Vec::new();
        if prefer == Prefer::Minimal && share > 0.0 {
            unmet.push(format!("--prefer minimal is not met with {}: {detours}", routed.limits));
        }
        if let Some(limit) = max_nonminimal.filter(|&limit| share > limit) {
            unmet.push(format!("--max-nonminimal {limit} is not met with {}: {detours}", routed.limits));
        }
        let least = u32::from(routed.classes.classes) * u32::from(routed.classes.vl_sets);
        if prefer == Prefer::OneSl && v.sls > least {
            unmet.push(format!("--prefer one-sl is not met: {} SLs are in use between adapters", v.sls));
        }
        unmet
    }

    /// Routes with these options. The remarks include what the options name in vain, and what the verdict does not cover.
    ///
    /// # Errors
    /// Those of [`route_after`](engine::route_after).
    pub(super) fn route(
        &self,
        fabric: &Fabric,
        engine: &str,
        baseline: Option<&Baseline>,
    ) -> Result<Routed, EngineError> {
        let settings = self.settings(engine);
        let mut routed = engine::route_after(fabric, &settings, baseline)?;
        routed.routes.remarks.extend(engine::unmatched(fabric, &settings));
        routed.routes.remarks.extend(fabric.limits_of_verdicts());
        Ok(routed)
    }

    /// The files that the options name and that are read.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        let Settings { roles, hold, roots, .. } = &self.settings;
        [&roles.path, &hold.path, &roots.path].into_iter().flatten().map(PathBuf::as_path)
    }

    pub(super) fn settings(&self, engine: &str) -> Settings {
        Settings { engine: engine.to_owned(), ..self.settings.clone() }
    }

    /// Refuses options where no engine runs.
    ///
    /// - `used`: those that have an effect all the same.
    ///
    /// # Errors
    /// The others that were given.
    pub(super) fn refuse_without_engine(&self, used: &[&str]) -> Result<(), String> {
        let vain: Vec<&str> =
            self.given.iter().map(String::as_str).filter(|name| !used.contains(name)).collect();
        if vain.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{} has no effect on tables that are there already: it is for an engine",
            vain.join(", ")
        ))
    }
}

fn keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| key.values != Values::Engine)
}

fn long(key: &Key) -> String {
    key.name.replace('_', "-")
}

fn option(key: &'static Key) -> Arg {
    let check = |text: &str| key.set(&mut Settings::default(), text).map(|()| text.to_owned());
    let utf8 = |text: OsString| {
        text.into_string().map_err(|_| "a file of settings needs a name in UTF-8: link to it")
    };
    let parser = OsStringValueParser::new().try_map(utf8).try_map(move |text| check(&text));
    let name = match key.values {
        Values::Word(_) => "WORD",
        Values::File => "FILE",
        _ => "N",
    };
    let arg = Arg::new(key.name)
        .long(long(key))
        .value_name(name)
        .value_parser(ValueParser::new(parser))
        .help(format!("{} ({}) [default: {}]", key.about, key.values, key.default()));
    match key.values {
        // A switch: '--spread' alone is '--spread=yes'.
        Values::Word(["yes", "no"]) => arg.num_args(0..=1).require_equals(true).default_missing_value("yes"),
        _ => arg,
    }
}

impl Args for EngineArgs {
    fn augment_args(command: Command) -> Command {
        keys().fold(command, |command, key| command.arg(option(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EngineArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut args = Self { settings: Settings::default(), given: Vec::new() };
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for key in keys() {
            if let Some(text) = matches.get_one::<String>(key.name) {
                key.set(&mut self.settings, text)
                    .map_err(|error| Error::raw(clap::error::ErrorKind::InvalidValue, error))?;
                self.given.push(format!("--{}", long(key)));
            }
        }
        Ok(())
    }
}
