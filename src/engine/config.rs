//! The configuration file of the plugin: `name value` lines as in `opensm.conf`, which the same
//! people edit; `#` starts a comment. There are few keys, none nested, so a richer format would
//! only invite mistakes.

use thiserror::Error;

use super::{Balance, Prefer, Settings, by_name};
use crate::fabric::Vl;

/// A key of the file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it does and what it may be, in one line.
    pub about: &'static str,
    set: fn(&mut Settings, &str) -> Result<(), String>,
    get: fn(&Settings) -> String,
}

impl Key {
    /// The value in some settings, as the file would say it.
    pub fn value(&self, settings: &Settings) -> String {
        (self.get)(settings)
    }
}

/// All keys.
pub const KEYS: &[Key] = &[
    Key {
        name: "engine",
        about: "engine behind the name dfdn; any that is deadlock-free",
        set: |settings, text| {
            let engine = by_name(text).map_err(|error| error.to_string())?;
            if !engine.deadlock_free {
                return Err(format!("{text} is a bare routing and may have credit loops"));
            }
            settings.engine = engine.name.to_owned();
            Ok(())
        },
        get: |settings| settings.engine.clone(),
    },
    Key {
        name: "vls",
        about: "data VLs to plan with, 1 to 15, at most what every link between switches operates; auto: all of them",
        set: |settings, text| or_auto(text, |text| number(text, 1, 15)).map(|vls| settings.vls = vls),
        get: |settings| auto_or(settings.vls),
    },
    Key {
        name: "sls",
        about: "SLs that may be given out, 1 to 16",
        set: |settings, text| number(text, 1, 16).map(|sls| settings.sls = sls),
        get: |settings| settings.sls.to_string(),
    },
    Key {
        name: "prefer",
        about: "one-sl: one SL for every pair; minimal: shortest paths; default: one SL if few pairs pay for it",
        set: |settings, text| text.parse::<Prefer>().map(|prefer| settings.prefer = prefer),
        get: |settings| settings.prefer.to_string(),
    },
    Key {
        name: "max_nonminimal",
        about: "largest share of adapter pairs on longer paths that one SL may cost, 0 to 1; auto: 0.02, or no \
                limit with prefer one-sl",
        set: |settings, text| or_auto(text, share).map(|share| settings.max_nonminimal = share),
        get: |settings| auto_or(settings.max_nonminimal),
    },
    Key {
        name: "max_loss",
        about: "largest share of the bandwidth that one SL may cost with prefer default, 0 to 1, where the search \
                can compare",
        set: |settings, text| share(text).map(|share| settings.max_loss = share),
        get: |settings| settings.max_loss.to_string(),
    },
    Key {
        name: "search_effort",
        about: "work for the search of an order, in passes of P-SSSP, 0 to 1000; more may save VLs and detours",
        set: |settings, text| effort(text).map(|effort| settings.search_effort = effort),
        get: |settings| settings.search_effort.to_string(),
    },
    Key {
        name: "balance",
        about: "stable: a failed link changes few tables; full: balanced anew whenever the fabric changes; auto: stable \
                where that costs next to nothing",
        set: |settings, text| text.parse::<Balance>().map(|balance| settings.balance = balance),
        get: |settings| settings.balance.to_string(),
    },
    Key {
        name: "trees",
        about: "trees of the engine updn-trees, 1 to 15",
        set: |settings, text| number(text, 1, 15).map(|trees| settings.trees = trees),
        get: |settings| settings.trees.to_string(),
    },
    Key {
        name: "classes",
        about: "classes of service, 1 to 15, each with VLs of its own; SL n is of class n modulo this",
        set: |settings, text| number(text, 1, Vl::MAX_DATA).map(|classes| settings.classes = classes),
        get: |settings| settings.classes.to_string(),
    },
    Key {
        name: "spread",
        about: "yes: idle VLs keep destinations apart, against head-of-line blocking; no: they stay idle",
        set: |settings, text| yes_or_no(text).map(|spread| settings.spread = spread),
        get: |settings| if settings.spread { "yes" } else { "no" }.to_owned(),
    },
];

