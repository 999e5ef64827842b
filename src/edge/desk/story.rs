//! What happened to a key or a payment, told from an object's rows: as lines, and as marks for the picture.

use serde::Deserialize;

use super::picture::Mark;
use super::words;
use crate::machine::rows::{REPLAYED, TimelineEntry};
use crate::object::inspection::{CallSight, Inspection};

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

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
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
    /// Its place among those of the same moment.
    pub place: usize,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// Oldest first.
    pub lines: Vec<Line>,
    /// For the picture.
    pub marks: Vec<Mark>,
    /// Where the lines that are being told stand among those of the same moment.
    place: usize,
}

/// What happened to one key of the object, or to all.
pub fn story(inspection: &Inspection, key_id: Option<u32>, jobs: &[JobRow]) -> Story {
    let mut story = Story::default();
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
        story.runs(&entries, &name, is_open);
        story.phases(&entries, &name);
        story.replays(&entries, &name);
        story.calls(&entries, inspection, key_id);
    }
    // What is told or staged belongs to the object, not to one of its keys.
    story.place = usize::MAX;
    story.webhooks(inspection);
    story.jobs(inspection, jobs);
    story.audit(inspection);
    story.lines.sort_by_key(|line| (line.at_ms, line.place));
    story.marks.sort_by_key(|mark| mark.from_ms);
    story
}

impl Story {
    fn line(
        &mut self,
        at_ms: u64,
        lane: &'static str,
        tone: &'static str,
        what: impl Into<String>,
        detail: impl Into<String>,
    ) {
        let place = self.place;
        self.lines.push(Line { at_ms, lane, tone, what: what.into(), detail: detail.into(), place });
    }

    fn mark(
        &mut self,
        lane: &'static str,
        from_ms: u64,
        to_ms: Option<u64>,
        tone: &'static str,
        label: impl Into<String>,
    ) {
        self.marks.push(Mark { lane, from_ms, to_ms, open: false, tone, label: label.into() });
    }

