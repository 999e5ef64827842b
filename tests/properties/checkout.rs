use askama::Template;
use base64ct::{Base64UrlUnpadded, Encoding as _};
use once::fingerprint::{FieldError, Parameters};
use once::id::ObjectId;
use once::key::IdempotencyKey;
use paid_once::edge::checkout::Order;
use paid_once::edge::checkout::cart::{Cart, LINES_MAX, Line, NAME_MAX_CHARS, QUANTITY_MAX};
use paid_once::edge::checkout::form_key::{FormKey, Place};
use paid_once::edge::checkout::order_token::LINK_MAX_LEN;
use paid_once::edge::checkout::page::{self, Cards, FormState, OrderState, Paid, Reserved, Visit};
use paid_once::edge::checkout::request::{OrderRequest, Sent};
use paid_once::edge::payment_params::ORDER_MAX;
use paid_once::edge::shop_url::URL_MAX;
use payments::payment::card::Card;
use payments::payment::money::{Currency, USUAL_MAX_MINOR};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;
use web::image_url::ImageUrl;
use web::locale::{EN, Locale};
use web::pages::Site;
use web::test_cards::checkout_cards;
use web::unpaid::reason;

use super::support::signing_keys as keys;

const USD: Currency = Currency::USD;
const ELEMENT: Cards<'static> =
    Cards::Element { publishable_key: "pk_test_1", stripe_account: None, script: "/assets/checkout.js?v=1" };

pub(super) fn line(name: &str, unit_minor: u64, quantity: u32) -> Line {
    Line { name: name.to_owned(), unit_minor, quantity, image: None }
}

fn fields(errors: Vec<FieldError>) -> Vec<String> {
    errors.into_iter().map(|error| error.field).collect()
}

pub(super) fn order(lines: Vec<Line>) -> Order {
    Order {
        id: "order_1".to_owned(),
        account: "shop".to_owned(),
        cart: Cart::new(USD, lines).unwrap(),
        return_url: Some("https://shop.example/thanks?a=1".to_owned()),
        cancel_url: None,
        expires_at_ms: 1_800_000_000_000,
        revision: 3,
        locale: None,
        capture: true,
    }
}

/// A valid line, cheap enough that twenty of them can be charged.
fn any_line() -> impl Strategy<Value = Line> {
    let name = r#"[A-Za-zÄé“<&>"'0-9][A-Za-zÄé“<&>"' ]{0,20}[A-Za-zÄé0-9]"#;
    let image = prop::option::of("https://[a-z]{1,8}\\.example(:8443)?/[a-z]{0,8}(\\?[a-z=]{1,4})?");
    (name, 0..=5_000u64, 1..=QUANTITY_MAX, image).prop_map(|(name, unit, quantity, image)| {
        let image = image.map(|image| ImageUrl::parse(&image).unwrap());
        Line { image, ..line(&name, unit, quantity) }
    })
}

fn any_order() -> impl Strategy<Value = Order> {
    let lines = prop::collection::vec(any_line(), 1..=10);
    let url = || prop::option::of("https://[a-z]{1,10}\\.example/[a-z]{0,10}");
    let locale = prop::option::of(prop::sample::select(Locale::ALL.to_vec()));
    let times = (any::<u64>(), any::<u32>());
    ("[!-~]{1,40}", "[a-z@.]{1,30}", lines, url(), url(), times, locale, any::<bool>()).prop_map(
        |(id, account, mut lines, return_url, cancel_url, (expires_at_ms, revision), locale, capture)| {
            lines[0].unit_minor += 50; // something to pay
            let cart = Cart::new(USD, lines).unwrap();
            Order { id, account, cart, return_url, cancel_url, expires_at_ms, revision, locale, capture }
        },
    )
}

