//! Charts as SVG: here is where everything is, and in `chart.svg` how it looks. Colours come from the style sheet by class, so that they
//! follow the colour scheme.
//!
//! For screen readers, a chart has a title and a sentence with its highest value.

use std::fmt::Write;

use askama::Template;

use super::format;
use super::time_window::TimeWindow;

/// The drawing, in its own units. Narrow, so that the text is still readable on a phone.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;
/// The fewest buckets of a plot: one bar as wide as the plot would say nothing.
const BUCKETS_MIN: usize = 12;
/// How many times are written below.
const LABELS: usize = 4;

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Milliseconds.
    Duration,
    /// Minor units of a currency, by its code.
    Money(String),
}

impl Unit {
    fn show(&self, value: u64) -> String {
        match self {
            Self::Count => format::count(value),
            Self::Duration => format::duration(value),
            Self::Money(currency) => format::money(value, currency),
        }
    }

    /// Short, for the axis.
    fn tick(&self, value: u64) -> String {
        match self {
            Self::Count if value >= 10_000 => format!("{}k", value / 1000),
            Self::Money(currency) => {
                let shown = format::money(value, currency);
                let whole = shown.strip_suffix(".00").unwrap_or(&shown);
                whole
                    .strip_suffix(",000")
                    .map_or_else(|| whole.to_owned(), |thousands| format!("{thousands}k"))
            }
            _ => self.show(value),
        }
    }
}

/// Round durations beyond the seconds, in ms: as people divide time.
const ROUND_MS: [u64; 15] = [
    60_000,
    120_000,
    240_000,
    600_000,
    1_200_000,
    2_400_000,
    3_600_000,
    7_200_000,
    14_400_000,
    43_200_000,
    86_400_000,
    172_800_000,
    345_600_000,
    864_000_000,
    1_728_000_000,
];

impl Unit {
    /// The top of the axis.
    fn top(&self, highest: u64) -> u64 {
        let round = match self {
            Self::Duration if highest > 40_000 => ROUND_MS.into_iter().find(|round| *round >= highest),
            _ => None,
        };
        round.unwrap_or_else(|| top(highest))
    }
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Bars, on top of each other. Where there is no value there is none.
    Bars,
    /// Lines, with a gap where there is no value.
    Lines,
}

/// One kind of value.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: &'static str,
    /// Its class in the style sheet.
    pub class: &'static str,
    /// One value a bucket.
    pub values: Vec<Option<u64>>,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Unique on its page.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What is counted, in a sentence.
    pub note: &'static str,
    /// What its values are.
    pub unit: Unit,
    /// How they are drawn.
    pub shape: Shape,
    /// When they were.
    pub window: TimeWindow,
    /// The values.
    pub series: Vec<Series>,
}

/// Begins all plots of a page where the first of them has something to show, so that it does not stand in a corner.
pub fn fit(plots: &mut [Plot]) {
    let first = |plot: &Plot| {
        let firsts = plot.series.iter().filter_map(|one| one.values.iter().position(Option::is_some));
        firsts.min().map(|first| first.min(plot.window.count.saturating_sub(BUCKETS_MIN)))
    };
    let skipped = plots.iter().filter_map(first).min().unwrap_or(0);
    for plot in plots {
        plot.window = plot.window.without_first(skipped);
        plot.series.iter_mut().for_each(|one| drop(one.values.drain(..skipped.min(one.values.len()))));
    }
}

