//! The page on which an operator says how a call ended that nobody knows the outcome of: what is known beside the form, a step
//! to confirm it, and the button. Nothing here settles anything: the object does, and asks the provider first.

use super::action_outcome::ActionOutcome;
use super::context::Desk;
use super::format;
use super::route::{OperatorAction, Target};
use super::status::Entity;
use super::view_models::{ByHandForm, CallPage, Cell, ConfirmPage, EntryView, Fact};
use crate::operator::Operator;
use messages::message::{ByHandAnswer, ByHandAsk, CallReport, ObjectRequest, Said, ShownCall};
use once::fingerprint::Parameters;
use payments::payment::id::object_of;
use payments::timestamp;
use payments::transitions::by_hand::REASON_MAX;
use runtime::objects::ObjectRef;
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem};
use web::reply;
use web::route::Parameter;

/// The longest id that is taken from a form, in characters.
const ID_MAX: usize = 80;

/// What an operator has entered.
pub(super) struct Entered {
    said: Said,
    reason: String,
    sends: u32,
}

impl Entered {
    /// Reads the form. An entry that cannot be read is refused before anything is written.
    pub(super) fn read(entries: &Parameters) -> Result<Self, Problem> {
        let wrong = |message: String| {
            Problem::because(Kind::InvalidParameters, format!("{message} Nothing was changed."))
        };
        let reason = entries.text("reason").or_empty().trim().to_owned();
        if !is_reason(&reason) {
            return Err(wrong(format!("Say in up to {REASON_MAX} characters how you know.")));
        }
        let sends =
            entries.text("sends").or_empty().parse().map_err(|_| wrong("Load the page again.".to_owned()))?;
        let id = entries.text("id").or_empty().trim().to_owned();
        let said = match entries.text("said").or_empty().as_str() {
            "not_executed" => Said::NotExecuted,
            "executed" if !is_id(&id) => {
                return Err(wrong("Enter the provider’s id.".to_owned()));
            }
            "executed" => Said::Executed { id, is_done: entries.text("outcome").or_empty() != "refused" },
            _ => return Err(wrong("Say whether it was executed.".to_owned())),
        };
        Ok(Self { said, reason, sends })
    }

    /// As the audit log has it, which is kept for good: without the reason.
    pub(super) fn what(&self, number: u32) -> String {
        let call = format!("call {number}");
        let said = match &self.said {
            Said::NotExecuted => "not executed".to_owned(),
            Said::Executed { id, is_done: true } => format!("executed as {id}"),
            Said::Executed { id, is_done: false } => format!("executed as {id} and refused"),
        };
        format!("settle-by-hand: {call} was {said}")
    }

    /// For the object.
    pub(super) fn ask(&self, call_id: u32, operator: &Operator, button: u64, is_final: bool) -> ByHandAsk {
        ByHandAsk {
            call_id,
            sends: self.sends,
            said: self.said.clone(),
            is_final,
            button,
            operator: operator.name.clone(),
            reason: self.reason.clone(),
        }
    }
}

fn is_reason(reason: &str) -> bool {
    !reason.is_empty() && reason.chars().count() <= REASON_MAX && !reason.chars().any(char::is_control)
}

fn is_id(id: &str) -> bool {
    (1..=ID_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
}

/// The entry that cannot be read, by its id on the page; empty where all can be, and something else is wrong.
fn wrong_entry(entries: &Parameters) -> &'static str {
    let entered = |name| entries.text(name).or_empty().trim().to_owned();
    match (is_reason(&entered("reason")), entered("said").as_str()) {
        (false, "not_executed") => "reason-absent",
        (false, _) => "reason-executed",
        (true, "executed") if !is_id(&entered("id")) => "provider-id",
        (true, _) => "",
    }
}

/// The object's answer in words.
pub(super) fn said(answer: &ByHandAnswer) -> ActionOutcome {
    match answer {
        ByHandAnswer::Settled { how } => ActionOutcome::done(format!("done: the call is settled as {how}")),
        ByHandAnswer::Would { how } => ActionOutcome::done(format!("it would be settled as {how}")),
        ByHandAnswer::Held { until_ms } => {
            ActionOutcome::done(format!("done: nothing is sent until {} UTC", format::moment(*until_ms)))
        }
        ByHandAnswer::Refused { detail } => ActionOutcome::refused(detail),
    }
}

