//! The buttons. Each has a one-time key, which is checked first and is the idempotency key of its action: pressed twice, or sent again
//! after a broken connection, it acts once and gives the same result.
//!
//! The audit log gets an action before it is done, and its outcome afterwards: an action without an outcome was interrupted.

use super::action_outcome::ActionOutcome;
use super::break_kinds::BreakKind;
use super::break_queries::{self, ACCEPTED, BreakRow};
use super::button::SHARD;
use super::confirm;
use super::context::Desk;
use super::format;
use super::outcome::{asked, said};
use super::route::{OperatorAction, Target};
use crate::accounts;
use crate::app::Unreachable;
use crate::operator::is_form_key;
use crate::operator_log::{self, Begun};
use messages::gate::GateWord;
use messages::message::{ByHandAnswer, Execute, Inspected, ObjectRequest};
use once::fingerprint::{Fingerprint, Parameters};
use once::id::{ObjectId, Owner};
use once::key::IdempotencyKey;
use once::record::Channel;
use payments::engine::Command;
use payments::payment::RefundReason;
use payments::payment::id::object_of;
use payments::payment::money::AmountMinor;
use payments::payment::operation::{CaptureRequest, Operation, RefundRequest, VoidRequest};
use runtime::db::Db;
use runtime::objects::ObjectRef;
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem};

/// The longest note, in characters.
const NOTE_MAX: usize = 300;

/// What is said where what the page has shown is not so any more.
pub(super) const CHANGED: &str = "it has changed since the page was loaded: look again";

/// How the log has it that breaks are accepted.
fn accepting(act: OperatorAction, note: &str) -> String {
    format!("{}: {note}", act.as_str())
}

/// A click on a button.
pub(super) struct Press<'a> {
    pub(super) desk: &'a Desk<'a>,
    act: OperatorAction,
    subject: &'a Target,
    pub(super) key: String,
    pub(super) entries: Parameters,
}

/// Does what a button says.
pub(super) async fn act(desk: &Desk<'_>, act: OperatorAction, subject: &Target) -> Result<Answer, Problem> {
    let request = desk.request;
    let entries = request.parameters()?;
    let key = entries.text("form").or_empty();
    if !is_form_key(desk.app, &desk.operator, &request.path, &key, request.now_ms) {
        return Err(operator_log::stranger());
    }
    let press = Press { desk, act, subject, key, entries };
    let named = press.named().await?;
    let what = named.what.clone();
    let noted = press.begin(&what).await?;
    if let Some(action_id) = noted.to_do {
        let outcome = press.outcome(named).await;
        let subject = subject.name();
        let done = operator_log::Action { operator: &desk.operator, what: &what, subject: &subject };
        operator_log::end(&desk.app.env, action_id, &done, &outcome).await.map_err(unreadable)?;
    }
    let path = subject.path();
    let joined_by = if path.contains('?') { '&' } else { '?' };
    Ok(Answer::see_other(&format!("{path}{joined_by}done={}", noted.id), "acted"))
}

/// An action in the log.
struct Noted {
    id: u64,
    /// The same, if it is to be done now.
    to_do: Option<u64>,
}

/// What is to be done, as the log has it, and what the flow needs for it.
struct Named {
    what: String,
    operation: Option<(ObjectId, Owner, Operation)>,
}

