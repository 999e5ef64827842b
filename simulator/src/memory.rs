//! The store of the tests on the host.

use std::collections::BTreeMap;

use crate::fault::PendingFault;
use crate::store::{Kind, LoggedRequest, Query, REQUESTS_KEPT, Row, Store, StoreError, Stored, StoredKey};

/// Everything in memory. A clone is a snapshot: that is how a transaction is rolled back.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    rows: Vec<Row>,
    keys: BTreeMap<(String, String, String), StoredKey>,
    faults: Vec<PendingFault>,
    requests: Vec<LoggedRequest>,
    clock_offset_ms: i64,
    settings: BTreeMap<String, String>,
    last_seq: i64,
}

impl Memory {
    fn next_seq(&mut self) -> i64 {
        self.last_seq += 1;
        self.last_seq
    }
}

impl Store for Memory {
    fn insert(&mut self, mut row: Row) -> Stored<()> {
        row.seq = self.next_seq();
        self.rows.push(row);
        Ok(())
    }

    fn replace(&mut self, kind: Kind, id: &str, body: String, due_ms: Option<i64>) -> Stored<()> {
        for row in &mut self.rows {
            if row.kind == kind && row.id == id {
                row.body = body;
                row.due_ms = due_ms;
                return Ok(());
            }
        }
        Err(StoreError(format!("no {} {id} to replace", kind.0)))
    }

    fn find(&self, kind: Kind, id: &str) -> Stored<Option<Row>> {
        Ok(self.rows.iter().find(|row| row.kind == kind && row.id == id).cloned())
    }

    fn list(&self, query: &Query) -> Stored<Vec<Row>> {
        let limit = usize::try_from(query.limit).unwrap_or(0);
        let matching = |row: &&Row| {
            row.kind == query.kind
                && query.account.as_ref().is_none_or(|wanted| row.account == *wanted)
                && query.customer.as_ref().is_none_or(|wanted| row.customer.as_ref() == Some(wanted))
                && query.parent.as_ref().is_none_or(|wanted| row.parent.as_ref() == Some(wanted))
                && (query.labels.is_empty()
                    || row.label.as_ref().is_some_and(|label| query.labels.contains(label)))
                && query.created_from_s.is_none_or(|from| row.created_ms >= from * 1000)
                && query.created_until_s.is_none_or(|until| row.created_ms < (until + 1) * 1000)
                && query.before_seq.is_none_or(|seq| row.seq < seq)
                && query.after_seq.is_none_or(|seq| row.seq > seq)
        };
        let rows = self.rows.iter().filter(matching);
        Ok(if query.oldest_first {
            rows.take(limit).cloned().collect()
        } else {
            rows.rev().take(limit).cloned().collect()
        })
    }

    fn due(&self, now_ms: i64) -> Stored<Vec<Row>> {
        let mut due: Vec<Row> =
            self.rows.iter().filter(|row| row.due_ms.is_some_and(|at| at <= now_ms)).cloned().collect();
        due.sort_by_key(|row| row.due_ms);
        Ok(due)
    }

    fn next_due_ms(&self) -> Stored<Option<i64>> {
        Ok(self.rows.iter().filter_map(|row| row.due_ms).min())
    }

    fn stored_key(&self, provider: &str, account: &str, key: &str) -> Stored<Option<StoredKey>> {
        Ok(self.keys.get(&(provider.to_owned(), account.to_owned(), key.to_owned())).cloned())
    }

    fn store_key(&mut self, stored: StoredKey) -> Stored<()> {
        self.keys.insert((stored.provider.clone(), stored.account.clone(), stored.key.clone()), stored);
        Ok(())
    }

    fn prune_keys(&mut self, provider: &str, before_ms: i64) -> Stored<()> {
        self.keys.retain(|_, stored| stored.provider != provider || stored.created_ms >= before_ms);
        Ok(())
    }

    fn push_fault(&mut self, mut fault: PendingFault) -> Stored<()> {
        fault.seq = self.next_seq();
        self.faults.push(fault);
        Ok(())
    }

    fn faults(&self) -> Stored<Vec<PendingFault>> {
        Ok(self.faults.clone())
    }

    fn set_fault_remaining(&mut self, seq: i64, remaining: u32) -> Stored<()> {
        for fault in &mut self.faults {
            if fault.seq == seq {
                fault.remaining = remaining;
            }
        }
        self.faults.retain(|fault| fault.remaining > 0);
        Ok(())
    }

    fn clear_faults(&mut self) -> Stored<()> {
        self.faults.clear();
        Ok(())
    }

    fn log_request(&mut self, request: LoggedRequest) -> Stored<()> {
        self.requests.push(request);
        let excess = self.requests.len().saturating_sub(usize::try_from(REQUESTS_KEPT).unwrap_or(0));
        self.requests.drain(..excess);
        Ok(())
    }

    fn finish_request(&mut self, request_id: &str, status: u16, replayed: bool) -> Stored<()> {
        for request in &mut self.requests {
            if request.request_id == request_id {
                request.status = Some(status);
                request.replayed = replayed;
            }
        }
        Ok(())
    }

    fn requests(&self, key: Option<&str>, limit: i64) -> Stored<Vec<LoggedRequest>> {
        let wanted: Vec<&LoggedRequest> = self
            .requests
            .iter()
            .filter(|request| key.is_none() || request.idempotency_key.as_deref() == key)
            .collect();
        let skip = wanted.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        Ok(wanted.into_iter().skip(skip).cloned().collect())
    }

    fn clock_offset_ms(&self) -> Stored<i64> {
        Ok(self.clock_offset_ms)
    }

    fn set_clock_offset_ms(&mut self, offset_ms: i64) -> Stored<()> {
        self.clock_offset_ms = offset_ms;
        Ok(())
    }

    fn setting(&self, name: &str) -> Stored<Option<String>> {
        Ok(self.settings.get(name).cloned())
    }

    fn set_setting(&mut self, name: &str, value: String) -> Stored<()> {
        self.settings.insert(name.to_owned(), value);
        Ok(())
    }

    fn clear(&mut self) -> Stored<()> {
        *self = Memory::default();
        Ok(())
    }
}
