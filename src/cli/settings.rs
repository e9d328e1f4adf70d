//! The options of every subcommand with an engine: one for each of the [`KEYS`].

use clap::builder::ValueParser;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};

use dfdn::engine::{KEYS, Key, Prefer, Routed, Settings, Values};
use dfdn::fabric::Fabric;

/// The settings of an engine except its name, for which each subcommand has its own argument.
#[derive(Clone, Debug)]
pub(super) struct EngineArgs(Settings);

impl EngineArgs {
    /// Requests that the tables do not meet, one sentence each.
    pub(super) fn unmet(&self, fabric: &Fabric, routed: &Routed) -> Vec<String> {
        let Settings { prefer, max_nonminimal, .. } = self.0;
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

    pub(super) fn settings(&self, engine: &str) -> Settings {
        Settings { engine: engine.to_owned(), ..self.0.clone() }
    }
}

fn keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| key.values != Values::Engine)
}

fn option(key: &'static Key) -> Arg {
    let check = |text: &str| key.set(&mut Settings::default(), text).map(|()| text.to_owned());
    let name = match key.values {
        Values::Word(_) => "WORD",
        Values::File => "FILE",
        _ => "N",
    };
    let arg = Arg::new(key.name)
        .long(key.name.replace('_', "-"))
        .value_name(name)
        .value_parser(ValueParser::new(check))
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
        let mut args = Self(Settings::default());
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for key in keys() {
            if let Some(text) = matches.get_one::<String>(key.name) {
                key.set(&mut self.0, text)
                    .map_err(|error| Error::raw(clap::error::ErrorKind::InvalidValue, error))?;
            }
        }
        Ok(())
    }
}
