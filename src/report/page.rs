//! The page: its sections in order.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::charts::{self, Bar};
use super::html::{Text, json as embedded, thousands};
use super::{Facts, Report, Subject};
use crate::fabric::Fabric;
use crate::tables::Lft;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Entries of forwarding tables that the page holds, so that it can show the path of any pair; with more it names the
/// command that does.
const ENTRIES: usize = 700_000;

/// Switches that have a row each in the matrix of loads; above that groups have.
const MATRIX: usize = 300;

/// The page as HTML.
///
/// - `main`: the subject that the first tables of the report are about.
///
/// Cost: O(C), and O(D S) bytes of tables if they are on the page.
pub fn render(report: &Report, main: &Subject<'_>) -> String {
    let mut page = Page { html: String::new(), report, facts: &report.tables[0], fabric: main.fabric };
    let entries = main.fabric.num_switches() * main.fabric.lid_table_len();
    let interactive = entries <= ENTRIES && main.fabric.num_switches() > 0;
    page.head(interactive);
    page.verdict();
    page.problems();
    page.hottest();
    page.lengths();
    page.matrix();
    page.vls();
    page.failures();
    page.compared();
    page.pairs(interactive);
    page.made();
    page.html += "</main>";
    if interactive {
        let tables = tables(main.fabric, &main.routes.lft);
        let _ = write!(
            page.html,
            "<script type=\"application/json\" id=tables>{}</script><script>{SCRIPT}</script>",
            embedded(&tables)
        );
    }
    page.html += "</body></html>\n";
    page.html
}

struct Page<'a> {
    html: String,
    report: &'a Report,
    facts: &'a Facts,
    fabric: &'a Fabric,
}

/// Sections by their anchors.
const SECTIONS: [(&str, &str); 10] = [
    ("verdict", "Verdict"),
    ("problems", "The fabric"),
    ("hottest", "Hottest links"),
    ("lengths", "Path lengths"),
    ("matrix", "Load matrix"),
    ("vls", "Use of VLs"),
    ("failures", "Failures"),
    ("compared", "Tables compared"),
    ("pairs", "Paths"),
    ("made", "How this was made"),
];

