//! How the lines of a link are read.

use once::fingerprint::Parameters;
use paid_once::edge::checkout::request::OrderRequest;
use serde_json::json;

use super::checkout::refused;

#[test]
fn a_name_is_a_text() {
    for name in [json!(true), json!(["Mug"]), json!({})] {
        let lines = json!([{ "name": name, "unit_amount": 1450, "quantity": 1 }]);
        let asked = json!({ "order_id": "1", "currency": "usd", "lines": lines });
        assert_eq!(refused(asked), ["lines[0].name"], "{name}");
    }
}

/// Some languages begin with one.
#[test]
fn what_is_wrong_with_a_line_of_a_form_is_named_by_the_number_that_was_sent() {
    let form =
        [("order_id", "1"), ("currency", "usd"), ("lines[1][name]", "Mug"), ("lines[1][unit_amount]", "x")];
    let form = form.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let errors = OrderRequest::parse(&Parameters::Form(form), false).unwrap_err();
    let fields: Vec<String> = errors.into_iter().map(|error| error.field).collect();
    assert_eq!(fields, ["lines[1].unit_amount", "lines[1].quantity"]);
}
