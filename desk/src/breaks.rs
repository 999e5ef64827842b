//! The list of breaks, and how all that it shows of one kind are accepted at once.

use futures_util::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};

use super::action_outcome::{ActionOutcome, Status};
use super::actions::Press;
use super::break_kinds::{BreakKind, KINDS};
use super::break_queries::{self, BreakRow};
use super::button::Button;
use super::context::{Desk, MADE_BEFORE};
use super::detail_tables::fact;
use super::format;
use super::operator_log::{self, Action};
use super::queries::PAGE;
use super::route::{OperatorAction, Target};
use super::status::Entity;
use super::tasks::break_texts::shown;
use super::tasks::compare::Kind;
use super::view_models::{Cell, ConfirmPage, List, Row};
use payments::payment::id::PaymentId;
use payments::payment::own_keys::account_of;
use runtime::http_client::CONNECTIONS_MAX;
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::Problem;
use web::reply;
use web::route::Parameter;

/// What goes with the button that accepts all that are shown: which these were, and what each said.
const SHOWN: &str = "breaks";
/// The state of a break that nobody has settled.
const OPEN: &str = "open";
/// How our ids of refunds begin.
const REFUND: &str = "re_";
/// How many are accepted at once.
const AT_ONCE: usize = CONNECTIONS_MAX;

/// A break that was shown, as its page had it.
#[derive(Serialize, Deserialize)]
struct Shown {
    id: String,
    seen: String,
    /// Where it was found; empty if that was D1.
    shard: String,
}

