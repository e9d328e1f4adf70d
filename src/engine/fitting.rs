//! Settings that do not fit the fabric: what to route with instead.

use super::{Baseline, EngineError, Routed, Settings, route_after};
use crate::fabric::Fabric;
use crate::lanes::LanesError;

/// Tables, and the settings that they were made with.
#[derive(Debug)]
pub struct Fitted {
    /// The tables.
    pub routed: Routed,
    /// What they were made with.
    pub settings: Settings,
    /// Why the wanted settings were not used; `None` where they were.
    pub misfit: Option<String>,
}

/// Routes with the wanted settings. Where the fabric has too few VLs or SLs for them, with the settings
/// that it was routed with before; where there are none or they do not fit either, with the nearest that
/// do: fewer classes of service or trees, no limit on VLs and SLs, then the defaults.
///
/// - `before`: settings that served before.
/// - `keep_engine`: whether the engine was named elsewhere and is not to be replaced.
/// - `baseline`: earlier tables to keep to, see [`route_after`].
///
/// Cost: that of [`route_after`], once more for each settings that are tried.
///
/// # Errors
/// The error of the wanted settings where no others serve, or where no settings can help.
pub fn route_fitting(
    fabric: &Fabric,
    wanted: &Settings,
    before: Option<&Settings>,
    keep_engine: bool,
    baseline: Option<&Baseline>,
) -> Result<Fitted, EngineError> {
    let error = match route_after(fabric, wanted, baseline) {
        Ok(routed) => return Ok(Fitted { routed, settings: wanted.clone(), misfit: None }),
        Err(error) => error,
    };
    if !may_be_the_settings(&error) {
        return Err(error);
    }
    let mut failed = vec![wanted.clone()];
    for settings in before.cloned().into_iter().chain(nearest(wanted, &error, keep_engine)) {
        if failed.contains(&settings) {
            continue;
        }
        if let Ok(routed) = route_after(fabric, &settings, baseline) {
            let misfit = Some(in_words(wanted, &settings, &error));
            return Ok(Fitted { routed, settings, misfit });
        }
        failed.push(settings);
    }
    Err(error)
}

/// Whether other settings might serve where these do not.
fn may_be_the_settings(error: &EngineError) -> bool {
    match error {
        EngineError::Unknown { .. }
        | EngineError::Setting { .. }
        | EngineError::Lanes { .. }
        | EngineError::OwnLimit { .. }
        | EngineError::Classes { .. } => true,
        EngineError::Routing(_) | EngineError::Fabric(_) | EngineError::Rejected { .. } => false,
    }
}

/// Settings that are like the wanted ones but for what limits, the nearest first.
fn nearest(wanted: &Settings, error: &EngineError, keep_engine: bool) -> Vec<Settings> {
    let mut list = Vec::new();
    if let EngineError::Classes { fit, .. } = error {
        list.push(Settings { classes: *fit, ..wanted.clone() });
    }
    if let Some(trees) = trees_that_fit(wanted, error) {
        list.push(Settings { trees, ..wanted.clone() });
    }
    let unlimited = Settings { vls: None, sls: Settings::default().sls, ..wanted.clone() };
    list.push(unlimited.clone());
    list.push(Settings { classes: 1, ..unlimited });
    let Settings { hold, roots, roles, .. } = wanted.clone();
    let sweep_log = wanted.sweep_log.clone();
    let defaults = Settings { hold, roots, roles, sweep_log, ..Settings::default() };
    list.push(Settings { engine: wanted.engine.clone(), ..defaults.clone() });
    if !keep_engine {
        list.push(defaults);
    }
    list
}

/// Of the engine that takes a VL and an SL for each tree: as many as there are of both.
fn trees_that_fit(wanted: &Settings, error: &EngineError) -> Option<u8> {
    let offered = match error {
        EngineError::Lanes {
            source: LanesError::TooFewVls { offered, .. } | LanesError::TooFewSls { offered, .. },
            ..
        }
        | EngineError::OwnLimit { offered, .. } => *offered,
        _ => return None,
    };
    (wanted.engine == "updn-trees" && wanted.classes == 1 && offered >= 1 && offered < wanted.trees)
        .then_some(offered)
}

