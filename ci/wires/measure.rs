//! What the parts share: tables, sweeps over loads, and figures taken from them.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use dfdn::engine;
use dfdn::fabric::{Fabric, Sl};
use dfdn::formats;
use dfdn::simulate::{Load, Row, Settings, SimulateError, Simulation};
use dfdn::tables::Routes;

pub(crate) type Fallible<T = ()> = Result<T, Box<dyn Error>>;

/// The arguments.
pub(crate) struct Context {
    pub(crate) quick: bool,
    pub(crate) dumps: PathBuf,
    pub(crate) plots: PathBuf,
}

impl Context {
    /// One of two values.
    pub(crate) fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The fabric of a folder of dumps.
    pub(crate) fn fabric(&self, name: &str) -> Fallible<Fabric> {
        let path = self.dumps.join(name).join("fabric.net");
        Ok(formats::load_fabric(&path)?.0)
    }

    /// The tables of an engine of stock OpenSM, with the LIDs that it assigned, or why there are none.
    pub(crate) fn stock(&self, name: &str, engine: &str) -> Fallible<Result<(Fabric, Routes), String>> {
        let folder = self.dumps.join(name).join(engine);
        if let Ok(why) = fs::read_to_string(folder.join("refused")) {
            return Ok(Err(why.trim().to_owned()));
        }
        let (fabric, mut routes) = formats::load_tables(&folder, self.fabric(name)?)?;
        engine.clone_into(&mut routes.engine);
        Ok(Ok((fabric, routes)))
    }

    pub(crate) fn plot(&self, name: &str, panels: &[crate::plot::Panel]) -> Fallible {
        fs::create_dir_all(&self.plots)?;
        Ok(fs::write(self.plots.join(format!("{name}.svg")), crate::plot::svg(panels))?)
    }
}

/// The tables of an engine of dfdn.
pub(crate) fn ours(fabric: &Fabric, engine: &str) -> Fallible<Routes> {
    let settings = engine::Settings { engine: engine.to_owned(), ..engine::Settings::default() };
    Ok(engine::route(fabric, &settings)?.routes)
}

/// A row for each load and seed, by load and then by seed.
pub(crate) fn sweep(
    fabric: &Fabric,
    routes: &Routes,
    settings: &Settings,
    loads: &[Load],
    seeds: u64,
) -> Result<Vec<Row>, SimulateError> {
    let runs: Vec<(Load, u64)> =
        loads.iter().flat_map(|&load| (1..=seeds).map(move |seed| (load, seed))).collect();
    Simulation::new(fabric, routes, settings)?.sweep(&runs, &|| false, &|_| ())
}

pub(crate) fn shares(loads: &[f64]) -> Vec<Load> {
    loads.iter().map(|&load| Load::Share(load)).collect()
}

/// The largest accepted share of some rows, [`None`] after a deadlock.
pub(crate) fn saturation(rows: &[Row]) -> Option<f64> {
    let sound = rows.iter().all(|row| row.deadlock.is_none());
    sound.then(|| rows.iter().map(|row| row.accepted).fold(0.0, f64::max))
}

/// Time of the first deadlock in microseconds, over rows.
pub(crate) fn first_deadlock(rows: &[Row]) -> Option<f64> {
    let times = rows.iter().filter_map(|row| row.deadlock.as_ref()).map(|stuck| stuck.time as f64 / 1e6);
    times.min_by(f64::total_cmp)
}

/// Why a simulation is impossible, in a few words.
pub(crate) fn in_short(why: &SimulateError) -> &'static str {
    match why {
        SimulateError::Unreached { .. } => "some pairs have no path",
        SimulateError::NoSl { .. } => "some pairs have no SL",
        _ => "cannot be simulated",
    }
}

/// All packets with SL 0.
pub(crate) fn on_sl_0(settings: &Settings) -> Settings {
    Settings { sl: Some(Sl(0)), ..settings.clone() }
}

/// Least, largest and mean.
pub(crate) fn spread(values: &[f64]) -> (f64, f64, f64) {
    let (least, largest) = values.iter().fold((f64::INFINITY, 0_f64), |(a, b), &v| (a.min(v), b.max(v)));
    (least, largest, values.iter().sum::<f64>() / values.len() as f64)
}

/// The middle value.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
