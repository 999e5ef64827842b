//! Where spans are sent, and of which traces.

use std::fmt;

use crate::url::percent_decode;

/// A collector: `OTLP_ENDPOINT`, `OTLP_HEADERS`, `OTLP_SAMPLE_RATIO`.
#[derive(Clone, PartialEq, Eq)]
pub struct Collector {
    /// The address of its traces.
    pub url: String,
    /// What it wants to be sent beside them, such as its key: secrets.
    pub headers: Vec<(String, String)>,
    /// How many of 2^56 traces that begin here are recorded.
    sampled: u64,
    /// Where this runs: `demo` or `production`.
    pub environment: &'static str,
}

/// How many values the random part of a trace's id that decides on it has.
const ALL: u64 = 1 << 56;

impl Collector {
    /// `None` where no address is set: then nothing is sent. The error is a sentence that says what to set.
    pub fn read(setting: impl Fn(&str) -> Option<String>, demo: bool) -> Result<Option<Self>, String> {
        let Some(endpoint) = setting("OTLP_ENDPOINT") else {
            return match ["OTLP_HEADERS", "OTLP_SAMPLE_RATIO"]
                .into_iter()
                .find(|name| setting(name).is_some())
            {
                Some(name) => Err(format!("{name} is set without OTLP_ENDPOINT: set both, or none.")),
                None => Ok(None),
            };
        };
        let endpoint = endpoint.trim().trim_end_matches('/');
        let (scheme, host) = endpoint.split_once("://").unwrap_or_default();
        let is_safe = scheme == "https" || demo && scheme == "http";
        if !is_safe || host.is_empty() || !host.bytes().all(|b| b.is_ascii_graphic() && !b"?#@".contains(&b))
        {
            return Err("OTLP_ENDPOINT must be the collector's base address, such as https://otlp.example: /v1/traces \
                        is added to it."
                .to_owned());
        }
        Ok(Some(Self {
            url: format!("{endpoint}/v1/traces"),
            headers: headers(&setting("OTLP_HEADERS").unwrap_or_default())?,
            sampled: sampled(setting("OTLP_SAMPLE_RATIO"))?,
            environment: if demo { "demo" } else { "production" },
        }))
    }

    /// Whether a trace that begins here is recorded: by its id, as [every other program](https://opentelemetry.io/docs/specs/otel/trace/sdk/#traceidratiobased) decides.
    pub fn samples(&self, trace_id: &[u8; 16]) -> bool {
        let random = trace_id.iter().skip(9).fold(0, |all, byte| all << 8 | u64::from(*byte));
        random < self.sampled
    }
}

/// Without the headers: they are secrets.
impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("url", &self.url).finish_non_exhaustive()
    }
}

/// `name=value` pairs, separated by commas; values are percent-encoded.
fn headers(text: &str) -> Result<Vec<(String, String)>, String> {
    let header = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let (name, value) = (name.trim().to_ascii_lowercase(), percent_decode(value.trim())?);
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        let is_value = |b: u8| (0x20..=0x7e).contains(&b);
        let is_header = !name.is_empty() && name.bytes().all(is_name) && value.bytes().all(is_value);
        is_header.then_some((name, value))
    };
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    // It is a secret: the error says nothing of it.
    pairs.map(header).collect::<Option<_>>().ok_or_else(|| {
        "OTLP_HEADERS must be pairs such as authorization=Bearer%20KEY, separated by commas; values are \
         percent-encoded."
            .to_owned()
    })
}

fn sampled(ratio: Option<String>) -> Result<u64, String> {
    let Some(text) = ratio else { return Ok(ALL) };
    match text.trim().parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok((ratio * ALL as f64) as u64),
        _ => Err("OTLP_SAMPLE_RATIO must be a number from 0 (no trace) to 1 (all of them), such as 0.05."
            .to_owned()),
    }
}
