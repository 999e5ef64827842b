//! The token that Cloudflare Access adds to each request that it lets through:
//! <https://developers.cloudflare.com/cloudflare-one/identity/authorization-cookie/validating-json/>.
//!
//! Whoever knows the address of the Worker can go around Access, so the token is the only proof. What is checked here:
//! its form, its algorithm, who made it for whom, and its times. The signature is the caller's to check, with the key that
//! [`Keys`] knows under the token's `kid`.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What the clocks of Access and of the Worker may differ by, in seconds.
const LEEWAY_S: u64 = 60;
/// For how long the team's keys are used before they are fetched again, in ms: a key that was withdrawn must go.
const KEEP_MS: u64 = 3_600_000;
/// How soon the keys may be fetched again because of a key that is not known, in ms: anybody can make such a token.
const UNKNOWN_PAUSE_MS: u64 = 60_000;
/// The longest token that is read, in bytes: a header has no more.
const TOKEN_MAX_BYTES: usize = 16_384;

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not a token at all.
    Malformed,
    /// Signed with something else than RS256, or not at all.
    Algorithm,
    /// Made by somebody else than the team.
    Issuer,
    /// Made for another application.
    Audience,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYet,
    /// It names nobody.
    Nobody,
    /// The team has no such key, or the signature is wrong.
    Forged,
}

impl Refused {
    /// For the log and for whoever sets it up.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "it has another form",
            Self::Algorithm => "its algorithm is not RS256",
            Self::Issuer => "it is of another team than ACCESS_TEAM_DOMAIN",
            Self::Audience => "it is for another application than ACCESS_AUD",
            Self::Expired => "it has expired",
            Self::NotYet => "it is not valid yet",
            Self::Nobody => "it names nobody",
            Self::Forged => "no key of the team has signed it",
        }
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: Audience,
    exp: u64,
    #[serde(default)]
    nbf: Option<u64>,
    #[serde(default)]
    email: String,
    /// The name of a service token, in the place of an address.
    #[serde(default)]
    common_name: String,
}

/// A token that was read. Nothing in it may be believed before its signature is checked.
pub struct Token<'a> {
    /// Under which name the team publishes the key.
    pub kid: String,
    /// What is signed.
    pub signed: &'a str,
    /// The signature.
    pub signature: Vec<u8>,
    claims: Claims,
}

impl<'a> Token<'a> {
    /// Reads a token.
    pub fn parse(text: &'a str) -> Result<Self, Refused> {
        if text.len() > TOKEN_MAX_BYTES {
            return Err(Refused::Malformed);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(Refused::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(Refused::Malformed)?;
        let header: Header = part(header)?;
        // Before all else: `none`, or an HMAC under the public key, would need no secret of the team's.
        if header.alg != "RS256" {
            return Err(Refused::Algorithm);
        }
        let kid = header.kid.filter(|kid| !kid.is_empty()).ok_or(Refused::Malformed)?;
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).map_err(|_| Refused::Malformed)?;
        Ok(Self { kid, signed, signature, claims: part(claims)? })
    }

    /// Who it is for a token whose signature is right: an address, or a service token's name. `issuer` is the team's
    /// domain, `audience` the application's tag.
    pub fn operator(&self, issuer: &str, audience: &str, now_ms: u64) -> Result<String, Refused> {
        let now_s = now_ms / 1000;
        let claims = &self.claims;
        let is_for = match &claims.aud {
            Audience::One(one) => one == audience,
            Audience::Many(many) => many.iter().any(|one| one == audience),
        };
        match claims {
            _ if claims.iss.trim_end_matches('/') != issuer => Err(Refused::Issuer),
            _ if !is_for => Err(Refused::Audience),
            _ if claims.exp.saturating_add(LEEWAY_S) <= now_s => Err(Refused::Expired),
            _ if claims.nbf.is_some_and(|nbf| nbf > now_s.saturating_add(LEEWAY_S)) => Err(Refused::NotYet),
            Claims { email, .. } if !email.is_empty() => Ok(email.clone()),
            Claims { common_name, .. } if !common_name.is_empty() => Ok(common_name.clone()),
            _ => Err(Refused::Nobody),
        }
    }
}

fn part<T: DeserializeOwned>(text: &str) -> Result<T, Refused> {
    let json = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| Refused::Malformed)?;
    serde_json::from_slice(&json).map_err(|_| Refused::Malformed)
}

