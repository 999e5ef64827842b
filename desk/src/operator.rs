//! Who works at the desk. Behind Cloudflare Access its token says so; where Access is not set up, the secret `ADMIN_TOKEN`
//! does: as a bearer token, or once in a form for a cookie that lasts a working day. With neither the desk is closed.

use std::cell::RefCell;
use std::time::Duration;

use js_sys::{Array, JSON, Object, Promise, Reflect, Uint8Array};
use serde_json::json;
use worker::Env;
use worker::wasm_bindgen::{self, JsValue, prelude::wasm_bindgen};
use worker::wasm_bindgen_futures::JsFuture;

use super::access::{Key, Keys, Plan, Refused, Token};
use super::app::App;
use super::login::{self, BY_SECRET, SESSION_MS, may_bear, session};
use crate::config::AccessConfig;
use once::id::Owner;
use runtime::http_client::{self, OutboundRequest};
use runtime::log::log;
use runtime::random;
use web::http::Request;
use web::origin::from_here;
use web::problem::{Kind, Problem};
use web::signing::Purpose;
use web::token::FormToken;

/// How long the team's keys may take to come.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

thread_local! {
    static KEYS: RefCell<Keys> = const { RefCell::new(Keys::new()) };
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = ["crypto", "subtle"], js_name = importKey, catch)]
    fn import_key(
        format: &str,
        key: &JsValue,
        algorithm: &JsValue,
        extractable: bool,
        usages: &JsValue,
    ) -> Result<Promise, JsValue>;

    #[wasm_bindgen(js_namespace = ["crypto", "subtle"], catch)]
    fn verify(
        algorithm: &JsValue,
        key: &JsValue,
        signature: &JsValue,
        data: &JsValue,
    ) -> Result<Promise, JsValue>;
}

/// Somebody who was let in.
pub(super) struct Operator {
    /// As the audit log names them.
    pub(super) name: String,
    /// The session of the cookie of ours with which they came, as D1 has it.
    session: Option<String>,
}

impl Operator {
    /// Whether they came with a cookie of ours, which they can give up.
    pub(super) const fn has_session(&self) -> bool {
        self.session.is_some()
    }
}

/// Lets an operator in, or says what is missing. What changes something must not come from another site's page: a browser
/// shows its cookie, or that of Access, whoever has made it send the request.
pub(super) async fn admit(app: &App, request: &Request) -> Result<Operator, Problem> {
    let operator = identified(app, request).await?;
    app.admitted.get_or_init(|| operator.name.clone());
    Ok(operator)
}

async fn identified(app: &App, request: &Request) -> Result<Operator, Problem> {
    let config = &app.config;
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        from_here(request)?;
    }
    if let Some(access) = &config.access {
        return by_access(&app.env, access, request).await;
    }
    if config.admin_token.is_none() {
        return Err(Problem::of_setting(
            Kind::Unauthorized,
            "This is closed, because neither ACCESS_TEAM_DOMAIN and ACCESS_AUD nor ADMIN_TOKEN is set: \
             `openssl rand -base64 32` makes a secret, and `npx wrangler secret put ADMIN_TOKEN` sets it.",
        ));
    }
    if let Some(token) = bearer(request) {
        let is_right = config.is_admin(token);
        may_bear(app, request, is_right).await?;
        if is_right {
            return Ok(Operator { name: BY_SECRET.to_owned(), session: None });
        }
        login::refused(app, request).await;
    }
    if request.header("authorization").is_none()
        && let session @ Some(_) = session(app, request).await?
    {
        return Ok(Operator { name: BY_SECRET.to_owned(), session });
    }
    Err(Problem::because(
        Kind::Unauthorized,
        "Send the operator's secret: `Authorization: Bearer <ADMIN_TOKEN>`.",
    ))
}

/// Lets in who may read the counts: an operator, or a program with the secret for that alone. That is good beside Access, too, which knows no paths.
pub(super) async fn admit_reader(app: &App, request: &Request) -> Result<(), Problem> {
    match bearer(request) {
        Some(token) if app.config.is_for_metrics(token) => may_bear(app, request, true).await,
        _ => admit(app, request).await.map(drop),
    }
}