/// `GET /admin/payments/{id}/calls/{number}`
pub(crate) async fn page(desk: &Desk<'_>, id: &str, number: &Parameter<'_, u32>) -> Result<Answer, Problem> {
    let number = number.read()?;
    let report = report(desk, id, number).await?;
    show(desk, id, number, &report, 200, None).await
}

/// `POST /admin/payments/{id}/calls/{number}/review`: changes nothing.
pub(crate) async fn review(
    desk: &Desk<'_>,
    id: &str,
    number: &Parameter<'_, u32>,
) -> Result<Answer, Problem> {
    let number = number.read()?;
    let entries = desk.request.parameters()?;
    let report = report(desk, id, number).await?;
    let entered = match Entered::read(&entries) {
        Ok(entered) => entered,
        Err(problem) => return show(desk, id, number, &report, 422, Some((&entries, problem.detail))).await,
    };
    let ask = ObjectRequest::SettleByHand(Box::new(entered.ask(number, &desk.operator, 0, false)));
    let place = ObjectRef::Id(object_of(id).ok_or_else(|| Problem::new(Kind::NotFound))?);
    let answer = desk.app.ask::<ByHandAnswer>(&place, ask).await.map_err(unreadable)?;
    let ByHandAnswer::Would { how } = &answer else {
        let error = format!("{}. Nothing was changed.", format::sentence(&said(&answer).text));
        return show(desk, id, number, &report, 409, Some((&entries, error))).await;
    };
    confirm(desk, id, number, &report, &entered, how).await
}

async fn report(desk: &Desk<'_>, id: &str, number: u32) -> Result<CallReport, Problem> {
    let not_found = || Problem::new(Kind::NotFound);
    let place = ObjectRef::Id(object_of(id).ok_or_else(not_found)?);
    if !desk.app.exists(&place) {
        return Err(not_found());
    }
    let shown = desk.app.ask::<ShownCall>(&place, ObjectRequest::ShowCall { call_id: number }).await;
    shown.map_err(unreadable)?.ok_or_else(not_found)
}

/// What the call does: `the refund of $25.00`.
fn named(report: &CallReport) -> String {
    let what = match report.call.kind.as_str() {
        "authorize" => "payment",
        other => other,
    };
    match report.amount_minor {
        Some(minor) => format!("the {what} of {}", format::money(minor, &report.currency)),
        None => format!("the {what}"),
    }
}

/// The provider's name.
fn provider(report: &CallReport) -> &'static str {
    if report.call.provider == "adyen" { "Adyen" } else { "Stripe" }
}

/// What "not executed" risks, in plain words.
fn risk(report: &CallReport) -> String {
    if report.is_given_up {
        return "The payment then counts as failed, and its order can be paid again. If Adyen takes the money after all, it is given \
                back by itself and shown to a person."
            .to_owned();
    }
    if report.is_untold {
        return "Adyen has received it, so it was executed: say whether it was done or refused.".to_owned();
    }
    let follows = match report.call.kind.as_str() {
        "capture" => {
            "The capture then counts as not made, and can be asked for again. If it was made after all, the money was captured although \
             the shop was told that it was not."
        }
        "void" => {
            "The void then counts as not made: the reservation still counts as held. If it was made after all, a capture of it fails."
        }
        "refund" => {
            "The refund then counts as failed, and can be made again. If it was made after all, the customer gets the money twice."
        }
        _ => {
            "The payment then counts as failed, the client is told that nothing was charged, and it can be paid again. If the money was \
             captured after all, the customer is charged twice until somebody gives it back."
        }
    };
    let mut risk = String::new();
    if let Some(until_ms) = report.quarantined_until_ms {
        risk = format!(
            "This releases the quarantine before {} UTC: {} failed while it executed this, or may have, and may complete it by itself \
             until then. ",
            format::moment(until_ms),
            provider(report)
        );
    }
    if report.is_executed {
        risk.push_str(provider(report));
        risk.push_str(" has said that it executed this. Say “not executed” only if all of it was canceled or given back there. ");
    }
    // What is certainly this call's is refused; and of what an operator knows all the same, they are to be sure.
    if let Some(shown) = report.shown.as_ref().filter(|shown| shown.is_found && !report.is_executed) {
        risk.push_str(&shown.text);
        risk.push_str(". Say “not executed” only if that is another payment, or all of it was canceled or given back there. ");
    }
    if let Some(shown) = report.shown.as_ref().filter(|shown| shown.is_silent) {
        risk.push_str(&shown.text);
        risk.push_str(". Look for it there yourself first. ");
    }
    risk + follows
}

