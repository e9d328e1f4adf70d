//! Line charts as SVG.

use std::fmt::Write;

/// A line through points (x, y).
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    /// The largest y shown, if less than that of the curves.
    pub(crate) highest: Option<f64>,
    pub(crate) curves: Vec<Curve>,
}

/// Distinct for readers who are colour-blind (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 290.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 30.0;
const INNER: (f64, f64) = (WIDTH - LEFT - 14.0, HEIGHT - TOP - 46.0);

/// Panels side by side.
pub(crate) fn svg(panels: &[Panel]) -> String {
    let width = WIDTH * panels.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\" \
         height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    for (i, panel) in panels.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate({} 0)\">", i as f64 * WIDTH);
        draw(&mut out, panel, i);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, panel: &Panel, number: usize) {
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max).max(1e-9);
    let (x_end, x_step) = ticks(largest(&mut points().map(|p| p.0)));
    let highest = largest(&mut points().map(|p| p.1));
    let (y_end, y_step) = ticks(panel.highest.map_or(highest, |limit| limit.min(highest)));
    let at_x = |x: f64| LEFT + x / x_end * INNER.0;
    let at_y = |y: f64| TOP + INNER.1 - y / y_end * INNER.1;
    let (right, bottom) = (LEFT + INNER.0, TOP + INNER.1);
    let middle = LEFT + INNER.0 / 2.0;
    let _ = writeln!(
        out,
        "<text x=\"{middle}\" y=\"16\" text-anchor=\"middle\" font-weight=\"bold\">{}</text>\n\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
         <text transform=\"translate(13 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escaped(&panel.title),
        bottom + 36.0,
        escaped(panel.x),
        TOP + INNER.1 / 2.0,
        escaped(panel.y),
    );
    for i in 0..=(x_end / x_step).round() as usize {
        let (value, x) = (i as f64 * x_step, at_x(i as f64 * x_step));
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            label(value, x_step)
        );
    }
    for i in 0..=(y_end / y_step).round() as usize {
        let (value, y) = (i as f64 * y_step, at_y(i as f64 * y_step));
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 5.0,
            y + 4.0,
            label(value, y_step)
        );
    }
    let _ = writeln!(
        out,
        "<clipPath id=\"clip{number}\"><rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/></clipPath>\n\
         <path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>",
        INNER.0, INNER.1
    );
    for (i, curve) in panel.curves.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let line: Vec<String> =
            curve.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", at_x(x), at_y(y))).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" \
             clip-path=\"url(#clip{number})\"/>",
            line.join(" ")
        );
        let y = TOP + 14.0 + 15.0 * i as f64;
        let _ = writeln!(
            out,
            "<path d=\"M{} {}h18\" stroke=\"{colour}\" stroke-width=\"2.5\"/><text x=\"{}\" y=\"{y}\">{}</text>",
            LEFT + 8.0,
            y - 4.0,
            LEFT + 31.0,
            escaped(&curve.name)
        );
    }
}

/// The end of an axis and the distance of its ticks, 4 to 8 of them.
fn ticks(largest: f64) -> (f64, f64) {
    let power = 10_f64.powf((largest / 4.0).log10().floor());
    let fits = |step: &f64| largest / step <= 8.0;
    let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(fits).unwrap_or(10.0 * power);
    ((largest / step - 1e-9).ceil() * step, step)
}

fn label(value: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.digits$}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