/// The bearer token of a request.
fn bearer(request: &Request) -> Option<&str> {
    let (scheme, token) = request.header("authorization")?.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

async fn by_access(env: &Env, access: &AccessConfig, request: &Request) -> Result<Operator, Problem> {
    let text = request.header("cf-access-jwt-assertion").ok_or_else(|| {
        Problem::because(
            Kind::Unauthorized,
            "This is behind Cloudflare Access, and the request has not come through it: it has no \
             Cf-Access-Jwt-Assertion. Open the address that Access protects.",
        )
    })?;
    match verified(env, access, text, request.now_ms).await {
        Ok(Ok(name)) => Ok(Operator { name, session: None }),
        Ok(Err(refused)) => {
            log("warn", &[("event", "operator_refused".into()), ("reason", refused.as_str().into())]);
            Err(Problem::because(
                Kind::Unauthorized,
                format!("The token of Cloudflare Access is refused: {}.", refused.as_str()),
            ))
        }
        Err(error) => {
            log("error", &[("event", "access_keys_unreadable".into()), ("error", error.as_str().into())]);
            let detail = "The keys of Cloudflare Access could not be fetched. Try again in a moment.";
            Err(Problem::because(Kind::Unreadable, detail).retry_after_s(1))
        }
    }
}

/// Who a token names. The outer error means that this could not be found out.
async fn verified(
    env: &Env,
    access: &AccessConfig,
    text: &str,
    now_ms: u64,
) -> Result<Result<String, Refused>, String> {
    let token = match Token::parse(text) {
        Ok(token) => token,
        Err(refused) => return Ok(Err(refused)),
    };
    let key = match KEYS.with_borrow(|keys| keys.plan(&token.kid, now_ms)) {
        Plan::Use(key) => Some(key),
        Plan::Refuse => None,
        Plan::Fetch => {
            let published = fetch(env, format!("{}/cdn-cgi/access/certs", access.team_domain)).await?;
            KEYS.with_borrow_mut(|keys| match keys.learn(&published, now_ms) {
                true => Ok(keys.find(&token.kid)),
                false => Err("they are not a list of keys".to_owned()),
            })?
        }
    };
    let Some(key) = key else { return Ok(Err(Refused::Forged)) };
    if !is_signed(&token, &key).await {
        return Ok(Err(Refused::Forged));
    }
    Ok(token.operator(&access.team_domain, &access.audience, now_ms))
}

async fn fetch(env: &Env, url: String) -> Result<String, String> {
    let sent = OutboundRequest { method: "GET", url, headers: Vec::new(), body: None };
    let (response, body) = http_client::fetch(env, None, &sent, FETCH_TIMEOUT).await?;
    match response.status_code() {
        200 => Ok(body),
        status => Err(format!("the team's domain answered {status}")),
    }
}

/// RSASSA-PKCS1-v1_5 with SHA-256, by the runtime. A key that it cannot read has signed nothing.
async fn is_signed(token: &Token<'_>, key: &Key) -> bool {
    let check = async {
        let algorithm = Object::new();
        Reflect::set(&algorithm, &"name".into(), &"RSASSA-PKCS1-v1_5".into())?;
        Reflect::set(&algorithm, &"hash".into(), &"SHA-256".into())?;
        let jwk = json!({ "kty": "RSA", "n": key.n, "e": key.e, "alg": "RS256", "ext": true }).to_string();
        let usages = Array::of1(&"verify".into());
        let key = JsFuture::from(import_key("jwk", &JSON::parse(&jwk)?, &algorithm, false, &usages)?).await?;
        let signature = Uint8Array::from(token.signature.as_slice());
        let signed = Uint8Array::from(token.signed.as_bytes());
        JsFuture::from(verify(&algorithm, &key, &signature, &signed)?).await
    };
    check.await.is_ok_and(|verified: JsValue| verified.is_truthy())
}

/// The one-time key of a button: bound to the operator, to their session, and to where it is sent. All who have the secret have one name: what one
/// of them has left open in a browser is nothing that the next one can press.
pub(super) fn form_key(app: &App, operator: &Operator, action: &str, now_ms: u64) -> Result<String, Problem> {
    let id = random::uuid().map_err(runtime::serve::unavailable)?;
    let token = FormToken::of_desk(id, now_ms.saturating_add(SESSION_MS));
    Ok(token.seal(Purpose::DeskAction, &button(operator, action), &app.config.signing_keys))
}

/// Whether this key was made for this operator's button, and may still be used.
pub(super) fn is_form_key(app: &App, operator: &Operator, action: &str, key: &str, now_ms: u64) -> bool {
    FormToken::open(key, Purpose::DeskAction, &button(operator, action), &app.config.signing_keys)
        .is_ok_and(|token| now_ms < token.expires_at_ms)
}

fn button(operator: &Operator, action: &str) -> Owner {
    let session = operator.session.as_deref().unwrap_or_default();
    Owner::Account(format!("\0desk {} {session} {action}", operator.name))
}
