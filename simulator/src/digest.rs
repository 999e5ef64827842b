//! Hashes: of bodies for the request log, of parameters for idempotency keys, and those that webhooks are signed with.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Bytes in hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 in hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// HMAC-SHA256 of a message.
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(message);
    Some(mac.finalize().into_bytes().to_vec())
}

/// SHA-256 over a JSON value whose objects are sorted by field: the same for two bodies that differ in the order of fields only.
pub fn json_fingerprint(body: &Value) -> String {
    sha256_hex(canonical(body).to_string().as_bytes())
}

fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            Value::Object(sorted.into_iter().map(|(name, value)| (name.clone(), canonical(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_json_fingerprint_ignores_the_order_of_fields_but_no_value() {
        let of = |text: &str| json_fingerprint(&serde_json::from_str(text).unwrap());
        assert_eq!(of(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#), of(r#"{ "b": {"d":null,"c":[1,2]}, "a": 1 }"#));
        assert_ne!(of(r#"{"a":1}"#), of(r#"{"a":"1"}"#));
        assert_ne!(of(r#"{"a":[1,2]}"#), of(r#"{"a":[2,1]}"#));
    }

    /// RFC 4231, case 2.
    #[test]
    fn the_hmac_is_the_standards() {
        let mac = hmac_sha256(b"Jefe", b"what do ya want for nothing?").unwrap();
        assert_eq!(hex(&mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
