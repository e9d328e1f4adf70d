//! The numbers about one set of tables.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::problems::in_words;
use super::vls::{VlUse, vl_use};
use crate::evaluate::{Evaluation, Options, evaluate};
use crate::fabric::{ChannelId, Fabric, SwitchId};
use crate::routing::Hops;
use crate::tables::Routes;
use crate::verify::{SlSafety, Verdict, Witness};

/// Links that are named as the hottest, and failures as the most expensive.
const HOTTEST: usize = 20;
const COSTLY: usize = 10;
/// Bars of the histogram of loads.
const BINS: u64 = 24;

/// Tables to report on.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What the page calls them.
    pub label: &'a str,
    /// The fabric with the LIDs of these tables.
    pub fabric: &'a Fabric,
    /// The tables.
    pub routes: &'a Routes,
    /// What the judge says of them.
    pub verdict: &'a Verdict,
    /// Which SLs hosts may use.
    pub safety: SlSafety,
}

/// Number of links of a rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rates {
    /// `4x EDR`; `?` for what is not stated.
    pub rate: String,
    /// Between switches.
    pub between_switches: usize,
    /// Of adapters.
    pub of_adapters: usize,
}

/// The links of a fabric by rate, the slower end of each.
pub(super) fn rates(fabric: &Fabric) -> Vec<Rates> {
    let mut counts: BTreeMap<_, (usize, usize)> = BTreeMap::new();
    let rate = |s: SwitchId, port: usize| {
        let port = &fabric.switch(s).ports[port];
        (port.width, port.speed)
    };
    for (_, c) in fabric.channels().iter().filter(|(id, c)| *id < c.reverse) {
        let least = rate(c.from, c.out_port.index()).min(rate(c.to, c.in_port.index()));
        counts.entry(least).or_default().0 += 1;
    }
    for (s, port) in fabric.adapters().filter_map(|(_, end)| end.attachment) {
        counts.entry(rate(s, port.index())).or_default().1 += 1;
    }
    let row = |(rate, (between_switches, of_adapters))| Rates {
        rate: in_words(rate),
        between_switches,
        of_adapters,
    };
    counts.into_iter().map(row).collect()
}

/// A channel with much load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HotLink {
    /// The sending switch and its port.
    pub from: String,
    /// The sender's port.
    pub out_port: u8,
    /// The receiving switch.
    pub to: String,
    /// The receiver's port.
    pub in_port: u8,
    /// Routes of adapter pairs over it.
    pub routes: u64,
}

/// Channels with a load in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// The least load.
    pub from: u64,
    /// The largest load.
    pub to: u64,
    /// Number of channels.
    pub channels: u64,
}

/// Ordered adapter pairs by number of channels between switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HopCount {
    /// Channels.
    pub hops: usize,
    /// Pairs whose path has as many.
    pub pairs: u64,
    /// Pairs whose shortest path has as many.
    pub shortest: u64,
}

/// A link or switch whose failure cuts many pairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// What fails.
    pub failed: String,
    /// Ordered adapter pairs that lose their path until the fabric is routed again.
    pub pairs_cut: u64,
}

/// The numbers about one set of tables. Where routes do not arrive there is no load, and [`error`](Self::error) says
/// why.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// What the page calls them.
    pub label: String,
    /// The engine that made them, or where they come from.
    pub engine: String,
    /// What was assumed or ignored.
    pub remarks: Vec<String>,
    /// The verdict, as `dfdn verify --json` prints it.
    pub verdict: Value,
    /// Which SLs hosts may use.
    pub safe_with_sls: Value,
    /// What hosts must do, one sentence.
    pub hosts: &'static str,
    /// The witness as text.
    pub witness: Option<String>,
    /// The credit loop: its channels with their VLs.
    pub credit_loop: Vec<String>,
    /// Why there are no loads and lengths.
    pub error: Option<String>,
    /// Metrics as `dfdn evaluate --json` prints them, without loads by channel.
    pub metrics: Value,
    /// The channels with most routes, the first with most.
    pub hottest: Vec<HotLink>,
    /// Channels by load.
    pub load_histogram: Vec<Bin>,
    /// Pairs by length.
    pub lengths: Vec<HopCount>,
    /// Use of each VL.
    pub vls: Vec<VlUse>,
    /// Of how many receivers one was followed for the use of VLs.
    pub vls_sampled: usize,
    /// The links whose failure cuts most pairs.
    pub costly_links: Vec<Cost>,
    /// The switches whose failure cuts most pairs, with those of their own adapters.
    pub costly_switches: Vec<Cost>,
    /// Routes on each channel.
    #[serde(skip)]
    pub load: Vec<u64>,
}

impl Facts {
    pub(super) fn new(subject: &Subject<'_>, options: &Options) -> Self {
        let Subject { label, fabric, routes, verdict, safety } = *subject;
        let waits = verdict.witnesses.iter().find_map(|witness| match witness {
            Witness::CreditLoop(waits) => Some(waits),
            _ => None,
        });
        let wait = |wait: &crate::verify::Wait| {
            format!("{} VL {}", fabric.describe_channel(wait.channel), wait.vl.0)
        };
        let measured = evaluate(fabric, routes, options);
        let mut facts = Self {
            label: label.to_owned(),
            engine: routes.engine.clone(),
            remarks: routes.remarks.clone(),
            verdict: verdict.to_json(fabric),
            safe_with_sls: safety.to_json(),
            hosts: advice(verdict, safety),
            witness: verdict.witness().map(|witness| witness.explain(fabric)),
            credit_loop: waits.into_iter().flatten().map(wait).collect(),
            error: measured.as_ref().err().map(ToString::to_string),
            metrics: Value::Null,
            hottest: Vec::new(),
            load_histogram: Vec::new(),
            lengths: Vec::new(),
            vls: Vec::new(),
            vls_sampled: 1,
            costly_links: Vec::new(),
            costly_switches: Vec::new(),
            load: Vec::new(),
        };
        if let Ok(measured) = measured {
            facts.measure(fabric, routes, measured);
        }
        facts
    }

