//! The question before money moves: what is about to be done, with the sum. The page changes nothing; its button does it.

use super::context::Desk;
use super::detail::{self, Mistake};
use super::detail_tables::{fact, optional};
use super::format;
use super::route::{MoneyAction, OperatorAction, Target};
use super::view_models::{Cell, ConfirmPage};
use messages::inspection::Inspection;
use messages::snapshot::PaymentRow;
use payments::payment::RefundReason;
use payments::payment::id::object_of;
use payments::payment::money::AmountMinor;
use web::http::Answer;
use web::problem::{Kind, Problem};
use web::reply;
use web::route::Parameter;

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
    let money = |minor: u32| format::money(minor.into(), &payment.currency);
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
        fact("Taken", Cell::text(money(payment.captured_minor))),
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
                    "The other {} is released, and cannot be taken later: there is one capture.",
                    money(rest)
                ),
            };
            (
                format!("{verb} {sum} of {all}{}?", of_order("for")),
                format!("{sum} is taken from the customer."),
                risk,
            )
        }
        _ => {
            entries.clear();
            let title = format!("{verb} {all}{}?", of_order("of"));
            (title, format!("{all} is released: nothing is taken."), "It cannot be taken later.".to_owned())
        }
    };
    entries.push(("seen", inspection.figures.clone()));
    let mut button = desk.button(act, &subject, &format!("{verb} {sum}"))?;
    button.tone = if act == OperatorAction::Capture { "" } else { "danger" };
    let page = ConfirmPage {
        title,
        back: subject.path(),
        sentence,
        facts,
        risk,
        button,
        entries,
        hint: "The button works once, however often it is pressed. What you do is written to the audit log.",
        site: desk.site(),
        chrome: desk.chrome("/admin/payments").await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

/// The amount that was entered, in minor units, or all that there is. The error says what is wrong with it.
fn wanted(text: &str, currency: &str, available_minor: u32) -> Result<u32, String> {
    match format::parse_money(text, currency) {
        Ok(entered) => match entered.map_or(available_minor, AmountMinor::get) {
            minor if minor <= available_minor => Ok(minor),
            _ => {
                Err(format!("The amount can be at most {}.", format::money(available_minor.into(), currency)))
            }
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
fn available_minor(act: OperatorAction, inspection: &Inspection, payment: &PaymentRow) -> u32 {
    match act {
        OperatorAction::Capture => inspection.capturable_minor,
        OperatorAction::Refund => inspection.refundable_minor,
        _ if inspection.voidable => payment.amount_minor,
        _ => 0,
    }
}
