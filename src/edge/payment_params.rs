//! The parameters of payments, captures and refunds: read once, and every field that is wrong is named.

use super::fields::{Fields, NotAllowed, TOKEN_MAX, plain, token, visible};
use super::shop_url::address;
use crate::config::Config;
use messages::account::{Account, NotCharged};
use once::fingerprint::Parameters;
use payments::payment::RefundReason;
use payments::payment::money::{AmountMinor, Currency};
use payments::payment::operation::{CaptureRequest, PaymentRequest, RefundRequest, Route, VoidRequest};
use payments::payment::receipt_content::ReceiptContent;
use payments::providers::{Provider, UnsupportedMoney};
use web::entries::email;

/// Metadata that a payment may carry: the provider allows 50 entries, and two are ours.
pub const METADATA_MAX: usize = 40;
/// The longest name of an entry, in characters: the provider's limit.
pub const METADATA_NAME_MAX: usize = 40;
/// The longest value of an entry, in characters: the provider's limit.
pub const METADATA_VALUE_MAX: usize = 500;
/// Names of ours: no entry may have one.
pub const METADATA_RESERVED: [&str; 3] = ["resource", "idempotency_key", "capture_key"];
/// The longest order id, in characters.
pub const ORDER_MAX: usize = 64;
/// The longest description, in characters.
pub const DESCRIPTION_MAX: usize = 500;
const FIELDS: [&str; 10] = [
    "amount",
    "currency",
    "payment_method",
    "customer",
    "description",
    "order_id",
    "capture",
    "return_url",
    "receipt_email",
    "provider",
];

/// Reads the parameters of `POST /payments`. `origin` is our own site.
pub fn payment_request(
    parameters: &Parameters,
    config: &Config,
    account: &Account,
    origin: &str,
) -> Result<PaymentRequest, NotAllowed<PaymentRequest>> {
    let mut fields = Fields::of_money(parameters);
    let amount = fields.required("amount", AmountMinor::parse);
    let currency = match config.convention.currency {
        Some(default) => fields.optional_or("currency", default, known_currency),
        None => fields.required("currency", known_currency),
    };
    if let Some(currency) = currency
        && let Err(message) = Currency::parse_offered(currency.as_str())
    {
        fields.not_allowed("currency", message);
    } else if let (Some(amount), Some(currency)) = (amount, currency)
        && let Err(message) =
            amount.check_maximum(currency).and_then(|amount| amount.check_rounding(currency))
    {
        fields.not_allowed("amount", message);
    } else if let (Some(amount), Some(currency)) = (amount, currency) {
        match account.may_charge(amount, currency) {
            Ok(()) => {}
            Err(NotCharged::Currency(message)) => fields.not_allowed("currency", message),
            Err(NotCharged::Amount(message)) => fields.not_allowed("amount", message),
        }
    }
    let order_id = fields.optional("order_id", |text| visible(text, ORDER_MAX));
    let description = fields.optional("description", |text| plain(text, DESCRIPTION_MAX));
    // The provider refuses an empty one.
    let description = description.filter(|text| !text.is_empty());
    let capture = fields.optional("capture", flag).unwrap_or(true);
    let return_url = fields.optional("return_url", |text| address(text, config.demo));
    let receipt_email = fields.optional("receipt_email", email).or_else(|| account.email.clone());
    let provider = fields.optional("provider", provider).unwrap_or(config.provider);
    let payment_method = fields.optional("payment_method", |text| token(text, provider));
    let customer = fields.optional("customer", |text| visible(text, TOKEN_MAX));
    let metadata = fields.metadata();
    let route = fields.route(
        "provider",
        "payment_method",
        provider,
        payment_method.clone(),
        customer.clone(),
        config,
        account,
    );
    let fallback = fields.fallback(provider, config, account);
    fields.unknown(&FIELDS, &["metadata", "fallback"]);
    if let (Some(amount), Some(currency)) = (amount, currency) {
        fields.payable(amount, currency, route.as_ref(), fallback.as_ref());
    }
    let request = |route, amount, currency| PaymentRequest {
        amount,
        currency,
        capture,
        order_id,
        description,
        metadata,
        route,
        fallback,
        return_url,
        receipt_email,
        receipt_content: ReceiptContent::default(),
        origin: origin.to_owned(),
        return_key: None,
        link_revision: None,
        page: None,
    };
    match (amount, currency, route) {
        (Some(amount), Some(currency), Some(route)) => fields.end(request(route, amount, currency)),
        (Some(amount), Some(currency), None) => {
            let payment_method = payment_method.unwrap_or_default();
            let route = Route { provider, payment_method, customer, merchant_account: None };
            Err(fields.refuse(Some(request(route, amount, currency))))
        }
        _ => Err(fields.refuse(None)),
    }
}

