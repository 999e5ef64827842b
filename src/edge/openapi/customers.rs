//! Customers, as the document tells of them.

use serde_json::json;

use super::answers::*;
use super::examples::{AT, ID};
use super::operation::Operation;
use super::schema::{Schema, constant, integer_of, object, reference, text, visible_text};
use crate::edge::customer_params::{DESCRIPTION_MAX, NAME_MAX};
use crate::edge::fields::TOKEN_MAX;

/// Of the customer in the examples.
pub(super) const EMAIL: &str = "ada@shop.example";
const NAME: &str = "Ada Lovelace";
const METHOD: &str = "pm_card_visa";

pub(in crate::edge) fn put_customer() -> Operation {
    Operation::new(
        "Customers",
        "putCustomer",
        "Make or change a customer",
        "The customer of this address is to be so, whatever it was. The first request makes it at Stripe and is answered 201. \
         Who comes again finds it: 200, and nothing is sent to Stripe. Other content changes it, once. The address in your \
         account is the key: an `Idempotency-Key` is ignored, and requests at once are one after the other. `id` is what \
         payments name as `customer`.",
    )
    .parameter(json!({
        "name": "If-Match", "in": "header", "required": false,
        "description": "Change the customer only while it is of one of these revisions, or, with `*`, only if there is one; else 412. \
            `W/` before a revision changes nothing. Without it the last request to come holds. What is so already is answered 200 all the same, so a retry is safe.",
        "schema": text().with("pattern", r#"^(\*|(W/)?"[0-9]{1,9}"(, (W/)?"[0-9]{1,9}"){0,15})$"#), "example": "\"3\"",
    }))
    .parameter(json!({ "$ref": "#/components/parameters/Prefer" }))
    .parameters_in_body(false, reference("CustomerRequest"))
    .stores(200, "The customer, found or changed.", &[ETAG], reference("Customer"))
    .stores(201, "The customer, made.", &[CREATED, ETAG], reference("Customer"))
    .changes()
    .refuses(&[REQUEST_TIMEOUT, CONTENT_TOO_LARGE, BAD_BODY, UNAUTHORIZED, UNSUPPORTED_MEDIA_TYPE, UNAVAILABLE])
    .refuses(&[OPERATION_REFUSED, CUSTOMER_CONFLICT, OTHER_REVISION, INVALID_PARAMETERS, RATE_LIMITED])
}

pub(in crate::edge) fn show_customer() -> Operation {
    Operation::new(
        "Customers",
        "showCustomer",
        "Show a customer",
        "As it was made or changed last by this account. Until it is made it is 404.",
    )
    .parameter(json!({
        "name": "If-None-Match", "in": "header", "required": false,
        "description": "The revision that is known already: where it holds still, the answer is 304.",
        "schema": text(), "example": "\"3\"",
    }))
    .answers(200, "The customer.", &[ETAG], [("application/json", reference("Customer"))])
    .answers(304, "It is of the revision that is known.", &[ETAG], [])
    .refuses(&[UNAUTHORIZED, HTTPS_REQUIRED, NOT_FOUND, INVALID_PARAMETERS, RATE_LIMITED, UNREADABLE])
}

pub(in crate::edge) fn erase_customer() -> Operation {
    Operation::new(
        "Service",
        "eraseCustomer",
        "Erase a customer's personal data",
        "Drops what is kept here of a customer's name and description, and the stored responses, in which the address \
         stands. `id` is the `metadata[resource]` of the customer at Stripe, where all stays as it is. Asking again changes nothing.",
    )
    .shows("It is gone.", object().has("id", text()).has("personal_data", constant("erased")))
    .example(200, json!({ "id": format!("cust_{ID}"), "personal_data": "erased" }))
    .refuses(&[UNAUTHORIZED, NOT_FOUND, UNREADABLE, IN_PROGRESS, RATE_LIMITED])
}

/// What stands in the answers and bodies above.
pub(super) fn schemas() -> Vec<(&'static str, Schema)> {
    let method = || visible_text(TOKEN_MAX);
    vec![
        (
            "CustomerRequest",
            object()
                .may_have("name", text().about("The person's name. Left out, there is none.").at_most(NAME_MAX))
                .may_have("description", text().about("For you. Left out, there is none.").at_most(DESCRIPTION_MAX))
                .may_have("payment_method", method().about(
                    "Stripe's token of what is attached as the customer is made. Later it may be left out, and no other one is taken: \
                     attach that at Stripe.",
                ))
                .example(json!({ "name": NAME, "payment_method": METHOD })),
        ),
        (
            "Customer",
            object()
                .has("id", text().about("Stripe's id of it: what payments name as `customer`."))
                .has("object", constant("customer"))
                .has("email", text().about("The address, with its domain in small letters."))
                .has("name", text().or_null())
                .has("description", text().or_null())
                .has("payment_method", text().or_null().about("What was attached as it was made."))
                .has("revision", integer_of(1, u32::MAX).about("Counts the changes. It is in `ETag`, too."))
                .has("created_at", reference("Time"))
                .may_have("cached", reference("Cached"))
                .example(json!({
                    "id": "cus_TbK2", "object": "customer", "email": EMAIL, "name": NAME, "description": null,
                    "payment_method": METHOD, "revision": 1, "created_at": AT,
                })),
        ),
    ]
}
