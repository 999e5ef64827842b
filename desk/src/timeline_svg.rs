//! What happened when, as a picture: a lane for each kind of thing, and time from left to right.
//!
//! A payment is moments of milliseconds with hours between them. So the axis is broken where nothing happens for long. What lies
//! between two breaks is a stretch, drawn to scale: its first tick says how long after the stretch before it begins, and the others
//! count from there.

use std::collections::BTreeSet;

use askama::Template;

use super::format;

const WIDTH: f64 = 880.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 24.0;
const LANE: f64 = 42.0;
const TOP: f64 = 8.0;
const SCALE: f64 = 26.0;
/// The radius of a moment's dot.
const DOT: f64 = 4.5;
/// How wide a character is, at most.
const CHARACTER: f64 = 6.4;
/// The longest label, in characters: what is cut off stands in the list below.
const LABEL_MAX_CHARS: usize = 42;
/// Where the labels of a lane stand.
const ABOVE: f64 = -7.0;
const BELOW: f64 = 15.0;
/// How wide a break of the axis is.
const BREAK: f64 = 22.0;
/// The least width of a stretch: its first tick has room.
const STRETCH_MIN: f64 = 92.0;
/// The least distance between two ticks.
const TICK_MIN: f64 = 80.0;
/// More breaks would leave too little of the axis.
const BREAKS_MAX: usize = 5;
/// No shorter gap is broken, in ms.
const BREAK_MIN_MS: u64 = 1_000;
/// A gap is long if it is so many times as long as the next shorter one.
const BREAK_RATIO: u64 = 10;
/// A gap in which something lasts, such as a call, says something: only one as long as so many others is broken.
const LASTING: u64 = 100;
/// The distances between ticks, in ms: as people divide time.
const STEPS_MS: [u64; 27] = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    15_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    1_800_000,
    3_600_000,
    7_200_000,
    21_600_000,
    43_200_000,
    86_400_000,
    604_800_000,
    2_592_000_000,
];

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

/// The lane of calls, unless a page calls it otherwise.
pub const CALLS: &str = "Provider";
/// The lanes, from top to bottom. Empty ones are left out.
pub const LANES: [&str; 8] = ["Runs", "Phases", CALLS, "Origin", "Replays", "Webhooks", "Jobs", "Audit"];

/// A stretch of the axis, drawn to scale.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    from_ms: u64,
    to_ms: u64,
    /// How long after the end of the stretch before it begins, in ms; 0 for the first one.
    gap_ms: u64,
    left: f64,
    width: f64,
}

impl Stretch {
    fn x(&self, moment: u64) -> f64 {
        let length_ms = self.to_ms.saturating_sub(self.from_ms).max(1);
        self.left + self.width * moment.saturating_sub(self.from_ms) as f64 / length_ms as f64
    }
}

/// The axis: its stretches, from left to right.
struct Scale(Vec<Stretch>);

impl Scale {
    fn of(moments: &BTreeSet<u64>, lasts: impl Fn(u64, u64) -> bool) -> Self {
        let breaks = breaks(moments, lasts);
        let mut stretches: Vec<(Stretch, u32)> = Vec::new();
        let mut before_ms = None;
        for moment in moments.iter().copied() {
            let gap_ms = before_ms.map_or(0, |before_ms| moment - before_ms);
            before_ms = Some(moment);
            match stretches.last_mut() {
                Some((stretch, moments)) if !breaks.contains(&moment) => {
                    stretch.to_ms = moment;
                    *moments += 1;
                }
                _ => {
                    let stretch = Stretch { from_ms: moment, to_ms: moment, gap_ms, left: 0.0, width: 0.0 };
                    stretches.push((stretch, 0));
                }
            }
        }
        // The more happens in a stretch, the more room it gets.
        let more: u32 = stretches.iter().map(|(_, more)| more).sum();
        let count = stretches.len() as f64;
        let room = WIDTH - LEFT - RIGHT - BREAK * (count - 1.0) - STRETCH_MIN * count;
        let mut left = LEFT;
        let place = |(mut stretch, moments): (Stretch, u32)| {
            let share = if more == 0 { 1.0 / count } else { f64::from(moments) / f64::from(more) };
            stretch.left = left;
            stretch.width = STRETCH_MIN + room * share;
            left += stretch.width + BREAK;
            stretch
        };
        Self(stretches.into_iter().map(place).collect())
    }

