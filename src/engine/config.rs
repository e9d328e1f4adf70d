//! The settings, declared once: [`KEYS`] has the name, the values, the default and the meaning of each.
//!
//! The configuration file of the plugin, its template (`dfdn config`), the options of the command and the table in
//! `docs/settings.md` all come from it. The file has `name value` lines as `opensm.conf`, which the same people edit;
//! `#` starts a comment.

use std::fmt;

use super::config_error::ConfigError;
use super::{
    Balance, Layers, Optimise, Pairs, Prefer, Settings, Traffic, Weights, by_name, hold_file, role_file,
    root_file,
};
use crate::fabric::{Sl, Vl};

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name in the file. On the command line `_` is written `-`.
    pub name: &'static str,
    /// What it may be.
    pub values: Values,
    /// What it does, in one line.
    pub about: &'static str,
    set: fn(&mut Settings, &str) -> Result<(), String>,
    get: fn(&Settings) -> String,
}

/// What a setting may be. As text: `1 to 16`, `auto or 1 to 15`, `yes or no`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// Name of a deadlock-free engine.
    Engine,
    /// A whole number in a range, both ends included.
    Number(u8, u8),
    /// The same, or `auto`.
    AutoOrNumber(u8, u8),
    /// A number in a range, both ends included.
    Real(f64, f64),
    /// The same, or `auto`.
    AutoOrReal(f64, f64),
    /// One of some words.
    Word(&'static [&'static str]),
    /// A file, or `none`.
    File,
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine => f.write_str("a deadlock-free engine"),
            Self::Number(least, most) => write!(f, "{least} to {most}"),
            Self::AutoOrNumber(least, most) => write!(f, "auto or {least} to {most}"),
            Self::Real(least, most) => write!(f, "{least} to {most}"),
            Self::AutoOrReal(least, most) => write!(f, "auto or {least} to {most}"),
            Self::Word([]) => Ok(()),
            Self::File => f.write_str("none or a file"),
            Self::Word([one]) => f.write_str(one),
            Self::Word([most @ .., last]) => write!(f, "{} or {last}", most.join(", ")),
        }
    }
}

impl Values {
    /// Whether a text is one of them.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    fn check(&self, text: &str) -> Result<(), String> {
        let whole = |least, most| text.parse::<u8>().is_ok_and(|n| (least..=most).contains(&n));
        let real = |least, most| text.parse::<f64>().is_ok_and(|x| (least..=most).contains(&x));
        let fits = match *self {
            Self::Engine => {
                let engine = by_name(text).map_err(|error| error.to_string())?;
                if !engine.deadlock_free {
                    return Err(format!("{text} is a bare routing and may have credit loops"));
                }
                true
            }
            Self::Number(least, most) => whole(least, most),
            Self::AutoOrNumber(least, most) => text == AUTO || whole(least, most),
            Self::Real(least, most) => real(least, most),
            Self::AutoOrReal(least, most) => text == AUTO || real(least, most),
            Self::Word(words) => words.contains(&text),
            Self::File => !text.is_empty(),
        };
        if fits { Ok(()) } else { Err(format!("'{text}' is not {self}")) }
    }
}

/// The word for "let dfdn choose".
const AUTO: &str = "auto";

impl Key {
    /// The value in some settings, as the file would say it.
    pub fn value(&self, settings: &Settings) -> String {
        (self.get)(settings)
    }

    /// The default, as the file would say it.
    pub fn default(&self) -> String {
        self.value(&Settings::default())
    }

    /// Sets it to what a text says.
    ///
    /// # Errors
    /// What is wrong with the text, and what would be right.
    pub fn set(&self, settings: &mut Settings, text: &str) -> Result<(), String> {
        self.values.check(text)?;
        (self.set)(settings, text)
    }
}