proptest! {
    #[test]
    fn a_link_is_its_order_for_whoever_has_the_key(order in any_order(), key in "[a-z]{1,40}") {
        prop_assume!(key != "other");
        let link = order.seal(&keys(&[&key])).unwrap();
        prop_assert!(link.len() <= LINK_MAX_LEN);
        prop_assert!(link.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "it stands in an address");
        prop_assert_eq!(Order::open(&link, &keys(&[&key])).ok(), Some(order.clone()));
        prop_assert_eq!(Order::open(&link, &keys(&["other", &key])).ok(), Some(order), "after the key was rotated");
        prop_assert!(Order::open(&link, &keys(&["other"])).is_err());
    }

    #[test]
    fn a_link_with_anything_changed_is_refused(order in any_order()) {
        let link = order.seal(&keys(&["k"])).unwrap();
        for (i, byte) in link.bytes().enumerate() {
            let mut other = link.clone().into_bytes();
            other[i] = if byte == b'A' { b'B' } else { b'A' };
            prop_assert!(Order::open(&String::from_utf8(other).unwrap(), &keys(&["k"])).is_err(), "character {}", i);
            prop_assert!(Order::open(&link[..i], &keys(&["k"])).is_err(), "cut off at {}", i);
        }
        let more = format!("{link}A");
        prop_assert!(Order::open(&more, &keys(&["k"])).is_err());
        let unsigned = format!("{}.", link.split('.').next().unwrap());
        prop_assert!(Order::open(&unsigned, &keys(&["k"])).is_err());
    }

    #[test]
    fn no_other_text_is_a_link(text in ".{0,80}|[A-Za-z0-9_-]{0,80}\\.[A-Za-z0-9_-]{43}") {
        prop_assert!(Order::open(&text, &keys(&["k"])).is_err());
    }

    #[test]
    fn the_total_is_the_sum_of_the_lines(lines in prop::collection::vec(any_line(), 1..=LINES_MAX)) {
        let sum: u64 = lines.iter().map(|line| line.unit_minor * u64::from(line.quantity)).sum();
        match Cart::new(USD, lines) {
            Ok(cart) => prop_assert_eq!(cart.total().get(), sum),
            Err(errors) => {
                prop_assert!(!(50..=USUAL_MAX_MINOR).contains(&sum));
                prop_assert_eq!(fields(errors), ["lines"]);
            }
        }
    }

    #[test]
    fn no_numbers_overflow(numbers in prop::collection::vec((any::<u64>(), any::<u32>()), 0..30)) {
        let lines: Vec<Line> = numbers.iter().map(|(unit, quantity)| line("x", *unit, *quantity)).collect();
        let sum: u128 = numbers.iter().map(|(unit, quantity)| u128::from(*unit) * u128::from(*quantity)).sum();
        if let Ok(cart) = Cart::new(USD, lines) {
            prop_assert_eq!(u128::from(cart.total().get()), sum);
            prop_assert!(numbers.len() <= LINES_MAX);
        }
    }

    #[test]
    fn json_and_form_ask_for_the_same_order(order in any_order()) {
        let lines: Vec<Value> = order.cart.lines().iter()
            .map(|line| json!({ "name": line.name, "unit_amount": line.unit_minor, "quantity": line.quantity.to_string(), "image_url": line.image.as_ref().map(ImageUrl::as_str) }))
            .collect();
        let asked = json!({ "order_id": order.id, "currency": "USD", "lines": lines, "return_url": order.return_url, "cancel_url": order.cancel_url, "capture": order.capture });
        let from_json = OrderRequest::parse(&json_parameters(asked), false);
        let mut pairs = vec![("order_id".to_owned(), order.id.clone()), ("currency".to_owned(), "usd".to_owned())];
        pairs.extend(order.return_url.clone().map(|url| ("return_url".to_owned(), url)));
        pairs.extend(order.cancel_url.clone().map(|url| ("cancel_url".to_owned(), url)));
        pairs.push(("capture".to_owned(), order.capture.to_string()));
        for (i, line) in order.cart.lines().iter().enumerate() {
            pairs.push((format!("lines[{i}][name]"), line.name.clone()));
            pairs.push((format!("lines[{i}][unit_amount]"), line.unit_minor.to_string()));
            pairs.push((format!("lines[{i}][quantity]"), line.quantity.to_string()));
            pairs.extend(line.image.iter().map(|image| (format!("lines[{i}][image_url]"), image.as_str().to_owned())));
        }
        let from_form = OrderRequest::parse(&Parameters::Form(pairs), false);
        prop_assert_eq!(&from_json, &from_form);
        let asked = from_json.unwrap();
        prop_assert_eq!((asked.return_url, asked.cancel_url), (order.return_url, order.cancel_url));
        prop_assert_eq!((asked.id, asked.cart, asked.capture), (order.id, order.cart, order.capture));
    }

    #[test]
    fn any_order_is_read_or_refused(text in "[\\[\\]{}\":,a-z0-9 ]{0,60}", value in "[-+0-9.eE ]{0,12}") {
        let lines = serde_json::from_str(&text).unwrap_or_else(|_| json!([{ "name": "x", "unit_amount": value, "quantity": value }]));
        let asked = json!({ "order_id": "1", "currency": "usd", "lines": lines });
        if let Ok(asked) = OrderRequest::parse(&json_parameters(asked), false) {
            prop_assert!(value.bytes().all(|b| b.is_ascii_digit()), "{:?}", asked);
        }
    }

    #[test]
    fn a_form_key_is_of_use_with_its_own_order_and_link_alone(
        object: [u8; 32], other: [u8; 32], nonce: u128, expires_at_ms: u64, link in "[a-z]{1,20}\\.[a-z]{4}", key in "[a-z]{1,40}",
    ) {
        prop_assume!(object != other && key != "other");
        let place = Place { object: ObjectId::from_bytes(object), link: &link };
        let form_key = FormKey { nonce: Uuid::from_u128(nonce), expires_at_ms };
        let text = form_key.seal(place, &keys(&[&key]));
        let longer = format!("{link}x");
        let other_object = Place { object: ObjectId::from_bytes(other), ..place };
        let other_link = Place { link: &longer, ..place };
        prop_assert_eq!(FormKey::open(&text, place, &keys(&["other", &key])).ok(), Some(form_key));
        prop_assert!(FormKey::open(&text, place, &keys(&["other"])).is_err());
        prop_assert!(FormKey::open(&text, other_object, &keys(&[&key])).is_err());
        prop_assert!(FormKey::open(&text, other_link, &keys(&[&key])).is_err());
        let as_key = IdempotencyKey::parse(&text).unwrap();
        prop_assert_eq!(as_key.as_str(), &text, "it is a key as it stands");
    }

    #[test]
    fn a_form_key_with_any_bit_flipped_is_refused(object: [u8; 32], nonce: u128, expires_at_ms: u64) {
        let place = Place { object: ObjectId::from_bytes(object), link: "a.b" };
        let text = FormKey { nonce: Uuid::from_u128(nonce), expires_at_ms }.seal(place, &keys(&["k"]));
        let bytes = Base64UrlUnpadded::decode_vec(&text).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let flipped = Base64UrlUnpadded::encode_string(&flipped);
            prop_assert!(FormKey::open(&flipped, place, &keys(&["k"])).is_err(), "bit {}", bit);
        }
    }

    #[test]
    fn a_page_shows_what_it_is_given_and_nothing_of_it_is_markup(order in any_order(), code in "[<>&\"' a-z]{0,30}") {
        let failed = OrderState::Failed { reason: reason(true, &code, Some(&code)) };
        let form = FormState { notice: page::notice(&EN, &failed, false, 0), ..FormState::default() };
        let page = page::form(visit(&order), "key".to_owned(), &Cards::Test, form).render().unwrap();
        for tag in page.split('<').skip(1) {
            let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
            prop_assert!(TAGS.contains(&name.as_str()) || tag.starts_with('!'), "<{}>", tag);
        }
        prop_assert_eq!(page.matches("role=\"cell\" class=\"item\"").count(), order.cart.lines().len());
    }
}