/// Reads the parameters of a capture.
pub fn capture_request(parameters: &Parameters) -> Result<CaptureRequest, NotAllowed<CaptureRequest>> {
    let mut fields = Fields::of_money(parameters);
    let amount = fields.optional("amount", AmountMinor::parse);
    let attempt = fields.optional("attempt", attempt);
    fields.unknown(&["amount", "attempt"], &[]);
    fields.end(CaptureRequest { amount, attempt, seen: None })
}

/// Reads the parameters of a void.
pub fn void_request(parameters: &Parameters) -> Result<VoidRequest, NotAllowed<VoidRequest>> {
    let mut fields = Fields::of_money(parameters);
    let attempt = fields.optional("attempt", attempt);
    fields.unknown(&["attempt"], &[]);
    fields.end(VoidRequest { attempt, ..VoidRequest::default() })
}

/// Reads the parameters of a request that has none.
pub fn no_parameters(parameters: &Parameters) -> Result<(), NotAllowed<()>> {
    let mut fields = Fields::of(parameters);
    fields.unknown(&[], &[]);
    fields.end(())
}

/// Reads the parameters of a refund.
pub fn refund_request(parameters: &Parameters) -> Result<RefundRequest, NotAllowed<RefundRequest>> {
    let mut fields = Fields::of_money(parameters);
    let amount = fields.optional("amount", AmountMinor::parse);
    let reason = fields.optional("reason", |text| {
        let words = RefundReason::ALL.map(RefundReason::as_str).join(", ");
        RefundReason::parse(text).ok_or_else(|| format!("must be one of {words}"))
    });
    fields.unknown(&["amount", "reason"], &[]);
    let reason = reason.unwrap_or(RefundReason::RequestedByCustomer);
    fields.end(RefundRequest { amount, reason, seen: None })
}

impl Fields {
    /// The entries of `metadata[…]`, sorted by name.
    fn metadata(&mut self) -> Vec<(String, String)> {
        let names: Vec<String> = self.parameters.names().into_iter().map(str::to_owned).collect();
        let mut entries = Vec::new();
        for full in names {
            let Some(name) = full.strip_prefix("metadata[").and_then(|rest| rest.strip_suffix(']')) else {
                continue;
            };
            let is_name = !name.is_empty()
                && name.chars().count() <= METADATA_NAME_MAX
                && !name.contains(['[', ']'])
                && !name.contains(char::is_control)
                && !METADATA_RESERVED.contains(&name);
            if !is_name {
                let message = format!(
                    "must have a name of 1 to {METADATA_NAME_MAX} characters without brackets or control characters, and not one of {}",
                    METADATA_RESERVED.join(", ")
                );
                self.wrong(&full, message);
            } else if let Some(value) = self.optional(&full, |text| plain(text, METADATA_VALUE_MAX)) {
                entries.push((name.to_owned(), value));
            }
        }
        if entries.len() > METADATA_MAX {
            self.wrong("metadata", format!("must have at most {METADATA_MAX} entries"));
        }
        entries
    }

