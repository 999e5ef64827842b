//! Adyen's notifications. <https://docs.adyen.com/development-resources/webhooks>

use base64ct::{Base64, Encoding as _};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sha2::Sha256;

use super::answers::word;
use super::minor_units;
use crate::payment::DisputeStatus;
use crate::payment::card::Card;
use crate::payment::id::object_of;
use crate::payment::provider::Provider;
use crate::payment::provider_event::{Event, EventKind, OperationNotice, Undone};
use once::id::ObjectId;

/// What is to be answered; anything else makes Adyen send it again.
pub const ACCEPTED: &str = "[accepted]";

/// A notification, which may tell of several things.
#[derive(Deserialize)]
struct Body {
    #[serde(rename = "notificationItems")]
    items: Vec<Wrapped>,
}

#[derive(Deserialize)]
struct Wrapped {
    #[serde(rename = "NotificationRequestItem")]
    item: Item,
}

/// One thing that happened. Adyen's values are strings, whatever they mean; what is not there, or null, signs as nothing.
/// Items of all kinds come here: none may keep the others of its notification from being read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    #[serde(default)]
    additional_data: Option<AdditionalData>,
    #[serde(default)]
    amount: Option<Amount>,
    #[serde(default, deserialize_with = "text")]
    event_code: String,
    #[serde(default, deserialize_with = "text")]
    event_date: String,
    #[serde(default, deserialize_with = "text")]
    merchant_account_code: String,
    #[serde(default, deserialize_with = "text")]
    merchant_reference: String,
    #[serde(default, deserialize_with = "text")]
    original_reference: String,
    #[serde(default, deserialize_with = "text")]
    payment_method: String,
    #[serde(default, deserialize_with = "text")]
    psp_reference: String,
    #[serde(default, deserialize_with = "text")]
    reason: String,
    #[serde(default, deserialize_with = "text")]
    success: String,
}

#[derive(Deserialize)]
struct AdditionalData {
    #[serde(default, rename = "hmacSignature", deserialize_with = "text")]
    signature: String,
    #[serde(default, rename = "cardSummary", deserialize_with = "text")]
    card_summary: String,
    #[serde(default, rename = "modification.action", deserialize_with = "text")]
    modification: String,
}

#[derive(Deserialize)]
struct Amount {
    #[serde(default)]
    value: Option<i64>,
    #[serde(default, deserialize_with = "text")]
    currency: String,
}

/// A string, or what has the form of one: `null` is nothing, `true` is `true`.
fn text<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(value)? {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    })
}

/// The things that a body tells of. `None` if it is no notification.
pub fn items(body: &[u8]) -> Option<Vec<Item>> {
    // A character that is cut in two where nobody reads it keeps no item from being read; where a signature covers it, none is right.
    let body: Body = json_text::from_str(&String::from_utf8_lossy(body)).ok()?;
    Some(body.items.into_iter().map(|wrapped| wrapped.item).collect())
}

impl Item {
    /// Whether one of the keys has signed it.
    ///
    /// Source: <https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures>: base64 of HMAC-SHA256 over
    /// `pspReference:originalReference:merchantAccountCode:merchantReference:value:currency:eventCode:success`.
    pub fn is_signed(&self, keys: &[Vec<u8>]) -> bool {
        let signature = self.additional_data.as_ref().map_or("", |data| &data.signature);
        let Ok(signature) = Base64::decode_vec(signature) else {
            return false;
        };
        let value = self.amount.as_ref().and_then(|amount| amount.value);
        let value = value.map_or_else(String::new, |value| value.to_string());
        let currency = self.amount.as_ref().map_or("", |amount| &amount.currency);
        let signed = [
            &self.psp_reference,
            &self.original_reference,
            &self.merchant_account_code,
            &self.merchant_reference,
            &value,
            currency,
            &self.event_code,
            &self.success,
        ]
        .join(":");
        keys.iter().any(|key| {
            Hmac::<Sha256>::new_from_slice(key).is_ok_and(|mut mac| {
                mac.update(signed.as_bytes());
                mac.verify_slice(&signature).is_ok()
            })
        })
    }

    /// Whether it tells of a report and is not signed, as Adyen sends some. What has a wrong signature is signed.
    pub fn is_unsigned_report(&self) -> bool {
        self.tells_of_reports() && self.additional_data.as_ref().is_none_or(|data| data.signature.is_empty())
    }

    /// Under which its duplicates meet, and nothing else that is signed.
    pub fn key(&self) -> String {
        format!("adyen:{}:{}:{}", self.event_code, self.psp_reference, self.success)
    }

    /// When it happened, in ms since the epoch, if it says so. It is not signed.
    pub fn told_at_ms(&self) -> Option<u64> {
        let date = chrono::DateTime::parse_from_rfc3339(&self.event_date).ok()?;
        u64::try_from(date.timestamp_millis()).ok()
    }

    /// The card that paid, where the merchant has switched on "Card summary". It is not signed: it is shown, and decides nothing.
    fn card(&self) -> Option<Card> {
        let digits = &self.additional_data.as_ref()?.card_summary;
        Card::of_adyen(&self.payment_method, digits).filter(|_| self.event_code == "AUTHORISATION")
    }

    /// Our merchant account: a notification of another one is not for us, even with the right signature.
    pub fn merchant_account(&self) -> &str {
        &self.merchant_account_code
    }

    /// Whether it is about reports, and so of no payment.
    pub fn tells_of_reports(&self) -> bool {
        self.event_code == "REPORT_AVAILABLE"
    }

    /// The name and the address of a report that is there, if it tells of one. The address is never signed.
    pub fn report(&self) -> Option<(&str, &str)> {
        let is_there = self.tells_of_reports() && self.success == "true";
        is_there.then_some((&self.psp_reference, &self.reason))
    }