fn facts(report: &CallReport, now_ms: u64) -> Vec<Fact> {
    let call = &report.call;
    let fact = |name: &'static str, cell: Cell| Fact { name, cell };
    let id = |text: &str| Cell { class: "id", ..Cell::text(text) };
    let mut facts = vec![fact("Provider", Cell::text(provider(report)))];
    if let Some(minor) = report.amount_minor {
        facts.push(fact("Amount", Cell::text(format::money(minor, &report.currency))));
    }
    facts.push(fact("Sends", Cell::text(call.sends.to_string())));
    for (name, at_ms) in [("First sent", call.first_sent_at_ms), ("Last sent", call.last_sent_at_ms)] {
        if let Some(at_ms) = at_ms {
            facts.push(fact(name, Cell::moment(at_ms).with(format::from_now(at_ms, now_ms))));
        }
    }
    if report.ended.is_none() {
        facts.push(fact("Next try", Cell::text(format::from_now(call.next_try_at_ms, now_ms))));
    }
    if let Some(until_ms) = report.quarantined_until_ms {
        let cell = Cell::moment(until_ms).with(format::from_now(until_ms, now_ms));
        facts.push(fact("Quarantined until", cell));
    }
    if report.is_given_up {
        let why =
            "the capture failed, and Adyen has stopped retrying it: record whether it was made in the end";
        facts.push(fact("Why a person is asked", Cell::text(why)));
    }
    if report.is_untold {
        let why = "Adyen has received it, and has not told how it ended: its notification may be lost";
        facts.push(fact("Why a person is asked", Cell::text(why)));
    }
    if let Some(why) = &call.needs_review {
        facts.push(fact("Why a person is asked", Cell::text(why.clone())));
    }
    if let Some(known) = &call.provider_id {
        facts.push(fact("Provider’s id", id(known)));
    }
    if let Some(reference) = &report.reference {
        let name = if call.provider == "adyen" { "Reference at Adyen" } else { "Key at Stripe" };
        facts.push(fact(name, id(reference)));
    }
    if let Some((by, reason)) = &call.by_hand {
        facts.push(fact("Settled by hand", Cell::text(reason.clone()).with(by.clone())));
    }
    facts
}