/// A public key of the team's.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Key {
    /// Its name.
    pub kid: String,
    /// `RSA`.
    pub kty: String,
    /// The modulus, in base64url.
    #[serde(default)]
    pub n: String,
    /// The exponent, in base64url.
    #[serde(default)]
    pub e: String,
}

/// The keys that a team publishes.
#[derive(Deserialize)]
struct Published {
    keys: Vec<Key>,
}

/// What to do for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Check it with this key.
    Use(Key),
    /// Fetch the team's keys first. Requests that come meanwhile are told the same: a fetch belongs to its request, and none
    /// may wait for another's.
    Fetch,
    /// The team has no such key.
    Refuse,
}

/// The team's keys, as far as this isolate knows them.
#[derive(Default)]
pub struct Keys {
    keys: Vec<Key>,
    fetched_at_ms: Option<u64>,
    /// When they last came because of a key that was not known.
    looked_at_ms: Option<u64>,
}

impl Keys {
    /// None is known.
    pub const fn new() -> Self {
        Self { keys: Vec::new(), fetched_at_ms: None, looked_at_ms: None }
    }

    /// What to do for a token that names this key. Once the keys have come because of an unknown one, unknown ones are refused
    /// for a minute; while they cannot be had, nobody is refused for that.
    pub fn plan(&self, kid: &str, now_ms: u64) -> Plan {
        if !self.is_fresh(now_ms) {
            return Plan::Fetch;
        }
        if let Some(key) = self.find(kid) {
            return Plan::Use(key);
        }
        match self.looked_at_ms {
            Some(at_ms) if now_ms.saturating_sub(at_ms) < UNKNOWN_PAUSE_MS => Plan::Refuse,
            _ => Plan::Fetch,
        }
    }

