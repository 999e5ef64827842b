//! What an object has stored under a key, asked and told in a few words: by an edge that knows what the key stands for.

use serde::{Deserialize, Serialize};

use crate::message::{Finality, VERSION};
use once::fingerprint::Fingerprint;
use once::id::{Owner, RequestId};
use once::key::KeyHash;

/// What the edge asks: what is stored under a key, if the key stands for this request. Else [`Run`](crate::message::ObjectRequest::Run) asks all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recall {
    /// See [`VERSION`].
    pub version: u32,
    /// Who asks.
    pub owner: Owner,
    /// Under which key.
    pub key_hash: KeyHash,
    /// For which request.
    pub fingerprint: Fingerprint,
}

/// What the object answers to [`Recall`]: its response, which is final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// All but the body.
    pub head: RecalledHead,
    /// The body. Bodies that are no text are not recalled.
    pub body: String,
}

/// What a response has beside its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecalledHead {
    /// See [`VERSION`].
    pub version: u32,
    /// The status.
    pub status: u16,
    /// The headers that belong to the result.
    pub headers: Vec<(String, String)>,
    /// The request that first used the key.
    pub original_request: RequestId,
    /// How final it is.
    pub finality: Finality,
}

impl Recalled {
    /// As it goes to the edge: a line of JSON, and behind it the body as it is.
    ///
    /// # Errors
    /// Never, for what is as plain as this.
    pub fn to_text(&self) -> serde_json::Result<String> {
        let mut text = serde_json::to_string(&self.head)?;
        text.reserve(self.body.len().saturating_add(1));
        text.push('\n');
        text.push_str(&self.body);
        Ok(text)
    }

    /// From its text. `None` if it is something else.
    pub fn of_text(text: &str) -> Option<Self> {
        let (head, body) = text.split_once('\n')?;
        let head: RecalledHead = json_text::from_str(head).ok()?;
        (head.version <= VERSION).then(|| Self { head, body: body.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_comes_as_it_went() {
        for body in ["{\"id\":\"pay_1\"}", "two\nlines\n", ""] {
            let head = RecalledHead {
                version: VERSION,
                status: 201,
                headers: vec![("location".to_owned(), "/payments/a\nb".to_owned())],
                original_request: RequestId("req_1".to_owned()),
                finality: Finality { lasts_ms: 5, took_money: true },
            };
            let recalled = Recalled { head, body: body.to_owned() };
            assert_eq!(Recalled::of_text(&recalled.to_text().unwrap()), Some(recalled.clone()));
            let head = RecalledHead { version: VERSION + 1, ..recalled.head };
            let later = Recalled { head, body: body.to_owned() };
            assert_eq!(Recalled::of_text(&later.to_text().unwrap()), None, "of a later release");
        }
        assert_eq!(Recalled::of_text("{}\n{}"), None);
        assert_eq!(Recalled::of_text(""), None);
    }
}