/// What our pages are made of.
const TAGS: [&str; 43] = [
    "html", "head", "meta", "title", "link", "script", "bdi", "body", "a", "header", "div", "svg", "circle",
    "path", "span", "p", "strong", "main", "footer", "h1", "h2", "code", "section", "table", "thead",
    "tbody", "tfoot", "tr", "th", "td", "form", "input", "fieldset", "legend", "label", "button", "output",
    "article", "nav", "details", "summary", "hgroup", "img",
];

fn json_parameters(value: Value) -> Parameters {
    match value {
        Value::Object(members) => Parameters::Json(members),
        other => panic!("not an object: {other}"),
    }
}

fn visit(order: &Order) -> Visit<'_> {
    let site = Site {
        has_docs: true,
        demo: true,
        sends_receipts: true,
        origin: "https://pay.example".into(),
        style: "/s",
        script: "/j",
        t: &EN,
    };
    Visit { site, order, shop: None, link: "bGluaw.c2ln", now_ms: 1_795_000_000_000 }
}

pub(super) fn refused(asked: Value) -> Vec<String> {
    fields(OrderRequest::parse(&json_parameters(asked), false).unwrap_err())
}

#[test]
fn every_field_that_is_wrong_is_named() {
    assert_eq!(refused(json!({})), ["order_id", "currency", "lines"]);
    assert_eq!(refused(json!({ "currency": "usd" })), ["order_id", "lines"]);
    let lines = json!([
        { "name": "Mug", "unit_amount": 1450, "quantity": 1 },
        { "name": "", "unit_amount": -1, "quantity": 1.5 },
        { "name": "Map", "unit_amount": 100, "quantity": 1000, "size": "A2" },
        { "name": ["Map"], "quantity": 1 },
    ]);
    let expected = [
        "total",
        "lines[1].unit_amount",
        "lines[1].quantity",
        "lines[1].name",
        "lines[2].quantity",
        "lines[2].size",
        "lines[3].name",
        "lines[3].unit_amount",
    ];
    assert_eq!(refused(json!({ "order_id": "1", "currency": "usd", "lines": lines, "total": 1 })), expected);
    for lines in [json!("x"), json!([1]), json!({}), json!([]), json!(vec![json!({}); LINES_MAX + 1])] {
        assert_eq!(refused(json!({ "order_id": "1", "currency": "usd", "lines": lines })), ["lines"]);
    }
    let one = json!([{ "name": "Mug", "unit_amount": 1450, "quantity": 1 }]);
    for (field, values) in [
        ("order_id", [json!("a b"), json!("é"), json!("x".repeat(ORDER_MAX + 1)), json!([])]),
        ("currency", [json!("xyz"), json!("us"), json!(1), json!({})]),
    ] {
        for value in values {
            let mut asked = json!({ "order_id": "1", "currency": "usd", "lines": one });
            asked[field] = value;
            assert_eq!(refused(asked), [field]);
        }
    }
}

