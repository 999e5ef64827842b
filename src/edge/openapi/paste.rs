//! The requests of the page, to paste into bash. What only an earlier answer says they take from variables of the shell, which the page
//! explains once: an id that was made up would be 404.

use serde_json::Value;

/// Where the examples send their requests. The page's script puts the page's own origin there.
pub(super) const ORIGIN: &str = "https://pay.example.com";

/// Between the lines of one command.
const CONTINUED: &str = " \\\n  ";

/// A variable of the shell's in the examples to paste.
pub(super) struct Variable {
    pub(super) name: &'static str,
    /// The parameter of an address in whose place it stands, behind its resource; nothing if it stands elsewhere.
    parameter: &'static str,
    pub(super) about: &'static str,
}

/// All of them, as the page explains them.
pub(super) const VARIABLES: [Variable; 10] = [
    Variable { name: "TOKEN", parameter: "", about: "The token of your account." },
    Variable {
        name: "PAYMENT",
        parameter: "payments/{id}",
        about: "The `id` in the answer to [Pay](#createPayment). To capture or void a payment, make it with `\"capture\": false`, as above; what was \
            captured can be refunded.",
    },
    Variable {
        name: "REFUND",
        parameter: "refunds/{refund}",
        about: "The `id` in the answer to [Refund a payment](#refundPayment).",
    },
    Variable {
        name: "KEY",
        parameter: "idempotency-keys/{key}",
        about: "The idempotency key. Each example that needs a new one makes it; [Show a key](#showKey) asks for the one that was sent last.",
    },
    Variable {
        name: "WEBHOOK_ID",
        parameter: "deliveries/{webhook_id}",
        about: "The `webhook_id` of a message in the answer to [List messages that were not taken](#listDeliveries).",
    },
    Variable {
        name: "ADMIN_TOKEN",
        parameter: "",
        about: "The operator’s secret. Send these examples to the desk’s host.",
    },
    Variable {
        name: "ACCOUNT",
        parameter: "accounts/{id}",
        about: "The `id` of an account in the answer to [List the accounts](#listAccounts), or one of your choice for a new account.",
    },
    Variable {
        name: "TOKEN_SHA256",
        parameter: "tokens/{token}",
        about: "The SHA-256 of an account’s token: `printf %s \"$TOKEN\" | sha256sum | cut -d' ' -f1`.",
    },
    Variable {
        name: "KIND",
        parameter: "credentials/{kind}",
        about: "Which key at a provider, such as `stripe_secret_key`.",
    },
    Variable {
        name: "CUSTOMER",
        parameter: "customers/{id}",
        about: "Our id of a customer, `cust_…`: the `metadata[resource]` of the customer at Stripe.",
    },
];

/// Commands that reserve money and keep the payment's id. What was reserved can be captured or voided, and then refunded.
pub(super) fn first_payment(token: &str) -> String {
    let pay = [
        &format!("curl -s {ORIGIN}/payments"),
        &format!("-H \"Authorization: Bearer {token}\""),
        "-H \"Idempotency-Key: $(node -p \"crypto.randomUUID()\")\"",
        "-d amount=2500 -d currency=usd -d capture=false",
        "-d description=\"Two tickets\" | grep -o 'pay_[A-Za-z0-9_-]*' | head -1",
    ];
    format!("PAYMENT=$({})\necho $PAYMENT", pay.join(CONTINUED))
}

/// A request that can be pasted. The key is made once, so that what is sent twice is the same request.
pub(super) fn curl(
    (path, method): (&str, &str),
    credentials: &str,
    parameters: &[&Value],
    body: Option<(&str, Option<&str>)>,
) -> String {
    let is = |parameter: &Value, member: &str, word: &str| parameter.get(member).is_some_and(|it| it == word);
    // What only an earlier answer says is a variable of the shell's; what anybody can choose is there.
    let mut address = path.to_owned();
    for Variable { name, parameter, .. } in VARIABLES {
        if let Some((resource, _)) = parameter.split_once('{') {
            address = address.replace(parameter, &format!("{resource}${name}"));
        }
    }
    for parameter in parameters.iter().filter(|parameter| is(parameter, "in", "path")) {
        let member = |name| parameter.get(name).and_then(Value::as_str);
        if let (Some(name), Some(example)) = (member("name"), member("example")) {
            address = address.replace(&format!("{{{name}}}"), example);
        }
    }
    let is_keyed = parameters.iter().any(|parameter| is(parameter, "name", "Idempotency-Key"));
    let mut lines = vec![format!("curl -i {ORIGIN}{address}")];
    if matches!(method, "put" | "delete") {
        lines.push(format!("-X {}", method.to_uppercase()));
    }
    lines.push(format!("-H {credentials}"));
    if is_keyed {
        lines.push("-H \"Idempotency-Key: $KEY\"".to_owned());
    }
    if let Some((media, example)) = body {
        lines.push(format!("-H \"Content-Type: {media}\""));
        lines.push(match example {
            _ if media == "text/csv" => "--data-binary @file.csv".to_owned(),
            Some(example) => format!("-d '{}'", example.replace('\'', r"'\''")),
            None => "-d '{}'".to_owned(),
        });
    } else if method == "post" {
        lines.push("-X POST".to_owned());
    }
    let request = lines.join(CONTINUED);
    // Node is there wherever this is tried; uuidgen may not be.
    if is_keyed { format!("KEY=$(node -p \"crypto.randomUUID()\")\n\n{request}") } else { request }
}
