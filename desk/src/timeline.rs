//! The timeline of a key or a payment, from an object's rows: entries for the list and spans for the chart.

use serde::Deserialize;

use super::format;
use super::status::Entity;
use super::timeline_svg::Span;
use messages::inspection::{CallView, Inspection};
use once::object_state::TimelineEntry;
use once::replays::REPLAYED;

/// How releases up to November 2026 told of a call that needs review, as the detail of `call_settled`.
const NEEDS_REVIEW_BEFORE: &str = "flagged for a person";

/// A job as the read model knows it.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the columns are described in migrations/")]
pub struct JobRow {
    pub job_id: String,
    pub kind: String,
    pub state: String,
    pub attempts: u32,
    pub result: Option<String>,
    pub staged_at_ms: u64,
    pub updated_at_ms: u64,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// In ms since the epoch.
    pub at_ms: u64,
    /// The lane that it belongs to.
    pub lane: &'static str,
    /// `good`, `bad`, `warn` or empty.
    pub tone: &'static str,
    /// What happened.
    pub what: String,
    /// More about it: ids, codes.
    pub detail: String,
    /// Its order among entries of the same moment.
    pub place: usize,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Oldest first.
    pub entries: Vec<Entry>,
    /// For the chart.
    pub spans: Vec<Span>,
    /// The order of the entries that are being added, among those of the same moment.
    place: usize,
}

/// The timeline of one key of the object, or of all.
pub fn timeline(inspection: &Inspection, key_id: Option<u32>, jobs: &[JobRow]) -> Timeline {
    let mut timeline = Timeline::default();
    let is_mine = |entry: &&TimelineEntry| key_id.is_none_or(|key_id| entry.key_id == key_id);
    let mut keys: Vec<u32> = inspection.timeline.iter().filter(is_mine).map(|entry| entry.key_id).collect();
    keys.sort_unstable();
    keys.dedup();
    for key_id in keys {
        let all = inspection.timeline.iter().enumerate();
        let entries: Vec<(usize, &TimelineEntry)> = all.filter(|(_, entry)| entry.key_id == key_id).collect();
        let is_open = inspection.snapshot.keys.iter().any(|key| key.key_id == key_id && key.status == "open");
        let name = inspection.snapshot.keys.iter().find(|key| key.key_id == key_id);
        let name = name.and_then(|key| key.operation.clone()).unwrap_or_else(|| "operation".to_owned());
        timeline.runs(&entries, &name, is_open);
        timeline.phases(&entries, &name);
        timeline.replays(&entries, &name);
        timeline.calls(&entries, inspection, key_id);
    }
    // Webhooks and jobs belong to the object, not to one of its keys.
    timeline.place = usize::MAX;
    timeline.webhooks(inspection);
    timeline.jobs(inspection, jobs);
    timeline.audit(inspection);
    timeline.entries.sort_by_key(|entry| (entry.at_ms, entry.place));
    timeline.spans.sort_by_key(|span| span.from_ms);
    timeline
}

impl Timeline {
    fn entry(
        &mut self,
        at_ms: u64,
        lane: &'static str,
        tone: &'static str,
        what: impl Into<String>,
        detail: impl Into<String>,
    ) {
        let place = self.place;
        self.entries.push(Entry { at_ms, lane, tone, what: what.into(), detail: detail.into(), place });
    }

    fn span(
        &mut self,
        lane: &'static str,
        from_ms: u64,
        to_ms: Option<u64>,
        tone: &'static str,
        label: impl Into<String>,
    ) {
        self.spans.push(Span { lane, from_ms, to_ms, open: false, tone, label: label.into() });
    }