#[test]
fn the_limits_of_a_cart_are_kept() {
    let new = |lines: Vec<Line>| Cart::new(USD, lines).map_err(fields);
    assert!(new(vec![line(&"n".repeat(NAME_MAX_CHARS), 50, 1); LINES_MAX]).is_ok());
    assert_eq!(new(vec![]).unwrap_err(), ["lines"]);
    assert_eq!(new(vec![line("n", 50, 1); LINES_MAX + 1]).unwrap_err(), ["lines"]);
    assert_eq!(new(vec![line("n", 49, 1)]).unwrap_err(), ["lines"], "too little to be charged");
    assert_eq!(new(vec![line("gift", 0, 1)]).unwrap_err(), ["lines"], "nothing to pay");
    assert!(new(vec![line("gift", 0, 1), line("n", 50, 1)]).is_ok());
    assert!(new(vec![line("n", USUAL_MAX_MINOR, 1)]).is_ok());
    assert_eq!(new(vec![line("n", USUAL_MAX_MINOR, 1), line("m", 1, 1)]).unwrap_err(), ["lines"]);
    assert_eq!(new(vec![line("n", USUAL_MAX_MINOR, QUANTITY_MAX)]).unwrap_err(), ["lines"]);
    for name in ["", " n", "n ", "a\nb", "a\u{7f}", &"n".repeat(NAME_MAX_CHARS + 1)] {
        assert_eq!(new(vec![line(name, 50, 1)]).unwrap_err(), ["lines[0].name"], "{name:?}");
    }
}