    /// Who takes the money, and from what.
    #[allow(clippy::too_many_arguments)] // each is one parameter of the request
    fn route(
        &mut self,
        provider_field: &str,
        method_field: &str,
        provider: Provider,
        payment_method: Option<String>,
        customer: Option<String>,
        config: &Config,
        account: &Account,
    ) -> Option<Route> {
        let wallet = match provider {
            Provider::Stripe => Some((&account.payment_method, account.customer.as_ref())),
            Provider::Adyen => {
                account.adyen.as_ref().map(|wallet| (&wallet.payment_method, Some(&wallet.customer)))
            }
        };
        let customer = match &account.customer_prefix {
            None => customer,
            // All of it is the account's own.
            Some(_) if customer.is_none() && payment_method.is_none() => None,
            Some(prefix) => {
                let customer = customer.or_else(|| wallet.and_then(|(_, own)| own.cloned()));
                if !customer.as_ref().is_some_and(|customer| customer.starts_with(prefix)) {
                    self.not_allowed(
                        &method_field.replace("payment_method", "customer"),
                        format!("must be a customer of this account: one that begins with {prefix}"),
                    );
                    return None;
                }
                customer
            }
        };
        let merchant_account = match provider {
            Provider::Stripe => account.at_stripe().map(str::to_owned),
            Provider::Adyen => {
                let deployments = || Some(config.adyen.as_ref()?.merchant_account.clone());
                let Some(merchant_account) = account.at_adyen().or_else(deployments) else {
                    self.not_allowed(provider_field, "is not set up here: use stripe");
                    return None;
                };
                Some(merchant_account)
            }
        };
        match (payment_method, wallet) {
            // At Stripe it need not belong to anybody; at Adyen it is stored for a shopper.
            (Some(payment_method), wallet) => {
                let stored = wallet.filter(|_| provider == Provider::Adyen);
                let customer = customer.or_else(|| stored.and_then(|(_, customer)| customer.cloned()));
                if provider == Provider::Adyen && customer.is_none() {
                    self.not_allowed(
                        &method_field.replace("payment_method", "customer"),
                        "is missing: at Adyen a payment method is stored for a shopper (shopperReference)",
                    );
                    return None;
                }
                Some(Route { provider, payment_method, customer, merchant_account })
            }
            (None, Some((payment_method, own))) => Some(Route {
                provider,
                payment_method: payment_method.clone(),
                customer: customer.or_else(|| own.cloned()),
                merchant_account,
            }),
            (None, None) => {
                self.not_allowed(
                    method_field,
                    format!("is missing, and the account has none at {}", provider.as_str()),
                );
                None
            }
        }
    }

    /// Who takes the money if the first provider has failed for good.
    fn fallback(&mut self, first: Provider, config: &Config, account: &Account) -> Option<Route> {
        let known = ["fallback[provider]", "fallback[payment_method]", "fallback[customer]"];
        let given = self.group("fallback", &known);
        if given.is_empty() {
            return None;
        }
        for name in given.iter().filter(|name| !known.contains(&name.as_str())) {
            self.wrong(
                name,
                "is not a parameter of a fallback: it has provider, payment_method and customer",
            );
        }
        let provider = self.required("fallback[provider]", provider)?;
        let payment_method = self.optional("fallback[payment_method]", |text| token(text, provider));
        let customer = self.optional("fallback[customer]", |text| visible(text, TOKEN_MAX));
        if provider == first {
            self.not_allowed("fallback[provider]", "must be another provider than the first");
            return None;
        }
        self.route(
            "fallback[provider]",
            "fallback[payment_method]",
            provider,
            payment_method,
            customer,
            config,
            account,
        )
    }

    /// Every provider that may be asked takes this amount: a fallback is not found wanting only when it is needed.
    fn payable(
        &mut self,
        amount: AmountMinor,
        currency: Currency,
        route: Option<&Route>,
        fallback: Option<&Route>,
    ) {
        if [route, fallback].into_iter().flatten().any(|route| route.provider == Provider::Stripe)
            && let Err(message) = amount.check_minimum(currency)
        {
            self.not_allowed("amount", message);
        }
        for (route, is_fallback) in [(route, false), (fallback, true)] {
            let Some(Err(reason)) = route.map(|route| route.provider.check_amount(amount, currency)) else {
                continue;
            };
            match reason {
                UnsupportedMoney::Amount(message) => self.not_allowed("amount", message),
                UnsupportedMoney::Currency(message) if !is_fallback => self.not_allowed("currency", message),
                UnsupportedMoney::Currency(_) => {
                    self.not_allowed(
                        "fallback[provider]",
                        format!("must be one that takes {currency}, or none"),
                    );
                }
            }
        }
    }
}

/// Also one that is not offered here.
fn known_currency(text: &str) -> Result<Currency, String> {
    Currency::parse(text).map_or_else(|| Currency::parse_offered(text), Ok)
}

/// `true` or `false`.
fn attempt(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|&number: &u32| number >= 1 && number.to_string() == text);
    number.ok_or_else(|| "must be the number of an attempt, as the payment's `attempt` has it".to_owned())
}

pub(super) fn flag(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be true or false".to_owned())
}

fn provider(text: &str) -> Result<Provider, String> {
    Provider::parse(text).ok_or_else(|| "must be stripe or adyen".to_owned())
}