    /// A run lasts from its claim to its release or end, or is still open.
    fn runs(&mut self, entries: &[(usize, &TimelineEntry)], name: &str, is_open: bool) {
        let mut began: Option<(u64, u32)> = None;
        for (place, entry) in entries {
            self.place = *place;
            match entry.event.as_str() {
                "key_created" | "resumed" => {
                    let what = if entry.event == "resumed" { "Resumed" } else { "Key used first" };
                    // The operation's name says what it was used for.
                    let detail = if entry.event == "resumed" { entry.detail.as_str() } else { "" };
                    self.entry(entry.at_ms, "Runs", "", format!("{what}: {name}"), detail);
                    // The previous run was lost without an entry.
                    if let Some((from_ms, attempt)) = began.replace((entry.at_ms, entry.attempt)) {
                        self.span(
                            "Runs",
                            from_ms,
                            Some(entry.at_ms),
                            "bad",
                            format!("{name}, run {attempt}: lost"),
                        );
                    }
                }
                "released" | "finished" => {
                    let is_end = entry.event == "finished";
                    let tone = if is_end { "good" } else { "warn" };
                    let what = if is_end { "Finished" } else { "Released" };
                    self.entry(entry.at_ms, "Runs", tone, format!("{what}: {name}"), &entry.detail);
                    let (from_ms, attempt) = began.take().unwrap_or((entry.at_ms, entry.attempt));
                    self.span("Runs", from_ms, Some(entry.at_ms), tone, format!("{name}, run {attempt}"));
                }
                "expired" => {
                    self.entry(
                        entry.at_ms,
                        "Runs",
                        "",
                        format!("Response dropped: {name}"),
                        "only its tombstone is left",
                    );
                }
                _ => {}
            }
        }
        if let Some((from_ms, attempt)) = began {
            self.span("Runs", from_ms, None, "warn", format!("{name}, run {attempt}"));
            if let Some(span) = self.spans.last_mut() {
                span.open = is_open;
            }
        }
    }

    fn phases(&mut self, entries: &[(usize, &TimelineEntry)], name: &str) {
        for (place, entry) in entries.iter().filter(|(_, entry)| entry.event == "recovery_point") {
            self.place = *place;
            let point = entry.detail.replace('_', " ");
            self.entry(
                entry.at_ms,
                "Phases",
                "",
                format!("Recovery point: {point}"),
                format!("of the {name}"),
            );
            self.span("Phases", entry.at_ms, None, "", point);
        }
    }

    /// Another request got the same response.
    fn replays(&mut self, entries: &[(usize, &TimelineEntry)], name: &str) {
        for (place, entry) in entries.iter().filter(|(_, entry)| entry.event == REPLAYED) {
            self.place = *place;
            let detail =
                if entry.detail.is_empty() { String::new() } else { format!("request {}", entry.detail) };
            self.entry(entry.at_ms, "Replays", "", format!("Answered again: {name}"), detail);
            self.span("Replays", entry.at_ms, None, "", format!("{name}: answered again"));
        }
    }

    /// A call lasts from its send to its outcome. One without an outcome was lost with its run.
    fn calls(&mut self, entries: &[(usize, &TimelineEntry)], inspection: &Inspection, key_id: u32) {
        let calls: Vec<&CallView> = inspection.calls.iter().filter(|call| call.key_id == key_id).collect();
        let mut sent: Option<(u64, String)> = None;
        for (place, entry) in entries {
            self.place = *place;
            match entry.event.as_str() {
                "call_frozen" => {
                    self.entry(
                        entry.at_ms,
                        "Provider",
                        "",
                        "Call written down",
                        format!("provider's key {}", entry.detail),
                    );
                }
                "call_sent" => {
                    self.entry(entry.at_ms, "Provider", "", format!("Sent: {}", entry.detail), "");
                    if let Some((from_ms, label)) = sent.replace((entry.at_ms, entry.detail.clone())) {
                        self.span(
                            "Provider",
                            from_ms,
                            Some(entry.at_ms),
                            "bad",
                            format!("{label}: no outcome"),
                        );
                    }
                }
                "call_outcome" => {
                    let (from_ms, label) = sent.take().unwrap_or((entry.at_ms, "call".to_owned()));
                    let tone = tone_of(&entry.detail);
                    let took = format::duration(entry.at_ms.saturating_sub(from_ms));
                    let name = label.split(' ').next().unwrap_or_default();
                    let call = calls.iter().find(|call| call.name == name);
                    let more = call.filter(|_| tone != "warn").map(|call| answer(call)).unwrap_or_default();
                    self.entry(
                        entry.at_ms,
                        "Provider",
                        tone,
                        format!("{}, after {took}", sentence(&entry.detail)),
                        more,
                    );
                    self.span(
                        "Provider",
                        from_ms,
                        Some(entry.at_ms),
                        tone,
                        format!("{label}: {}", entry.detail),
                    );
                }
                "look_up" => {
                    let tone = if entry.detail == "found" { "good" } else { "warn" };
                    self.entry(entry.at_ms, "Provider", tone, format!("Looked up: {}", entry.detail), "");
                    self.span("Provider", entry.at_ms, None, tone, format!("look-up: {}", entry.detail));
                }
                "call_settled_by_hand" => {
                    self.entry(entry.at_ms, "Provider", "warn", format!("Settled: {}", entry.detail), "");
                    self.span("Provider", entry.at_ms, None, "warn", "settled by hand");
                }
                "call_held" => {
                    self.entry(entry.at_ms, "Provider", "", format!("Held: {}", entry.detail), "");
                }
                "call_settled" | "call_needs_review" => {
                    let needs_review =
                        entry.event == "call_needs_review" || entry.detail == NEEDS_REVIEW_BEFORE;
                    let (tone, label) =
                        if needs_review { ("bad", "Needs review") } else { ("good", "Settled") };
                    self.entry(entry.at_ms, "Provider", tone, format!("{label}: {}", entry.detail), "");
                    self.span("Provider", entry.at_ms, None, tone, &entry.detail);
                }
                _ => {}
            }
        }
        if let Some((from_ms, label)) = sent {
            let in_flight = calls.iter().any(|call| call.status == "in_flight");
            self.span("Provider", from_ms, None, "warn", label);
            if let Some(span) = self.spans.last_mut() {
                span.open = in_flight;
            }
        }
    }

