//! Classes of service over any engine, and destinations spread over unused VLs.

use super::plan::{self, Plan};
use super::{Engine, EngineError, Prefer, Settings, Task};
use crate::fabric::Fabric;
use crate::lanes::{LaneLimits, Lanes, LanesError, classes};
use crate::tables::{Classes, PathSl};

/// Runs an engine with the share of the VLs and SLs that each class has, and gives every class its own.
///
/// With several classes the default limit on detours is strict: a share that is too small is refused, not served
/// with long paths.
///
/// # Errors
/// [`EngineError::Classes`] where fewer classes would do, found by running the engine for them; otherwise those of
/// the engine.
pub(super) fn plan(engine: &Engine, task: Task<'_>) -> Result<(Plan, Classes), EngineError> {
    let Task { fabric, settings, limits, .. } = task;
    let wanted = settings.classes;
    let run = |number: u8| {
        let part = LaneLimits { vls: limits.vls / number, sls: limits.sls / number };
        if part.vls == 0 || part.sls == 0 {
            return Err(none_left(engine.name, part));
        }
        let mut settings = settings.clone();
        if number > 1 && settings.prefer != Prefer::OneSl {
            settings.max_nonminimal.get_or_insert(Settings::MAX_NONMINIMAL);
        }
        (engine.run)(Task { settings: &settings, limits: part, ..task })
    };
    let part = LaneLimits { vls: limits.vls / wanted, sls: limits.sls / wanted };
    let lacks = match run(wanted) {
        Ok(plan) => return Ok(divided(fabric, plan, settings, limits)),
        Err(EngineError::Lanes { source, .. }) if wanted > 1 => source,
        Err(error) => return Err(error),
    };
    let (fit, plan) = most_that_fit(run, wanted, lacks, limits)?;
    Err(EngineError::Classes {
        engine: engine.name,
        classes: wanted,
        limits,
        part,
        fit,
        takes: LaneLimits { vls: plan.vls, sls: sls_of(&plan.path_sl) },
    })
}

/// The most classes below `wanted` that `run` serves, and the plan of one of them. The search begins with what an
/// engine says that it needs, which may be too much.
///
/// - `lacks`: what `wanted` classes lack.
fn most_that_fit(
    run: impl Fn(u8) -> Result<Plan, EngineError>,
    wanted: u8,
    mut lacks: LanesError,
    limits: LaneLimits,
) -> Result<(u8, Plan), EngineError> {
    let mut too_many = wanted;
    let (mut fit, mut plan) = loop {
        let room = match lacks {
            LanesError::TooFewVls { needed, .. } => usize::from(limits.vls) / needed,
            LanesError::TooFewSls { needed, .. } => usize::from(limits.sls) / needed,
            // No number of VLs helps.
            LanesError::DiameterAboveTwo { .. } => 1,
        };
        let fewer = room.clamp(1, usize::from(too_many) - 1) as u8;
        match run(fewer) {
            Ok(plan) => break (fewer, plan),
            Err(EngineError::Lanes { source, .. }) if fewer > 1 => (lacks, too_many) = (source, fewer),
            Err(error) => return Err(error),
        }
    };
    while fit + 1 < too_many {
        let Ok(more) = run(fit + 1) else { break };
        (fit, plan) = (fit + 1, more);
    }
    Ok((fit, plan))
}

fn none_left(engine: &'static str, part: LaneLimits) -> EngineError {
    let source = match part.vls {
        0 => LanesError::TooFewVls { needed: 1, offered: 0 },
        _ => LanesError::TooFewSls { needed: 1, offered: 0 },
    };
    EngineError::Lanes { engine, source }
}

/// SLs that paths need.
fn sls_of(path_sl: &PathSl) -> u8 {
    match path_sl {
        PathSl::BySwitch(table) | PathSl::ByEndPort(table) => {
            table.iter().fold(0, |most, &sl| sl.max(most)) + 1
        }
        PathSl::BySwitchPair(pairs) => pairs.highest() + 1,
        PathSl::Any(_) | PathSl::Classes(_) => 1,
    }
}

/// The VLs and SLs once for each class, and for each VL set where destinations are spread; untouched where there is
/// one of either.
fn divided(fabric: &Fabric, plan: Plan, settings: &Settings, limits: LaneLimits) -> (Plan, Classes) {
    let mut parts =
        Classes { classes: settings.classes, vl_sets: 1, vls: plan.vls, sls: sls_of(&plan.path_sl) };
    if settings.classes == 1 && !settings.spread {
        return (plan, parts);
    }
    let Plan { lft, sl2vl, path_sl, vls, mut remarks, trees, lineage } = plan;
    if settings.spread {
        parts.vl_sets =
            (limits.vls / settings.classes / vls).min(limits.sls / settings.classes / parts.sls).max(1);
    }
    remarks.extend(in_words(parts, settings.spread, path_sl.any().is_some()));
    if parts.blocks() == 1 {
        return (Plan { lft, sl2vl, path_sl, vls, remarks, trees, lineage }, parts);
    }
    let trees = trees.map(|trees| plan::divided(trees, parts, path_sl.any()));
    let lanes = Lanes { sl2vl, path_sl, vls, sls: parts.sls };
    let Lanes { sl2vl, path_sl, vls, .. } = classes(fabric, lanes, parts, limits.sls);
    (Plan { lft, sl2vl, path_sl, vls, remarks, trees, lineage }, parts)
}

/// What an administrator has to know of classes and VL sets.
fn in_words(parts: Classes, spread: bool, any: bool) -> Vec<String> {
    let Classes { classes, vl_sets, vls, sls } = parts;
    let block = LaneLimits { vls, sls };
    let mut remarks = Vec::new();
    if classes > 1 {
        let per = if vl_sets == 1 { "" } else { " and VL set" };
        remarks.push(format!(
            "{classes} classes of service, {block} for each class{per}: SL n is of class n modulo {classes}, so that \
             SLs 0 to {} name them",
            classes - 1
        ));
    }
    if spread && vl_sets == 1 {
        remarks.push("no VLs are left over to spread destinations on".to_owned());
    } else if spread {
        let who = if any {
            "a host that does not use the SL of its PathRecord is as safe, and not spread"
        } else {
            "as the SL of the PathRecord says, which hosts must use"
        };
        remarks.push(format!("destinations spread over {vl_sets} VL sets, {block} each: {who}"));
    }
    remarks
}
