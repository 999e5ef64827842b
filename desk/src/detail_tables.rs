//! The tables and facts of a detail page: keys, calls, tries, refunds, links.

use super::context::Desk;
use super::format;
use super::status::{self, Entity};
use super::view_models::{Cell, Fact, Row, Table};
use messages::inspection::{CallView, Inspection};
use messages::snapshot::KeyRow;
use once::id::ObjectId;

/// An optional id.
pub(super) fn optional(id: Option<&String>) -> Cell {
    id.map_or_else(|| Cell::text("–"), |id| Cell { class: "id", ..Cell::text(id.clone()) })
}

pub(super) const fn fact(name: &'static str, cell: Cell) -> Fact {
    Fact { name, cell }
}

/// What the account has written about the payment, as long as it is kept. An email is masked, as everywhere at the desk.
pub(super) fn words(inspection: &Inspection) -> impl Iterator<Item = Fact> {
    let wide = |name, text: String| fact(name, Cell { class: "wide", ..Cell::text(text) });
    let email = inspection.receipt_email.as_deref().map(format::masked);
    let email = email.map(|email| wide("Receipt goes to", email));
    inspection.description.clone().map(|text| wide("Description", text)).into_iter().chain(email)
}

/// The account's own data about the payment.
pub(super) fn metadata(inspection: &Inspection) -> Table {
    let rows = inspection.metadata.iter();
    let rows = rows.map(|(name, value)| row(vec![Cell::text(name.clone()), Cell::text(value.clone())]));
    Table { title: "Metadata", columns: &["Name", "Value"], rows: rows.collect() }
}

pub(super) const fn row(cells: Vec<Cell>) -> Row {
    Row { cells, buttons: Vec::new() }
}

pub(super) fn key_state(key: &KeyRow) -> Cell {
    status::of_key(&key.status, key.flagged == 1, key.in_doubt == 1)
}

pub(super) fn keys(desk: &Desk<'_>, object: ObjectId, inspection: &Inspection) -> Table {
    let rows = inspection.snapshot.keys.iter().map(|key| {
        row(vec![
            Cell::link(
                key.key_hash.get(..12).unwrap_or(&key.key_hash),
                format!("/admin/keys/{}/{}", object.to_hex(), key.key_id),
            ),
            Cell::text(key.operation.clone().unwrap_or_default()),
            key_state(key),
            Cell::text(key.recovery_point.replace('_', " ")),
            Cell::number(key.attempts.to_string()),
            Cell::number(key.response_status.map(|status| status.to_string()).unwrap_or_default()),
            Cell::number(inspection.replays.get(&key.key_id).copied().unwrap_or(0).to_string()),
            Cell::text(format::from_now(key.created_at_ms, desk.request.now_ms)),
        ])
    });
    Table {
        title: "Keys",
        columns: &["Key", "Operation", "State", "Recovery point", "Runs", "Answer", "Replays", "First used"],
        rows: rows.collect(),
    }
}

/// Who has settled a call by hand, and why, as long as that is kept.
pub(super) fn settled_by(call: &CallView) -> Option<String> {
    call.by_hand.as_ref().map(|(by, reason)| match reason.as_str() {
        "" => format!("by hand, {by}"),
        reason => format!("by hand, {by}: {reason}"),
    })
}

