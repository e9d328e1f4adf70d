//! Charts as SVG. Colours are classes of the page's style, so that they follow light and dark; every chart has a
//! name for those who cannot see it, and its numbers are in a table beside it.

use std::fmt::Write as _;

use super::html::{Text, thousands};

/// A bar: its label, and a value for each series.
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) values: Vec<u64>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 95.0;
const BOTTOM: f64 = 28.0;

/// Bars side by side, with one axis; series number i has the class `s<i>`.
pub(super) fn bars(name: &str, series: &[&str], bars: &[Bar]) -> String {
    let most = bars.iter().flat_map(|bar| &bar.values).copied().max().unwrap_or(0).max(1);
    let (inner, high) = (WIDTH - LEFT - 10.0, HEIGHT - BOTTOM - 24.0);
    let step = inner / bars.len().max(1) as f64;
    let wide = (step * 0.8 / series.len().max(1) as f64).min(60.0);
    let mut svg = open(name, WIDTH, HEIGHT);
    for part in 0..=4_u64 {
        let y = 24.0 + high * (1.0 - part as f64 / 4.0);
        let value = thousands((most as f64 * part as f64 / 4.0).round() as u64);
        let _ = write!(
            svg,
            "<path class=grid d=\"M{LEFT} {y:.1}H{:.1}\"/><text x={:.1} y={:.1} text-anchor=end>{value}</text>",
            WIDTH - 10.0,
            LEFT - 6.0,
            y + 4.0
        );
    }
    // Labels that fit.
    let every = (bars.len() as f64 * 60.0 / inner).ceil().max(1.0) as usize;
    for (i, bar) in bars.iter().enumerate() {
        let left = LEFT + step * (i as f64 + 0.5) - wide * series.len() as f64 / 2.0;
        for (s, &value) in bar.values.iter().enumerate().filter(|(_, value)| **value > 0) {
            let tall = (high * value as f64 / most as f64).max(1.0);
            let _ = write!(
                svg,
                "<rect class=s{s} x={:.1} y={:.1} width={:.1} height={tall:.1}><title>{}: {}</title></rect>",
                left + wide * s as f64,
                24.0 + high - tall,
                (wide - 1.0).max(1.0),
                Text(&bar.label),
                thousands(value)
            );
        }
        if i % every == 0 {
            let x = LEFT + step * (i as f64 + 0.5);
            let _ = write!(
                svg,
                "<text x={x:.1} y={:.1} text-anchor=middle>{}</text>",
                HEIGHT - 8.0,
                Text(&bar.label)
            );
        }
    }
    if series.len() > 1 {
        for (s, name) in series.iter().enumerate() {
            let x = LEFT + 180.0 * s as f64;
            let _ = write!(
                svg,
                "<rect class=s{s} x={x:.0} y=4 width=10 height=10 /><text x={:.0} y=13>{}</text>",
                x + 15.0,
                Text(name)
            );
        }
    }
    svg + "</svg>"
}

/// Shades of a matrix.
const SHADES: usize = 8;

/// A square matrix: `cells` are (row, column, value), none twice; `most` and more have the darkest shade. Lines are
/// drawn before the indices `borders`.
pub(super) fn matrix(
    name: &str,
    side: usize,
    cells: &[(usize, usize, u64)],
    most: u64,
    borders: &[usize],
) -> String {
    let most = most.max(1);
    let mut svg =
        open(name, side as f64, side as f64).replacen("<svg ", "<svg shape-rendering=crispEdges ", 1);
    let mut shades = vec![String::new(); SHADES];
    for &(row, column, value) in cells.iter().filter(|cell| cell.2 > 0) {
        let shade = ((value - 1) as f64 / most as f64 * SHADES as f64) as usize;
        let _ = write!(shades[shade.min(SHADES - 1)], "M{column} {row}h1v1h-1z");
    }
    let _ = write!(svg, "<path class=paper d=\"M0 0h{side}v{side}h-{side}z\"/>");
    for (shade, path) in shades.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let _ = write!(svg, "<path class=h{shade} d=\"{path}\"/>");
    }
    let lines: String = borders.iter().map(|at| format!("M0 {at}H{side}M{at} 0V{side}")).collect();
    let _ = write!(svg, "<path class=border d=\"{lines}\"/></svg>");
    svg
}

/// The shades of a [`matrix`] with the values that they begin and end with.
pub(super) fn legend(most: u64) -> String {
    let mut html = String::from("<p class=legend>Routes: <span class=paperbox></span> none");
    for shade in 0..SHADES as u64 {
        let [from, to] =
            [shade, shade + 1].map(|part| (most as f64 * part as f64 / SHADES as f64).round() as u64);
        let more = if to == most { " and more" } else { "" };
        let _ = write!(html, " <span class=\"box h{shade}\"></span> to {}{more}", thousands(to.max(from)));
    }
    html + "</p>"
}

/// Channels that wait for each other, on a circle.
pub(super) fn ring(name: &str, labels: &[String]) -> String {
    let (wide, high, radius) = (720.0, 420.0, 150.0);
    let mut svg = open(name, wide, high);
    svg += "<defs><marker id=tip viewBox=\"0 0 8 8\" refX=7 refY=4 markerWidth=8 markerHeight=8 orient=auto>\
            <path class=bad d=\"M0 0L8 4L0 8z\"/></marker></defs>";
    let n = labels.len();
    let at = |i: usize, radius: f64| {
        let angle = std::f64::consts::TAU * (i as f64 / n as f64 - 0.25);
        (wide / 2.0 + radius * angle.cos(), high / 2.0 + radius * angle.sin())
    };
    for i in 0..n {
        let ((x, y), (u, v)) = (at(i, radius), at((i + 1) % n, radius));
        let long = ((u - x).powi(2) + (v - y).powi(2)).sqrt().max(1.0);
        let (dx, dy) = ((u - x) / long * 16.0, (v - y) / long * 16.0);
        let _ = write!(
            svg,
            "<path class=arrow marker-end=url(#tip) d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
            x + dx,
            y + dy,
            u - dx,
            v - dy
        );
    }
    for (i, label) in labels.iter().enumerate() {
        let (x, y) = at(i, radius);
        let _ = write!(
            svg,
            "<circle class=node cx={x:.1} cy={y:.1} r=13><title>{}</title></circle>\
             <text class=on x={x:.1} y={:.1} text-anchor=middle>{}</text>",
            Text(label),
            y + 4.0,
            i + 1
        );
    }
    svg + "</svg>"
}

fn open(name: &str, width: f64, height: f64) -> String {
    let name = Text(name);
    format!(
        "<svg role=img aria-label=\"{name}\" viewBox=\"0 0 {width} {height}\" width={width} height={height}>"
    )
}
