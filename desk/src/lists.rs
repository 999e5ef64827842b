//! The lists of payments, keys and dead letters.

use super::accounts;
use super::button::Button;
use super::context::{Desk, MADE_BEFORE};
use super::format;
use super::gate;
use super::history;
use super::key_search::{self, KeySearch};
use super::payment_search::{self, ENDING, Part, PaymentSearch, owner_named};
use super::queries::{self, PAGE, Where};
use super::requeue::REQUEUE_MAX;
use super::route::{DeadKind, OperatorAction, Target};
use super::status::{self, Entity};
use super::view_models::{Cell, List, Row};
use once::id::{ObjectId, Owner};
use once::key::{IdempotencyKey, KeyHash};
use payments::payment::id::{PaymentId, reference};
use runtime::objects::ObjectRef;
use runtime::serve::unreadable;
use web::http::Answer;
use web::pages::Notice;
use web::problem::Problem;
use web::reply;

/// Where the payments of a search and a filter are as a file.
pub(super) const CSV_PATH: &str = "/admin/payments.csv";

/// What the address asks the list of payments for.
pub(super) fn of_payments(desk: &Desk<'_>) -> PaymentSearch {
    let until_ms = Some(desk.app.model.until_ms()).filter(|until_ms| *until_ms < u64::MAX);
    PaymentSearch { text: desk.query("q"), status: desk.query("status"), day: desk.query("day"), until_ms }
}

pub(crate) async fn payments(desk: &Desk<'_>) -> Result<Answer, Problem> {
    let search = of_payments(desk);
    if let Some(wrong) = search.wrong_filter() {
        return payments_unlisted(desk, search, wrong).await;
    }
    if PaymentId::parse(&search.text).is_some() {
        return Ok(Answer::see_other(&format!("/admin/payments/{}", search.text), "found"));
    }
    if let Some(path) = gate::listed(desk, &search.text).await.map_err(unreadable)? {
        return Ok(Answer::see_other(&path, "found"));
    }
    let now_ms = desk.request.now_ms;
    let part = Part { after: None, offset: PAGE * desk.page_number(), limit: PAGE + 1 };
    let mut rows =
        payment_search::payments(&desk.app.model, &search, part, now_ms).await.map_err(unreadable)?;
    let mut left = Vec::new();
    if rows.is_empty() && !search.text.is_empty() {
        left = history::found(&desk.app.model, &search.text, &search.day).await.map_err(unreadable)?;
        if let [id] = left.as_slice() {
            return Ok(Answer::see_other(&format!("/admin/payments/{id}"), "found"));
        }
    }
    let (newer, older) = desk.around(&mut rows);
    let rows = rows.into_iter().map(|row| {
        let amount = match (row.captured_minor, row.refunded_minor) {
            (_, refunded) if refunded > 0 => format!("{} refunded", format::money(refunded, &row.currency)),
            (captured, _) if captured > 0 && captured < row.amount_minor => {
                format!("{} captured", format::money(captured, &row.currency))
            }
            _ => String::new(),
        };
        let provider = row.provider_payment.as_deref().map(format::short).unwrap_or_default();
        let cells = vec![
            Cell {
                reference: PaymentId::parse(&row.id).map(reference).unwrap_or_default(),
                ..Cell::link(format::short(&row.id), format!("/admin/payments/{}", row.id))
                    .with(row.order_id.map(|order| format!("order {order}")).unwrap_or_default())
            },
            Entity::Payment.chip(&row.status).with(match row.capture_before_ms {
                Some(at_ms) => format!("ends {}", format::from_now(at_ms, now_ms)),
                None => row.failure_code.unwrap_or_default().replace('_', " "),
            }),
            Cell::number(format::money(row.amount_minor, &row.currency)).with(amount),
            Cell::text(format::owner(&row.owner)),
            Cell::text(row.provider).with(provider),
            Cell::moment(row.created_at_ms).with(format::from_now(row.created_at_ms, now_ms)),
        ];
        Row { cells, buttons: Vec::new() }
    });
    let page = List {
        rows: rows.chain(left.into_iter().map(history::row)).collect(),
        download: desk.address_with(CSV_PATH, "page", ""),
        newer,
        older,
        ..no_payments(desk, search).await?
    };
    Ok(reply::html(200, &page, "desk"))
}

/// The page of a search whose filter is wrong: with what was entered, and without a list.
async fn payments_unlisted(desk: &Desk<'_>, search: PaymentSearch, wrong: String) -> Result<Answer, Problem> {
    // The field for a day takes nothing else.
    let day = if search.has_no_wrong_day() { search.day.clone() } else { String::new() };
    let mut page = no_payments(desk, PaymentSearch { day, ..search }).await?;
    page.empty_text = "Nothing is listed: the filter is wrong.";
    page.chrome.notice = Some(Notice {
        title: "The filter is wrong".to_owned(),
        text: format!("{wrong} Choose another one, or none."),
        tone: "error",
    });
    Ok(reply::html(422, &page, "desk"))
}