/// All settings.
pub const KEYS: &[Key] = &[
    Key {
        name: "engine",
        values: Values::Engine,
        about: "the engine behind the name dfdn",
        set: |settings, text| parse(text, &mut settings.engine),
        get: |settings| settings.engine.clone(),
    },
    Key {
        name: "vls",
        values: Values::AutoOrNumber(1, Vl::MAX_DATA),
        about: "data VLs to plan with, at most what every link between switches operates; auto: all of them",
        set: |settings, text| parse_or_auto(text, &mut settings.vls),
        get: |settings| auto_or(settings.vls),
    },
    Key {
        name: "sls",
        values: Values::Number(1, Sl::COUNT as u8),
        about: "SLs that may be assigned",
        set: |settings, text| parse(text, &mut settings.sls),
        get: |settings| settings.sls.to_string(),
    },
    Key {
        name: "prefer",
        values: Values::Word(Prefer::WORDS),
        about: "one-sl: one SL for every pair; minimal: shortest paths; default: one SL if few pairs pay for it",
        set: |settings, text| parse(text, &mut settings.prefer),
        get: |settings| settings.prefer.to_string(),
    },
    Key {
        name: "max_nonminimal",
        values: Values::AutoOrReal(0.0, 1.0),
        about: "largest share of adapter pairs on longer paths that one SL may cost; auto: 0.02, or no limit with \
                prefer one-sl; where nothing keeps to it, more take longer paths, but not with several classes",
        set: |settings, text| parse_or_auto(text, &mut settings.max_nonminimal),
        get: |settings| auto_or(settings.max_nonminimal),
    },
    Key {
        name: "max_loss",
        values: Values::Real(0.0, 1.0),
        about: "largest share of the bandwidth that one SL may cost with prefer default, all-to-all and bisection together",
        set: |settings, text| parse(text, &mut settings.max_loss),
        get: |settings| settings.max_loss.to_string(),
    },
    Key {
        name: "search_effort",
        values: Values::Real(0.0, 1000.0),
        about: "work for the search of an order, in passes of P-SSSP; more may save VLs and detours",
        set: |settings, text| parse(text, &mut settings.search_effort),
        get: |settings| settings.search_effort.to_string(),
    },
    Key {
        name: "balance",
        values: Values::Word(Balance::WORDS),
        about: "stable: a failed link changes few tables; full: balanced anew whenever the fabric changes; auto: stable \
                where that costs next to nothing",
        set: |settings, text| parse(text, &mut settings.balance),
        get: |settings| settings.balance.to_string(),
    },
    Key {
        name: "layers",
        values: Values::Word(Layers::WORDS),
        about: "paths of an adapter's LIDs after the first, with LMC above 0 and the engine dfdn, as few links in common as \
                possible: minimal: shortest; diverse: one hop longer where that helps; auto: minimal in trees, else diverse",
        set: |settings, text| parse(text, &mut settings.layers),
        get: |settings| settings.layers.to_string(),
    },
    Key {
        name: "traffic",
        values: Values::Word(Traffic::WORDS),
        about: "what tables are balanced for: all-to-all: the largest load of a channel; bisection: random bisections; \
                both: half each",
        set: |settings, text| parse(text, &mut settings.traffic),
        get: |settings| settings.traffic.to_string(),
    },
    Key {
        name: "roles",
        values: Values::File,
        about: "what adapters are for, one a line: a GUID or a description, compute, storage or service, and weights",
        set: |settings, text| settings.roles.set(text, role_file::read),
        get: |settings| settings.roles.value(),
    },
    Key {
        name: "trees",
        values: Values::Number(1, Vl::MAX_DATA),
        about: "trees of the engine updn-trees",
        set: |settings, text| parse(text, &mut settings.trees),
        get: |settings| settings.trees.to_string(),
    },
    Key {
        name: "weights",
        values: Values::Word(Weights::WORDS),
        about: "what a channel weighs beside its routes in the engine sssp; minimal: so much that paths are shortest; one: 1",
        set: |settings, text| parse(text, &mut settings.weights),
        get: |settings| settings.weights.to_string(),
    },
    Key {
        name: "pairs",
        values: Values::Word(Pairs::WORDS),
        about: "order of the pairs in the engine p2sssp; random: drawn with draw_seed",
        set: |settings, text| parse(text, &mut settings.pairs),
        get: |settings| settings.pairs.to_string(),
    },
    Key {
        name: "optimise",
        values: Values::Word(Optimise::WORDS),
        about: "exchange equally long paths while the load gets more even, in every engine but dfdn; best: the best one at \
                each switch; random: any that helps",
        set: |settings, text| parse(text, &mut settings.optimise),
        get: |settings| settings.optimise.to_string(),
    },
    Key {
        name: "patience",
        values: Values::Real(0.0, 1000.0),
        about: "tries in vain after which optimise random ends, as a multiple of the exchanges there are",
        set: |settings, text| parse(text, &mut settings.patience),
        get: |settings| settings.patience.to_string(),
    },
    Key {
        name: "draw_seed",
        values: Values::Number(0, u8::MAX),
        about: "seed of what pairs random and optimise random draw",
        set: |settings, text| parse(text, &mut settings.draw_seed),
        get: |settings| settings.draw_seed.to_string(),
    },
    Key {
        name: "classes",
        values: Values::Number(1, Vl::MAX_DATA),
        about: "classes of service, each with VLs of its own; SL n is of class n modulo this",
        set: |settings, text| parse(text, &mut settings.classes),
        get: |settings| settings.classes.to_string(),
    },
    Key {
        name: "transition",
        values: Values::Word(&["proven", "fast"]),
        about: "how the plugin gets from tables in force to new ones; proven: keep what can stay, and in steps that are each \
                free of credit loops; fast: everything anew and at once",
        set: |settings, text| {
            settings.proven_transition = text == "proven";
            Ok(())
        },
        get: |settings| if settings.proven_transition { "proven" } else { "fast" }.to_owned(),
    },
    Key {
        name: "transition_steps",
        values: Values::Number(1, 8),
        about: "steps of a transition before entries that no step can place drop their packets for a step",
        set: |settings, text| parse(text, &mut settings.transition_steps),
        get: |settings| settings.transition_steps.to_string(),
    },
    Key {
        name: "spread",
        values: Values::Word(&["yes", "no"]),
        about: "yes: idle VLs keep destinations apart, against head-of-line blocking; no: they stay idle",
        set: |settings, text| {
            settings.spread = text == "yes";
            Ok(())
        },
        get: |settings| if settings.spread { "yes" } else { "no" }.to_owned(),
    },
    Key {
        name: "hold",
        values: Values::File,
        about: "links and switches to avoid or to drain, one a line",
        set: |settings, text| settings.hold.set(text, hold_file::read),
        get: |settings| settings.hold.value(),
    },
    Key {
        name: "sweep_log",
        values: Values::File,
        about: "a file to which the plugin adds a line of JSON after each heavy sweep",
        set: |settings, text| {
            settings.sweep_log = (text != "none").then(|| text.into());
            Ok(())
        },
        get: |settings| {
            settings.sweep_log.as_ref().map_or("none".to_owned(), |path| path.display().to_string())
        },
    },
    Key {
        name: "roots",
        values: Values::File,
        about: "switches to try as roots of an order of the links, one GUID a line; none: those of root_guid_file in \
                opensm.conf",
        set: |settings, text| settings.roots.set(text, root_file::read),
        get: |settings| settings.roots.value(),
    },
];

