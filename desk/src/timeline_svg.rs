//! What happened when, as a picture: a lane for each kind of thing, and time from left to right.
//!
//! A payment is moments of milliseconds with hours between them, so a gap is drawn as long as its logarithm: what is close
//! together is told apart, and a night does not push all else into a corner. The scale says so at each of its spans.

use std::collections::BTreeSet;

use askama::Template;

use super::format;

const WIDTH: f64 = 880.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 70.0;
const LANE: f64 = 34.0;
const TOP: f64 = 8.0;
const SCALE: f64 = 26.0;
/// The radius of a moment's dot.
const DOT: f64 = 4.5;
/// How wide a character is, at most.
const CHARACTER: f64 = 6.4;

/// A span of time in a lane, or a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The lane's name.
    pub lane: &'static str,
    /// When it began, in ms since the epoch.
    pub from_ms: u64,
    /// When it ended, if it lasted.
    pub to_ms: Option<u64>,
    /// Whether it has not ended yet.
    pub open: bool,
    /// `good`, `bad`, `warn` or empty.
    pub tone: &'static str,
    /// What it is, in a few words.
    pub label: String,
}

/// The lanes, from top to bottom. Empty ones are left out.
pub const LANES: [&str; 7] = ["Runs", "Phases", "Provider", "Replays", "Webhooks", "Jobs", "Audit"];

/// The horizontal positions of moments.
struct Scale {
    /// Each moment and its position, from 0 to 1.
    places: Vec<(u64, f64)>,
}

impl Scale {
    fn of(moments: &BTreeSet<u64>) -> Self {
        let mut places = Vec::new();
        let (mut at, mut before) = (0.0, None);
        for moment in moments {
            if let Some(before) = before {
                at += (1.0 + (moment - before) as f64).ln();
            }
            before = Some(*moment);
            places.push((*moment, at));
        }
        if at > 0.0 {
            places.iter_mut().for_each(|(_, place)| *place /= at);
        }
        Self { places }
    }

    fn x(&self, moment: u64) -> f64 {
        let place = self.places.iter().find(|(known, _)| *known >= moment).map_or(1.0, |(_, place)| *place);
        LEFT + place * (WIDTH - LEFT - RIGHT)
    }
}

/// The SVG element; empty if there is nothing to show. `title` is for screen readers: the page lists the same entries below.
pub fn svg(spans: &[Span], title: &str, now_ms: u64) -> String {
    let mut moments: BTreeSet<u64> =
        spans.iter().flat_map(|span| [Some(span.from_ms), span.to_ms]).flatten().collect();
    let Some(first_ms) = moments.first().copied() else { return String::new() };
    let is_open = spans.iter().any(|span| span.open);
    if is_open {
        moments.insert(now_ms);
    }
    let scale = Scale::of(&moments);
    let lanes: Vec<&str> =
        LANES.into_iter().filter(|lane| spans.iter().any(|span| span.lane == *lane)).collect();
    let height = TOP + LANE * lanes.len() as f64 + SCALE;
    let lanes: Vec<Lane<'_>> = lanes
        .into_iter()
        .enumerate()
        .map(|(row, name)| {
            let y = TOP + LANE * row as f64 + LANE / 2.0;
            let in_lane = spans.iter().filter(|span| span.lane == name);
            Lane { name, y, marks: marks(&scale, in_lane, now_ms) }
        })
        .collect();
    let drawing = Drawing { title, height, ticks: ticks(&scale, first_ms), lanes };
    drawing.render().unwrap_or_default()
}

/// What is drawn, in the drawing's own units.
#[derive(Template)]
#[template(path = "timeline.svg")]
struct Drawing<'a> {
    title: &'a str,
    height: f64,
    /// Where a time is written, and how long after the first moment it is.
    ticks: Vec<(f64, String)>,
    lanes: Vec<Lane<'a>>,
}

struct Lane<'a> {
    name: &'a str,
    y: f64,
    marks: Vec<Mark<'a>>,
}

/// A span as a bar, or a moment as a dot.
struct Mark<'a> {
    span: &'a Span,
    x: f64,
    /// Of a bar.
    width: Option<f64>,
    /// Where its label begins, if there is room for it.
    label_x: Option<f64>,
}

fn marks<'a>(scale: &Scale, spans: impl Iterator<Item = &'a Span>, now_ms: u64) -> Vec<Mark<'a>> {
    let mut free_from = 0.0;
    let mut marks = Vec::new();
    for span in spans {
        let x = scale.x(span.from_ms);
        let until_ms = if span.open { Some(now_ms.max(span.from_ms)) } else { span.to_ms };
        let width = until_ms.map(|until_ms| (scale.x(until_ms) - x).max(4.0));
        // A label stands above its span where there is room for it; the list has them all.
        let label = span.label.chars().count() as f64 * CHARACTER;
        let start = x.min(WIDTH - label);
        let label_x = (start >= free_from && start >= x - 60.0).then_some(start);
        if label_x.is_some() {
            free_from = start + label + 8.0;
        }
        free_from = free_from.max(x + width.unwrap_or(DOT) - label);
        marks.push(Mark { span, x, width, label_x });
    }
    marks
}

fn ticks(scale: &Scale, first_ms: u64) -> Vec<(f64, String)> {
    let mut free_from = 0.0;
    let mut ticks = Vec::new();
    for (moment, _) in &scale.places {
        let x = scale.x(*moment);
        if x < free_from {
            continue;
        }
        let is_first = *moment == first_ms;
        let after = || format!("+{}", format::duration(moment - first_ms));
        ticks.push((x, if is_first { "0".to_owned() } else { after() }));
        free_from = x + 64.0;
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(lane: &'static str, from_ms: u64, to_ms: Option<u64>) -> Span {
        Span { lane, from_ms, to_ms, open: false, tone: "good", label: "charge <1>".into() }
    }

    #[test]
    fn nothing_makes_no_picture_and_one_moment_does() {
        assert_eq!(svg(&[], "t", 0), "");
        let one = svg(&[span("Audit", 5, None)], "What & when", 9);
        assert!(one.contains("aria-label=\"What &#38; when\"") && one.contains("charge &#60;1&#62;"));
        assert!(!one.contains("NaN") && !one.contains("Webhooks"), "only lanes with something in them");
    }

    #[test]
    fn milliseconds_stay_apart_beside_hours() {
        let moments = BTreeSet::from([0, 20, 40, 7_200_000]);
        let scale = Scale::of(&moments);
        let at: Vec<f64> = [0, 20, 40, 7_200_000].map(|moment| scale.x(moment)).to_vec();
        assert!(at.is_sorted());
        assert!(at[1] - at[0] > 60.0, "{at:?}");
        assert!((at[3] - (WIDTH - RIGHT)).abs() < 0.1);
    }

    #[test]
    fn what_goes_on_reaches_to_now() {
        let mut going = span("Runs", 0, None);
        going.open = true;
        let picture = svg(&[going], "t", 1_000);
        assert!(picture.contains("mark good open") && picture.contains("+1 s"));
    }
}