/// The list of payments, empty.
async fn no_payments(desk: &Desk<'_>, search: PaymentSearch) -> Result<List, Problem> {
    Ok(List {
        title: "Payments",
        intro: "The newest first.",
        search: Some(search.text),
        day: Some(search.day),
        hint: "Id, reference, order, provider’s id, account, code",
        selects: vec![
            desk.select(
                "status",
                "Status",
                &[
                    &[("", "all")],
                    status::payment_filters().as_slice(),
                    &[(ENDING, "reservation ends within a day")],
                ]
                .concat(),
            ),
        ],
        columns: &["Payment", "Status", "Amount", "Account", "Provider", "Begun (UTC)"],
        rows: Vec::new(),
        empty_text: "No payments match. A new one appears within moments; an amount is searched for among those of a day.",
        buttons: Vec::new(),
        download: String::new(),
        upload: None,
        newer: String::new(),
        older: String::new(),
        site: desk.site(),
        legend: Entity::Payment.legend(),
        chrome: desk.chrome("/admin/payments").await?,
    })
}

/// What somebody who looks for keys may mean. A key as a client sends it is stored nowhere: but its hash can be made, for each account, and the
/// hash names its object.
async fn keys_named(desk: &Desk<'_>, search: &str) -> Result<KeySearch, Problem> {
    let app = desk.app;
    let hash = (search.len() == 64 && search.chars().all(|c| c.is_ascii_hexdigit()))
        .then(|| KeyHash(search.to_ascii_lowercase()));
    let mut hashes: Vec<KeyHash> = hash.into_iter().collect();
    if let Ok(key) = IdempotencyKey::parse(search) {
        let known = accounts::ids(app).await?;
        hashes.extend(known.into_iter().map(|id| key.hash(&Owner::Account(id))));
    }
    // With many accounts: the account, a space, and its key.
    if let Some((id, key)) = search.split_once(' ')
        && let Ok(key) = IdempotencyKey::parse(key.trim())
    {
        hashes.push(key.hash(&Owner::Account(id.to_owned())));
    }
    let object_of = |hash: &KeyHash| app.object_id(&ObjectRef::Named(hash.object_name()));
    let mut objects =
        hashes.iter().map(object_of).collect::<worker::Result<Vec<ObjectId>>>().map_err(unreadable)?;
    objects.extend(ObjectId::from_hex(search));
    objects.extend(PaymentId::parse(search).map(PaymentId::object));
    let payment = |object: &ObjectId| PaymentId::in_object(*object).to_string();
    Ok(KeySearch {
        places: objects.iter().flat_map(|object| [object.to_hex(), payment(object)]).collect(),
        hashes: hashes.into_iter().map(|hash| hash.0).collect(),
        owner: owner_named(search),
    })
}