impl Plot {
    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        let is_there = |value: &Option<u64>| match self.shape {
            Shape::Bars => value.is_some_and(|value| value > 0),
            Shape::Lines => value.is_some(),
        };
        !self.series.iter().flat_map(|series| &series.values).any(is_there)
    }

    /// The legend: a class and a name for each series. None where there is only one.
    pub fn legend(&self) -> Vec<(&'static str, &'static str)> {
        match self.series.as_slice() {
            [_] => Vec::new(),
            many => many.iter().map(|series| (series.class, series.name)).collect(),
        }
    }

    /// In one sentence.
    pub fn summary(&self) -> String {
        if self.is_empty() {
            return "Nothing in this time.".to_owned();
        }
        let highest =
            (0..self.window.count).max_by_key(|bucket| (self.height(*bucket), *bucket)).unwrap_or(0);
        let mut text = format!(
            "{} UTC to now. Highest: {} at {}.",
            self.window.moment(0),
            self.unit.show(self.height(highest)),
            self.window.moment(highest)
        );
        if self.shape == Shape::Bars {
            for series in &self.series {
                let sum = series.values.iter().flatten().fold(0u64, |sum, value| sum.saturating_add(*value));
                let _ = write!(text, " {}: {}.", series.name, self.unit.show(sum));
            }
        }
        text
    }

    /// How high it is at a bucket.
    fn height(&self, bucket: usize) -> u64 {
        let values = self.series.iter().filter_map(|series| series.values.get(bucket).copied().flatten());
        match self.shape {
            Shape::Bars => values.fold(0, u64::saturating_add),
            Shape::Lines => values.max().unwrap_or(0),
        }
    }

    /// The SVG element.
    pub fn svg(&self) -> String {
        let top = self.unit.top((0..self.window.count).map(|bucket| self.height(bucket)).max().unwrap_or(0));
        let is_empty = self.is_empty();
        let drawing = Drawing {
            plot: self,
            ticks: self.ticks(top),
            labels: self.labels(),
            bars: if is_empty || self.shape == Shape::Lines { Vec::new() } else { self.bars(top) },
            lines: if is_empty || self.shape == Shape::Bars { Vec::new() } else { self.lines(top) },
            hints: if is_empty { Vec::new() } else { self.hints() },
        };
        drawing.render().unwrap_or_default()
    }

    /// The lines across, and what stands at them.
    fn ticks(&self, top: u64) -> Vec<Tick> {
        let ticks = if top.is_multiple_of(2) { vec![0, top / 2, top] } else { vec![0, top] };
        let tick = |tick| Tick {
            is_axis: tick == 0,
            y: y(tick, top),
            label: if self.is_empty() && tick > 0 { String::new() } else { self.unit.tick(tick) },
        };
        ticks.into_iter().map(tick).collect()
    }

    /// The times below, and where each begins.
    fn labels(&self) -> Vec<(f64, String)> {
        let buckets = (0..LABELS).map(|label| label * self.window.count / LABELS);
        buckets.map(|bucket| (self.x(bucket), self.window.label(bucket))).collect()
    }

    /// The left edge of a bucket.
    fn x(&self, bucket: usize) -> f64 {
        LEFT + self.width() * bucket as f64
    }

    fn width(&self) -> f64 {
        (WIDTH - LEFT - RIGHT) / self.window.count.max(1) as f64
    }

    /// The class and the path of each series.
    fn bars(&self, top: u64) -> Vec<(&'static str, String)> {
        let width = (self.width() - 1.0).max(1.0);
        let mut below = vec![0u64; self.window.count];
        let mut bars = Vec::new();
        for series in &self.series {
            let mut path = String::new();
            for (bucket, base) in below.iter_mut().enumerate() {
                let value = series.values.get(bucket).copied().flatten().unwrap_or(0);
                if value == 0 {
                    continue;
                }
                let (low, high) = (y(*base, top), y(base.saturating_add(value), top));
                // Also the least is seen.
                let high = high.min(low - 1.0);
                let _ = write!(path, "M{:.1} {low:.1}V{high:.1}h{width:.1}V{low:.1}z", self.x(bucket) + 0.5);
                *base = base.saturating_add(value);
            }
            bars.push((series.class, path));
        }
        bars
    }

    fn lines(&self, top: u64) -> Vec<Line> {
        let line = |series: &Series| {
            let at = |bucket: usize| series.values.get(bucket).copied().flatten();
            let mut line = Line { class: series.class, path: String::new(), dots: Vec::new() };
            for bucket in 0..self.window.count {
                let Some(value) = at(bucket) else { continue };
                let (x, y) = (self.x(bucket) + self.width() / 2.0, y(value, top));
                let goes_on = bucket.checked_sub(1).and_then(at).is_some();
                let _ = write!(line.path, "{}{x:.1} {y:.1}", if goes_on { "L" } else { "M" });
                // A line needs two points.
                if !goes_on && at(bucket + 1).is_none() {
                    line.dots.push((x, y));
                }
            }
            line
        };
        self.series.iter().map(line).collect()
    }

    /// What a pointer that rests on a bucket is told, and where the bucket begins.
    fn hints(&self) -> Vec<(f64, String)> {
        let hint = |bucket| {
            let value = |series: &Series| {
                let value = series.values.get(bucket).copied().flatten()?;
                (value > 0 || self.shape == Shape::Lines)
                    .then(|| format!("{} {}", series.name, self.unit.show(value)))
            };
            let values: Vec<String> = self.series.iter().filter_map(value).collect();
            let hint = || format!("{}: {}", self.window.moment(bucket), values.join(", "));
            (!values.is_empty()).then(|| (self.x(bucket), hint()))
        };
        (0..self.window.count).filter_map(hint).collect()
    }
}

/// What is drawn, in the drawing's own units.
#[derive(Template)]
#[template(path = "chart.svg")]
struct Drawing<'a> {
    plot: &'a Plot,
    ticks: Vec<Tick>,
    labels: Vec<(f64, String)>,
    bars: Vec<(&'static str, String)>,
    lines: Vec<Line>,
    hints: Vec<(f64, String)>,
}

/// A line across.
struct Tick {
    is_axis: bool,
    y: f64,
    label: String,
}

/// A series as a line; points that stand alone are dots.
struct Line {
    class: &'static str,
    path: String,
    dots: Vec<(f64, f64)>,
}

fn y(value: u64, top: u64) -> f64 {
    let share = value as f64 / top.max(1) as f64;
    HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
}

/// The top of an axis: the next round number, and its half is whole too.
pub fn top(highest: u64) -> u64 {
    let mut decade = 1u64;
    loop {
        for step in [10, 12, 16, 20, 24, 30, 40, 50, 60, 80] {
            let top = decade.saturating_mul(step) / 10;
            let is_whole = decade >= 10 || matches!(step, 10 | 20 | 40 | 60 | 80);
            if top >= highest && is_whole {
                return top;
            }
        }
        let Some(next) = decade.checked_mul(10) else { return u64::MAX };
        decade = next;
    }
}

