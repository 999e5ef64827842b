//! The exposition, as [Prometheus reads it](https://prometheus.io/docs/instrumenting/exposition_formats/).

use std::fmt::Write;

use super::catalog::{BUCKETS, Family, Kind, Sample};
use super::counters::{Counters, Labels};
use super::reading::Reading;

/// The media type of [`exposition`].
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All families, even those without any count. Gauges that are sums of changes are left out where these are estimates.
pub fn exposition(reading: impl Into<Reading>) -> String {
    let reading = reading.into();
    let (is_sampled, keys_open) = (reading.is_sampled(), reading.keys_open);
    let mut counters = reading.counters.with_initial_series();
    if is_sampled {
        counters.replace(Family::Keys, None);
        counters.replace(Family::Payments, None);
        counters.replace(Family::KeysOpen, keys_open.map(|open| i64::try_from(open).unwrap_or(i64::MAX)));
    }
    let mut text = String::new();
    for family in Family::ALL {
        let name = family.name();
        line(&mut text, &format!("# HELP {name} {}", family.help()));
        line(&mut text, &format!("# TYPE {name} {}", family.kind().as_str()));
        match family.kind() {
            Kind::Counter | Kind::Gauge => {
                for (labels, _, number) in counters.of(family) {
                    // Lost messages make a gauge drift; it never shows less than zero.
                    sample(&mut text, name, &pairs(family, labels), number.max(0));
                }
            }
            Kind::Histogram => histogram(&mut text, family, &counters),
        }
    }
    text
}

/// Where the counts come from, and how exact they are. `by_analytics`: Analytics Engine is read.
pub fn source(reading: &Reading, by_analytics: bool, now_ms: u64) -> String {
    let name = "paid_once_metrics_exact";
    let (source, help) = if by_analytics {
        (
            "analytics_engine",
            "0: counted by data points, each read once; late ones are missing, sampled ones are estimates.",
        )
    } else {
        ("object", "1: each is counted once at most; what an isolate had not sent when it ended is missing.")
    };
    let exact = u8::from(!by_analytics && !reading.is_sampled());
    let mut text =
        format!("# HELP {name} {help}\n# TYPE {name} gauge\n{name}{{source=\"{source}\"}} {exact}\n");
    if let Some(folded) = reading.folded {
        let help =
            "For how many data points one has stood at most since they are read; 1: none was left out.";
        text.push_str(&gauge("paid_once_metrics_sample_interval_max", help, folded.sample_interval_max));
        let behind_s = (now_ms / 1000).saturating_sub(folded.read_to_s);
        let help = "How long ago the newest data points were logged that are counted.";
        let behind = by_analytics.then(|| gauge("paid_once_metrics_behind_seconds", help, behind_s));
        text.push_str(&behind.unwrap_or_default());
    }
    text
}

/// A gauge whose value is known, not counted.
pub fn gauge(name: &str, help: &str, value: u64) -> String {
    format!("# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n")
}

/// A gauge with a number for each of these values of a label.
pub fn gauge_by<'a>(
    name: &str,
    help: &str,
    label: &str,
    values: impl IntoIterator<Item = (&'a str, u64)>,
) -> String {
    let head = format!("# HELP {name} {help}\n# TYPE {name} gauge\n");
    let each = values.into_iter().map(|(of, value)| format!("{name}{{{label}=\"{of}\"}} {value}\n"));
    std::iter::once(head).chain(each).collect()
}

fn histogram(text: &mut String, family: Family, counters: &Counters) {
    let mut series: Vec<&Labels> = counters.of(family).map(|(labels, _, _)| labels).collect();
    series.dedup();
    let name = family.name();
    for labels in series {
        let number_of = |wanted: Sample| {
            let mut numbers =
                counters.of(family).filter(|(of, sample, _)| *of == labels && *sample == wanted);
            numbers.next().map_or(0, |(_, _, number)| number)
        };
        let pairs = pairs(family, labels);
        let mut count = 0_i64;
        for (_, bound) in BUCKETS {
            count = count.saturating_add(number_of(Sample::Bucket(bound)));
            let up_to = [&pairs[..], &[format!("le=\"{bound}\"")]].concat();
            sample(text, &format!("{name}_bucket"), &up_to, count);
        }
        let sum_ms = number_of(Sample::SumMs);
        let sum = format!("{}.{:03}", sum_ms / 1000, sum_ms % 1000);
        sample(text, &format!("{name}_sum"), &pairs, sum);
        sample(text, &format!("{name}_count"), &pairs, count);
    }
}

fn pairs(family: Family, labels: &Labels) -> Vec<String> {
    let escaped = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let names = family.labels().iter();
    names.zip(labels).map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect()
}

fn sample(text: &mut String, name: &str, pairs: &[String], value: impl std::fmt::Display) {
    let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
    line(text, &format!("{name}{labels} {value}"));
}

fn line(text: &mut String, line: &str) {
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{line}");
}