pub(crate) async fn keys(desk: &Desk<'_>) -> Result<Answer, Problem> {
    let search = desk.query("q");
    let now_ms = desk.request.now_ms;
    let named = if search.is_empty() { None } else { Some(keys_named(desk, &search).await?) };
    let state = desk.query("state");
    let mut rows = key_search::keys(&desk.app.model, named.as_ref(), &state, desk.page_number(), now_ms)
        .await
        .map_err(unreadable)?;
    let (newer, older) = desk.around(&mut rows);
    let rows = rows.into_iter().map(|row| {
        let shown = status::of_key(&row.status, row.flagged == 1, row.in_doubt == 1);
        let wakes = row.wake_at_ms.filter(|_| row.status == "open");
        let shown = shown
            .with(wakes.map(|at_ms| format!("due {}", format::from_now(at_ms, now_ms))).unwrap_or_default());
        let answered = row.response_status.map(|status| status.to_string()).unwrap_or_default();
        let took = row.finished_at_ms.map(|at_ms| format::duration(at_ms.saturating_sub(row.created_at_ms)));
        let cells = vec![
            Cell::link(
                row.key_hash.get(..12).unwrap_or(&row.key_hash),
                format!("/admin/keys/{}/{}", row.object, row.key_id),
            ),
            Cell::text(row.operation.unwrap_or_default()),
            shown,
            Cell::text(row.recovery_point.replace('_', " ")).with(match row.attempts {
                1 => String::new(),
                many => format!("{many} runs"),
            }),
            Cell::number(answered).with(took.unwrap_or_default()),
            Cell::text(format::owner(&row.owner)),
            Cell::moment(row.created_at_ms).with(format::from_now(row.created_at_ms, now_ms)),
        ];
        Row { cells, buttons: Vec::new() }
    });
    let page = List {
        title: "Keys",
        intro: "Idempotency keys, by their hashes: the key itself is stored nowhere.",
        search: Some(search),
        day: None,
        hint: "The client’s key (of many accounts: account key), its hash, an object, an account",
        selects: vec![desk.select(
            "state",
            "State",
            &[
                ("", "all"),
                ("open", "processing, unknown, or needs review"),
                ("unknown", Entity::Key.word("unknown")),
                ("late", "late, or needs review"),
                ("finished", Entity::Key.word("finished")),
                ("expired", Entity::Key.word("expired")),
            ],
        )],
        columns: &["Key", "Operation", "State", "Recovery point", "Answer", "Account", "First used (UTC)"],
        rows: rows.collect(),
        empty_text: "No keys match. A new one appears within moments.",
        buttons: Vec::new(),
        download: String::new(),
        upload: None,
        newer,
        older,
        site: desk.site(),
        legend: Entity::Key.legend(),
        chrome: desk.chrome("/admin/keys").await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

pub(crate) async fn dead_letters(desk: &Desk<'_>) -> Result<Answer, Problem> {
    let mut conditions = Where::default();
    conditions.and("state = 'dead'");
    let kind = DeadKind::parse(&desk.query("kind"));
    if let Some(kind) = kind {
        conditions.and_value("kind = ?", kind.as_str());
    }
    let mut dead =
        queries::dead_letters(&desk.app.model, conditions, desk.page_number()).await.map_err(unreadable)?;
    let is_all = desk.page_number() == 0 && dead.len() <= PAGE;
    let (newer, older) = desk.around(&mut dead);
    let mut buttons = Vec::new();
    if !dead.is_empty() {
        let until_ms = desk.query(MADE_BEFORE);
        let is_part = !until_ms.is_empty() || desk.app.model.looked_to_ms().is_some();
        let label = requeue_label(kind, is_all.then_some(dead.len()), is_part);
        let mut all = desk.button(OperatorAction::RequeueAll, &Target::Jobs(kind), &label)?;
        all.entries.extend((!until_ms.is_empty()).then_some((MADE_BEFORE, until_ms)));
        buttons.push(all);
    }
    let mut rows = Vec::new();
    for row in dead {
        let subject = Target::Job(row.job_id.clone());
        let shard = row.shard.as_deref();
        let purge = Button::dangerous(OperatorAction::Purge, &subject, "Purge").found_in(shard);
        rows.push(Row {
            cells: vec![
                Cell::link(row.kind.replace('_', " "), row.path()).with(format::short(&row.job_id)),
                Cell::text(row.last_error()),
                Cell::number(row.attempts.to_string()),
                row.object_path().map_or_else(
                    || Cell::text("not known"),
                    |path| Cell::link(format::short(&row.object), path),
                ),
                Cell::moment(row.updated_at_ms)
                    .with(format::from_now(row.updated_at_ms, desk.request.now_ms)),
            ],
            buttons: vec![desk.button(OperatorAction::Requeue, &subject, "Requeue")?.found_in(shard), purge],
        });
    }
    let page = List {
        title: "Dead letters",
        intro: "Jobs that failed for good: an email, an update of the lists, or what a shop is told; and webhooks of providers that could not be processed. Their payment lacks that news until they are requeued or the call is settled by hand.",
        search: None,
        day: None,
        hint: "",
        selects: vec![desk.select(
            "kind",
            "Kind",
            &[
                ("", "all"),
                ("send_receipt", "send receipt"),
                ("project", "project"),
                ("webhook", "webhook"),
                ("deliver_webhook", "deliver webhook"),
            ],
        )],
        columns: &["Job", "Last error", "Tries", "Object", "Died (UTC)"],
        rows,
        empty_text: "No dead letters: every job is done or still being tried.",
        buttons,
        download: String::new(),
        upload: None,
        newer,
        older,
        site: desk.site(),
        legend: Vec::new(),
        chrome: desk.chrome("/admin/dead-letters").await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

/// What the button is called that requeues dead letters: of so many, or of more than it takes; of all, or of those of some shards.
fn requeue_label(kind: Option<DeadKind>, number: Option<usize>, is_part: bool) -> String {
    let (one, several) = kind.map_or(("dead letter", "dead letters"), DeadKind::words);
    match (number, is_part) {
        (Some(1), false) => format!("Requeue the one {one}"),
        (Some(number), false) => format!("Requeue all {number} {several}"),
        (None, false) => format!("Requeue the oldest {REQUEUE_MAX} {several}"),
        (Some(1), true) => format!("Requeue this {one}"),
        (Some(number), true) => format!("Requeue these {number} {several}"),
        (None, true) => format!("Requeue the oldest {REQUEUE_MAX} of these {several}"),
    }
}