impl Settings {
    /// Reads a configuration file over the defaults.
    ///
    /// # Errors
    /// The first line with an unknown key, an impossible value, or a key for the second time.
    pub fn from_config(text: &str) -> Result<Self, ConfigError> {
        let (settings, mistakes) = Self::as_far_as_readable(text);
        mistakes.into_iter().next().map_or(Ok(settings), Err)
    }

    /// The same without the lines that are mistakes, and these.
    pub fn as_far_as_readable(text: &str) -> (Self, Vec<ConfigError>) {
        let mut settings = Self::default();
        let mut seen = Vec::new();
        let mut take = |line: &str| {
            let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                let known: Vec<_> = KEYS.iter().map(|key| key.name).collect();
                return Err(format!("there is no key '{name}'; there are {}", known.join(", ")));
            };
            if seen.contains(&key.name) {
                return Err(format!("{name} is set a second time"));
            }
            seen.push(key.name);
            key.set(&mut settings, value.trim()).map_err(|reason| format!("{name}: {reason}"))
        };
        let mut mistakes = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let (false, Err(reason)) = (line.is_empty(), take(line)) {
                mistakes.push(ConfigError { line: number, reason });
            }
        }
        (settings, mistakes)
    }

    /// Every choice as the file would say it, on one line.
    pub fn describe(&self) -> String {
        KEYS.iter().map(|key| format!("{} {}", key.name, key.value(self))).collect::<Vec<_>>().join(", ")
    }
}