    fn measure(&mut self, fabric: &Fabric, routes: &Routes, mut measured: Evaluation) {
        let load = std::mem::take(&mut measured.load.channel_load);
        self.metrics = serde_json::to_value(&measured).unwrap_or_default();
        if let Some(all) = self.metrics.as_object_mut() {
            all.remove("channel_load");
        }
        let mut order: Vec<ChannelId> = fabric.channels().iter().map(|(id, _)| id).collect();
        order.sort_by_key(|id| (Reverse(load[id.index()]), *id));
        let hot = |&id: &ChannelId| {
            let c = fabric.channels().get(id);
            HotLink {
                from: fabric.describe_switch(c.from),
                out_port: c.out_port.0,
                to: fabric.describe_switch(c.to),
                in_port: c.in_port.0,
                routes: load[id.index()],
            }
        };
        self.hottest = order.iter().take(HOTTEST).map(hot).collect();
        self.load_histogram = bins(&load);
        self.lengths = lengths(fabric, &measured.lengths.hop_histogram);
        (self.vls, self.vls_sampled) = vl_use(fabric, routes);
        self.costly_links = costly_links(fabric, &load);
        self.costly_switches = costly_switches(fabric, &load);
        self.load = load;
    }
}

/// What hosts must do.
fn advice(verdict: &Verdict, safety: SlSafety) -> &'static str {
    match (verdict.is_safe(), safety) {
        (false, _) => "No choice of SLs makes these tables safe.",
        (true, SlSafety { any: true, .. }) => "Hosts need nothing special: any SL is safe.",
        (true, SlSafety { sl_zero: true, .. }) => {
            "Hosts must use SL 0, or ask for the SL of each path (PathRecord)."
        }
        (true, SlSafety { replies: true, .. }) => {
            "Hosts must ask for the SL of each path (PathRecord); replies may have the SL of their request."
        }
        (true, _) => "Hosts must ask for the SL of each path (PathRecord), replies included.",
    }
}

fn bins(load: &[u64]) -> Vec<Bin> {
    let most = load.iter().copied().max().unwrap_or(0);
    let width = (most + 1).div_ceil(BINS).max(1);
    let mut bins: Vec<Bin> = (0..(most + 1).div_ceil(width))
        .map(|i| Bin { from: i * width, to: (i + 1) * width - 1, channels: 0 })
        .collect();
    load.iter().for_each(|&routes| bins[(routes / width) as usize].channels += 1);
    bins
}

fn lengths(fabric: &Fabric, paths: &[u64]) -> Vec<HopCount> {
    let mut shortest: Vec<u64> = Vec::new();
    if let Ok(hops) = Hops::new(fabric) {
        let adapters: Vec<u64> = fabric.switch_ids().map(|s| fabric.num_adapters_on(s) as u64).collect();
        shortest.resize(usize::from(hops.diameter()) + 1, 0);
        for s in fabric.switch_ids() {
            for (&distance, &there) in hops.row(s).iter().zip(&adapters) {
                shortest[usize::from(distance)] += adapters[s.index()] * there;
            }
        }
        // Nobody sends to itself.
        shortest[0] -= adapters.iter().sum::<u64>();
    }
    while shortest.last() == Some(&0) {
        shortest.pop();
    }
    let at = |list: &[u64], hops: usize| list.get(hops).copied().unwrap_or(0);
    let count = paths.len().max(shortest.len());
    (0..count).map(|hops| HopCount { hops, pairs: at(paths, hops), shortest: at(&shortest, hops) }).collect()
}

fn costly_links(fabric: &Fabric, load: &[u64]) -> Vec<Cost> {
    let cables = fabric.channels().iter().filter(|(id, c)| *id < c.reverse);
    let mut costs: Vec<(u64, ChannelId)> =
        cables.map(|(id, c)| (load[id.index()] + load[c.reverse.index()], id)).collect();
    costs.sort_by_key(|&(pairs, id)| (Reverse(pairs), id));
    let cost = |&(pairs_cut, id): &(u64, ChannelId)| Cost { failed: fabric.describe_channel(id), pairs_cut };
    costs.iter().take(COSTLY).map(cost).collect()
}

/// A route enters a switch at most once: those over its incoming channels, and those that begin on it.
fn costly_switches(fabric: &Fabric, load: &[u64]) -> Vec<Cost> {
    let adapters = fabric.adapters().count() as u64;
    let mut costs: Vec<(u64, SwitchId)> = fabric
        .switch_ids()
        .map(|s| {
            let arriving: u64 = fabric.channels().out(s).map(|(_, c)| load[c.reverse.index()]).sum();
            (arriving + fabric.num_adapters_on(s) as u64 * adapters.saturating_sub(1), s)
        })
        .collect();
    costs.sort_by_key(|&(pairs, s)| (Reverse(pairs), s));
    let cost = |&(pairs_cut, s): &(u64, SwitchId)| Cost { failed: fabric.describe_switch(s), pairs_cut };
    costs.iter().take(COSTLY).map(cost).collect()
}
