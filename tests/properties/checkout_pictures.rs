use base64ct::{Base64UrlUnpadded, Encoding as _};
use paid_once::edge::checkout::Order;
use paid_once::edge::checkout::cart::Line;
use serde_json::json;
use web::image_url::{IMAGE_URL_MAX, ImageUrl};

use super::checkout::{line, order, refused};
use super::support::signing_keys as keys;

#[test]
fn a_picture_comes_by_https_and_its_origin_is_nothing_but_one() {
    let origin = |text: &str| {
        let image = ImageUrl::parse(text);
        image.ok().map(|image| image.origin().unwrap().to_owned())
    };
    let good = "https://cdn.shop.example";
    for text in ["", "/", "/a.png", "?a=1", "#a", "/a;b,c'd"] {
        assert_eq!(origin(&format!("{good}{text}")).as_deref(), Some(good), "{text}");
    }
    assert_eq!(origin("https://127.0.0.1:8443/a").as_deref(), Some("https://127.0.0.1:8443"));
    for text in [
        "",
        "https://",
        "http://cdn.shop.example/a",
        "//cdn.shop.example/a",
        "/assets/mug.svg",
        "data:image/png;base64,AA",
        "javascript:alert(1)",
        "https://*/a",
        "https://*.example/a",
        "https://a.example;script-src/a",
        "https://a.example,b/c",
        "https://user@a.example/b",
        "https://a.example /b",
        "https://a.example/b c",
        "https://a.example/\"",
        "https://ä.example/",
        "https://'unsafe-inline'/",
    ] {
        assert_eq!(origin(text), None, "{text}");
    }
    assert!(ImageUrl::parse(&format!("{good}/{}", "a".repeat(IMAGE_URL_MAX - good.len() - 1))).is_ok());
    assert!(ImageUrl::parse(&format!("{good}/{}", "a".repeat(IMAGE_URL_MAX - good.len()))).is_err());
    let lines =
        json!([{ "name": "Mug", "unit_amount": 1450, "quantity": 1, "image_url": "http://a.example/b" }]);
    assert_eq!(
        refused(json!({ "order_id": "1", "currency": "usd", "lines": lines })),
        ["lines[0].image_url"]
    );
}

#[test]
fn a_picture_sells_nothing_and_a_link_without_one_is_as_before() {
    let plain = line("Mug", 1450, 1);
    let pictured = Line { image: ImageUrl::parse("https://cdn.shop.example/mug.png").ok(), ..plain.clone() };
    let (plain, pictured) = (order(vec![plain]), order(vec![pictured]));
    assert_eq!(plain.content(), pictured.content());
    let payload = |order: &Order| {
        let link = order.seal(&keys(&["k"])).unwrap();
        String::from_utf8(Base64UrlUnpadded::decode_vec(link.split_once('.').unwrap().0).unwrap()).unwrap()
    };
    assert!(payload(&plain).contains(r#"["Mug",1450,1]"#), "a release before this one reads it");
    assert!(payload(&pictured).contains(r#"["Mug",1450,1,"https://cdn.shop.example/mug.png"]"#));
}
