//! Which queue a job goes to.
//!
//! An ordinary payment leaves as one message, projection and email together, in the queue of its object: [`Queue::Jobs`], or one of several,
//! where one would have more to take than a queue does. What is not done there soon goes on by itself in the queue of its kind.

use payments::payment::records::JobKind;

/// The most queues that jobs are spread over.
pub const JOBS_QUEUES_MAX: usize = 16;
/// The binding of the queue of emails.
pub const EMAILS: &str = "EMAILS";
/// The binding of the queue of outgoing webhooks. Without it there are none.
pub const DELIVERIES: &str = "DELIVERIES";

/// A queue, as a job's kind needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Where jobs leave their objects; projections stay in it.
    Jobs,
    /// Emails that go on by themselves: a slow provider holds up nothing else.
    Emails,
    /// Outgoing webhooks: a shop's slow server holds up neither projections nor emails.
    Deliveries,
}

impl Queue {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Jobs, Self::Emails, Self::Deliveries];

    /// Where a job of this kind goes on by itself.
    pub const fn of(kind: JobKind) -> Self {
        match kind {
            JobKind::SendReceipt => Self::Emails,
            JobKind::DeliverWebhook => Self::Deliveries,
            JobKind::Project | JobKind::Retired => Self::Jobs,
        }
    }
}

/// The queues that a Worker is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// How many there are for jobs.
    pub jobs: usize,
    /// Whether emails have one of their own.
    pub has_emails: bool,
    /// Whether outgoing webhooks have theirs.
    pub has_deliveries: bool,
}

impl Queues {
    /// Finds them by their bindings. The first one that is not there ends the list.
    pub fn bound(is_bound: impl Fn(&str) -> bool) -> Self {
        let jobs = (0..JOBS_QUEUES_MAX).take_while(|number| is_bound(&jobs_binding(*number))).count();
        Self { jobs: jobs.max(1), has_emails: is_bound(EMAILS), has_deliveries: is_bound(DELIVERIES) }
    }

    /// The binding of the queue for a job of an object, whose id is given as hexadecimal digits.
    pub fn binding(self, queue: Queue, object: &str) -> String {
        match queue {
            Queue::Emails if self.has_emails => EMAILS.to_owned(),
            Queue::Deliveries if self.has_deliveries => DELIVERIES.to_owned(),
            Queue::Jobs | Queue::Emails | Queue::Deliveries => jobs_binding(self.number_of(object)),
        }
    }

    /// Always the same one for an object. FNV-1a: an id's bytes are spread evenly already, and its digits must be mixed only.
    fn number_of(self, object: &str) -> usize {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let hash = object.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
        let jobs = u64::try_from(self.jobs.max(1)).unwrap_or(1);
        usize::try_from((hash ^ (hash >> 32)) % jobs).unwrap_or(0)
    }
}

/// `JOBS`, `JOBS_2`, `JOBS_3` …
fn jobs_binding(number: usize) -> String {
    match number {
        0 => "JOBS".to_owned(),
        more => format!("JOBS_{}", more.saturating_add(1)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use once::id::digest;

    use super::*;

    const NONE: Queues = Queues { jobs: 1, has_emails: false, has_deliveries: false };

    fn objects() -> impl Iterator<Item = String> {
        (0_u32..8_000)
            .map(|number| digest(&[&number.to_be_bytes()]).iter().map(|byte| format!("{byte:02x}")).collect())
    }

    #[test]
    fn jobs_are_spread_evenly_and_those_of_one_object_stay_together() {
        for jobs in [1, 2, 3, 7, 16] {
            let queues = Queues { jobs, ..NONE };
            let mut found = BTreeMap::<String, usize>::new();
            for object in objects() {
                let binding = queues.binding(Queue::Jobs, &object);
                assert_eq!(binding, queues.binding(Queue::Jobs, &object));
                *found.entry(binding).or_default() += 1;
            }
            assert_eq!(found.len(), jobs);
            let each = 8_000 / jobs;
            assert!(found.values().all(|count| count.abs_diff(each) < each / 4), "{found:?}");
        }
    }

    #[test]
    fn queues_are_found_by_their_bindings() {
        let bound = |names: &[&str]| Queues::bound(|name| names.contains(&name));
        assert_eq!(bound(&["JOBS"]), NONE);
        let all = Queues { jobs: 2, has_emails: true, has_deliveries: true };
        assert_eq!(bound(&["JOBS", "JOBS_2", "EMAILS", "DELIVERIES"]), all);
        assert_eq!(bound(&["JOBS", "JOBS_3"]).jobs, 1, "the first that is missing ends the list");
        assert_eq!(bound(&[]).jobs, 1, "sending says that it is missing");
        assert_eq!(Queues::bound(|_| true).jobs, JOBS_QUEUES_MAX);
    }

    #[test]
    fn emails_and_webhooks_go_on_in_queues_of_their_own_where_there_are_any() {
        let object = "00";
        for kind in JobKind::ALL {
            assert_eq!(NONE.binding(Queue::of(kind), object), "JOBS", "{kind:?}");
            let all = Queues { has_emails: true, has_deliveries: true, ..NONE };
            let own = match kind {
                JobKind::SendReceipt => EMAILS,
                JobKind::DeliverWebhook => DELIVERIES,
                JobKind::Project | JobKind::Retired => "JOBS",
            };
            assert_eq!(all.binding(Queue::of(kind), object), own, "{kind:?}");
        }
    }
}