impl Page<'_> {
    fn head(&mut self, interactive: bool) {
        let policy = if interactive {
            let hash = |text: &str| BASE64.encode(Sha256::digest(text.as_bytes()));
            format!("script-src 'sha256-{}'; ", hash(SCRIPT))
        } else {
            String::new()
        };
        let _ = write!(
            self.html,
            "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\
             <meta name=viewport content=\"width=device-width,initial-scale=1\">\
             <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; {policy}style-src 'unsafe-inline'; \
             img-src data:\"><link rel=icon href=\"data:,\"><title>{title}</title><style>{STYLE}</style></head><body>\
             <header><h1>{title}</h1><p>{}, routed by <strong>{}</strong></p>",
            Text(&self.report.fabric),
            Text(&self.facts.engine),
            title = Text(format!("InfiniBand routing: {}", self.facts.label)),
        );
        self.html += "<nav aria-label=Sections><ol>";
        for (id, name) in SECTIONS {
            let _ = write!(self.html, "<li><a href=\"#{id}\">{name}</a></li>");
        }
        self.html += "</ol></nav></header><main>";
    }

    fn section(&mut self, id: &str) {
        let name = SECTIONS.iter().find(|section| section.0 == id).map_or(id, |section| section.1);
        let _ = write!(self.html, "<h2 id={id}>{name}</h2>");
    }

    fn text(&mut self, class: &str, text: &str) {
        let _ = write!(self.html, "<p class=\"{class}\">{}</p>", Text(text));
    }

    /// A table. Cells are HTML already; those of the columns in `numbers` are aligned as numbers.
    fn table(&mut self, caption: &str, head: &[&str], numbers: &[usize], rows: &[Vec<String>]) {
        let class = |column: usize| if numbers.contains(&column) { " class=n" } else { "" };
        let _ = write!(self.html, "<div class=wide><table><caption>{}</caption><thead><tr>", Text(caption));
        for (column, name) in head.iter().enumerate() {
            let _ = write!(self.html, "<th scope=col{}>{}</th>", class(column), Text(name));
        }
        self.html += "</tr></thead><tbody>";
        for row in rows {
            self.html += "<tr>";
            for (column, cell) in row.iter().enumerate() {
                let _ = write!(self.html, "<td{}>{cell}</td>", class(column));
            }
            self.html += "</tr>";
        }
        self.html += "</tbody></table></div>";
    }

    fn chart(&mut self, class: &str, svg: &str, caption: &str) {
        let _ = write!(
            self.html,
            "<figure class=\"{class}\">{svg}<figcaption>{}</figcaption></figure>",
            Text(caption)
        );
    }

    fn verdict(&mut self) {
        self.section("verdict");
        let facts = self.facts;
        let safe = facts.verdict["safe"] == true;
        let (class, word, means) = if safe {
            ("good", "SAFE", "Every pair is reached, no packet loops, no credit loop can form.")
        } else {
            ("bad", "NOT SAFE", "These tables must not be used: see below what fails.")
        };
        let _ = write!(
            self.html,
            "<div class=\"verdict {class}\"><strong id=word>{word}</strong><p>{means}</p><p>{}</p></div>",
            Text(facts.hosts)
        );
        let verdict = |key: &str| number(self.report, &format!("/tables/0/verdict/{key}"), 0);
        let yes = |key: &str| {
            if facts.verdict[key] == true { "yes" } else { "<span class=bad>NO</span>" }.to_owned()
        };
        let safe_with = |key: &str| if facts.safe_with_sls[key] == true { "yes" } else { "no" }.to_owned();
        let rows = [
            ("VLs between adapters", verdict("vls")),
            ("SLs between adapters", verdict("sls")),
            ("every pair reachable", yes("reachable")),
            ("free of loops", yes("loop_free")),
            ("free of credit loops", yes("deadlock_free")),
            ("VLs within what the links operate", yes("vls_legal")),
            ("safe if hosts use SL 0 alone", safe_with("sl_0")),
            ("safe if replies have the SL of the request", safe_with("replies")),
            ("safe with any SL", safe_with("any")),
            ("dependencies between virtual channels that were checked", verdict("dependencies")),
        ];
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|(name, cell)| vec![name.to_owned(), cell]).collect();
        self.table("What the judge found", &["property", ""], &[1], &rows);
        if !facts.credit_loop.is_empty() {
            let name = format!("A credit loop of {} virtual channels", facts.credit_loop.len());
            self.chart(
                "",
                &charts::ring(&name, &facts.credit_loop),
                "Each virtual channel waits for the next.",
            );
            let list: String =
                facts.credit_loop.iter().map(|label| format!("<li>{}</li>", Text(label))).collect();
            let _ = write!(self.html, "<ol>{list}</ol>");
        }
        if let Some(witness) = facts.witness.as_ref().filter(|_| !safe) {
            let _ = write!(self.html, "<pre>{}</pre>", Text(witness));
        }
        for remark in &facts.remarks {
            self.text("soft", &format!("Note: {remark}"));
        }
    }

    fn problems(&mut self) {
        self.section("problems");
        let report = self.report;
        let rates = report.rates.iter().enumerate().map(|(i, rate)| {
            let count = |key: &str| number(report, &format!("/rates/{i}/{key}"), 0);
            vec![Text(&rate.rate).to_string(), count("between_switches"), count("of_adapters")]
        });
        let rates: Vec<Vec<String>> = rates.collect();
        self.table("Links by rate", &["rate", "between switches", "of adapters"], &[1, 2], &rates);
        if report.problems.is_empty() {
            self.text("good", "Nothing looks wrong: no slow or uneven links, no single point of failure.");
        }
        for problem in &report.problems {
            let _ = write!(self.html, "<h3>{} ({})</h3><ul>", Text(&problem.what), problem.count);
            problem.places.iter().for_each(|place| {
                let _ = write!(self.html, "<li>{}</li>", Text(place));
            });
            self.html += "</ul>";
            if problem.count > problem.places.len() {
                self.text("soft", &format!("and {} more", problem.count - problem.places.len()));
            }
        }
    }

    /// Whether there are loads; says why if there are none.
    fn measured(&mut self) -> bool {
        if let Some(why) = &self.facts.error {
            self.text("bad", &format!("Not measured: {why}"));
        }
        self.facts.error.is_none()
    }

    fn hottest(&mut self) {
        self.section("hottest");
        if !self.measured() {
            return;
        }
        self.text(
            "soft",
            "A route is the path of an ordered pair of adapters. Each direction of a link counts alone.",
        );
        let report = self.report;
        let rows = self.facts.hottest.iter().enumerate().map(|(i, link)| {
            vec![
                number(report, &format!("/tables/0/hottest/{i}/routes"), 0),
                Text(&link.from).to_string(),
                link.out_port.to_string(),
                Text(&link.to).to_string(),
                link.in_port.to_string(),
            ]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let head = ["routes", "from", "port", "to", "port"];
        self.table("The links with most routes", &head, &[0, 2, 4], &rows);
        let bars: Vec<Bar> = self
            .facts
            .load_histogram
            .iter()
            .map(|bin| Bar {
                label: if bin.from == bin.to {
                    bin.from.to_string()
                } else {
                    format!("{}–{}", bin.from, bin.to)
                },
                values: vec![bin.channels],
            })
            .collect();
        let svg = charts::bars("Number of links by routes over them", &["links"], &bars);
        self.chart("", &svg, "Links (each direction) by the number of routes over them. Narrow is balanced.");
    }

    fn lengths(&mut self) {
        self.section("lengths");
        if !self.measured() {
            return;
        }
        let report = self.report;
        let rows = self.facts.lengths.iter().enumerate().map(|(i, of)| {
            let count = |key: &str| number(report, &format!("/tables/0/lengths/{i}/{key}"), 0);
            vec![of.hops.to_string(), count("pairs"), count("shortest")]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let bars = self.facts.lengths.iter();
        let bars: Vec<Bar> =
            bars.map(|of| Bar { label: of.hops.to_string(), values: vec![of.pairs, of.shortest] }).collect();
        let svg =
            charts::bars("Adapter pairs by length of their path", &["as routed", "shortest possible"], &bars);
        self.chart("", &svg, "Ordered adapter pairs by the links between switches on their path.");
        let head = ["links between switches", "pairs as routed", "pairs by shortest paths"];
        self.table("Path lengths", &head, &[0, 1, 2], &rows);
    }

    fn matrix(&mut self) {
        self.section("matrix");
        if !self.measured() || self.facts.load.is_empty() {
            return;
        }
        let groups = &self.report.groups;
        let by_group = self.fabric.num_switches() > MATRIX;
        let mut place = vec![0; self.fabric.num_switches()];
        let mut borders = Vec::new();
        if by_group {
            place.clone_from(&groups.of);
        } else {
            for (at, s) in groups.order().into_iter().enumerate() {
                place[s.index()] = at;
            }
            let mut first = 0;
            for size in groups.sizes.iter().take(groups.sizes.len() - 1).filter(|_| groups.by_structure) {
                first += size;
                borders.push(first);
            }
        }
        let mut sums = std::collections::BTreeMap::<(usize, usize), u64>::new();
        for (id, c) in self.fabric.channels().iter() {
            *sums.entry((place[c.from.index()], place[c.to.index()])).or_default() +=
                self.facts.load[id.index()];
        }
        let cells: Vec<(usize, usize, u64)> = sums.into_iter().map(|((a, b), sum)| (a, b, sum)).collect();
        // Most traffic of a group may stay inside, and would leave no shades for the rest.
        let between = cells.iter().filter(|cell| cell.0 != cell.1);
        let most = between.map(|cell| cell.2).max().unwrap_or(0);
        let side = if by_group { groups.sizes.len() } else { place.len() };
        let what = if by_group { "group" } else { "switch" };
        let name = format!("Load from {what} to {what}, {side} by {side}, at most {most} routes between two");
        let svg = charts::matrix(&name, side, &cells, most, &borders);
        self.chart(
            "matrix",
            &svg,
            &format!(
                "Routes from each {what} (row) over its links to each other (column). The {} groups follow {}.",
                groups.sizes.len(),
                groups.by
            ),
        );
        self.html += &charts::legend(most);
        self.text("soft", "The hottest links are named in the table above.");
    }

    fn vls(&mut self) {
        self.section("vls");
        if !self.measured() {
            return;
        }
        let report = self.report;
        let total: u64 = self.facts.vls.iter().map(|of| of.steps).sum();
        let rows = self.facts.vls.iter().enumerate().map(|(i, of)| {
            let count = |key: &str| number(report, &format!("/tables/0/vls/{i}/{key}"), 0);
            let share = 100.0 * of.steps as f64 / total.max(1) as f64;
            vec![of.vl.to_string(), count("steps"), format!("{share:.1} %"), count("channels")]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        if rows.is_empty() {
            self.text("", "No route takes a link between switches.");
            return;
        }
        let bars = self.facts.vls.iter();
        let bars: Vec<Bar> =
            bars.map(|of| Bar { label: format!("VL {}", of.vl), values: vec![of.steps] }).collect();
        let svg = charts::bars("Steps of routes by VL", &["steps"], &bars);
        self.chart("", &svg, "How much of the routes each VL carries: a route counts once on each link.");
        let head = ["VL", "steps of routes", "share", "links on which it is used"];
        self.table("Use of VLs between switches", &head, &[0, 1, 2, 3], &rows);
        if self.facts.vls_sampled > 1 {
            let sample = self.facts.vls_sampled;
            self.text("soft", &format!("Followed for one of {sample} receivers."));
        }
    }

    fn failures(&mut self) {
        self.section("failures");
        if !self.measured() {
            return;
        }
        let report = self.report;
        self.text("", "Pairs that lose their path when a part fails, until the fabric is routed again:");
        for (key, caption, costs) in [
            ("costly_links", "The most costly links", &self.facts.costly_links),
            (
                "costly_switches",
                "The most costly switches, with the pairs of their own adapters",
                &self.facts.costly_switches,
            ),
        ] {
            let rows = costs.iter().enumerate().map(|(i, cost)| {
                vec![
                    number(report, &format!("/tables/0/{key}/{i}/pairs_cut"), 0),
                    Text(&cost.failed).to_string(),
                ]
            });
            let rows: Vec<Vec<String>> = rows.collect();
            self.table(caption, &["pairs cut", "what fails"], &[0], &rows);
        }
        let Some(whatif) = &report.whatif else {
            self.html += "<p class=soft>What is left after routing again, for every link and switch: \
                          <code>dfdn whatif FABRIC TABLES --json</code>, and <code>--whatif</code> puts it here.</p>";
            return;
        };
        let lines = [("mean", &whatif.mean), ("worst of each", &whatif.extremes)];
        let row = |(name, at): (&str, &str)| {
            let value = |key: &str, digits| number(report, &format!("/whatif/{at}/{key}"), digits);
            vec![
                name.to_owned(),
                value("cut_off", 1),
                value("vls", 1),
                value("sls", 1),
                value("ebb", 4),
                value("lft_blocks", 0),
            ]
        };
        if lines.iter().all(|(_, of)| of.is_some()) {
            let rows = [row(("mean", "mean")), row(("the worst of each", "extremes"))];
            let head = ["", "hosts cut off", "VLs", "SLs", "eBB", "blocks that change"];
            let caption = format!(
                "After routing again: {} failures, {} without safe tables",
                whatif.failures, whatif.unroutable
            );
            self.table(&caption, &head, &[1, 2, 3, 4, 5], &rows);
        }
        let rows = whatif.worst.iter().enumerate().map(|(i, row)| {
            let ebb = row
                .figures
                .map_or("–".to_owned(), |_| number(report, &format!("/whatif/worst/{i}/ebb"), 4));
            vec![number(report, &format!("/whatif/worst/{i}/cut_off"), 0), ebb, Text(&row.failed).to_string()]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        self.table("The worst failures", &["hosts cut off", "eBB", "what fails"], &[0, 1], &rows);
    }

    fn compared(&mut self) {
        self.section("compared");
        let report = self.report;
        let columns: [(&str, &str, usize); 12] = [
            ("VLs", "verdict/vls", 0),
            ("SLs", "verdict/sls", 0),
            ("share of pairs on detours", "verdict/nonminimal_share", 5),
            ("mean stretch", "verdict/mean_stretch", 4),
            ("mean links between switches", "verdict/mean_hops", 3),
            ("most links between switches", "verdict/max_hops", 0),
            ("effective bisection bandwidth", "metrics/ebb", 4),
            ("most routes on a link", "metrics/edge_forwarding_index", 0),
            ("mean routes on a link", "metrics/mean_channel_load", 1),
            ("coefficient of variation", "metrics/channel_load_cv", 3),
            ("pairs cut by a failed link, mean", "metrics/mean_pairs_cut", 1),
            ("pairs cut by a failed link, most", "metrics/max_pairs_cut", 0),
        ];
        let mut head = vec![""];
        let labels: Vec<String> =
            report.tables.iter().map(|facts| format!("{} ({})", facts.label, facts.engine)).collect();
        head.extend(labels.iter().map(String::as_str));
        let verdict = report.tables.iter().map(|facts| match facts.verdict["safe"] == true {
            true => "<span class=good>SAFE</span>".to_owned(),
            false => "<span class=bad>NOT SAFE</span>".to_owned(),
        });
        let mut rows = vec![std::iter::once("verdict".to_owned()).chain(verdict).collect::<Vec<_>>()];
        for (name, key, digits) in columns {
            let cells =
                (0..report.tables.len()).map(|i| number(report, &format!("/tables/{i}/{key}"), digits));
            rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
        }
        let numbers: Vec<usize> = (1..=report.tables.len()).collect();
        self.table("Tables side by side", &head, &numbers, &rows);
    }

    fn pairs(&mut self, interactive: bool) {
        self.section("pairs");
        self.html += "<p>The path of a pair of adapters: <code>dfdn path FABRIC TABLES A B</code>.</p>";
        if !interactive {
            self.text("soft", "These tables are too large to be part of the page.");
            return;
        }
        self.html += "<div class=script hidden><form id=pair><label for=from>From\
            <input id=from list=hosts autocomplete=off></label><label for=to>To\
            <input id=to list=hosts autocomplete=off></label><button>Show the path</button></form>\
            <output id=path aria-live=polite></output>\
            <form id=link><label for=switch>Switch<input id=switch list=switches autocomplete=off></label>\
            <label for=port>Port<input id=port type=number min=1 max=254></label>\
            <button>Show who uses the link</button></form><output id=users aria-live=polite></output>";
        self.html += "<datalist id=hosts>";
        for name in names(self.fabric).1 {
            let _ = write!(self.html, "<option value=\"{}\">", Text(name));
        }
        self.html += "</datalist><datalist id=switches>";
        for name in names(self.fabric).0 {
            let _ = write!(self.html, "<option value=\"{}\">", Text(name));
        }
        self.html += "</datalist></div><noscript><p class=soft>With scripts, this page shows paths too.</p></noscript>";
    }

    fn made(&mut self) {
        self.section("made");
        let report = self.report;
        let _ = write!(
            self.html,
            "<p>By dfdn {} with</p><pre>{}</pre>",
            Text(report.version),
            Text(&report.command)
        );
        let rows = report.sources.iter();
        let rows: Vec<Vec<String>> = rows
            .map(|of| vec![Text(&of.name).to_string(), format!("<code>{}</code>", Text(&of.sha256))])
            .collect();
        self.table("From these files", &["file", "SHA-256"], &[], &rows);
        self.text("soft", "The same input gives the same page, byte for byte. The page needs no network.");
    }
}

/// A number of the report's JSON, with its place; `–` if there is none.
fn number(report: &Report, place: &str, digits: usize) -> String {
    let value = report.json.pointer(place).cloned().unwrap_or_default();
    let text = match (value.as_u64(), value.as_f64()) {
        (Some(number), _) if digits == 0 => thousands(number),
        (_, Some(number)) => format!("{number:.digits$}"),
        _ => "–".to_owned(),
    };
    format!("<span data-key=\"{place}\">{text}</span>")
}

/// The names of switches and of adapter ports, those of the page: with a GUID or LID where a name is not the only one.
fn names(fabric: &Fabric) -> (Vec<String>, Vec<String>) {
    let mut count = std::collections::HashMap::<&str, usize>::new();
    let plain = |c: char| !c.is_control();
    fabric.nodes().iter().for_each(|node| *count.entry(&node.description).or_default() += 1);
    let clean = |text: &str| text.chars().filter(|&c| plain(c)).collect::<String>();
    let switches = fabric.switch_ids().map(|s| {
        let node = fabric.switch(s);
        let name = clean(&node.description);
        if count[node.description.as_str()] == 1 { name } else { format!("{name} {}", node.guid) }
    });
    let hosts = fabric.adapters().map(|(_, end)| {
        let node = fabric.node(end.node);
        let ports = node.ports.iter().filter(|port| port.peer.is_some()).count();
        let name = clean(&node.description);
        if count[node.description.as_str()] == 1 && ports == 1 {
            name
        } else {
            format!("{name} LID {}", end.lid)
        }
    });
    (switches.collect(), hosts.collect())
}

/// What the script needs.
fn tables(fabric: &Fabric, lft: &Lft) -> Value {
    let (switches, hosts) = names(fabric);
    let ports: Vec<Value> = fabric
        .switch_ids()
        .map(|s| {
            let out = fabric.channels().out(s);
            out.map(|(_, c)| (c.out_port.0.to_string(), json!([c.to.index(), c.in_port.0]))).collect()
        })
        .collect();
    let hosts: Vec<Value> = hosts
        .into_iter()
        .zip(fabric.adapters())
        .filter_map(|(name, (_, end))| {
            let (s, port) = end.attachment?;
            Some(json!([name, s.index(), port.0, end.lid.get()]))
        })
        .collect();
    let bytes: Vec<u8> = (0..lft.lids() as u16)
        .flat_map(|lid| match crate::fabric::Lid::new(lid) {
            Some(lid) => lft.to(lid).to_vec(),
            None => vec![Lft::NO_PATH; fabric.num_switches()],
        })
        .collect();
    json!({ "switches": switches, "ports": ports, "hosts": hosts, "lft": BASE64.encode(bytes) })
}