pub(super) fn calls(desk: &Desk<'_>, inspection: &Inspection, key_id: Option<u32>) -> Table {
    let mine = inspection.calls.iter().filter(|call| key_id.is_none_or(|key_id| call.key_id == key_id));
    let payment = inspection.snapshot.payment.as_ref().map(|payment| &payment.payment_id);
    let page = payment.map(|id| format!("/admin/payments/{id}"));
    let rows = mine.map(|call| {
        let answer = match (&call.result, &call.code) {
            (Some(result), Some(code)) => format!("{}: {}", result.replace('_', " "), code.replace('_', " ")),
            (Some(result), None) => result.replace('_', " "),
            (None, _) if call.in_doubt => "may have been executed".to_owned(),
            (None, _) => "none yet".to_owned(),
        };
        let settled_by = settled_by(call);
        let review = call.needs_review.as_deref().map(|why| match &call.provider_id {
            Some(id) => format!("{why} ({id})"),
            None => why.to_owned(),
        });
        let http = call.http_status.map(|status| format!("HTTP {status}")).unwrap_or_default();
        let next = match call.result {
            None if call.sends > 0 => {
                format!("next {}", format::from_now(call.next_try_at_ms, desk.request.now_ms))
            }
            _ => String::new(),
        };
        let unanswered = if call.result.is_none() { call.failures } else { 0 };
        let sends = if unanswered > 0 { format!("{unanswered} without an answer") } else { String::new() };
        let is_given_up = inspection.given_up_call == Some(call.call_id);
        let is_untold = inspection.untold_calls.contains(&call.call_id);
        let can_be_settled = (call.result.is_none() && call.sends > 0) || is_given_up || is_untold;
        let by_hand = page.as_ref().filter(|_| can_be_settled).map(|page| Cell {
            class: "",
            ..Cell::link("Settle by hand", format!("{page}/calls/{}", call.call_id))
        });
        row(vec![
            Cell::text(call.name.clone()).with(call.provider.clone()),
            Entity::Call.chip(&call.status).with(next),
            Cell::text(answer).with(settled_by.or(review).unwrap_or(http)),
            Cell::number(call.sends.to_string()).with(sends),
            Cell { class: "id", ..Cell::text(call.provider_key.clone()) },
            by_hand.unwrap_or_else(|| optional(call.request_id.as_ref())),
        ])
    });
    Table {
        title: "Calls to the provider",
        columns: &["Call", "State", "Answer", "Sends", "Key for the provider", "Provider’s request"],
        rows: rows.collect(),
    }
}

/// The order's links: the newest one and whether it can be paid, and the one that was opened.
pub(super) fn links(inspection: &Inspection) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(links) = &inspection.links {
        let state = match links.ended_through {
            Some(ended) if ended >= links.revision => "ended by the shop".to_owned(),
            Some(ended) => format!("those up to revision {ended} were ended by the shop"),
            None => String::new(),
        };
        facts.push(fact("Newest link", Cell::text(format!("revision {}", links.revision)).with(state)));
    }
    if let Some(opened) = inspection.link_revision {
        let newest = inspection.links.as_ref().map_or(opened, |links| links.revision);
        let note = if opened < newest { "a newer one was made since" } else { "" };
        facts.push(fact("Opened link", Cell::text(format!("revision {opened}")).with(note)));
    }
    facts
}

pub(super) fn tries(inspection: &Inspection) -> Table {
    let rows = inspection.tries.iter().map(|one| {
        let call = inspection.calls.iter().find(|call| call.provider_key == one.provider_key);
        let outcome = match one.definitive {
            _ if call.is_some_and(|call| call.by_hand.is_some()) => "settled by hand",
            Some(true) => "definitive",
            Some(false) => "inferred",
            None => "",
        };
        let late = one.late.as_ref().map(|late| {
            let money = format::money(late.amount_minor, one.currency.as_str());
            let what = if late.captured { "captured" } else { "held" };
            format!("{money} {what}: {}", late.stage().as_str().replace('_', " "))
        });
        row(vec![
            Cell::number(one.attempt.to_string()),
            Entity::Payment.chip(&one.status).with(outcome.to_owned()),
            Cell::text(one.provider.as_str().to_owned()),
            optional(one.provider_payment.as_ref()),
            Cell { class: "id", ..Cell::text(one.provider_key.clone()) },
            optional(late.as_ref()),
        ])
    });
    Table {
        title: "Attempts",
        columns: &[
            "Attempt",
            "Ended",
            "Provider",
            "Provider’s id",
            "Key for the provider",
            "Money found after it was over",
        ],
        rows: rows.collect(),
    }
}

pub(super) fn refunds(inspection: &Inspection) -> Table {
    let rows = inspection.snapshot.refunds.iter().map(|refund| {
        row(vec![
            Cell { class: "id", ..Cell::text(refund.refund_id.clone()) },
            Entity::Refund.chip(&refund.status),
            Cell::number(format::money(refund.amount_minor, &refund.currency)),
            Cell::text(refund.reason.replace('_', " ")),
            optional(refund.provider_refund.as_ref()),
            Cell::moment(refund.created_at_ms),
        ])
    });
    Table {
        title: "Refunds",
        columns: &["Refund", "Status", "Amount", "Reason", "Provider’s id", "Asked for (UTC)"],
        rows: rows.collect(),
    }
}