#[test]
fn a_link_is_never_too_long_for_an_address() {
    let longest = |name: String| {
        let mut order = order(vec![line(&name, 9_999, 99); LINES_MAX]);
        order.id = "o".repeat(ORDER_MAX);
        order.return_url = Some(format!("https://{}", "u".repeat(492)));
        order.seal(&keys(&["k"]))
    };
    assert!(longest("n".repeat(NAME_MAX_CHARS)).is_some(), "the largest order of ASCII names fits");
    assert_eq!(longest("é".repeat(NAME_MAX_CHARS)), None);
    let text = format!("{}.x", "A".repeat(LINK_MAX_LEN));
    assert!(Order::open(&text, &keys(&["k"])).is_err());
}

#[test]
fn the_way_back_is_a_page_of_the_web() {
    let asked = |url: &str, demo: bool| {
        let lines = json!([{ "name": "Mug", "unit_amount": 1450, "quantity": 1 }]);
        let asked = json!({ "order_id": "1", "currency": "usd", "lines": lines, "return_url": url });
        OrderRequest::parse(&json_parameters(asked), demo).is_ok()
    };
    assert!(asked("https://shop.example", false));
    assert!(asked("https://shop.example/a?b=c#d", false));
    assert!(asked("http://localhost:3000/thanks", true));
    for url in [
        "http://shop.example/",
        "http://localhost:3000/",
        "javascript:alert(1)",
        "javascript://shop.example/%0aalert(1)",
        "//shop.example/",
        "/thanks",
        "https://",
        "https:///x",
        "https://shop.example/a b",
        "https://shop.example/é",
        &format!("https://shop.example/{}", "a".repeat(URL_MAX)),
    ] {
        assert!(!asked(url, false), "{url}");
    }
}

#[test]
fn a_form_pays_with_a_card_or_asks_for_another() {
    let sent = |cards: &Cards<'_>, pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Sent::parse(&Parameters::Form(pairs), cards).map_err(fields)
    };
    let pay = |card: &str| Ok(Sent::Pay { payment_method: card.to_owned(), email: None });
    for card in checkout_cards() {
        assert_eq!(sent(&Cards::Test, &[("payment_method", card.payment_method)]), pay(card.payment_method));
    }
    assert_eq!(sent(&ELEMENT, &[("payment_method", "pm_1AbC_d")]), pay("pm_1AbC_d"));
    assert_eq!(sent(&Cards::Test, &[("another_card", "2")]), Ok(Sent::AnotherCard { attempt: 2 }));
    let refused = |field: &str| Err(vec![field.to_owned()]);
    for cards in [Cards::Test, ELEMENT] {
        for card in ["", "pm_", "tok_visa", "pm_a b", "pm_<b>", &format!("pm_{}", "a".repeat(251))] {
            assert_eq!(sent(&cards, &[("payment_method", card)]), refused("payment_method"), "{card}");
        }
        assert_eq!(sent(&cards, &[]), refused("payment_method"));
        assert_eq!(sent(&cards, &[("another_card", "x")]), refused("another_card"));
        let both = [("another_card", "1"), ("payment_method", "pm_card_visa")];
        assert_eq!(sent(&cards, &both), refused("payment_method"));
        assert_eq!(sent(&cards, &[("payment_method", "pm_card_visa"), ("total", "1")]), refused("total"));
    }
    assert_eq!(sent(&Cards::Test, &[("payment_method", "pm_other")]), refused("payment_method"));
    let with_email =
        |email: &str| sent(&Cards::Test, &[("payment_method", "pm_card_visa"), ("email", email)]);
    let to = |email: Option<&str>| {
        Ok(Sent::Pay { payment_method: "pm_card_visa".to_owned(), email: email.map(str::to_owned) })
    };
    assert_eq!((with_email(" a@b.example "), with_email(" ")), (to(Some("a@b.example")), to(None)));
    assert_eq!(with_email("nobody"), refused("email"));
}