    fn is_fresh(&self, now_ms: u64) -> bool {
        self.fetched_at_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) < KEEP_MS)
    }

    /// Takes in what the team publishes; `false` if it is something else. The time is that of the request which asked.
    pub fn learn(&mut self, published: &str, now_ms: u64) -> bool {
        let Ok(Published { keys }) = serde_json::from_str(published) else { return false };
        if self.is_fresh(now_ms) {
            self.looked_at_ms = self.looked_at_ms.max(Some(now_ms));
        }
        // Of two fetches at once the one that was asked for later may come first.
        if self.fetched_at_ms.is_some_and(|at_ms| at_ms > now_ms) {
            return true;
        }
        self.keys = keys.into_iter().filter(|key| key.kty == "RSA").collect();
        self.fetched_at_ms = Some(now_ms);
        true
    }

    /// The key of this name.
    pub fn find(&self, kid: &str) -> Option<Key> {
        self.keys.iter().find(|key| key.kid == kid).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const TEAM: &str = "https://team.cloudflareaccess.com";
    const NOW_MS: u64 = 1_800_000_000_000;
    const NOW_S: u64 = NOW_MS / 1000;

    fn text(header: Value, claims: Value) -> String {
        let part = |value: Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        format!("{}.{}.{}", part(header), part(claims), BASE64URL_NOPAD.encode(b"signature"))
    }

    fn published(kid: &str) -> String {
        json!({ "keys": [{ "kid": kid, "kty": "RSA", "n": "n", "e": "AQAB" }] }).to_string()
    }

    fn good() -> Value {
        json!({ "iss": TEAM, "aud": ["tag"], "exp": NOW_S + 60, "nbf": NOW_S, "email": "ada@example.com" })
    }

    fn operator(change: impl FnOnce(&mut Value)) -> Result<String, Refused> {
        let mut claims = good();
        change(&mut claims);
        let text = text(json!({ "alg": "RS256", "kid": "a" }), claims);
        Token::parse(&text)?.operator(TEAM, "tag", NOW_MS)
    }

    #[test]
    fn a_good_token_names_who_it_is() {
        assert_eq!(operator(|_| ()), Ok("ada@example.com".to_owned()));
        assert_eq!(operator(|claims| claims["aud"] = "tag".into()), Ok("ada@example.com".to_owned()));
        let by_service = |claims: &mut Value| {
            claims["email"] = "".into();
            claims["common_name"] = "prometheus".into();
        };
        assert_eq!(operator(by_service), Ok("prometheus".to_owned()));
    }

    #[test]
    fn each_claim_is_checked() {
        assert_eq!(
            operator(|claims| claims["iss"] = "https://other.cloudflareaccess.com".into()),
            Err(Refused::Issuer)
        );
        assert_eq!(operator(|claims| claims["aud"] = json!(["other"])), Err(Refused::Audience));
        assert_eq!(operator(|claims| claims["aud"] = json!([])), Err(Refused::Audience));
        assert_eq!(operator(|claims| claims["email"] = "".into()), Err(Refused::Nobody));
        assert_eq!(operator(|claims| claims["exp"] = Value::Null), Err(Refused::Malformed));
    }

    #[test]
    fn its_time_is_kept_with_a_minute_of_leeway() {
        assert!(operator(|claims| claims["exp"] = (NOW_S - 59).into()).is_ok());
        assert_eq!(operator(|claims| claims["exp"] = (NOW_S - 60).into()), Err(Refused::Expired));
        assert!(operator(|claims| claims["nbf"] = (NOW_S + 60).into()).is_ok());
        assert_eq!(operator(|claims| claims["nbf"] = (NOW_S + 61).into()), Err(Refused::NotYet));
    }

    #[test]
    fn only_rs256_is_read() {
        for alg in ["none", "None", "HS256", "RS512", "ES256", ""] {
            let text = text(json!({ "alg": alg, "kid": "a" }), good());
            assert_eq!(Token::parse(&text).err(), Some(Refused::Algorithm), "{alg}");
        }
        for text in ["", ".", "..", "a.b.c", "e30.e30", "e30.e30."] {
            assert_eq!(Token::parse(text).err(), Some(Refused::Malformed), "{text}");
        }
        let unnamed = text(json!({ "alg": "RS256" }), good());
        assert_eq!(Token::parse(&unnamed).err(), Some(Refused::Malformed));
    }

    #[test]
    fn until_the_keys_have_come_an_unknown_key_is_not_refused() {
        let mut keys = Keys::new();
        assert!(keys.learn(&published("a"), 0));
        assert_eq!(keys.plan("b", 2), Plan::Fetch);
        assert_eq!(keys.plan("b", 3), Plan::Fetch, "the first fetch is under way");
        assert!(!keys.learn("<html>", 2));
        assert_eq!(keys.plan("b", 4), Plan::Fetch, "or has failed");
        assert!(keys.learn(&published("b"), 4));
        assert!(keys.learn(&published("a"), 3), "an older answer comes later");
        assert!(matches!(keys.plan("b", 5), Plan::Use(_)));
        assert_eq!(keys.plan("c", 5), Plan::Refuse);
    }

    #[test]
    fn a_rotated_key_is_fetched_once_and_a_made_up_one_costs_one_fetch_a_minute() {
        let mut keys = Keys::new();
        assert_eq!(keys.plan("a", 0), Plan::Fetch);
        assert!(keys.learn(&published("a"), 0));
        assert!(matches!(keys.plan("a", 1), Plan::Use(_)));
        assert_eq!(keys.plan("b", 2), Plan::Fetch);
        assert!(keys.learn(&published("b"), 2));
        assert!(matches!(keys.plan("b", 3), Plan::Use(_)));
        assert_eq!(keys.plan("a", 4), Plan::Refuse, "it was withdrawn");
        assert_eq!(keys.plan("c", 60_001), Plan::Refuse);
        assert_eq!(keys.plan("c", 60_002), Plan::Fetch);
        assert_eq!(keys.plan("b", 2 + KEEP_MS), Plan::Fetch, "they are old");
        assert!(!keys.learn("<html>", 9));
    }
}