    fn webhooks(&mut self, inspection: &Inspection) {
        for event in &inspection.events {
            let what = format!("{} told: {}", sentence(&event.provider), event.kind);
            self.entry(event.received_at_ms, "Webhooks", "", what, &event.event_id);
            self.span("Webhooks", event.received_at_ms, None, "", &event.kind);
        }
        for entry in &inspection.timeline {
            let what = match entry.event.as_str() {
                "contradiction" => "It contradicts what we have",
                "alert" => "An operator must see it",
                _ => continue,
            };
            self.entry(entry.at_ms, "Webhooks", "bad", what, &entry.detail);
        }
    }

    fn jobs(&mut self, inspection: &Inspection, rows: &[JobRow]) {
        for row in rows {
            let name = row.kind.replace('_', " ");
            let status = Entity::Job.chip(&row.state);
            let tone = if status.chip == "plain" { "" } else { status.chip };
            let tries =
                if row.attempts == 1 { "1 try".to_owned() } else { format!("{} tries", row.attempts) };
            self.entry(row.staged_at_ms, "Jobs", "", format!("Job staged: {name}"), &row.job_id);
            let result = row.result.as_deref().map(|result| format!(": {result}")).unwrap_or_default();
            self.entry(
                row.updated_at_ms,
                "Jobs",
                tone,
                format!("Job {name}: {}", status.text),
                format!("{tries}{result}"),
            );
            self.span(
                "Jobs",
                row.staged_at_ms,
                Some(row.updated_at_ms),
                tone,
                format!("{name}: {}", status.text),
            );
        }
        for job in inspection.jobs.iter().filter(|job| rows.iter().all(|row| row.job_id != job.job_id)) {
            let name = job.kind.replace('_', " ");
            let where_it_is =
                if job.sends == 0 { "on its way to the queue" } else { "in the queue, not over yet" };
            self.entry(job.staged_at_ms, "Jobs", "warn", format!("Job staged: {name}"), where_it_is);
            self.span("Jobs", job.staged_at_ms, None, "warn", name);
            if let Some(span) = self.spans.last_mut() {
                span.open = true;
            }
        }
    }

    fn audit(&mut self, inspection: &Inspection) {
        for record in &inspection.snapshot.audit {
            let what = record.action.clone();
            self.entry(
                record.at_ms,
                "Audit",
                "",
                what,
                format!(
                    "{} by {}",
                    format::short(&record.subject),
                    format::doer(&record.actor, &record.data)
                ),
            );
            self.span("Audit", record.at_ms, None, "", &record.action);
        }
    }
}

fn tone_of(outcome: &str) -> &'static str {
    match outcome {
        text if text.starts_with("answered 2") => "good",
        text if text.starts_with("answered") => "bad",
        _ => "warn",
    }
}