    /// Whether it says that this is what became of the request to cancel or refund.
    fn is_modification(&self, action: &str) -> bool {
        self.additional_data.as_ref().is_some_and(|data| data.modification == action)
    }

    /// What it tells, and whom: the object that our reference names, if it does.
    pub fn read(self) -> (Event, Option<ObjectId>) {
        // `{resource}.{derived key}`: see the provider's `reference`.
        let (resource, provider_key) = match self.merchant_reference.split_once('.') {
            Some((resource, key)) => (resource, Some(key.to_owned())),
            None => (self.merchant_reference.as_str(), None),
        };
        let object = object_of(resource);
        let is_about_itself = self.original_reference.is_empty();
        let amount = self.amount.as_ref();
        let (success, reason) = (self.success == "true", word(&self.reason).unwrap_or_default());
        let told = OperationNotice {
            provider_key,
            payment: if is_about_itself {
                self.psp_reference.clone()
            } else {
                self.original_reference.clone()
            },
            id: self.psp_reference.clone(),
            // What is no amount of ours is none that was asked for.
            amount_minor: amount
                .and_then(|amount| minor_units::from_adyen(amount.value?, &amount.currency))
                .unwrap_or(0),
            currency: amount.map_or_else(String::new, |amount| amount.currency.to_ascii_lowercase()),
            success,
            // Of an authorisation it is the card's: "033899:1111:03/2030".
            reason: if success { String::new() } else { reason.clone() },
            undone: None,
            was_taken: self.event_code == "CANCEL_OR_REFUND" && self.is_modification("refund"),
            at_ms: self.told_at_ms(),
            card: self.card(),
        };
        let undone = |told| OperationNotice { success: false, reason, ..told };
        let dispute = |told, status, withdrawn| EventKind::Dispute {
            told,
            status,
            withdrawn,
            is_inquiry: self.event_code == "REQUEST_FOR_INFORMATION",
        };
        let news = match self.event_code.as_str() {
            "AUTHORISATION" => EventKind::Authorisation(told),
            "CAPTURE" => EventKind::Capture(told),
            "CANCELLATION" | "TECHNICAL_CANCEL" => EventKind::Cancellation(told),
            // Which of both it was, it says: of what Adyen captures by itself nobody else may have told.
            // <https://docs.adyen.com/online-payments/classic-integrations/modify-payments/cancel-or-refund>
            "CANCEL_OR_REFUND" if self.is_modification("cancel") => EventKind::Cancellation(told),
            "CANCEL_OR_REFUND" => EventKind::CancelOrRefund(told),
            "REFUND" => EventKind::Refund(told),
            // They say "no" by their name, and `success` only that this is so.
            "CAPTURE_FAILED" if told.success => EventKind::CaptureFailed(undone(told)),
            // Captures and refunds fail alike, and what fails for a technical reason Adyen repeats by itself:
            // <https://docs.adyen.com/online-payments/capture/failure-reasons>
            "REFUND_FAILED" if told.success => {
                EventKind::Refund(OperationNotice { undone: Some(Undone::MayBeRepeated), ..undone(told) })
            }
            "REFUNDED_REVERSED" if told.success => {
                EventKind::Refund(OperationNotice { undone: Some(Undone::ForGood), ..undone(told) })
            }
            // The shopper did not come back in time: nothing was paid.
            "OFFER_CLOSED" if told.success => EventKind::Authorisation(undone(told)),
            "EXPIRE" if told.success => EventKind::Expired(told),
            // <https://docs.adyen.com/risk-management/disputes-api/dispute-notifications>
            "NOTIFICATION_OF_CHARGEBACK" | "REQUEST_FOR_INFORMATION" if told.success => {
                dispute(told, DisputeStatus::Open, Some(false))
            }
            // The second one is sent where nothing has warned of it:
            // <https://docs.adyen.com/api-explorer/Webhooks/1/post/DISPUTE_OPENED_WITH_CHARGEBACK>
            "CHARGEBACK" | "DISPUTE_OPENED_WITH_CHARGEBACK" if told.success => {
                dispute(told, DisputeStatus::Open, Some(true))
            }
            // Further stages: what was withdrawn stays so.
            "PREARBITRATION_OPEN" | "PREARBITRATION_DECLINED" | "SCHEME_ARBITRATION" if told.success => {
                dispute(told, DisputeStatus::Open, None)
            }
            // Not final: a second chargeback can follow.
            "CHARGEBACK_REVERSED"
            | "PREARBITRATION_WON"
            | "PREARBITRATION_ISSUER_WITHDRAWN"
            | "ISSUER_RESPONSE_TIMEFRAME_EXPIRED"
            | "SCHEME_ARBITRATION_WON"
                if told.success =>
            {
                dispute(told, DisputeStatus::Won, Some(false))
            }
            "SECOND_CHARGEBACK"
            | "PREARBITRATION_LOST"
            | "PREARBITRATION_ACCEPTED"
            | "SCHEME_ARBITRATION_LOST"
                if told.success =>
            {
                dispute(told, DisputeStatus::Lost, Some(true))
            }
            // Nobody has defended it: what was taken stays so.
            "DISPUTE_DEFENSE_PERIOD_ENDED" if told.success => dispute(told, DisputeStatus::Lost, None),
            _ => EventKind::Other,
        };
        // "Duplicates have the same eventCode and pspReference", and the latest of them counts: a capture that is made again
        // after it has failed differs from the first one by its date alone.
        let event_id =
            format!("{}:{}:{}:{}", self.event_code, self.psp_reference, self.success, self.event_date);
        let (provider, kind) = (Provider::Adyen, self.event_code);
        (Event { event_id, provider, account: None, kind, news, is_unwritten: false }, object)
    }
}