    /// A run lasts from its claim to its release or its end, or still goes on.
    fn runs(&mut self, entries: &[(usize, &TimelineEntry)], name: &str, is_open: bool) {
        let mut began: Option<(u64, u32)> = None;
        for (place, entry) in entries {
            self.place = *place;
            match entry.event.as_str() {
                "key_created" | "resumed" => {
                    let what = if entry.event == "resumed" { "Resumed" } else { "Key used first" };
                    // What it was used for is its name.
                    let detail = if entry.event == "resumed" { entry.detail.as_str() } else { "" };
                    self.line(entry.at_ms, "Runs", "", format!("{what}: {name}"), detail);
                    // The run before it left without a word.
                    if let Some((from_ms, attempt)) = began.replace((entry.at_ms, entry.attempt)) {
                        self.mark(
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
                    self.line(entry.at_ms, "Runs", tone, format!("{what}: {name}"), &entry.detail);
                    let (from_ms, attempt) = began.take().unwrap_or((entry.at_ms, entry.attempt));
                    self.mark("Runs", from_ms, Some(entry.at_ms), tone, format!("{name}, run {attempt}"));
                }
                "expired" => {
                    self.line(
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
            self.mark("Runs", from_ms, None, "warn", format!("{name}, run {attempt}"));
            if let Some(mark) = self.marks.last_mut() {
                mark.open = is_open;
            }
        }
    }

    fn phases(&mut self, entries: &[(usize, &TimelineEntry)], name: &str) {
        for (place, entry) in entries.iter().filter(|(_, entry)| entry.event == "recovery_point") {
            self.place = *place;
            let point = entry.detail.replace('_', " ");
            self.line(
                entry.at_ms,
                "Phases",
                "",
                format!("Recovery point: {point}"),
                format!("of the {name}"),
            );
            self.mark("Phases", entry.at_ms, None, "", point);
        }
    }

    /// Another request was given the same response.
    fn replays(&mut self, entries: &[(usize, &TimelineEntry)], name: &str) {
        for (place, entry) in entries.iter().filter(|(_, entry)| entry.event == REPLAYED) {
            self.place = *place;
            let detail =
                if entry.detail.is_empty() { String::new() } else { format!("request {}", entry.detail) };
            self.line(entry.at_ms, "Replays", "", format!("Answered again: {name}"), detail);
            self.mark("Replays", entry.at_ms, None, "", format!("{name}: answered again"));
        }
    }

    /// A call lasts from its send to its outcome; one without an outcome died with its run.
    fn calls(&mut self, entries: &[(usize, &TimelineEntry)], inspection: &Inspection, key_id: u32) {
        let calls: Vec<&CallSight> = inspection.calls.iter().filter(|call| call.key_id == key_id).collect();
        let mut sent: Option<(u64, String)> = None;
        for (place, entry) in entries {
            self.place = *place;
            match entry.event.as_str() {
                "call_frozen" => {
                    self.line(
                        entry.at_ms,
                        "Provider",
                        "",
                        "Call written down",
                        format!("provider's key {}", entry.detail),
                    );
                }
                "call_sent" => {
                    self.line(entry.at_ms, "Provider", "", format!("Sent: {}", entry.detail), "");
                    if let Some((from_ms, label)) = sent.replace((entry.at_ms, entry.detail.clone())) {
                        self.mark(
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
                    let took = words::duration(entry.at_ms.saturating_sub(from_ms));
                    let name = label.split(' ').next().unwrap_or_default();
                    let call = calls.iter().find(|call| call.name == name);
                    let more = call.filter(|_| tone != "warn").map(|call| answer(call)).unwrap_or_default();
                    self.line(
                        entry.at_ms,
                        "Provider",
                        tone,
                        format!("{}, after {took}", sentence(&entry.detail)),
                        more,
                    );
                    self.mark(
                        "Provider",
                        from_ms,
                        Some(entry.at_ms),
                        tone,
                        format!("{label}: {}", entry.detail),
                    );
                }
                "look_up" => {
                    let tone = if entry.detail == "found" { "good" } else { "warn" };
                    self.line(entry.at_ms, "Provider", tone, format!("Looked up: {}", entry.detail), "");
                    self.mark("Provider", entry.at_ms, None, tone, format!("look-up: {}", entry.detail));
                }
                "call_settled_by_hand" => {
                    self.line(entry.at_ms, "Provider", "warn", format!("Settled: {}", entry.detail), "");
                    self.mark("Provider", entry.at_ms, None, "warn", "settled by hand");
                }
                "call_held" => {
                    self.line(entry.at_ms, "Provider", "", format!("Held: {}", entry.detail), "");
                }
                "call_settled" => {
                    let tone = if entry.detail.contains("flagged") { "bad" } else { "good" };
                    self.line(entry.at_ms, "Provider", tone, format!("Settled: {}", entry.detail), "");
                    self.mark("Provider", entry.at_ms, None, tone, &entry.detail);
                }
                _ => {}
            }
        }
        if let Some((from_ms, label)) = sent {
            let in_flight = calls.iter().any(|call| call.status == "in_flight");
            self.mark("Provider", from_ms, None, "warn", label);
            if let Some(mark) = self.marks.last_mut() {
                mark.open = in_flight;
            }
        }
    }

    fn webhooks(&mut self, inspection: &Inspection) {
        for event in &inspection.events {
            let what = format!("{} told: {}", sentence(&event.provider), event.kind);
            self.line(event.received_at_ms, "Webhooks", "", what, &event.event_id);
            self.mark("Webhooks", event.received_at_ms, None, "", &event.kind);
        }
        for entry in inspection.timeline.iter().filter(|entry| entry.event == "contradiction") {
            self.line(entry.at_ms, "Webhooks", "bad", "It contradicts what we have", &entry.detail);
        }
    }

    fn jobs(&mut self, inspection: &Inspection, rows: &[JobRow]) {
        for row in rows {
            let name = row.kind.replace('_', " ");
            let tone = match row.state.as_str() {
                "done" => "good",
                "dead" => "bad",
                "purged" => "",
                _ => "warn",
            };
            let tries =
                if row.attempts == 1 { "1 try".to_owned() } else { format!("{} tries", row.attempts) };
            self.line(row.staged_at_ms, "Jobs", "", format!("Job staged: {name}"), &row.job_id);
            let result = row.result.as_deref().map(|result| format!(": {result}")).unwrap_or_default();
            self.line(
                row.updated_at_ms,
                "Jobs",
                tone,
                format!("Job {}: {name}", row.state),
                format!("{tries}{result}"),
            );
            self.mark(
                "Jobs",
                row.staged_at_ms,
                Some(row.updated_at_ms),
                tone,
                format!("{name}: {}", row.state),
            );
        }
        for job in inspection.jobs.iter().filter(|job| rows.iter().all(|row| row.job_id != job.job_id)) {
            let name = job.kind.replace('_', " ");
            let where_it_is =
                if job.sends == 0 { "not sent to the queue yet" } else { "in the queue, not confirmed" };
            self.line(job.staged_at_ms, "Jobs", "warn", format!("Job staged: {name}"), where_it_is);
            self.mark("Jobs", job.staged_at_ms, None, "warn", name);
            if let Some(mark) = self.marks.last_mut() {
                mark.open = true;
            }
        }
    }

    fn audit(&mut self, inspection: &Inspection) {
        for record in &inspection.snapshot.audit {
            let what = record.action.clone();
            self.line(
                record.at_ms,
                "Audit",
                "",
                what,
                format!("{} by {}", words::short(&record.subject), words::doer(&record.actor, &record.data)),
            );
            self.mark("Audit", record.at_ms, None, "", &record.action);
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

/// What a call was answered with, in the provider's words.
fn answer(call: &CallSight) -> String {
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
    use crate::readmodel::snapshot::{KeyRow, Snapshot};

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
            operation: Some("ride".into()),
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
        };
        Inspection {
            snapshot: Snapshot {
                object: "00".into(),
                version: 1,
                at_ms: 0,
                owner: "account:a".into(),
                payment: None,
                refunds: vec![],
                ride: None,
                keys: vec![key],
                audit: vec![],
            },
            capturable_minor: 0,
            refundable_minor: 0,
            voidable: false,
            capture_before_ms: None,
            under_way: None,
            next_check_at_ms: None,
            timeline: entries.collect(),
            replays: [(1, 0)].into(),
            tries: vec![],
            given_up_call: None,
            links: None,
            link_revision: None,
            calls: vec![],
            jobs: vec![],
            events: vec![],
        }
    }

    fn marks(story: &Story, lane: &str) -> Vec<(u64, Option<u64>, &'static str, bool)> {
        let marks = story.marks.iter().filter(|mark| mark.lane == lane);
        marks.map(|mark| (mark.from_ms, mark.to_ms, mark.tone, mark.open)).collect()
    }

    #[test]
    fn runs_and_calls_last_from_their_beginning_to_their_end() {
        let told = inspection(
            &[
                (0, 1, "key_created", "ride"),
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
        let story = story(&told, None, &[]);
        assert_eq!(marks(&story, "Runs"), [(0, Some(700), "warn", false), (1500, Some(1601), "good", false)]);
        assert_eq!(
            marks(&story, "Provider"),
            [(5, Some(700), "warn", false), (1501, Some(1600), "good", false)]
        );
        assert!(story.lines.is_sorted_by_key(|line| line.at_ms));
    }

    #[test]
    fn a_run_that_was_lost_ends_where_the_next_one_begins() {
        let told =
            inspection(&[(0, 1, "key_created", ""), (90, 2, "resumed", "its holder was gone")], "open");
        assert_eq!(
            marks(&story(&told, None, &[]), "Runs"),
            [(0, Some(90), "bad", false), (90, None, "warn", true)]
        );
    }

    #[test]
    fn each_replay_is_a_moment_in_a_lane_of_its_own() {
        let told = inspection(
            &[
                (0, 1, "key_created", "ride"),
                (9, 1, "finished", "201"),
                (500, 1, "replayed", "req_2"),
                (900, 1, "replayed", ""),
            ],
            "finished",
        );
        let story = story(&told, None, &[]);
        assert_eq!(marks(&story, "Replays"), [(500, None, "", false), (900, None, "", false)]);
        assert_eq!(marks(&story, "Runs"), [(0, Some(9), "good", false)], "no run begins with it");
        let lines = story.lines.iter().filter(|line| line.lane == "Replays");
        let lines: Vec<_> = lines.map(|line| (line.what.as_str(), line.detail.as_str())).collect();
        assert_eq!(lines, [("Answered again: ride", "request req_2"), ("Answered again: ride", "")]);
    }

    #[test]
    fn only_the_key_that_is_asked_for_is_told_of() {
        let told = inspection(&[(0, 1, "key_created", "")], "open");
        assert!(story(&told, Some(2), &[]).lines.is_empty());
    }
}