pub(crate) async fn list(desk: &Desk<'_>) -> Result<Answer, Problem> {
    let state = chosen(&desk.query("state"));
    let kind = BreakKind::parse(&desk.query("kind"));
    let mut found = read(desk, state, kind).await?;
    let (newer, older) = desk.around(&mut found);
    let mut buttons = Vec::new();
    if let Some(kind) = kind.filter(|_| state == Some(OPEN) && !found.is_empty()) {
        let subject = Target::Breaks(kind);
        let label = accept_label(found.len());
        let mut all = Button::dangerous(OperatorAction::AcceptAll, &subject, &label);
        let shown = [("page", desk.page_number().to_string()), (MADE_BEFORE, desk.query(MADE_BEFORE))];
        all.entries.extend(shown.into_iter().filter(|(_, value)| !matches!(value.as_str(), "" | "0")));
        buttons.push(all);
    }
    let mut rows = Vec::new();
    for row in found {
        rows.push(shown_row(desk, row)?);
    }
    let kinds: Vec<_> = std::iter::once(("", "all")).chain(KINDS).collect();
    let page = List {
        title: "Breaks",
        intro: "Where a provider’s records and ours differ. Repair lets the payment check with the provider, and moves no money; a difference that is right can be accepted with a note, which is kept for good: name no person in it.",
        search: None,
        day: None,
        hint: "",
        selects: vec![
            desk.select(
                "state",
                "State",
                &[
                    ("", Entity::Break.word(OPEN)),
                    ("repaired", Entity::Break.word("repaired")),
                    ("resolved", Entity::Break.word("resolved")),
                    ("accepted", Entity::Break.word("accepted")),
                    ("all", "all"),
                ],
            ),
            desk.select("kind", "Kind", &kinds),
        ],
        columns: &["Kind", "Provider", "Ours", "Theirs", "Payment", "State", "Seen (UTC)"],
        rows,
        empty_text: match (state, kind) {
            (Some(OPEN), None) => "No open breaks: our records and the provider’s agree.",
            (_, Some(_)) => "No breaks of this kind in this state.",
            (Some(_), None) => "No breaks in this state.",
            (None, None) => "No breaks so far.",
        },
        buttons,
        download: String::new(),
        upload: None,
        newer,
        older,
        site: desk.site(),
        legend: Entity::Break.legend(),
        chrome: desk.chrome("/admin/breaks").await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

/// The state that is chosen, which is `open` if none is; `None` for all.
fn chosen(text: &str) -> Option<&'static str> {
    match text {
        "all" => None,
        "repaired" => Some("repaired"),
        "resolved" => Some("resolved"),
        "accepted" => Some("accepted"),
        _ => Some(OPEN),
    }
}

/// A page of those in a state, or of all, and one more if there are more.
async fn read(
    desk: &Desk<'_>,
    state: Option<&str>,
    kind: Option<BreakKind>,
) -> Result<Vec<BreakRow>, Problem> {
    break_queries::breaks(&desk.app.model, state, kind, desk.page_number()).await.map_err(unreadable)
}

fn accept_label(number: usize) -> String {
    match number {
        1 => "Accept the one that is shown".to_owned(),
        many => format!("Accept all {many} that are shown"),
    }
}

fn shown_row(desk: &Desk<'_>, row: BreakRow) -> Result<Row, Problem> {
    let subject = Target::Break(row.break_id.clone());
    let shard = row.shard.as_deref();
    let mut buttons = Vec::new();
    if row.state == OPEN {
        if row.asked_object().is_some() {
            buttons.push(desk.button(OperatorAction::Repair, &subject, "Repair")?.found_in(shard));
        }
        let mut accept = desk.button(OperatorAction::Accept, &subject, "Accept")?.found_in(shard);
        accept.note = "Note";
        accept.entries.push(("seen", row.seen()));
        buttons.push(accept);
    }
    let about = about(&row);
    let at_provider = row.provider_payment.as_deref().map(format::short).unwrap_or_default();
    Ok(Row {
        cells: vec![
            Cell::text(row.kind.replace('_', " ")).with(row.note.unwrap_or_default()),
            Cell::text(row.provider).with(at_provider),
            Cell::text(side(row.ours.as_deref())),
            Cell::text(side(row.theirs.as_deref())),
            about,
            Entity::Break.chip(&row.state),
            Cell::moment(row.last_seen_at_ms)
                .with(format!("first {}", format::from_now(row.first_seen_at_ms, desk.request.now_ms))),
        ],
        buttons,
    })
}

/// What one side says, for a person.
fn side(text: Option<&str>) -> String {
    text.map_or_else(|| "–".to_owned(), shown)
}

/// What a break is about.
fn about(row: &BreakRow) -> Cell {
    match (&row.resource, &row.object) {
        (Some(id), _) => of_resource(id),
        (None, Some(object)) => Cell::link(format::short(object), format!("/admin/keys/{object}/1")),
        (None, None) if row.kind == Kind::Ended.as_str() => {
            let of = row.provider_payment.as_deref().unwrap_or_default();
            let account = of.split(" of ").next().and_then(account_of).unwrap_or_default();
            Cell::link(account, Target::Account(account.to_owned()).path())
        }
        // It is about a file.
        (None, None) if matches!(row.kind.as_str(), "report" | "settlement") => Cell::text("–"),
        (None, None) => Cell::text("not ours"),
    }
}

/// A payment, or a refund, which is found by a search; or a line of a settlement file, which begins with one of these.
fn of_resource(id: &str) -> Cell {
    let subject = id.split_once(':').map_or(id, |(subject, _)| subject);
    match PaymentId::parse(subject) {
        Some(_) => Cell::link(format::short(id), Target::Payment(subject.to_owned()).path()),
        None if subject.starts_with(REFUND) => {
            Cell::link(format::short(id), format!("/admin/payments?q={subject}"))
        }
        None => Cell::text(format::short(id)),
    }
}

/// `GET /admin/breaks/accept-all/{kind}`: with the page of the list, whose rows it shows once more.
pub(crate) async fn confirm(desk: &Desk<'_>, kind: &Parameter<'_, BreakKind>) -> Result<Answer, Problem> {
    let kind = kind.read()?;
    let subject = Target::Breaks(kind);
    let mut found = read(desk, Some(OPEN), Some(kind)).await?;
    found.truncate(PAGE);
    if found.is_empty() {
        return Ok(Answer::see_other(&subject.path(), "found"));
    }
    let shown: Vec<Shown> = found.iter().map(Shown::of).collect();
    let shown = serde_json::to_string(&shown).map_err(|error| unreadable(error.into()))?;
    let mut button = desk.button(OperatorAction::AcceptAll, &subject, &accept_label(found.len()))?;
    button.tone = "danger";
    let says = |row: &BreakRow| {
        let what = row.resource.as_ref().or(row.provider_payment.as_ref()).unwrap_or(&row.break_id);
        let cell = about(row);
        let said = format!(
            "{}: ours {}, theirs {}",
            row.provider,
            side(row.ours.as_deref()),
            side(row.theirs.as_deref())
        );
        match cell.href.is_empty() {
            true => Cell::text(format::short(what)).with(said),
            false => cell.with(said),
        }
    };
    let page = ConfirmPage {
        title: match found.len() {
            1 => format!("Accept one break of the kind “{}”?", kind.word()),
            many => format!("Accept {many} breaks of the kind “{}”?", kind.word()),
        },
        back: subject.path(),
        sentence: "Each of these differences is right as it is, and is left so.".to_owned(),
        facts: found.iter().map(|row| fact("Break", says(row))).collect(),
        risk: "Nobody is told of them any more, unless one says something else later. One that has changed since this page was loaded is left open."
            .to_owned(),
        button,
        note: "Why they are right: kept for good, so name no person",
        entries: vec![(SHOWN, shown)],
        hint: "The button works once, however often it is pressed. Each break that is accepted is written to the audit log, with the note.",
        site: desk.site(),
        chrome: desk.chrome("/admin/breaks").await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

impl Shown {
    fn of(row: &BreakRow) -> Self {
        Self { id: row.break_id.clone(), seen: row.seen(), shard: row.shard.clone().unwrap_or_default() }
    }
}

impl Press<'_> {
    /// Accepts all that the page has shown, each with its own entry in the log. What has changed since stays open.
    pub(super) async fn accept_all(&self) -> worker::Result<ActionOutcome> {
        let shown: Vec<Shown> =
            serde_json::from_str(&self.entries.text(SHOWN).or_empty()).unwrap_or_default();
        if shown.is_empty() || shown.len() > PAGE {
            return Ok(ActionOutcome::refused("the form was not complete: load the page again"));
        }
        let number = shown.len();
        let outcomes: Vec<worker::Result<ActionOutcome>> =
            stream::iter(shown).map(|shown| self.accept_one(shown)).buffered(AT_ONCE).collect().await;
        let mut accepted = 0;
        let mut others = Vec::new();
        for outcome in outcomes {
            match outcome.unwrap_or_else(ActionOutcome::failed) {
                ActionOutcome { status: Status::Done, .. } => accepted += 1,
                other => others.push(other),
            }
        }
        Ok(match others.first() {
            None => ActionOutcome::done(format!("accepted: {accepted}")),
            Some(first) => {
                let (others, first) = (others.len(), &first.text);
                ActionOutcome::refused(format!("{others} of {number} are not accepted, the first: {first}"))
            }
        })
    }

    /// As its own button would: the log has it before and after. The same page pressed again finds what is there.
    async fn accept_one(&self, shown: Shown) -> worker::Result<ActionOutcome> {
        let Shown { id, seen, shard } = shown;
        let what = self.accepting();
        let action = Action { operator: &self.desk.operator, what: &what, subject: &id };
        let env = &self.desk.app.env;
        let key = format!("{}:{id}", self.key);
        let begun = operator_log::begin_once(env, &key, &action, self.desk.request.now_ms);
        let begun = begun.await.map_err(|problem| worker::Error::RustError(problem.detail))?;
        let done = self.accept(&id, &seen, &shard).await;
        let outcome = done.unwrap_or_else(ActionOutcome::failed);
        operator_log::end(env, begun.id, &action, &outcome).await?;
        Ok(outcome)
    }
}