/// A line with a mistake.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {reason}")]
pub struct ConfigError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it and what would be right.
    pub reason: String,
}

impl Settings {
    /// Reads a configuration file over the defaults.
    ///
    /// # Errors
    /// The first line with an unknown key, an impossible value, or a key for the second time.
    pub fn from_config(text: &str) -> Result<Self, ConfigError> {
        let mut settings = Self::default();
        let mut seen = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            let wrong = |reason| ConfigError { line: line_number, reason };
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                let known: Vec<_> = KEYS.iter().map(|key| key.name).collect();
                return Err(wrong(format!("there is no key '{name}'; there are {}", known.join(", "))));
            };
            if seen.contains(&key.name) {
                return Err(wrong(format!("{name} is set a second time")));
            }
            seen.push(key.name);
            (key.set)(&mut settings, value.trim()).map_err(|reason| wrong(format!("{name}: {reason}")))?;
        }
        Ok(settings)
    }

    /// Every choice as the file would say it, on one line.
    pub fn describe(&self) -> String {
        KEYS.iter().map(|key| format!("{} {}", key.name, key.value(self))).collect::<Vec<_>>().join(", ")
    }
}

fn number(text: &str, least: u8, most: u8) -> Result<u8, String> {
    let number = text.parse::<u8>().ok().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| format!("'{text}' is no number from {least} to {most}"))
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("'{text}' is neither yes nor no")),
    }
}

/// `auto`, or what `parse` takes.
fn or_auto<T>(text: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text == "auto" { Ok(None) } else { parse(text).map(Some) }
}

fn auto_or(value: Option<impl ToString>) -> String {
    value.map_or("auto".to_owned(), |value| value.to_string())
}

/// A share from 0 to 1, as the file and the command take it.
///
/// # Errors
/// What is wrong with the text.
pub fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("'{text}' is no number from 0 to 1"))
}

/// Passes from 0 to 1000, as the file and the command take them.
///
/// # Errors
/// What is wrong with the text.
pub fn effort(text: &str) -> Result<f64, String> {
    let effort = text.parse::<f64>().ok().filter(|effort| (0.0..=1000.0).contains(effort));
    effort.ok_or_else(|| format!("'{text}' is no number from 0 to 1000"))
}

#[cfg(test)]
mod tests {
    use super::{KEYS, Settings};
    use crate::engine::Prefer;

    #[test]
    fn an_empty_file_means_the_defaults() {
        assert_eq!(Settings::from_config("# nothing\n\n"), Ok(Settings::default()));
    }

    #[test]
    fn what_settings_say_reads_back() {
        let text = "engine updn-trees # not the default\nvls 4\n sls 8\nprefer minimal\nmax_nonminimal 0.5\nmax_loss 0.1\n\
                    search_effort 2.5\ntrees 3\nclasses 2\nspread yes\nbalance stable\n";
        let settings = Settings::from_config(text).expect("a valid file");
        assert_eq!((settings.classes, settings.spread), (2, true));
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
            ("prefer both\n", 1, "one-sl"),
            ("max_nonminimal 2\n", 1, "0 to 1"),
            ("balance best\n", 1, "stable"),
            ("max_nonminimal NaN\n", 1, "0 to 1"),
            ("max_loss -0.1\n", 1, "0 to 1"),
            ("search_effort lots\n", 1, "0 to 1000"),
            ("vls 4\nvls 4\n", 2, "second"),
            ("classes 0\n", 1, "1 to 15"),
            ("classes 16\n", 1, "1 to 15"),
            ("spread TRUE\n", 1, "neither yes nor no"),
        ] {
            let error = Settings::from_config(text).expect_err(text);
            assert_eq!(error.line, line, "{text}");
            assert!(error.reason.contains(word), "{text}: {error}");
        }
    }
}
