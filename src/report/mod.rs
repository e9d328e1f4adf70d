//! A report on a fabric and its tables: one HTML file without network, and the same numbers as JSON.
//!
//! ```text
//! Fabric, Subjects ──> Report (facts; JSON) ──> page (HTML: sections, SVG charts, an inline script)
//! ```
//!
//! Node descriptions come from whoever owns a host: all text passes the escape of `html`, and the policy
//! of the page lets no script run but its own.

mod charts;
mod facts;
mod groups;
mod html;
mod page;
mod paths;
mod problems;
mod vls;
mod weak;

use serde::Serialize;
use serde_json::Value;

pub use facts::{Bin, Cost, Facts, HopCount, HotLink, Rates, Subject};
pub use groups::Groups;
pub use page::render;
pub use paths::{Hop, Path, PathError, path};
pub use problems::Problem;
pub use vls::VlUse;

use crate::evaluate::Options;
use crate::fabric::Fabric;
use crate::whatif::Summary;

/// A file or a folder that the report was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// SHA-256 of its content in hexadecimal digits; empty if it was not read from a file.
    pub sha256: String,
}

/// Everything on the page.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The fabric in words.
    pub fabric: String,
    /// Number of switches.
    pub switches: usize,
    /// Number of adapter ports on switches.
    pub adapters: usize,
    /// Number of cables that are up.
    pub links: usize,
    /// Links by rate.
    pub rates: Vec<Rates>,
    /// What is wrong with the fabric.
    pub problems: Vec<Problem>,
    /// Groups of switches.
    pub groups: Groups,
    /// What each set of tables does; the first is the subject of the charts.
    pub tables: Vec<Facts>,
    /// What they were made from.
    pub sources: Vec<Source>,
    /// The command line.
    pub command: String,
    /// The version of dfdn.
    pub version: &'static str,
    /// What `dfdn whatif` found, if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whatif: Option<Summary>,
    /// All of this as JSON: the page takes its numbers from here.
    #[serde(skip)]
    pub json: Value,
}

impl Report {
    /// Collects everything.
    ///
    /// - `subjects`: tables for the fabric, not none.
    /// - `options`: how the bandwidth is measured.
    /// - `sources`, `command`, `whatif`: as the fields.
    ///
    /// Cost: for each subject that of [`evaluate`](crate::evaluate::evaluate), and O(S^2 d) for the shortest paths.
    ///
    /// # Panics
    /// If there is no subject, or one has tables of another fabric.
    pub fn new(
        subjects: &[Subject<'_>],
        options: &Options,
        sources: Vec<Source>,
        command: String,
        whatif: Option<Summary>,
    ) -> Self {
        let fabric: &Fabric = subjects[0].fabric;
        let groups = Groups::find(fabric);
        let mut report = Self {
            fabric: fabric.to_string(),
            switches: fabric.num_switches(),
            adapters: fabric.adapters().count(),
            links: fabric.num_links(),
            rates: facts::rates(fabric),
            problems: problems::problems(fabric, &groups),
            groups,
            tables: subjects.iter().map(|subject| Facts::new(subject, options)).collect(),
            sources,
            command,
            version: env!("CARGO_PKG_VERSION"),
            whatif,
            json: Value::Null,
        };
        report.json = serde_json::to_value(&report).unwrap_or_default();
        report
    }
}
