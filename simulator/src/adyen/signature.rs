//! How Adyen signs its webhooks:
//! <https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures>.

use serde_json::Value;

use crate::digest::hmac_sha256;

/// `hmacSignature` of a notification item; `None` if it lacks what is signed, or if the key is no hex.
pub fn of(key_hex: &str, item: &Value) -> Option<String> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    let amount = item.get("amount")?;
    let signed = [
        text("pspReference"),
        text("originalReference"),
        text("merchantAccountCode"),
        text("merchantReference"),
        &amount.get("value")?.as_i64()?.to_string(),
        amount.get("currency")?.as_str()?,
        text("eventCode"),
        text("success"),
    ]
    .join(":");
    Some(base64(&hmac_sha256(&unhex(key_hex)?, signed.as_bytes())?))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte));
        group <<= 8 * (3 - chunk.len());
        for place in 0..4_usize {
            let sextet = usize::try_from(group >> (18 - 6 * place) & 0x3f).unwrap_or(0);
            let letter = if place <= chunk.len() { ALPHABET.get(sextet) } else { Some(&b'=') };
            text.extend(letter.map(|letter| char::from(*letter)));
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    /// RFC 4648.
    #[test]
    fn base64_is_padded() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    /// The example of Adyen's documentation and libraries.
    #[test]
    fn adyens_example_is_signed_as_adyen_signs_it() {
        let item = json!({
            "pspReference": "7914073381342284", "merchantAccountCode": "TestMerchant", "merchantReference": "TestPayment-1407325143704",
            "amount": { "currency": "EUR", "value": 1130 }, "eventCode": "AUTHORISATION", "success": "true",
        });
        let key = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";
        assert_eq!(of(key, &item).unwrap(), "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=");
        assert_eq!(of("no hex", &item), None);
    }
}