fn paid() -> Paid {
    Paid {
        amount_minor: 2900,
        captured_minor: 2900,
        reserved: Reserved::Waits,
        refunded_minor: 0,
        refund_pending: false,
        refunded_at_ms: None,
        currency: USD,
        reference: "7K3M-9QXD".to_owned(),
        payment: "pay_1".to_owned(),
        provider_payment: Some("pi_1".to_owned()),
        revision: Some(3),
        at_ms: 1_795_000_000_000,
        email: Some("ada@example.com".to_owned()),
        card: Card::of_stripe("visa", "4242"),
    }
}

#[test]
fn a_receipt_tells_what_was_taken_and_given_back() {
    let order = order(vec![line("Mug", 1450, 2)]);
    let receipt = |paid: Paid| page::receipt(visit(&order), &paid);
    let full = receipt(paid());
    assert_eq!((full.amount.as_str(), full.amount_note), ("$29.00", "paid"));
    assert_eq!(full.card.as_deref(), Some("Visa ···· 4242"));
    let page = receipt(Paid { card: None, ..paid() }).render().unwrap();
    assert!(!page.contains("····") && !page.contains("<dt>Card"), "{page}");
    assert!(full.refunded.is_none() && full.taken.is_none() && full.lines.len() == 1);
    let returned = Paid { refunded_minor: 2900, refunded_at_ms: Some(1_795_000_000_000), ..paid() };
    let page = receipt(returned.clone()).render().unwrap();
    assert!(page.contains("Refunded in full: $29.00 on "), "{page}");
    let page = receipt(Paid { refunded_minor: 500, refund_pending: true, ..returned }).render().unwrap();
    assert!(page.contains("Partly refunded: $5.00 on ") && page.contains("still on its way"), "{page}");
    let part = receipt(Paid { captured_minor: 2000, refunded_minor: 500, ..paid() });
    assert_eq!(part.amount, "$20.00");
    assert_eq!(part.taken.as_deref(), Some("$20.00"));
    assert_eq!(
        part.refunded.map(|refunded| (refunded.amount, refunded.rest)),
        Some(("$5.00".into(), "$15.00".into()))
    );
    let back = receipt(Paid { refunded_minor: 2900, ..paid() });
    assert_eq!((back.title, back.amount.as_str()), ("Your payment was refunded", "$29.00"));
    let reserved = receipt(Paid { captured_minor: 0, ..paid() });
    assert_eq!((part.email.as_deref(), reserved.email.as_deref()), (Some("ada@example.com"), None));
    assert!(reserved.reserved.is_some_and(|text| text.starts_with("Nothing has been charged yet.")));
    assert_eq!((reserved.amount_note, full.reserved), ("reserved", None));
    for moved in [Reserved::BeingCharged, Reserved::BeingFreed, Reserved::NotCharged] {
        let page = receipt(Paid { captured_minor: 0, reserved: moved, ..paid() });
        assert!(page.reserved.is_some_and(|text| !text.contains("Nothing has been charged")), "{moved:?}");
    }
    let another = receipt(Paid { amount_minor: 3000, captured_minor: 3000, ..paid() });
    assert!(another.lines.is_empty(), "the link's lines are not what was paid");
    assert_eq!(another.amount, "$30.00");
}

