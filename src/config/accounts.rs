//! The API accounts of `API_ACCOUNTS`, and the demo's own.

use std::collections::BTreeMap;
use std::rc::Rc;

use sha2::{Digest, Sha256};

use messages::account::{Account, AdyenWallet, Shop, is_token_hash};
use once::sorted;

/// Whose the lab's requests without credentials are.
pub(super) const ANONYMOUS: &str = "anonymous";
/// What the demo's own Worker pays with, for the lab and for Rocket Rides: its customers say to whom receipts go.
const DEMO_SITE: &str = "demo-site";
/// The first user of the article.
pub(super) const DEMO_USER: &str = "user@example.com";

/// What stands for a token, wherever it is kept.
pub(crate) fn token_hash(token: &str) -> String {
    base16ct::lower::encode_string(&Sha256::digest(token.as_bytes()))
}

/// Those of `API_ACCOUNTS`, and the demo's own. The error is one sentence that says what to set.
pub(super) fn read(
    demo: bool,
    lab: bool,
    configured: Option<String>,
) -> Result<BTreeMap<String, Rc<Account>>, String> {
    let accounts: BTreeMap<String, Account> = match configured {
        // The error's own text quotes what it found, and that is a secret.
        Some(json) => json_text::from_str(&json).map_err(|error| {
            format!(
                "API_ACCOUNTS is not valid (line {}, column {}): it is a JSON object of account id to \
                 {{\"token_sha256\", \"payment_method\", \"customer\"?}}.",
                error.line(),
                error.column()
            )
        })?,
        None if demo => BTreeMap::new(),
        None => {
            return Err("The secret API_ACCOUNTS is not set: `npx wrangler secret put API_ACCOUNTS` \
                        ({} if there are no API clients)."
                .to_owned());
        }
    };
    for (id, account) in &accounts {
        let Some(hash) = account.token_sha256.as_deref().filter(|hash| is_token_hash(hash)) else {
            return Err(format!(
                "API_ACCOUNTS: token_sha256 of {id} is not 64 lower-case hexadecimal digits (printf %s TOKEN | sha256sum)."
            ));
        };
        let own = [("own_stripe_keys", account.own_stripe_keys), ("own_adyen_keys", account.own_adyen_keys)];
        if let Some((name, _)) = own.into_iter().find(|(_, is_set)| *is_set) {
            return Err(format!(
                "API_ACCOUNTS: {id} has {name}: only an account of the registry can. Make it at the desk, and take it out here."
            ));
        }
        account.check().map_err(|wrong| format!("API_ACCOUNTS: {id} {wrong}."))?;
        if accounts.iter().any(|(other, a)| other != id && a.token_sha256.as_deref() == Some(hash)) {
            return Err(format!("API_ACCOUNTS: {id} has the same token as another account."));
        }
    }
    let mut accounts = sorted::map(accounts.into_iter().map(|(id, account)| (id, Rc::new(account))));
    // The users of the article, whose token is their address: the second one's card is declined. And the demo's own site.
    let article = [
        (DEMO_USER, "pm_card_visa", "adyen_card_visa"),
        ("user-bad-source@example.com", "pm_card_visa_chargeDeclined", "adyen_card_refused"),
        (DEMO_SITE, "pm_card_visa", "adyen_card_visa"),
    ];
    let users = article.into_iter().filter(|_| demo);
    let nobody = lab.then_some((ANONYMOUS, "pm_card_visa", "adyen_card_visa"));
    for (user, payment_method, adyen_method) in users.chain(nobody) {
        accounts.insert(
            user.to_owned(),
            Rc::new(Account {
                token_sha256: Some(token_hash(user)),
                payment_method: payment_method.to_owned(),
                customer: None,
                customer_prefix: None,
                stripe_account: None,
                own_stripe_keys: false,
                own_adyen_keys: false,
                adyen_account: None,
                own_keys_name: None,
                email: user.contains('@').then(|| user.to_owned()),
                shop: (user == DEMO_USER).then(|| Shop {
                    name: "Lift-off Supplies".to_owned(),
                    support: Some("help@lift-off.example".to_owned()),
                    logo: Some("/assets/lift-off.svg".to_owned()),
                }),
                adyen: Some(AdyenWallet {
                    payment_method: adyen_method.to_owned(),
                    customer: user.to_owned(),
                }),
                currencies: None,
            }),
        );
    }
    Ok(accounts)
}