    fn x(&self, moment: u64) -> f64 {
        let stretch = self.0.iter().rev().find(|stretch| stretch.from_ms <= moment).or(self.0.first());
        stretch.map_or(LEFT, |stretch| stretch.x(moment))
    }

    /// The left edges of the breaks.
    fn breaks(&self) -> Vec<f64> {
        self.0.iter().skip(1).map(|stretch| stretch.left - BREAK).collect()
    }

    fn ticks(&self) -> Vec<Tick> {
        self.0.iter().flat_map(Stretch::ticks).collect()
    }
}

/// The moments before which the axis is broken: the gaps that are far longer than all others.
fn breaks(moments: &BTreeSet<u64>, lasts: impl Fn(u64, u64) -> bool) -> BTreeSet<u64> {
    let gaps = moments.iter().zip(moments.iter().skip(1)).map(|(from, to)| {
        let gap_ms = to - from;
        (if lasts(*from, *to) { gap_ms / LASTING } else { gap_ms }, *to)
    });
    let mut gaps: Vec<(u64, u64)> = gaps.collect();
    gaps.sort_unstable_by(|one, other| other.cmp(one));
    let shorter = gaps.iter().skip(1).map(|(gap_ms, _)| *gap_ms);
    let is_long = |((gap_ms, _), shorter_ms): (&(u64, u64), u64)| {
        *gap_ms >= BREAK_MIN_MS && *gap_ms >= shorter_ms.max(BREAK_MIN_MS / BREAK_RATIO) * BREAK_RATIO
    };
    let long: Vec<bool> = gaps.iter().zip(shorter).take(BREAKS_MAX).map(is_long).collect();
    let count = long.iter().rposition(|is_long| *is_long).map_or(0, |last| last + 1);
    gaps.into_iter().take(count).map(|(_, to)| to).collect()
}

/// Where a time is written.
struct Tick {
    x: f64,
    label: String,
    /// The first one of its stretch stands to the right of its line.
    is_first: bool,
}

impl Stretch {
    /// The first one tells where the stretch is, the others count from there.
    fn ticks(&self) -> Vec<Tick> {
        let first = match self.gap_ms {
            0 => "0".to_owned(),
            gap_ms => format!("{} later", format::duration(gap_ms)),
        };
        let mut free_from = self.left + first.chars().count() as f64 * CHARACTER + TICK_MIN / 2.0;
        let mut ticks = vec![Tick { x: self.left, label: first, is_first: true }];
        let length_ms = self.to_ms.saturating_sub(self.from_ms);
        let is_wide =
            |step_ms: &u64| self.width * *step_ms as f64 >= TICK_MIN * length_ms as f64 && length_ms > 0;
        let Some(step_ms) = STEPS_MS.into_iter().find(is_wide) else { return ticks };
        for after_ms in (1..=length_ms / step_ms).map(|step| step * step_ms) {
            let x = self.x(self.from_ms + after_ms);
            if x >= free_from {
                ticks.push(Tick { x, label: format!("+{}", format::duration(after_ms)), is_first: false });
                free_from = x + TICK_MIN;
            }
        }
        ticks
    }
}

/// The picture.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// The SVG element; empty if there is nothing to show.
    pub svg: String,
    /// A long gap is shortened in it.
    pub is_cut: bool,
}