#[test]
fn each_page_leads_on() {
    let order = order(vec![line("Mug", 1450, 2)]);
    let form = |cards: &Cards<'_>| {
        page::form(visit(&order), "the-key".to_owned(), cards, FormState::default()).render().unwrap()
    };
    let with_cards = form(&Cards::Test);
    assert!(with_cards.contains(r#"method="post" action="/checkout/bGluaw.c2ln""#));
    assert!(with_cards.contains(r#"name="idempotency_key" value="the-key""#));
    assert!(with_cards.contains("Pay $29.00"));
    assert!(!with_cards.contains("stripe.com"), "the demo loads nothing from elsewhere");
    let with_element = form(&ELEMENT);
    for part in [
        "<noscript>",
        r#"data-key="pk_test_1" data-amount="2900" data-currency="usd""#,
        "/assets/checkout.js?v=1",
    ] {
        assert!(with_element.contains(part), "{part}");
    }
    let bank = |key: Option<&str>, on_the_way| {
        let (key, at_the_bank) = (key.map(str::to_owned), (2, "https://bank.example/?a=1&b=2".into()));
        let page = page::bank(visit(&order), key, at_the_bank, "$14.50".into(), on_the_way, Some("Not done"));
        page.render().unwrap()
    };
    let expired = bank(None, false);
    assert!(!expired.contains("<form"), "with a link that has expired nothing is given up");
    assert!(expired.contains("Not done") && !expired.contains("another card"), "nor is that offered");
    let (bank, on_the_way) = (bank(Some("key"), false), bank(Some("key"), true));
    assert!(bank.contains(r#"href="https://bank.example/?a=1&#38;b=2""#));
    assert!(!bank.contains("http-equiv"), "whoever comes back from the bank chooses");
    assert!(
        on_the_way.contains(r#"http-equiv="refresh" content="0; url=https://bank.example/?a=1&#38;b=2""#)
    );
    assert!(bank.contains(r#"name="another_card" value="2""#));
    let status = |is_still| page::status(visit(&order), true, 0, "$14.50".into(), is_still).render().unwrap();
    assert!(!status(true).contains(r#"http-equiv="refresh""#));
    let status = status(false);
    assert!(status.contains(r#"http-equiv="refresh" content="20""#));
    let receipt = page::receipt(visit(&order), &paid()).render().unwrap();
    let told = "&#38;payment=pay_1&#38;order_id=order_1&#38;amount=2900&#38;currency=usd&#38;revision=3";
    assert!(
        receipt.contains(&format!(r#"href="https://shop.example/thanks?a=1{told}""#)),
        "what the shop must compare"
    );
    for page in [with_cards, with_element, bank, status, receipt] {
        assert!(
            page.contains(r#"<meta name="robots" content="noindex">"#),
            "a link that can be found can be paid by anyone"
        );
        assert!(page.contains("<code>order_1</code>"));
    }
}

#[test]
fn only_a_try_that_came_to_nothing_has_a_notice() {
    let failed = OrderState::Failed { reason: reason(true, "expired_card", None) };
    let notice = page::notice(&EN, &failed, false, 0).unwrap();
    assert_eq!((notice.title.as_str(), notice.tone), ("Your card was declined", "error"));
    assert!(notice.text.starts_with("The card has expired. Nothing was charged."));
    assert!(
        page::notice(&EN, &OrderState::Canceled, false, 0).unwrap().text.contains("Nothing was charged.")
    );
    for standing in [
        OrderState::Open,
        OrderState::Confirming { in_doubt: true, since_ms: 0 },
        OrderState::AtTheBank { attempt: 1, url: "https://bank.example/".into() },
        OrderState::Paid(paid()),
    ] {
        assert!(page::notice(&EN, &standing, false, 0).is_none(), "{standing:?}");
    }
}
