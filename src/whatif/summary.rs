//! The mean, the worst and the ten worst of many rows.

use std::cmp::Reverse;

use serde::Serialize;

use super::{Figures, Row};

/// Rows that are named.
const NAMED: usize = 10;

/// What all rows say together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of failures.
    pub failures: usize,
    /// Failures after which there are no tables.
    pub unroutable: usize,
    /// Failures after which some step of the way to the new tables is not proven free of credit loops.
    pub unproven: usize,
    /// Means over the failures; those of tables over the failures that have some. `None` without any.
    pub mean: Option<Extremes>,
    /// The worst value of each, not of one failure.
    pub extremes: Option<Extremes>,
    /// The worst rows, the worst first: those without tables, with most hosts cut off that have a link to a working
    /// switch, with the least bandwidth, with most hosts cut off, with most blocks; then in their order.
    pub worst: Vec<Row>,
}

/// A number for each column.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields of `Row`, `Figures` and `Way`")]
pub struct Extremes {
    pub cut_off: f64,
    pub pairs_cut: f64,
    pub vls: f64,
    pub sls: f64,
    pub nonminimal_share: f64,
    pub ebb: f64,
    pub edge_forwarding_index: f64,
    pub lft_blocks: f64,
    pub sl2vl_rows: f64,
    pub steps: f64,
    pub dropped_entries: f64,
}

impl Summary {
    /// Cost: O(n log n) for n rows.
    pub fn new(rows: &[Row]) -> Self {
        let routed: Vec<Figures> = rows.iter().filter_map(|row| row.figures).collect();
        let mut worst: Vec<&Row> = rows.iter().collect();
        worst.sort_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(std::cmp::Ordering::Equal));
        let of = |over: fn(&mut dyn Iterator<Item = f64>) -> f64,
                  lowest: fn(&mut dyn Iterator<Item = f64>) -> f64| {
            let row = |value: fn(&Row) -> u64| over(&mut rows.iter().map(|row| value(row) as f64));
            let figure = |value: fn(&Figures) -> f64| over(&mut routed.iter().map(value));
            (!routed.is_empty()).then(|| Extremes {
                cut_off: row(|r| r.cut_off),
                pairs_cut: row(|r| r.pairs_cut),
                vls: figure(|f| f.vls.into()),
                sls: figure(|f| f.sls.into()),
                nonminimal_share: figure(|f| f.nonminimal_share),
                ebb: lowest(&mut routed.iter().map(|f| f.ebb)),
                edge_forwarding_index: figure(|f| f.edge_forwarding_index as f64),
                lft_blocks: figure(|f| f.lft_blocks as f64),
                sl2vl_rows: figure(|f| f.sl2vl_rows as f64),
                steps: figure(|f| f.transition.steps as f64),
                dropped_entries: figure(|f| f.transition.dropped_entries as f64),
            })
        };
        Self {
            failures: rows.len(),
            unroutable: rows.len() - routed.len(),
            unproven: routed.iter().filter(|f| !f.transition.proven).count(),
            mean: of(mean, mean),
            extremes: of(|values| values.fold(0.0, f64::max), |values| values.fold(1.0, f64::min)),
            worst: worst.into_iter().take(NAMED).cloned().collect(),
        }
    }
}

fn order(row: &Row) -> (bool, Reverse<u64>, f64, Reverse<u64>, Reverse<u64>) {
    let figures = row.figures.map_or((0.0, 0), |f| (f.ebb, f.lft_blocks));
    (row.figures.is_some(), Reverse(row.cut_off_beyond), figures.0, Reverse(row.cut_off), Reverse(figures.1))
}

fn mean(values: &mut dyn Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
    sum / f64::from(count)
}