/// Draws it. `title` is for screen readers: the page lists the same entries below.
pub fn picture(spans: &[Span], title: &str, now_ms: u64) -> Picture {
    let mut moments: BTreeSet<u64> =
        spans.iter().flat_map(|span| [Some(span.from_ms), span.to_ms]).flatten().collect();
    if moments.is_empty() {
        return Picture::default();
    }
    let is_open = spans.iter().any(|span| span.open);
    if is_open {
        moments.insert(now_ms);
    }
    let lasts = |from_ms: u64, to_ms: u64| {
        let until_ms = |span: &Span| if span.open { Some(now_ms) } else { span.to_ms };
        // A job that waits is not at work: what it waits for is on its own page.
        let mut working = spans.iter().filter(|span| span.lane != "Jobs");
        working.any(|span| span.from_ms <= from_ms && until_ms(span).is_some_and(|until| until >= to_ms))
    };
    let scale = Scale::of(&moments, lasts);
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
    let breaks = scale.breaks();
    let is_cut = !breaks.is_empty();
    let drawing = Drawing { title, height, breaks, ticks: scale.ticks(), lanes };
    Picture { svg: drawing.render().unwrap_or_default(), is_cut }
}

/// What is drawn, in the drawing's own units.
#[derive(Template)]
#[template(path = "timeline.svg")]
struct Drawing<'a> {
    title: &'a str,
    height: f64,
    /// The left edges of the breaks of the axis.
    breaks: Vec<f64>,
    ticks: Vec<Tick>,
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
    /// Its label, if there is room for it.
    label: Option<Label>,
}

struct Label {
    x: f64,
    /// How far below its lane it stands.
    dy: f64,
    text: String,
}

fn marks<'a>(scale: &Scale, spans: impl Iterator<Item = &'a Span>, now_ms: u64) -> Vec<Mark<'a>> {
    // Labels stand above the lane, or else below it; where neither has room the list has them all.
    let mut free_from = [(ABOVE, 0.0), (BELOW, 0.0)];
    let mut marks = Vec::new();
    for span in spans {
        let x = scale.x(span.from_ms);
        let until_ms = if span.open { Some(now_ms.max(span.from_ms)) } else { span.to_ms };
        let width = until_ms.map(|until_ms| (scale.x(until_ms) - x).max(4.0));
        let text = shortened(&span.label);
        let length = text.chars().count() as f64 * CHARACTER;
        let label_x = x.min(WIDTH - length);
        let row = free_from.iter_mut().find(|(_, free_from)| *free_from <= label_x);
        let label = row.map(|(dy, free_from)| {
            *free_from = label_x + length + 8.0;
            Label { x: label_x, dy: *dy, text }
        });
        marks.push(Mark { span, x, width, label });
    }
    marks
}

