//! The exposition, as [Prometheus reads it](https://prometheus.io/docs/instrumenting/exposition_formats/).

use std::fmt::Write;

use super::catalog::{BUCKETS, Family, Kind, Sample};
use super::counters::{Counters, Labels};

/// The media type of [`exposition`].
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All families, even those without any count.
pub fn exposition(counters: Counters) -> String {
    let counters = counters.with_initial_series();
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

/// A gauge whose value is known, not counted.
pub fn gauge(name: &str, help: &str, value: u64) -> String {
    format!("# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n")
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