/// The reason, and what was changed: `..., so the fabric is routed with classes 4 instead of 5`.
fn in_words(wanted: &Settings, used: &Settings, error: &EngineError) -> String {
    let trees = trees_that_fit(wanted, error);
    let hint = trees.map_or_else(String::new, |trees| format!(" (with this engine: trees {trees} at most)"));
    let changed: Vec<String> = super::KEYS
        .iter()
        .map(|key| (key.name, key.value(used), key.value(wanted)))
        .filter(|(_, used, wanted)| used != wanted)
        .map(|(name, used, wanted)| format!("{name} {used} instead of {wanted}"))
        .collect();
    let mut error = error.to_string();
    if error.ends_with('.') {
        error.pop();
    }
    format!("{error}{hint}. Until that is changed the fabric is routed with {}", changed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::route;
    use super::*;
    use crate::topology::Ring;

    fn ring() -> Fabric {
        Ring { switches: 6, cas: 1 }.build().expect("a ring")
    }

    fn settings(text: &str) -> Settings {
        Settings::from_config(text).expect("valid settings")
    }

    fn fitted(wanted: &str, before: Option<&str>) -> Fitted {
        let before = before.map(settings);
        route_fitting(&ring(), &settings(wanted), before.as_ref(), false, None).expect("something fits")
    }

    #[test]
    fn what_fits_is_used_as_it_is() {
        let fitted = fitted("classes 2\nvls 4\n", Some("classes 3\n"));
        assert!(fitted.misfit.is_none() && fitted.settings.classes == 2);
    }

    #[test]
    fn settings_from_before_stay() {
        let fitted = fitted("classes 15\n", Some("classes 2\n"));
        assert_eq!(fitted.settings, settings("classes 2\n"));
        let why = fitted.misfit.expect("a reason");
        assert!(why.contains("Set classes to at most") && why.contains("classes 2 instead of 15"), "{why}");
    }

    #[test]
    fn without_any_the_nearest_that_fit_are_used() {
        let classes = fitted("classes 15\nprefer one-sl\n", None);
        assert_eq!(classes.settings, settings("classes 8\nprefer one-sl\n"), "{:?}", classes.misfit);
        let trees = fitted("engine updn-trees\nvls 3\ntrees 5\n", None);
        assert_eq!(trees.settings, settings("engine updn-trees\nvls 3\ntrees 3\n"), "{:?}", trees.misfit);
        assert!(trees.misfit.expect("a reason").contains("trees 3 at most"));
        let own = fitted("engine dfdn-paper\nvls 1\n", None);
        assert_eq!(own.settings, settings("engine dfdn-paper\n"), "{:?}", own.misfit);
        assert!(own.misfit.expect("a reason").contains("vls auto instead of 1"));
        let engine = fitted("engine dfd2\n", None);
        assert_eq!(engine.settings, Settings::default(), "{:?}", engine.misfit);
    }

    #[test]
    fn settings_that_served_are_no_use_where_they_fit_no_more() {
        let before = fitted("classes 15\nprefer one-sl\n", Some("engine dfd2\n"));
        assert_eq!(before.settings.classes, 8);
    }

    #[test]
    fn an_engine_that_was_named_elsewhere_stays() {
        let wanted = settings("engine dfd2\n");
        assert!(route_fitting(&ring(), &wanted, None, true, None).is_err());
    }

    #[test]
    fn what_limits_is_blamed() {
        let error = |text: &str| route(&ring(), &settings(text)).expect_err(text).to_string();
        let own = error("vls 1\nmax_nonminimal 0.01\nprefer minimal\nengine dfdn-paper\n");
        assert!(own.contains("the setting vls") && !own.contains("replace"), "{own}");
        let sls = error("sls 1\nengine dfdn-paper\n");
        assert!(sls.contains("the setting sls"), "{sls}");
    }
}
