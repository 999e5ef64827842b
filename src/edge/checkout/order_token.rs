//! The link to an order: the order itself, signed, so that nothing of it has to be stored but which one is the newest.
//!
//! ```text
//! base64url( JSON ) . base64url( signature of the text before the dot, 36 bytes )
//! [version, order id, account, currency, [[name, unit_minor, quantity, picture if any], …], return_url or null, expires_at_ms, revision,
//!  locale or null, cancel_url or null, false if nothing is captured yet]
//! ```
//!
//! The last three are left off from the first one on where all that follow are null. A list and not an object: the link stands in an address
//! bar. It is no secret of ours, but whoever has it may pay the order and see its receipt; logs name the route alone.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use serde::{Deserialize, Serialize};

use super::Order;
use super::cart::{Cart, Line};
use once::id::digest;
use payments::payment::locale::Locale;
use payments::payment::money::Currency;
use web::image_url::ImageUrl;
use web::signing::{Purpose, SigningKeys};
use web::token::TokenError;

const VERSION: u8 = 2;
/// Links of before there were revisions.
const WITHOUT_REVISION: u8 = 1;
/// The longest link, in characters. It stands in the request line and once more in `Referer`, and servers on the way take
/// 16 KiB of both; 20 lines with names of 120 ASCII characters fit, and a return address of 500.
pub const LINK_MAX_LEN: usize = 6_000;

#[derive(Serialize, Deserialize)]
struct Wire(
    u8,
    String,
    String,
    Currency,
    Vec<WireLine>,
    Option<String>,
    u64,
    #[serde(default)] u32,
    // Left off where there is nothing more: releases before this one read no more than eight, nine or ten.
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<Option<Locale>>,
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<bool>,
);

#[derive(Serialize, Deserialize)]
struct WireLine(
    String,
    u64,
    u32,
    // Left off where there is none, as the language is.
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<String>,
);

impl Order {
    /// The link, signed with the first key; `None` if it would be longer than [`LINK_MAX_LEN`].
    pub fn seal(&self, signing_keys: &SigningKeys) -> Option<String> {
        let wire_line = |line: &Line| {
            let image = line.image.as_ref().map(|image| image.as_str().to_owned());
            WireLine(line.name.clone(), line.unit_minor, line.quantity, image)
        };
        let lines = self.cart.lines().iter().map(wire_line);
        let wire = Wire(
            VERSION,
            self.id.clone(),
            self.account.clone(),
            self.cart.currency(),
            lines.collect(),
            self.return_url.clone(),
            self.expires_at_ms,
            self.revision,
            (self.locale.is_some() || self.cancel_url.is_some() || !self.capture).then_some(self.locale),
            (self.cancel_url.is_some() || !self.capture).then(|| self.cancel_url.clone()),
            (!self.capture).then_some(false),
        );
        let payload = Base64UrlUnpadded::encode_string(&serde_json::to_vec(&wire).ok()?);
        let signature = signing_keys.sign(Purpose::OrderLink, &[payload.as_bytes()]);
        let link = format!("{payload}.{}", Base64UrlUnpadded::encode_string(&signature));
        (link.len() <= LINK_MAX_LEN).then_some(link)
    }

    /// Opens a link: signature (in constant time), version, limits. Whether it has expired is for the caller to say: an
    /// expired link still shows what was paid.
    pub fn open(link: &str, signing_keys: &SigningKeys) -> Result<Self, TokenError> {
        if link.len() > LINK_MAX_LEN {
            return Err(TokenError::Malformed);
        }
        let (payload, signature) = link.split_once('.').ok_or(TokenError::Malformed)?;
        let signature = Base64UrlUnpadded::decode_vec(signature).map_err(|_| TokenError::Malformed)?;
        let genuine = signing_keys
            .verify(Purpose::OrderLink, &[payload.as_bytes()], &signature)
            .ok_or(TokenError::Forged)?;
        let json = Base64UrlUnpadded::decode_vec(payload).map_err(|_| TokenError::Malformed)?;
        let wire: Wire = json_text::from_slice(&json).map_err(|_| TokenError::Malformed)?;
        let Wire(
            VERSION | WITHOUT_REVISION,
            id,
            account,
            currency,
            lines,
            return_url,
            expires_at_ms,
            revision,
            locale,
            cancel_url,
            capture,
        ) = wire
        else {
            return Err(TokenError::Malformed);
        };
        let line = |WireLine(name, unit_minor, quantity, image)| Line {
            name,
            unit_minor,
            quantity,
            image: image.and_then(|image| ImageUrl::known(&image)),
        };
        let lines = lines.into_iter().map(line);
        let cart = Cart::new(currency, lines.collect()).map_err(|_| TokenError::Malformed)?;
        let expires_at_ms = expires_at_ms.min(genuine.ends_at_ms);
        let (locale, cancel_url, capture) = (locale.flatten(), cancel_url.flatten(), capture.unwrap_or(true));
        Ok(Self { id, account, cart, return_url, cancel_url, expires_at_ms, revision, locale, capture })
    }

    /// What stands for all that a link sells: another price makes another link, and so does another time of the charge. A language, a picture and the
    /// way back of who does not pay sell nothing.
    pub fn content(&self) -> String {
        let lines = self.cart.lines().iter().map(|line| (&line.name, line.unit_minor, line.quantity));
        let sold = (self.cart.currency(), lines.collect::<Vec<_>>(), &self.return_url);
        let sold = serde_json::to_vec(&sold).unwrap_or_default();
        let content = match self.capture {
            true => digest(&[b"order content", &sold]),
            false => digest(&[b"order content", &sold, b"authorize"]),
        };
        Base64UrlUnpadded::encode_string(&content)
    }
}

/// What stands for a link in the keys of its forms.
pub fn link_hash(link: &str) -> [u8; 32] {
    digest(&[b"order link", link.as_bytes()])
}
