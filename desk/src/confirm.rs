//! The question before money moves, or something is lost: what is about to be done, with the sum. The page changes nothing; its button does it.

use super::button::{SHARD, of_shard};
use super::context::Desk;
use super::detail::{self, Mistake};
use super::detail_tables::{fact, optional};
use super::format;
use super::queries::{self, DeadRow};
use super::route::{MoneyAction, OperatorAction, PurgeAction, Target};
use super::view_models::{Cell, ConfirmPage, Fact};
use messages::inspection::Inspection;
use messages::snapshot::PaymentRow;
use payments::payment::RefundReason;
use payments::payment::id::object_of;
use payments::payment::money::AmountMinor;
use payments::payment::records::JobKind;
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem};
use web::reply;
use web::route::{Decoded, Parameter};

/// What an operator is asked before it is done.
pub(crate) struct Question<'a> {
    /// What would be done.
    pub(crate) act: OperatorAction,
    /// To what.
    pub(crate) subject: &'a Target,
    /// The question.
    pub(crate) title: String,
    /// What is about to be done.
    pub(crate) sentence: String,
    /// What follows from it.
    pub(crate) risk: String,
    /// What it is about.
    pub(crate) facts: Vec<Fact>,
    /// What the button is called.
    pub(crate) label: String,
    /// What goes with it.
    pub(crate) entries: Vec<(&'static str, String)>,
    /// The page's place in the menu.
    pub(crate) here: &'static str,
}

impl Question<'_> {
    /// Its page.
    pub(crate) async fn page(self, desk: &Desk<'_>) -> Result<Answer, Problem> {
        let mut button = desk.button(self.act, self.subject, &self.label)?;
        button.tone = if self.act == OperatorAction::Capture { "" } else { "danger" };
        let page = ConfirmPage {
            title: self.title,
            back: self.subject.path(),
            sentence: self.sentence,
            facts: self.facts,
            risk: self.risk,
            button,
            note: "",
            entries: self.entries,
            hint: "The button works once, however often it is pressed. What you do is written to the audit log.",
            site: desk.site(),
            chrome: desk.chrome(self.here).await?,
        };
        Ok(reply::html(200, &page, "desk"))
    }
}

/// `GET /admin/payments/{id}/{action}`: with the entries `amount`, which may be empty for all that there is, and `reason`.
pub(crate) async fn page(
    desk: &Desk<'_>,
    id: &str,
    action: &Parameter<'_, MoneyAction>,
) -> Result<Answer, Problem> {
    let MoneyAction(act) = action.read()?;
    let (_, inspection) = desk.inspect(object_of(id)).await?;
    let payment = inspection.snapshot.payment.as_ref().filter(|payment| payment.payment_id == id);
    let payment = payment.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let money = |minor: u64| format::money(minor, &payment.currency);
    let available_minor = available_minor(act, &inspection, payment);
    let reason = RefundReason::parse(&desk.query("reason")).unwrap_or(RefundReason::RequestedByCustomer);
    let verb = format::sentence(act.as_str());
    if available_minor == 0 {
        return Err(Problem::because(
            Kind::PaymentState,
            format!(
                "{verb} is not possible now: go back, and load the page again to see how the payment stands. Nothing was done."
            ),
        ));
    }
    let minor = match act {
        OperatorAction::Void => Ok(available_minor),
        _ => wanted(&desk.query("amount"), &payment.currency, available_minor),
    };
    let minor = match minor {
        Ok(minor) => minor,
        Err(wrong) => {
            let mistake = Mistake { act, entered: desk.query("amount"), wrong, reason };
            return detail::payment_again(desk, id, mistake).await;
        }
    };

    let subject = Target::Payment(id.to_owned());
    let (sum, all) = (money(minor), money(available_minor));
    let of_order =
        |word: &str| payment.order_id.as_ref().map(|id| format!(" {word} order {id}")).unwrap_or_default();
    let mut entries = vec![("amount", sum.clone())];
    let mut facts = vec![
        fact("Payment", Cell { class: "id", ..Cell::text(id) }),
        fact("Order", optional(payment.order_id.as_ref())),
        fact("Amount", Cell::text(money(payment.amount_minor))),
        fact("Captured", Cell::text(money(payment.captured_minor))),
        fact("Refunded", Cell::text(money(payment.refunded_minor))),
    ];
    let (title, sentence, risk) = match act {
        OperatorAction::Refund => {
            entries.push(("reason", reason.as_str().to_owned()));
            facts.push(fact("Reason", Cell::text(reason.as_str().replace('_', " "))));
            let title = format!("{verb} {sum} of {all}{}?", of_order("to"));
            (title, format!("The customer gets {sum} back."), "A refund cannot be taken back.".to_owned())
        }
        OperatorAction::Capture => {
            let rest = available_minor.saturating_sub(minor);
            let risk = match rest {
                0 => "It is all that was reserved.".to_owned(),
                rest => format!(
                    "The other {} is released, and cannot be captured later: there is one capture.",
                    money(rest)
                ),
            };
            (
                format!("{verb} {sum} of {all}{}?", of_order("for")),
                format!("{sum} is charged to the customer."),
                risk,
            )
        }
        _ => {
            entries.clear();
            let title = format!("{verb} {all}{}?", of_order("of"));
            (
                title,
                format!("{all} is released: nothing is charged."),
                "It cannot be captured later.".to_owned(),
            )
        }
    };
    entries.push(("seen", inspection.figures.clone()));
    let label = format!("{verb} {sum}");
    let (subject, here) = (&subject, "/admin/payments");
    Question { act, subject, title, sentence, risk, facts, label, entries, here }.page(desk).await
}