/// The provider's answer to a call.
fn answer(call: &CallView) -> String {
    let request = call.request_id.as_ref().map(|id| format!("request {id}"));
    let result = call.result.as_ref().map(|result| result.replace('_', " "));
    [result, call.code.clone(), request].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", characters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use messages::snapshot::{KeyRow, Snapshot};

    fn inspection(timeline: &[(u64, u32, &str, &str)], status: &str) -> Inspection {
        let entries = timeline.iter().map(|(at_ms, attempt, event, detail)| TimelineEntry {
            key_id: 1,
            at_ms: *at_ms,
            attempt: *attempt,
            event: (*event).to_owned(),
            detail: (*detail).to_owned(),
        });
        let key = KeyRow {
            key_id: 1,
            key_hash: "h".into(),
            owner: "account:a".into(),
            operation: Some("payment".into()),
            status: status.into(),
            recovery_point: "started".into(),
            attempts: 1,
            failures: 0,
            in_doubt: 0,
            flagged: 0,
            response_status: None,
            wake_at_ms: None,
            created_at_ms: 0,
            finished_at_ms: None,
            expires_at_ms: None,
        };
        Inspection {
            snapshot: Snapshot {
                object: "00".into(),
                version: 1,
                at_ms: 0,
                owner: "account:a".into(),
                payment: None,
                refunds: vec![],
                keys: vec![key],
                audit: vec![],
            },
            timeline: entries.collect(),
            replays: [(1, 0)].into(),
            ..Inspection::default()
        }
    }

    fn spans(timeline: &Timeline, lane: &str) -> Vec<(u64, Option<u64>, &'static str, bool)> {
        let spans = timeline.spans.iter().filter(|span| span.lane == lane);
        spans.map(|span| (span.from_ms, span.to_ms, span.tone, span.open)).collect()
    }

    #[test]
    fn runs_and_calls_last_from_their_beginning_to_their_end() {
        let told = inspection(
            &[
                (0, 1, "key_created", "payment"),
                (5, 1, "call_sent", "charge send 1"),
                (700, 1, "call_outcome", "unknown: no answer"),
                (700, 1, "released", "waits"),
                (1500, 2, "resumed", "nobody worked on it"),
                (1501, 2, "call_sent", "charge send 2"),
                (1600, 2, "call_outcome", "answered 200"),
                (1601, 2, "finished", "201"),
            ],
            "finished",
        );
        let timeline = timeline(&told, None, &[]);
        assert_eq!(
            spans(&timeline, "Runs"),
            [(0, Some(700), "warn", false), (1500, Some(1601), "good", false)]
        );
        assert_eq!(
            spans(&timeline, "Provider"),
            [(5, Some(700), "warn", false), (1501, Some(1600), "good", false)]
        );
        assert!(timeline.entries.is_sorted_by_key(|entry| entry.at_ms));
    }

    #[test]
    fn a_run_that_was_lost_ends_where_the_next_one_begins() {
        let told =
            inspection(&[(0, 1, "key_created", ""), (90, 2, "resumed", "its holder was gone")], "open");
        assert_eq!(
            spans(&timeline(&told, None, &[]), "Runs"),
            [(0, Some(90), "bad", false), (90, None, "warn", true)]
        );
    }

    #[test]
    fn each_replay_is_a_moment_in_a_lane_of_its_own() {
        let told = inspection(
            &[
                (0, 1, "key_created", "payment"),
                (9, 1, "finished", "201"),
                (500, 1, "replayed", "req_2"),
                (900, 1, "replayed", ""),
            ],
            "finished",
        );
        let timeline = timeline(&told, None, &[]);
        assert_eq!(spans(&timeline, "Replays"), [(500, None, "", false), (900, None, "", false)]);
        assert_eq!(spans(&timeline, "Runs"), [(0, Some(9), "good", false)], "no run begins with it");
        let lines = timeline.entries.iter().filter(|entry| entry.lane == "Replays");
        let lines: Vec<_> = lines.map(|entry| (entry.what.as_str(), entry.detail.as_str())).collect();
        assert_eq!(lines, [("Answered again: payment", "request req_2"), ("Answered again: payment", "")]);
    }

    #[test]
    fn a_call_that_needs_review_is_no_good_end() {
        let ends = [
            ("call_needs_review", "the outcome is unknown"),
            ("call_settled", "flagged for a person"),
            ("call_settled", "not executed: the provider refused every send"),
        ];
        for ((event, detail), tone) in ends.into_iter().zip(["bad", "bad", "good"]) {
            let told = inspection(&[(7, 1, event, detail)], "open");
            assert_eq!(
                spans(&timeline(&told, None, &[]), "Provider"),
                [(7, None, tone, false)],
                "{event}: {detail}"
            );
        }
    }

    #[test]
    fn only_the_key_that_is_asked_for_is_told_of() {
        let told = inspection(&[(0, 1, "key_created", "")], "open");
        assert!(timeline(&told, Some(2), &[]).entries.is_empty());
    }
}
