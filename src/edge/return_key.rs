//! The signature in the address to which a bank sends a browser back: `/payments/{id}/return?k=…`.
//!
//! ```text
//! base64url( where it leads, digest 16 · signature of that and the payment's id 36 )
//! ```
//!
//! That address leads on to a page that only the person who pays may know: an order's link is as good as a password. A
//! payment's id is no secret (it stands in emails and settlement files), so it alone opens nothing.
//!
//! A key is good for one payment and one way on: after a later try that leads somewhere else, it leads nowhere.

use base64ct::{Base64UrlUnpadded, Encoding as _};

use once::id::{ObjectId, digest};
use payments::payment::id::PaymentId;
use payments::payment::operation::PaymentRequest;
use web::signing::{Purpose, SIGNATURE_LEN, SigningKeys};
use web::token::TokenError;

const LEADS_LEN: usize = 16;
const KEY_LEN: usize = LEADS_LEN + SIGNATURE_LEN;
/// The name of the query's parameter.
pub const PARAMETER: &str = "k";

/// Signs the way back of a payment that is to be made in this object, if it has one.
pub fn sign_way_back(request: &mut PaymentRequest, object: ObjectId, signing_keys: &SigningKeys) {
    let payment = PaymentId::in_object(object);
    let key = request.return_url.as_deref().map(|url| ReturnKey::leading_to(url).seal(payment, signing_keys));
    request.return_key = key;
}

/// A key that this server made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnKey {
    leads_to: [u8; LEADS_LEN],
}

impl ReturnKey {
    /// The key of the way on to `return_url`.
    pub fn leading_to(return_url: &str) -> Self {
        let mut leads_to = [0; LEADS_LEN];
        for (byte, digest) in leads_to.iter_mut().zip(digest(&[b"return url", return_url.as_bytes()])) {
            *byte = digest;
        }
        Self { leads_to }
    }

    /// The key as text, signed with the first signing key.
    pub fn seal(self, payment: PaymentId, signing_keys: &SigningKeys) -> String {
        let mut bytes = Vec::with_capacity(KEY_LEN);
        bytes.extend(self.leads_to);
        bytes.extend(signing_keys.sign(Purpose::ReturnAddress, &[&bytes, payment.object().as_bytes()]));
        Base64UrlUnpadded::encode_string(&bytes)
    }

    /// Opens a key: signature (in constant time) and payment. Whether the payment still leads there is for the caller to
    /// compare, with [`leading_to`](Self::leading_to).
    pub fn open(text: &str, payment: PaymentId, signing_keys: &SigningKeys) -> Result<Self, TokenError> {
        let bytes = Base64UrlUnpadded::decode_vec(text).map_err(|_| TokenError::Malformed)?;
        let (signed, signature) = bytes.split_at_checked(LEADS_LEN).ok_or(TokenError::Malformed)?;
        // It starts nothing: a key whose time is over is good enough.
        signing_keys
            .verify(Purpose::ReturnAddress, &[signed, payment.object().as_bytes()], signature)
            .ok_or(TokenError::Forged)?;
        Ok(Self { leads_to: signed.try_into().map_err(|_| TokenError::Malformed)? })
    }
}