fn shortened(label: &str) -> String {
    match label.char_indices().nth(LABEL_MAX_CHARS) {
        Some((end, _)) => format!("{}…", label.get(..end).unwrap_or(label)),
        None => label.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svg(spans: &[Span], title: &str, now_ms: u64) -> String {
        picture(spans, title, now_ms).svg
    }

    #[test]
    fn only_a_picture_with_a_shortened_gap_says_so() {
        let is_cut = |last_ms| {
            let moments = [0, 20, 40, last_ms].map(|at_ms| span("Audit", at_ms, None));
            let drawn = picture(&moments, "t", 0);
            assert_eq!(drawn.is_cut, drawn.svg.contains("picture-break"));
            drawn.is_cut
        };
        assert_eq!([is_cut(60), is_cut(7_200_000)], [false, true]);
    }

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

    fn scale(moments: &[u64]) -> Scale {
        Scale::of(&moments.iter().copied().collect(), |_, _| false)
    }

    fn ticks(moments: &[u64]) -> Vec<String> {
        scale(moments).ticks().into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn the_axis_is_broken_where_nothing_happens_for_long() {
        let hours = scale(&[0, 300, 700, 7_200_000, 7_200_500, 93_600_000]);
        let breaks: Vec<(u64, u64)> =
            hours.0.iter().map(|stretch| (stretch.from_ms, stretch.gap_ms)).collect();
        assert_eq!(breaks, [(0, 0), (7_200_000, 7_199_300), (93_600_000, 86_399_500)]);
        let at: Vec<f64> = [0, 300, 700, 7_200_000, 93_600_000].map(|moment| hours.x(moment)).to_vec();
        assert!(at.is_sorted() && at[1] - at[0] > 60.0, "{at:?}");
        // Within a stretch, twice the time is twice the way.
        assert!(((at[2] - at[0]) / (at[1] - at[0]) - 7.0 / 3.0).abs() < 0.01, "{at:?}");
        assert!(at[4] + STRETCH_MIN <= WIDTH - RIGHT + 0.1, "{at:?}");
        for even in [&[0, 200, 400][..], &[0, 30_000, 60_000, 120_000, 300_000], &[5]] {
            assert!(scale(even).breaks().is_empty(), "{even:?}");
        }
        let many: Vec<u64> = (0..30).flat_map(|hour| [hour * 3_600_000, hour * 3_600_000 + 5]).collect();
        assert!(scale(&many).breaks().len() <= BREAKS_MAX);
    }

    #[test]
    fn a_break_does_not_cut_what_lasts() {
        let moments = BTreeSet::from([0, 20, 30_000]);
        assert!(Scale::of(&moments, |from_ms, _| from_ms == 20).breaks().is_empty());
        assert_eq!(Scale::of(&moments, |_, _| false).breaks().len(), 1, "a gap of the same length is cut");
        let weeks = BTreeSet::from([0, 20, 900_000_000]);
        assert_eq!(Scale::of(&weeks, |from_ms, _| from_ms == 20).breaks().len(), 1);
    }

    #[test]
    fn ticks_are_round_and_apart() {
        assert_eq!(
            ticks(&[0, 90, 410]),
            ["0", "+50 ms", "+100 ms", "+150 ms", "+200 ms", "+250 ms", "+300 ms", "+350 ms", "+400 ms"]
        );
        assert_eq!(ticks(&[5]), ["0"]);
        assert_eq!(ticks(&[0, 7_200_000]), ["0", "+30 min", "+1 h", "+1.5 h", "+2 h"]);
        assert_eq!(ticks(&[0, 5, 7_200_005]).last().unwrap(), "2 h later");
        for moments in [&[0, 90, 410, 3_600_000, 3_640_000][..], &[0, 7_300_000, 9_000_000]] {
            let all = scale(moments).ticks();
            for (one, next) in all.iter().zip(all.iter().skip(1)) {
                let half = |tick: &Tick| tick.label.chars().count() as f64 * CHARACTER / 2.0;
                let end = one.x + half(one) * if one.is_first { 2.0 } else { 1.0 };
                let begin = next.x - if next.is_first { 0.0 } else { half(next) };
                assert!(end <= begin, "{} and {} of {moments:?}", one.label, next.label);
            }
        }
    }

    #[test]
    fn labels_stay_inside_and_apart() {
        let mut spans: Vec<Span> = (0..9).map(|at| span("Audit", at * 100, None)).collect();
        spans
            .iter_mut()
            .for_each(|span| span.label = "payment.captured, and so much more to say about it".into());
        let scale = scale(&[0, 800]);
        let marks = marks(&scale, spans.iter(), 900);
        let mut taken: Vec<(f64, f64)> = Vec::new();
        for label in marks.iter().filter_map(|mark| mark.label.as_ref()) {
            let end = label.x + label.text.chars().count() as f64 * CHARACTER;
            assert!(label.x >= LEFT && end <= WIDTH + 0.1, "{} to {end}", label.x);
            assert!(taken.iter().all(|(dy, end)| *dy != label.dy || *end <= label.x));
            assert!(label.text.ends_with('…'));
            taken.push((label.dy, end));
        }
        assert!(taken.len() >= 4, "{taken:?}");
    }

    #[test]
    fn what_goes_on_reaches_to_now() {
        let mut going = span("Runs", 0, None);
        going.open = true;
        let drawn = svg(&[going], "t", 1_000);
        assert!(drawn.contains("mark good open") && drawn.contains("+1 s"));
    }
}