async fn show(
    desk: &Desk<'_>,
    id: &str,
    number: u32,
    report: &CallReport,
    status: u16,
    wrong: Option<(&Parameters, String)>,
) -> Result<Answer, Problem> {
    let subject = Target::Call(id.to_owned(), number);
    let is_adyen = report.call.provider == "adyen";
    let entered =
        |name: &str| wrong.as_ref().map(|(entries, _)| entries.text(name).or_empty()).unwrap_or_default();
    let closed = match (&report.ended, &report.refusal) {
        (Some(how), _) => format!("The call is settled: {how}. Nothing is left to say."),
        (None, Some(refusal)) => format!("Nothing can be said now: {refusal}."),
        (None, None) => String::new(),
    };
    let form = closed.is_empty().then(|| {
        let seen = report.shown.as_ref().and_then(|shown| shown.id.clone()).unwrap_or_default();
        let typed = entered("id");
        let is_refused = entered("outcome") == "refused";
        let done = match report.call.kind.as_str() {
            "capture" => "captured",
            _ if report.is_given_up => "captured",
            "void" => "canceled",
            "refund" => "refunded",
            _ => "authorised",
        };
        ByHandForm {
            path: format!("{}/review", subject.path()),
            sends: report.call.sends,
            id: if typed.is_empty() { seen } else { typed },
            id_hint: match (is_adyen, report.call.kind.as_str()) {
                (true, _) => "PSP reference".to_owned(),
                (false, "refund") => "re_…".to_owned(),
                (false, _) => "pi_…".to_owned(),
            },
            executed_hint: if is_adyen {
                "Adyen cannot be asked, so your word counts. Compare in the Customer Area: search for the reference above, and take \
                 the PSP reference and the outcome from there."
                    .to_owned()
            } else {
                "Stripe is asked for this id. Nothing changes unless it shows the same amount and currency, made by this call."
                    .to_owned()
            },
            outcomes: if is_adyen {
                vec![("done", done.to_owned(), !is_refused), ("refused", "refused".to_owned(), is_refused)]
            } else {
                Vec::new()
            },
            risk: risk(report),
            reason: entered("reason"),
            too_early: report.may_arrive_until_ms.map(format::moment).unwrap_or_default(),
        }
    });
    let hold = match &form {
        Some(_) => Some(desk.button(OperatorAction::Hold, &subject, "Stop sending for half an hour")?),
        None => None,
    };
    let (shown, shown_tone) = match &report.shown {
        Some(shown) => (shown.text.clone(), if shown.is_found { "good" } else { "warn" }),
        None => (String::new(), "plain"),
    };
    let what = named(report);
    let page = CallPage {
        title: format!("Settle {what} by hand"),
        status: match &report.ended {
            Some(how) => Cell::chip(how.clone(), "plain"),
            None if report.is_given_up => Entity::Payment.chip("capture_failed"),
            None if report.is_untold => Cell::chip("received", "warn"),
            None => Entity::Call.chip("unknown"),
        },
        back: (format!("/admin/payments/{id}"), id.to_owned()),
        wrong: wrong
            .as_ref()
            .map(|(entries, _)| wrong_entry(entries))
            // That form is not there while nobody can know it.
            .filter(|entry| *entry != "reason-absent" || report.may_arrive_until_ms.is_none())
            .unwrap_or_default(),
        error: wrong.map(|(_, error)| error).unwrap_or_default(),
        facts: facts(report, desk.request.now_ms),
        shown,
        shown_tone,
        lines: report
            .lines
            .iter()
            .map(|line| EntryView {
                at: timestamp(line.at_ms),
                moment: format::moment(line.at_ms),
                since: format::from_now(line.at_ms, desk.request.now_ms),
                lane: match line.event.as_str() {
                    "call_sent" => "Sent",
                    "look_up" => "Looked up",
                    "call_held" => "Held",
                    _ => "Outcome",
                },
                tone: "",
                what: line.detail.clone(),
                detail: String::new(),
            })
            .collect(),
        closed,
        form,
        hold,
        site: desk.site(),
        chrome: desk.chrome("/admin/payments").await?,
    };
    Ok(reply::html(status, &page, "desk"))
}

async fn confirm(
    desk: &Desk<'_>,
    id: &str,
    number: u32,
    report: &CallReport,
    entered: &Entered,
    how: &str,
) -> Result<Answer, Problem> {
    let subject = Target::Call(id.to_owned(), number);
    let what = named(report);
    let provider = provider(report);
    let (said, risk, mut entries) = match &entered.said {
        Said::NotExecuted => {
            let said = format!("{what} was not executed by {provider}");
            (said, risk(report), vec![("said", "not_executed".to_owned())])
        }
        Said::Executed { id, is_done } => {
            let said = format!("{what} was executed by {provider} as {id}, and ended as {how}");
            let risk = match report.call.provider.as_str() {
                "adyen" => "Adyen cannot be asked: your word alone counts.",
                _ => "Stripe shows the same.",
            };
            let outcome = if *is_done { "done" } else { "refused" };
            let entries =
                vec![("said", "executed".to_owned()), ("id", id.clone()), ("outcome", outcome.to_owned())];
            (said, risk.to_owned(), entries)
        }
    };
    entries.push(("reason", entered.reason.clone()));
    entries.push(("sends", entered.sends.to_string()));
    let mut button = desk.button(OperatorAction::SettleByHand, &subject, "Settle it so")?;
    button.tone = "danger";
    let mut facts = facts(report, desk.request.now_ms);
    facts.push(Fact { name: "Your reason", cell: Cell::text(entered.reason.clone()) });
    let page = ConfirmPage {
        title: format!("Settle {what} by hand?"),
        back: subject.path(),
        sentence: format!("You say that {said}."),
        facts,
        risk,
        button,
        note: "",
        entries,
        hint: "The button works once: pressing it twice settles it once. What you do is written to the audit log; \
               your reason stays with the payment until its personal data is erased.",
        site: desk.site(),
        chrome: desk.chrome("/admin/payments").await?,
    };
    Ok(reply::html(200, &page, "desk"))
}