#[cfg(test)]
mod tests {
    use super::super::time_window::Range;
    use super::*;

    fn plot(shape: Shape, values: Vec<Option<u64>>) -> Plot {
        let window = Range::Day.window(1_795_253_461_234);
        let mut all = vec![None; window.count];
        all.splice(..values.len(), values);
        let series = vec![Series { name: "Paid", class: "paid", values: all }];
        Plot {
            id: "p".into(),
            title: "Payments <now>".into(),
            note: "",
            unit: Unit::Count,
            shape,
            window,
            series,
        }
    }

    fn numbers_are_finite(svg: &str) {
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn no_data_is_said_and_not_drawn() {
        for shape in [Shape::Bars, Shape::Lines] {
            let svg = plot(shape, vec![]).svg();
            assert!(svg.contains("Nothing in this time"));
            assert!(!svg.contains("plot-bar") && !svg.contains("plot-line"));
            numbers_are_finite(&svg);
        }
        assert!(plot(Shape::Bars, vec![Some(0)]).is_empty());
        assert!(!plot(Shape::Lines, vec![Some(0)]).is_empty(), "a duration of 0 is one");
    }

    #[test]
    fn one_point_is_seen() {
        let svg = plot(Shape::Lines, vec![None, Some(7)]).svg();
        assert_eq!(svg.matches("<circle").count(), 1);
        assert_eq!(svg.matches("<rect").count(), 1);
        numbers_are_finite(&svg);
        let svg = plot(Shape::Bars, vec![Some(1)]).svg();
        assert!(svg.contains(">1</text>") && svg.contains("plot-bar paid"));
    }

    #[test]
    fn equal_values_make_a_level_line() {
        let svg = plot(Shape::Lines, vec![Some(5); 48]).svg();
        let path = svg.split("plot-line paid\"><path d=\"").nth(1).unwrap().split('"').next().unwrap();
        let heights: std::collections::BTreeSet<&str> =
            path.split(['M', 'L']).filter_map(|point| point.split(' ').nth(1)).collect();
        assert_eq!(heights.len(), 1);
        assert!(!svg.contains("<circle"));
        let zeros = plot(Shape::Lines, vec![Some(0); 48]).svg();
        numbers_are_finite(&zeros);
    }

    #[test]
    fn plots_begin_together_where_the_first_of_them_has_something() {
        let late = |bucket: usize| {
            let mut values = vec![None; 48];
            values[bucket] = Some(7);
            plot(Shape::Bars, values)
        };
        let mut plots = [late(40), late(20), plot(Shape::Lines, vec![])];
        let (end_ms, moment) = (plots[0].window.start_ms, plots[0].window.moment(40));
        fit(&mut plots);
        for plot in &plots {
            assert_eq!((plot.window.count, plot.series[0].values.len()), (28, 28));
            assert_eq!(plot.window.start_ms, end_ms + 20 * plot.window.bucket_ms);
        }
        assert_eq!((plots[0].series[0].values[20], plots[0].window.moment(20)), (Some(7), moment));
        let mut newest = [late(47)];
        fit(&mut newest);
        assert_eq!(newest[0].window.count, BUCKETS_MIN);
        let mut empty = [plot(Shape::Bars, vec![])];
        fit(&mut empty);
        assert_eq!(empty[0].window.count, 48);
    }

    #[test]
    fn a_gap_breaks_the_line() {
        let svg = plot(Shape::Lines, vec![Some(1), Some(2), None, Some(3), Some(4)]).svg();
        let path = svg.split("plot-line paid\"><path d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 2));
    }

    #[test]
    fn the_axis_ends_above_all_values_at_a_round_number() {
        let tops = [0, 1, 2, 3, 5, 11, 41, 101, 999].map(top);
        assert_eq!(tops, [1, 1, 2, 4, 6, 12, 50, 120, 1000]);
        assert!(top(u64::MAX) == u64::MAX);
        let durations = [30, 40_000, 40_001, 3_000_000, 100_000_000].map(|ms| Unit::Duration.top(ms));
        assert_eq!(durations.map(format::duration), ["30 ms", "40 s", "1 min", "1 h", "2 d"]);
    }

    #[test]
    fn the_axis_has_short_labels() {
        let usd = Unit::Money("usd".to_owned());
        assert_eq!([0, 50, 2_000, 400_000].map(|minor| usd.tick(minor)), ["$0", "$0.50", "$20", "$4k"]);
        assert_eq!([4_000, 20_000].map(|count| Unit::Count.tick(count)), ["4,000", "20k"]);
    }

    #[test]
    fn it_names_itself_and_escapes_what_it_is_told() {
        let svg = plot(Shape::Bars, vec![Some(3), Some(4)]).svg();
        assert!(svg.contains("role=\"img\"") && svg.contains("aria-labelledby=\"p-title p-desc\""));
        assert!(svg.contains("Payments &#60;now&#62;"));
        assert!(svg.contains("Paid: 7."));
    }
}