/// `GET /admin/dead-letters/{job}/{action}`
pub(crate) async fn purge(
    desk: &Desk<'_>,
    job: &Parameter<'_, Decoded>,
    action: &Parameter<'_, PurgeAction>,
) -> Result<Answer, Problem> {
    let (PurgeAction(act), Decoded(job_id)) = (action.read()?, &job.read()?);
    let found =
        queries::dead_letter(&desk.app.model, job_id, &desk.query(SHARD)).await.map_err(unreadable)?;
    let row = found.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let subject = Target::Job(job_id.clone());
    if row.state != "dead" {
        return Ok(Answer::see_other(&row.path(), "found"));
    }
    let (what, risk) = lost(&row);
    let object = row.object_path();
    let object = object.map_or_else(|| Cell::text("not known"), |path| Cell::link(row.object.clone(), path));
    let question = Question {
        act,
        subject: &subject,
        title: format!("Purge {what}?"),
        sentence: "It is dropped for good, with what it carries.".to_owned(),
        risk: risk.to_owned(),
        facts: vec![
            fact(
                if row.event_key().is_some() { "Webhook" } else { "Job" },
                Cell::link(job_id.clone(), row.path()),
            ),
            fact("Kind", Cell::text(row.kind.replace('_', " "))),
            fact("Object", object),
            fact("Last error", Cell::text(row.last_error())),
            fact("Tries", Cell::text(row.attempts.to_string())),
            fact("Last tried", Cell::moment(row.updated_at_ms)),
        ],
        label: "Purge".to_owned(),
        entries: of_shard(row.shard.as_deref())
            .into_iter()
            .chain([("seen", row.updated_at_ms.to_string())])
            .collect(),
        here: "/admin/dead-letters",
    };
    question.page(desk).await
}

/// What a dead letter is, and what is lost with it.
fn lost(row: &DeadRow) -> (String, &'static str) {
    match JobKind::parse(&row.kind) {
        _ if row.event_key().is_some() => (
            format!("the webhook {}", row.told()).trim_end().to_owned(),
            "The payment does not learn what it tells, until the provider sends the same webhook again: do what it tells at the payment \
             first.",
        ),
        Some(JobKind::SendReceipt) => (
            "the receipt".to_owned(),
            "The customer does not get this email: nothing sends it any more. The money is not touched.",
        ),
        Some(JobKind::DeliverWebhook) => (
            "the outgoing webhook".to_owned(),
            "The shop is not told of this event: it learns of it when it asks. The money is not touched.",
        ),
        Some(JobKind::Project) => (
            "the update of the lists".to_owned(),
            "The lists keep what they had, until the payment changes again or they are rebuilt. It may have events that the shop is then told of \
             by nobody: requeue it instead. The money is not touched.",
        ),
        Some(JobKind::Retired) | None => ("the job".to_owned(), "What it was to do is not done."),
    }
}

/// The amount that was entered, in minor units, or all that there is. The error says what is wrong with it.
fn wanted(text: &str, currency: &str, available_minor: u64) -> Result<u64, String> {
    match format::parse_money(text, currency) {
        Ok(entered) => match entered.map_or(available_minor, AmountMinor::get) {
            minor if minor <= available_minor => Ok(minor),
            _ => Err(format!("The amount can be at most {}.", format::money(available_minor, currency))),
        },
        Err(wrong) => Err(format!("The amount {wrong}.")),
    }
}

/// An amount that was entered; `None` if it was left empty.
pub(super) fn amount(text: &str, currency: &str) -> Result<Option<AmountMinor>, Problem> {
    format::parse_money(text, currency).map_err(|wrong| {
        Problem::because(Kind::InvalidParameters, format!("The amount {wrong}. Nothing was done."))
    })
}

/// How much there is for it, in minor units.
fn available_minor(act: OperatorAction, inspection: &Inspection, payment: &PaymentRow) -> u64 {
    match act {
        OperatorAction::Capture => inspection.capturable_minor,
        OperatorAction::Refund => inspection.refundable_minor,
        _ if inspection.voidable => payment.amount_minor,
        _ => 0,
    }
}
