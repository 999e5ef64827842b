//! Making and ending the links to an order.
//!
//! The order's object is told of each link, and keeps which one is the newest; the link itself is the order, signed.

use super::Order;
use super::cart::{Cart, Line};
use super::page::path;
use super::request::{OrderRequest, ended_to_json, link_to_json};
use super::till::cards;
use crate::edge::api::{account, invalid_parameters, no_query, unavailable};
use crate::edge::app::{App, ObjectRef};
use crate::edge::ask::not_known;
use crate::edge::fields::visible;
use crate::edge::payment_params::{ORDER_MAX, no_parameters};
use messages::account::NotCharged;
use messages::message::ObjectRequest;
use once::id::Owner;
use payments::payment::id::PaymentId;
use payments::payment::money::Currency;
use payments::payment::natural_key::order_object_name;
use payments::payment::order_link::{EndedLinks, MadeLink, REVISION_MAX};
use runtime::random;
use web::entries::TRANSPORT_FIELDS;
use web::http::{Answer, Request, percent_decode};
use web::image_url::ImageUrl;
use web::key_source;
use web::problem::{Kind, Problem};
use web::reply::mismatch;

/// What the demo sells: name, price in cents, quantity, picture.
const DEMO_CART: [(&str, u64, u32, &str); 3] = [
    ("Mission patch, embroidered", 800, 2, "/assets/patch.svg"),
    ("Enamel mug “Lift-off”", 1450, 1, "/assets/mug.svg"),
    ("Star map, A2 print", 2400, 1, "/assets/star-map.svg"),
];

/// What is told where the order's object gave no answer.
const NOT_KNOWN: &str = "It is not known whether this was done: links that were made before may have been replaced or ended. Nothing was charged \
                         by it. Send the same request again after the time in Retry-After; it is not done twice.";

/// `POST /checkout/sessions`: the link to an order. The order's object is told of it, and keeps which one is the newest. It
/// needs no key: to ask for the newest link again changes nothing, and every link of an order leads to the same payment. With one, a late
/// retry does not bring back what another link has replaced since.
pub(in crate::edge) async fn make_link(app: &App, request: &Request) -> Result<Answer, Problem> {
    let (owner, terms) = account(app, request).await?;
    let Owner::Account(account) = owner else {
        return Err(Problem::new(Kind::Unauthorized));
    };
    cards(app, &terms, app.own_keys(&terms).await?.as_deref())?;
    let body = request.parameters()?;
    let key = key_source::key(request, Some(&body))?.map(|key| key.hash(&Owner::Account(account.clone())));
    no_query(request)?;
    let OrderRequest { id, cart, return_url, cancel_url, revision, locale, capture } =
        OrderRequest::parse(&body.without(&TRANSPORT_FIELDS), app.config.demo).map_err(invalid_parameters)?;
    terms.may_charge(cart.total(), cart.currency()).map_err(|not_charged| {
        let (field, message) = match not_charged {
            NotCharged::Currency(message) => ("currency", message),
            NotCharged::Amount(message) => ("lines", format!("add up to an amount that {message}")),
        };
        invalid_parameters(vec![super::cart::wrong(field, message)])
    })?;
    let owner = Owner::Account(account.clone());
    let place = ObjectRef::Named(order_object_name(&owner, &id));
    let expires_at_ms = expires_at_ms(app, request);

    let mut order = Order {
        id,
        account,
        cart,
        return_url,
        cancel_url,
        expires_at_ms,
        revision: REVISION_MAX,
        locale,
        capture,
    };
    let too_long = || {
        let message = "make the link too long: shorten the names, return_url or cancel_url";
        invalid_parameters(vec![super::cart::wrong("lines", message)])
    };
    // A link that cannot be made must not replace one that is there.
    order.seal(&app.config.signing_keys).ok_or_else(too_long)?;
    let ask = ObjectRequest::MakeLink { revision, content: order.content(), key, owner: Some(owner) };
    order.revision = match app
        .ask::<MadeLink>(&place, ask)
        .await
        .map_err(|error| not_known(&error, NOT_KNOWN))?
    {
        MadeLink::Revision(revision) => revision,
        MadeLink::Conflict(newest) => {
            return Err(Problem { revision: Some(newest), ..Problem::new(Kind::LinkRevision) });
        }
        MadeLink::Paid(status) => {
            let detail = "The order is paid, as an earlier link to it said: nothing else can be sold under its order_id. For something new \
                              send another order_id; to give money back refund the payment.";
            return Err(paid(app, &place, status, detail));
        }
        MadeLink::KeyReused => return Err(mismatch(Vec::new(), app.response_options())),
        MadeLink::RateLimited => return Err(web::reply::rate_limited()),
    };
    let link = order.seal(&app.config.signing_keys).ok_or_else(too_long)?;
    let url = format!("{}{}", request.origin(), path(&link));
    let body = link_to_json(&order, &url).to_string();
    Ok(Answer::new(201, "application/json", body, "link_made").with("location", url))
}

