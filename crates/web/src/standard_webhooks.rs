//! Signs what a shop is told, as [Standard Webhooks](https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md) has it:
//! whoever receives it can verify it with a library of theirs.

use base64ct::{Base64, Encoding as _};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What shows that a text is such a secret.
const PREFIX: &str = "whsec_";

/// The secret that an endpoint shares with us.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret([u8; 32]);

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecret")
    }
}

impl From<[u8; 32]> for WebhookSecret {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl WebhookSecret {
    /// As it is given to the shop.
    pub fn to_text(&self) -> String {
        format!("{PREFIX}{}", Base64::encode_string(&self.0))
    }

    /// The signature of a message of this id, sent at this time, in s since the epoch.
    fn sign(&self, id: &str, timestamp_s: u64, body: &str) -> String {
        // HMAC takes keys of any length: there is no error to pass on.
        Hmac::<Sha256>::new_from_slice(&self.0).map_or_else(
            |_| String::new(),
            |mut mac| {
                mac.update(format!("{id}.{timestamp_s}.{body}").as_bytes());
                format!("v1,{}", Base64::encode_string(&mac.finalize().into_bytes()))
            },
        )
    }
}

/// The header `webhook-signature`: a signature by each of these secrets. Whoever knows one of them believes it.
pub fn signatures(secrets: &[WebhookSecret], id: &str, timestamp_s: u64, body: &str) -> String {
    let each: Vec<String> = secrets.iter().map(|secret| secret.sign(id, timestamp_s, body)).collect();
    each.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That of the specification's own libraries: `javascript/src/index.test.ts`, "sign function works". Its secret has 24 bytes, ours have 32.
    #[test]
    fn the_vector_of_the_specification_is_met() {
        let key = Base64::decode_vec("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        mac.update(b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}");
        let expected = "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(Base64::encode_string(&mac.finalize().into_bytes()), expected);
        // A key of HMAC that is shorter than its block is filled up with zeros: so ours is made the same one.
        let mut padded = [0; 32];
        padded[..key.len()].copy_from_slice(&key);
        let signed = WebhookSecret(padded).sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, format!("v1,{expected}"));
    }

    #[test]
    fn each_secret_signs_and_none_is_shown() {
        let secrets = [WebhookSecret([1; 32]), WebhookSecret([2; 32])];
        let both = signatures(&secrets, "a", 1, "{}");
        let (first, second) = both.split_once(' ').unwrap();
        assert_ne!(first, second);
        assert_eq!(signatures(&secrets[1..], "a", 1, "{}"), second);
        let others = [("b", 1, "{}"), ("a", 2, "{}"), ("a", 1, "{ }")];
        assert!(others.iter().all(|(id, at, body)| signatures(&secrets[..1], id, *at, body) != first));
        assert_eq!(secrets[0].to_text(), format!("whsec_{}", Base64::encode_string(&[1; 32])));
        assert_eq!(format!("{secrets:?}"), "[WebhookSecret, WebhookSecret]");
    }
}