impl Press<'_> {
    /// What is asked for, with its entries. An entry that cannot be read is refused before anything is written.
    async fn named(&self) -> Result<Named, Problem> {
        if let Target::Call(_, number) = self.subject {
            let what = match self.act {
                OperatorAction::Hold => format!("hold call {number}"),
                _ => super::by_hand::Entered::read(&self.entries)?.what(*number),
            };
            return Ok(Named { what, operation: None });
        }
        if let Target::Token(_, hash) = self.subject {
            let what = format!("{} token {}", self.act.as_str(), hash.get(..12).unwrap_or_default());
            return Ok(Named { what, operation: None });
        }
        if let Target::Credential(_, kind) = self.subject {
            return Ok(Named { what: format!("remove key: {}", kind.as_str()), operation: None });
        }
        let Target::Payment(id) = self.subject else {
            let note = self.note()?;
            // How somebody knows what the gate has passed on stays there, for as long as the gate keeps it: this log is kept for good.
            let what = match self.act {
                act @ (OperatorAction::Accept | OperatorAction::AcceptAll) => accepting(act, &note),
                act => act.as_str().to_owned(),
            };
            return Ok(Named { what, operation: None });
        };
        if matches!(self.act, OperatorAction::Resume | OperatorAction::Settle) {
            return Ok(Named { what: self.act.as_str().to_owned(), operation: None });
        }
        let (object, inspection) = self.desk.inspect(object_of(id)).await?;
        let not_found = || Problem::new(Kind::NotFound);
        let payment = inspection.snapshot.payment.ok_or_else(not_found)?;
        let owner = Owner::from_text(&inspection.snapshot.owner).ok_or_else(not_found)?;
        let seen = Some(self.entries.text("seen").or_empty());
        let (operation, what) = match self.act {
            OperatorAction::Void => {
                (Operation::Void(VoidRequest { seen, ..VoidRequest::default() }), "void".to_owned())
            }
            act => {
                let (amount, sum) = self.amount(&payment.currency)?;
                match act {
                    OperatorAction::Capture => (
                        Operation::Capture(CaptureRequest { amount: Some(amount), attempt: None, seen }),
                        format!("capture {sum}"),
                    ),
                    _ => {
                        let reason = RefundReason::parse(&self.entries.text("reason").or_empty())
                            .unwrap_or(RefundReason::RequestedByCustomer);
                        let what = format!("refund {sum}, {}", reason.as_str().replace('_', " "));
                        (Operation::Refund(RefundRequest { amount: Some(amount), reason, seen }), what)
                    }
                }
            }
        };
        Ok(Named { what, operation: Some((object, owner, operation)) })
    }

    /// The amount, which the page before has shown; also as text. Left out, it is no word for all that there is.
    fn amount(&self, currency: &str) -> Result<(AmountMinor, String), Problem> {
        let amount =
            confirm::amount(&self.entries.text("amount").or_empty(), currency)?.ok_or_else(|| {
                Problem::because(Kind::InvalidParameters, "The amount is missing. Nothing was done.")
            })?;
        Ok((amount, format::money(amount.get(), currency)))
    }

    fn note(&self) -> Result<String, Problem> {
        let note = self.entries.text("note").or_empty();
        let why = match self.act {
            OperatorAction::Accept | OperatorAction::AcceptAll => "why the break is right as it is",
            OperatorAction::Done | OperatorAction::NotDone => "how you know it",
            _ => return Ok(String::new()),
        };
        let is_good = !note.trim().is_empty()
            && note.chars().count() <= NOTE_MAX
            && !note.chars().any(char::is_control);
        if is_good {
            return Ok(note.trim().to_owned());
        }
        Err(Problem::because(
            Kind::InvalidParameters,
            format!("Say in up to {NOTE_MAX} characters {why}. Nothing was done."),
        ))
    }

    /// Writes down who does what.
    async fn begin(&self, what: &str) -> Result<Noted, Problem> {
        let subject = self.subject.name();
        let action = operator_log::Action { operator: &self.desk.operator, what, subject: &subject };
        let Begun { id, is_new, is_unfinished } =
            operator_log::begin_once(&self.desk.app.env, &self.key, &action, self.desk.request.now_ms)
                .await?;
        // The first press may be under way, or was broken off. What is idempotent is done again; a message would be sent twice.
        let is_safe = !matches!(self.act, OperatorAction::Requeue | OperatorAction::RequeueAll);
        Ok(Noted { id, to_do: (is_new || is_unfinished && is_safe).then_some(id) })
    }

    /// Does it, and says how it ended.
    async fn outcome(&self, named: Named) -> ActionOutcome {
        let done = match (self.act, self.subject) {
            (OperatorAction::Run, _) => {
                crate::tasks::run(&self.desk.app.env, true).await;
                let done = "done: their results stand below";
                Ok(ActionOutcome::done(match crate::tasks::have_objects(&self.desk.app.env) {
                    true => format!("{done}. Each account is compared in a run of its own, which begins now"),
                    false => done.to_owned(),
                }))
            }
            (OperatorAction::Resume, subject) => self.go_on(subject, ObjectRequest::Resume).await,
            (OperatorAction::Settle, subject) => self.go_on(subject, ObjectRequest::Settle).await,
            (OperatorAction::Hold, Target::Call(id, number)) => {
                self.ask_of_call(id, ObjectRequest::Hold { call_id: *number }).await
            }
            (OperatorAction::SettleByHand, Target::Call(id, number)) => {
                self.settle_by_hand(id, *number).await
            }
            (act @ (OperatorAction::Done | OperatorAction::NotDone), Target::Gate(key, number)) => {
                let word = GateWord {
                    number: *number,
                    is_done: act == OperatorAction::Done,
                    operator: self.desk.operator.name.clone(),
                    reason: self.note().unwrap_or_default(),
                    button: operator_log::number_of(&self.key),
                };
                super::gate::settle(self.desk, key, word).await
            }
            (act @ (OperatorAction::Close | OperatorAction::Reopen), Target::Account(id)) => {
                accounts::pages::set_state(self.desk, id, act == OperatorAction::Reopen).await
            }
            (act @ (OperatorAction::Retire | OperatorAction::Revoke), Target::Token(id, token)) => {
                accounts::tokens::end(self.desk, id, token, act == OperatorAction::Revoke).await
            }
            (OperatorAction::Remove, Target::Credential(id, kind)) => {
                accounts::credentials::remove(self.desk, id, *kind).await
            }
            (OperatorAction::Requeue, Target::Job(job_id)) => self.requeue(job_id).await,
            (OperatorAction::RequeueAll, Target::Jobs(kind)) => self.requeue_all(*kind).await,
            (OperatorAction::Purge, Target::Job(job_id)) => self.purge(job_id).await,
            (OperatorAction::Repair, Target::Break(id)) => self.repair(id).await,
            (OperatorAction::Accept, Target::Break(id)) => {
                self.accept(id, &self.entries.text("seen").or_empty(), &self.shard()).await
            }
            (OperatorAction::AcceptAll, Target::Breaks(_)) => self.accept_all().await,
            _ => return self.operate(named).await,
        };
        done.unwrap_or_else(ActionOutcome::failed)
    }

    async fn go_on(&self, subject: &Target, ask: ObjectRequest) -> worker::Result<ActionOutcome> {
        let object = match subject {
            Target::Payment(id) => object_of(id),
            Target::Key(object, _) => ObjectId::from_hex(object),
            _ => None,
        };
        let Some(object) = object else { return Ok(ActionOutcome::refused("there is no such object")) };
        let object = ObjectRef::Id(object);
        let what = match ask {
            ObjectRequest::Settle => {
                let inspected = self.desk.app.ask::<Inspected>(&object, ObjectRequest::Inspect).await?;
                let payment = inspected.and_then(|inspected| inspected.snapshot.payment);
                asked(payment.as_ref().map_or("", |payment| &payment.provider))
            }
            _ => "what was waiting was taken up",
        };
        self.desk.app.ask::<bool>(&object, ask).await?;
        Ok(ActionOutcome::begun(format!("{what}; the page shows how it stands")))
    }

    async fn settle_by_hand(&self, id: &str, call_id: u32) -> worker::Result<ActionOutcome> {
        let Ok(entered) = super::by_hand::Entered::read(&self.entries) else {
            return Ok(ActionOutcome::refused("the form was not complete: load the page again"));
        };
        let ask = entered.ask(call_id, &self.desk.operator, operator_log::number_of(&self.key), true);
        self.ask_of_call(id, ObjectRequest::SettleByHand(Box::new(ask))).await
    }

    async fn ask_of_call(&self, id: &str, ask: ObjectRequest) -> worker::Result<ActionOutcome> {
        let Some(object) = object_of(id) else {
            return Ok(ActionOutcome::refused("there is no such object"));
        };
        let answer = self.desk.app.ask::<ByHandAnswer>(&ObjectRef::Id(object), ask).await?;
        Ok(super::by_hand::said(&answer))
    }

    /// Capture, void, refund: the same flow as the API's, on behalf of the payment's owner.
    async fn operate(&self, named: Named) -> ActionOutcome {
        let Some((object, owner, operation)) = named.operation else {
            return ActionOutcome::refused("this form asks for no operation: load the page again");
        };
        let Ok(key) = IdempotencyKey::parse(&self.key) else {
            return ActionOutcome::refused("the form’s key is not valid: load the page again");
        };
        let app = self.desk.app;
        let Ok(entries) = self.entries.clone().without(&["form"]).canonical() else {
            return ActionOutcome::refused("the form’s entries cannot be read: load the page again");
        };
        let command = Command {
            key_hash: key.hash(&owner),
            owner,
            fingerprint: Fingerprint::of("POST", &self.desk.request.path, &entries),
            parameters: entries,
            operation,
            channel: Channel::Api,
            request_id: self.desk.request.id.clone(),
            may_start: true,
            by: Some(self.desk.operator.name.clone()),
            trace: None,
        };
        // An operator does not use up the account's rate.
        let ask = Execute { command, wait_ms: app.config.wait_ms, fault: None, is_counted: true };
        match app.run(&ObjectRef::Id(object), ask).await {
            Ok(result) => said(result),
            Err(Unreachable) => {
                ActionOutcome::begun("begun; its answer was lost: the page shows how it stands")
            }
        }
    }

    /// The shard in which the page had found it; empty if that was D1.
    pub(super) fn shard(&self) -> String {
        self.entries.text(SHARD).or_empty()
    }

    /// D1, and the shards in which rows were found: while they are moved they may be in both.
    pub(super) async fn places(&self, shards: impl Iterator<Item = Option<&str>>) -> worker::Result<Vec<Db>> {
        self.desk.app.model.d1_and(shards.flatten()).await
    }

    /// The object finds out what is true and tells the read model. Whether the books agree then, the next reconciliation says.
    async fn repair(&self, id: &str) -> worker::Result<ActionOutcome> {
        let Some(row) = break_queries::find_break(&self.desk.app.model, id, &self.shard()).await? else {
            return Ok(ActionOutcome::refused("there is no such break"));
        };
        let Some(object) = row.asked_object() else {
            return Ok(ActionOutcome::refused("it is no payment of ours that could be asked"));
        };
        let place = ObjectRef::Id(object);
        self.desk.app.ask::<bool>(&place, ObjectRequest::Settle).await?;
        self.desk.app.ask::<()>(&place, ObjectRequest::Project).await?;
        let sql = "UPDATE breaks SET asked_at_ms = ?2 WHERE break_id = ?1 AND state = 'open'";
        let values = vec![id.into(), self.desk.request.now_ms.into()];
        let places = self.places([row.shard.as_deref()].into_iter()).await?;
        self.desk.app.model.run_in(places, sql, values).await?;
        let text = format!("{}; {}", asked(&row.provider), BreakKind::closed_by(&row.kind));
        Ok(ActionOutcome::begun(text))
    }

    /// How the log has it that one break is accepted with the note of this form.
    pub(super) fn accepting(&self) -> String {
        accepting(OperatorAction::Accept, &self.note().unwrap_or_default())
    }

    /// Accepts a break that was found in this shard, if it still says what was `seen`.
    pub(super) async fn accept(&self, id: &str, seen: &str, shard: &str) -> worker::Result<ActionOutcome> {
        let note = self.note().unwrap_or_default();
        let model = &self.desk.app.model;
        let Some(row) = break_queries::find_break(model, id, shard).await? else {
            return Ok(ActionOutcome::refused("there is no such break"));
        };
        let accepted = || ActionOutcome::done("accepted");
        // The same button, pressed at once or before, may have done it.
        let is_done = |row: &BreakRow| row.state == "accepted" && row.is_accepted_with(&note);
        if is_done(&row) {
            return Ok(accepted());
        }
        let changed = || Ok(ActionOutcome::refused(CHANGED));
        if row.seen() != seen {
            return changed();
        }
        // What was found stays: some breaks say it in their note alone.
        let sql = format!(
            "UPDATE breaks SET state = 'accepted', note = coalesce(note || '{ACCEPTED}', '') || ?2
             WHERE break_id = ?1 AND state = 'open' AND ours IS ?3 AND theirs IS ?4"
        );
        let places = self.places([row.shard.as_deref()].into_iter()).await?;
        let values = vec![id.into(), note.as_str().into(), row.ours.into(), row.theirs.into()];
        if model.run_in(places, &sql, values).await? > 0 {
            return Ok(accepted());
        }
        match break_queries::find_break(model, id, shard).await? {
            Some(row) if is_done(&row) => Ok(accepted()),
            Some(row) if row.state == "open" => changed(),
            _ => Ok(ActionOutcome::refused("it is not open any more")),
        }
    }
}