/// `POST /checkout/sessions/{order}/expire`: ends all links of an order that were made so far. With a key, a late retry ends none that was made
/// since.
pub(in crate::edge) async fn expire_links(
    app: &App,
    request: &Request,
    order: &str,
) -> Result<Answer, Problem> {
    let (owner, _) = account(app, request).await?;
    let id = percent_decode(order).filter(|id| visible(id, ORDER_MAX).is_ok());
    let id = id.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let body = request.parameters()?;
    let key = key_source::key(request, Some(&body))?.map(|key| key.hash(&owner));
    no_query(request)?;
    // Who names a revision means that one, and not all.
    no_parameters(&body.without(&TRANSPORT_FIELDS)).map_err(|refused| invalid_parameters(refused.errors))?;
    // An order that nobody knows is kept from now on, too.
    if !app.has_room("RATE_LIMITER", format!("ended links {}", owner.to_text())).await {
        return Err(web::reply::rate_limited());
    }
    let place = ObjectRef::Named(order_object_name(&owner, &id));
    let ask = key.map_or(ObjectRequest::EndLinks, |key| ObjectRequest::EndLinksOnce { key });
    match app.ask::<EndedLinks>(&place, ask).await.map_err(|error| not_known(&error, NOT_KNOWN))? {
        EndedLinks::Through(revision) => {
            Ok(Answer::new(200, "application/json", ended_to_json(&id, revision).to_string(), "links_ended"))
        }
        EndedLinks::Paid(status) => {
            let detail = "The order is paid, or being charged: there is nothing left to end. Refund the payment instead.";
            Err(paid(app, &place, status, detail))
        }
        EndedLinks::KeyReused => Err(mismatch(Vec::new(), app.response_options())),
    }
}

/// The order's payment is in the way.
fn paid(app: &App, place: &ObjectRef, status: String, detail: &str) -> Problem {
    let resource = app.object_id(place).ok().map(|object| PaymentId::in_object(object).path());
    Problem { resource, state: Some(status), ..Problem::because(Kind::PaymentState, detail) }
}

/// `GET /checkout`: in the demo, a small cart to pay.
pub(in crate::edge) async fn demo_order(app: &App, request: &Request) -> Result<Answer, Problem> {
    if !app.config.demo {
        return Err(Problem::because(
            Kind::NotFound,
            "An order is paid at its own address: the link that the shop gave you. Shops ask for one with \
             `POST /checkout/sessions`.",
        ));
    }
    let lines = DEMO_CART.map(|(name, unit_minor, quantity, image)| Line {
        name: name.to_owned(),
        unit_minor,
        quantity,
        image: Some(ImageUrl::own(image)),
    });
    let cart = Cart::new(Currency::USD, lines.to_vec()).map_err(invalid_parameters)?;
    let order = Order {
        id: format!("order_{}", random::uuid().map_err(unavailable)?),
        account: app.config.checkout_account.clone(),
        cart,
        return_url: None,
        cancel_url: None,
        expires_at_ms: expires_at_ms(app, request),
        // Whoever looks at the demo's cart stores nothing.
        revision: 0,
        locale: None,
        capture: true,
    };
    let link = order.seal(&app.config.signing_keys).unwrap_or_default();
    Ok(Answer::see_other(&path(&link), "order_made"))
}

fn expires_at_ms(app: &App, request: &Request) -> u64 {
    request.now_ms.saturating_add(app.config.checkout_ttl_ms)
}