fn parse<T: std::str::FromStr>(text: &str, into: &mut T) -> Result<(), String> {
    *into = text.parse().map_err(|_| format!("'{text}' cannot be read"))?;
    Ok(())
}

/// `auto` is `None`.
fn parse_or_auto<T: std::str::FromStr>(text: &str, into: &mut Option<T>) -> Result<(), String> {
    if text == AUTO {
        *into = None;
        return Ok(());
    }
    *into = Some(text.parse().map_err(|_| format!("'{text}' cannot be read"))?);
    Ok(())
}

fn auto_or(value: Option<impl ToString>) -> String {
    value.map_or(AUTO.to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::{KEYS, Settings};
    use crate::engine::{Optimise, Pairs, Prefer, Weights};

    #[test]
    fn an_empty_file_means_the_defaults() {
        assert_eq!(Settings::from_config("# nothing\n\n"), Ok(Settings::default()));
    }

    #[test]
    fn what_settings_say_reads_back() {
        let text = "engine updn-trees # not the default\nvls 4\n sls 8\nprefer minimal\nmax_nonminimal 0.5\nmax_loss 0.1\n\
                    search_effort 2.5\nlayers diverse\ntrees 3\nclasses 2\nspread yes\nbalance stable\n\
                    weights one\npairs random\noptimise best\npatience 0.5\ndraw_seed 7\ntransition fast\ntransition_steps 2\n";
        let settings = Settings::from_config(text).expect("a valid file");
        assert_eq!((settings.classes, settings.spread), (2, true));
        assert_eq!((settings.proven_transition, settings.transition_steps), (false, 2));
        let drawn =
            (settings.weights, settings.pairs, settings.optimise, settings.patience, settings.draw_seed);
        assert_eq!(drawn, (Weights::One, Pairs::Random, Optimise::Best, 0.5, 7));
        assert_eq!((settings.vls, settings.sls, settings.prefer), (Some(4), 8, Prefer::Minimal));
        let written =
            KEYS.iter().map(|key| format!("{} {}\n", key.name, key.value(&settings))).collect::<String>();
        assert_eq!(Settings::from_config(&written), Ok(settings));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line, word) in [
            ("vls 4\nlanes 2\n", 2, "lanes"),
            ("vls 0\n", 1, "1 to 15"),
            ("vls four\n", 1, "four"),
            ("\n\nsls\n", 3, "1 to 16"),
            ("engine sssp\n", 1, "credit loops"),
            ("engine DFDN\n", 1, "there is no engine"),
            ("prefer both\n", 1, "default, one-sl or minimal"),
            ("max_nonminimal 2\n", 1, "0 to 1"),
            ("balance best\n", 1, "stable"),
            ("layers all\n", 1, "diverse"),
            ("max_nonminimal NaN\n", 1, "0 to 1"),
            ("max_loss -0.1\n", 1, "0 to 1"),
            ("search_effort lots\n", 1, "0 to 1000"),
            ("vls 4\nvls 4\n", 2, "second"),
            ("classes 0\n", 1, "1 to 15"),
            ("classes 16\n", 1, "1 to 15"),
            ("spread TRUE\n", 1, "yes or no"),
            ("pairs 3\n", 1, "guid or random"),
            ("draw_seed 256\n", 1, "0 to 255"),
            ("optimise yes\n", 1, "no, best or random"),
            ("transition slow\n", 1, "proven or fast"),
            ("transition_steps 0\n", 1, "1 to 8"),
            ("patience -1\n", 1, "0 to 1000"),
        ] {
            let error = Settings::from_config(text).expect_err(text);
            assert_eq!(error.line, line, "{text}");
            assert!(error.reason.contains(word), "{text}: {error}");
        }
    }
}
