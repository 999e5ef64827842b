//! The gate's settings: `GATE` (and `GATE_2`, …), a variable in JSON (in wrangler.toml `[[vars.GATE.routes]]`), and the secret `SIGNING_KEY`.
//! docs/gate.md says what each is for.

use once::times::Times;
use runtime::settings;
use serde::Deserialize;
use web::origin::is_origin;
use web::signing::SigningKeys;

use crate::domain::OnUnknown;
use crate::meaning::{Done, FailedIf, Rules};
use crate::pattern::Pattern;
use crate::preset::Preset;
use crate::waits::Waits;

/// All settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// See `SIGNING_KEY`.
    pub signing_keys: SigningKeys,
    /// Where requests go, in this order: the first one of the host is where all goes that is no route.
    pub routes: Vec<Route>,
}

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A form: its key stands in a hidden input.
    Form,
    /// An API: its key is the header `Idempotency-Key`.
    Api,
}

impl Kind {
    /// One thing of a form, another one of an API.
    pub const fn of<T: Copy>(self, form: T, api: T) -> T {
        match self {
            Self::Form => form,
            Self::Api => api,
        }
    }
}

/// What the settings say of an address that is listed.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Its route.
    pub route: &'a Route,
    /// As what it is listed.
    pub kind: Kind,
    /// As the operator has written it.
    pub pattern: &'a Pattern,
}

/// What becomes of a request without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// It is passed on without protection, and counted.
    #[default]
    Pass,
    /// It is asked for with a key: a page with a button, or a problem.
    Ask,
}

/// What becomes of a form that is sent with the key of one that is done, and says something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edited {
    /// A page asks whether to see the answer or to send it as new.
    #[default]
    Ask,
    /// It is sent as new.
    New,
}

/// An origin, and which of its addresses are passed on once.
#[derive(Clone, Debug)]
pub struct Route {
    /// The host in front of which it stands; any, if it is not said.
    host: Option<String>,
    /// `https://shop.example`, without a slash at its end.
    pub origin: String,
    forms: Vec<Pattern>,
    api: Vec<Pattern>,
    /// What is done where nobody knows what became of it.
    pub on_unknown: OnUnknown,
    /// What its answers mean.
    pub rules: Rules,
    /// The headers that say who a client of an API is, in small letters. Without any its clients may share their keys.
    pub identity: Vec<String>,
    /// More names of cookies that are a session.
    pub session: Vec<String>,
    /// More names of fields that are no part of what a form says.
    pub ignore: Vec<String>,
    /// The origins whose scripts may read what the gate says itself; `*` is any.
    pub cors: Vec<String>,
    /// See [`Missing`].
    pub missing: Missing,
    /// See [`Edited`].
    pub edited: Edited,
    /// What a visitor sends to one address from pages that were open together is one operation.
    pub one_at_a_time: bool,
    /// The largest body that is taken, in bytes.
    pub max_body: usize,
    /// The largest answer that is kept, in bytes.
    pub max_answer: usize,
    /// How long it waits for what.
    pub waits: Waits,
    /// Pages get the gate's script, for forms that scripts build.
    pub script: bool,
    /// Nothing is done: all is passed on.
    pub off: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gate {
    routes: Vec<RawRoute>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRoute {
    host: Option<String>,
    origin: String,
    #[serde(default)]
    forms: Vec<String>,
    #[serde(default)]
    api: Vec<String>,
    preset: Option<Preset>,
    on_unknown: Option<RawOnUnknown>,
    done: Option<Done>,
    failed_if: Option<FailedIf>,
    log_in: Option<Vec<String>>,
    #[serde(default)]
    not_taken: Vec<u16>,
    identity: Option<Vec<String>>,
    #[serde(default)]
    session: Vec<String>,
    #[serde(default)]
    ignore: Vec<String>,
    #[serde(default)]
    cors: Vec<String>,
    #[serde(default)]
    missing: Missing,
    #[serde(default)]
    edited: Edited,
    #[serde(default)]
    one_at_a_time: bool,
    max_body: Option<usize>,
    max_answer: Option<usize>,
    /// How long a duplicate waits for the first one, in ms.
    wait_ms: Option<u64>,
    /// How long an answer is kept, in ms.
    keep_ms: Option<u64>,
    /// How long the origin may take, in ms.
    timeout_ms: Option<u64>,
    /// With `replay`: how long after the first send the origin keeps our key, in ms.
    replay_ms: Option<u64>,
    /// How long after a send an "it is not there" of a look-up is believed, in ms.
    quiet_ms: Option<u64>,
    script: Option<bool>,
    #[serde(default)]
    off: bool,
    /// Log-in forms, too.
    #[serde(default)]
    force: bool,
}

/// `"never_again"`, `"replay"` or `{ lookup = "GET /orders?key={key}", done = 200 }`.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawOnUnknown {
    Word(String),
    #[serde(rename_all = "snake_case")]
    Lookup {
        lookup: String,
        done: Option<u16>,
    },
}

impl RawOnUnknown {
    fn read(self) -> Result<OnUnknown, String> {
        match self {
            Self::Word(word) if word == "never_again" => Ok(OnUnknown::NeverAgain),
            Self::Word(word) if word == "replay" => Ok(OnUnknown::Replay),
            Self::Word(word) => Err(format!(
                "`on_unknown` is `{word}`: it is never_again, replay or {{ lookup = \"GET /path\", done = 200 }}"
            )),
            Self::Lookup { lookup, done } => {
                let path = lookup.strip_prefix("GET ").map(str::trim).filter(|path| path.starts_with('/'));
                let get = path.ok_or("`lookup` must be like \"GET /orders?key={key}\"")?.to_owned();
                Ok(OnUnknown::Lookup { get, done: done.unwrap_or(200) })
            }
        }
    }
}

/// The largest body unless it is set, in bytes.
const BODY_MAX: usize = 100 << 20;
/// The largest body that can be set, in bytes: as much as Cloudflare takes on any plan.
const BODY_MAX_MAX: usize = 500 << 20;
/// The largest answer that is kept unless it is set, in bytes. Where no bucket is bound it is as much as a row takes.
const ANSWER_DEFAULT: usize = 4 << 20;
/// The largest one that can be set, in bytes: it is held in memory several times while it is sealed.
const ANSWER_MAX: usize = 10 << 20;
/// Who a client of an API is, unless it is set.
const IDENTITY: &[&str] =
    &["authorization", "x-api-key", "api-key", "apikey", "x-auth-token", "x-access-token"];
/// What a log-in form's address has in it: its answer is a session, which must not be given twice.
const LOG_IN: &[&str] = &["login", "log-in", "signin", "sign-in", "session", "password", "auth"];

/// Whether it is a scheme and a host, and nothing more.
fn is_address(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ', '*']))
}

/// Whether requests name a host so.
fn is_host(host: &str) -> bool {
    ["https", "http"].iter().all(|scheme| is_origin(&format!("{scheme}://{host}")))
}

/// What is meant by one that no request names.
fn bare_host(written: &str) -> String {
    let host = written.split_once("://").map_or(written, |(_, host)| host).to_ascii_lowercase();
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.strip_suffix(":443").or_else(|| host.strip_suffix(":80")).unwrap_or(host);
    if is_host(host) { host.to_owned() } else { "shop.example".to_owned() }
}

/// Whether redirects can lead to such a path.
fn is_path(path: &str) -> bool {
    path.starts_with(['/', '*']) && !path.contains(['?', '#'])
}

/// What is meant by one to which none can.
fn bare_path(written: &str) -> String {
    let path = match written.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => written.trim_start_matches('/'),
    };
    format!("/{}", path.split(['?', '#']).next().unwrap_or_default())
}

/// The name of the first, second, … variable with routes.
pub fn variable(at: usize) -> String {
    if at == 0 { "GATE".to_owned() } else { format!("GATE_{}", at.saturating_add(1)) }
}

impl Config {
    /// Reads the settings: `GATE`, and after it `GATE_2` and so on, because a variable takes 5 KB. The error is one sentence that says what to set.
    pub fn read(
        gates: impl IntoIterator<Item = String>,
        setting: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut routes = Vec::new();
        for (at, gate) in gates.into_iter().enumerate() {
            let name = variable(at);
            let gate: Gate =
                serde_json::from_str(&gate).map_err(|error| format!("{name} cannot be read: {error}."))?;
            if gate.routes.is_empty() {
                return Err(format!(
                    "{name} names no routes: write at least one [[vars.{name}.routes]] with its origin."
                ));
            }
            for raw in gate.routes {
                routes.push(Route::of(raw).map_err(|error| format!("{name}: {error}."))?);
            }
        }
        if routes.is_empty() {
            return Err(
                "GATE is not set: name the origin and its forms in wrangler.toml, as docs/gate.md shows."
                    .to_owned(),
            );
        }
        let signing_keys =
            settings::signing_keys(|name: &str| setting(name).filter(|value| !value.trim().is_empty()))?;
        Ok(Self { signing_keys, routes })
    }

    /// The routes of a host.
    pub fn of_host<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Route> {
        self.routes.iter().filter(move |route| route.host.as_deref().is_none_or(|own| own == host))
    }

    /// Whether a route says that it stands in front of this host.
    pub fn names(&self, host: &str) -> bool {
        self.routes.iter().any(|route| route.host.as_deref() == Some(host))
    }

    /// The route of a request, and what its address is there.
    pub fn find<'a>(&'a self, host: &'a str, method: &str, path: &str, query: &str) -> Option<Found<'a>> {
        self.of_host(host).find_map(|route| {
            let (kind, pattern) = route.pattern(method, path, query)?;
            Some(Found { route, kind, pattern })
        })
    }
}

impl Route {
    /// Whether what this visitor sends to one address is one operation, whatever its keys. Without the gate's cookie everybody would be one visitor.
    pub const fn is_series(&self, visitor: &str) -> bool {
        self.one_at_a_time && !visitor.is_empty()
    }

    fn of(raw: RawRoute) -> Result<Self, String> {
        let origin = raw.origin.trim_end_matches('/').to_owned();
        if !is_address(&origin) {
            return Err("`origin` must be an address such as https://shop.example, without a path".to_owned());
        }
        let patterns =
            |texts: &[String]| texts.iter().map(|text| Pattern::parse(text)).collect::<Result<Vec<_>, _>>();
        let (forms, api) = (patterns(&raw.forms)?, patterns(&raw.api)?);
        let logs_in = |pattern: &&Pattern| {
            let path = pattern.path().to_ascii_lowercase();
            LOG_IN.iter().any(|word| path.contains(word))
        };
        if let Some(pattern) = forms.iter().find(logs_in).filter(|_| !raw.force) {
            return Err(format!(
                "`{}` looks like a log-in form, whose answer is a session: leave it out, it is passed on as it is, or set \
                 `force = true`",
                pattern.path()
            ));
        }
        let bounded = |name: &str, value: Option<usize>, default: usize, most: usize| match value {
            Some(value) if value == 0 || value > most => Err(format!("`{name}` must be from 1 to {most}")),
            value => Ok(value.unwrap_or(default)),
        };
        if !raw.not_taken.iter().all(|status| (500..=599).contains(status)) {
            return Err("`not_taken` must name statuses from 500 to 599".to_owned());
        }
        if let Some(wrong) = raw.cors.iter().find(|text| *text != "*" && !is_origin(text)) {
            return Err(format!(
                "`cors` has `{wrong}`: it is an origin as browsers send it, such as https://app.shop.example, or *"
            ));
        }
        if let Some(wrong) = raw.host.as_ref().filter(|host| !is_host(host)) {
            return Err(format!(
                "`host` is `{wrong}`, which no request has: write it in small letters, without a scheme, a path or the port of \
                 its scheme, such as {}",
                bare_host(wrong)
            ));
        }
        if let Some(wrong) = raw.log_in.iter().flatten().find(|path| !is_path(path)) {
            return Err(format!(
                "`log_in` has `{wrong}`, to which no redirect leads: write a path alone, such as {}",
                bare_path(wrong)
            ));
        }
        let default = Times::default();
        let timeout_ms = raw.timeout_ms.unwrap_or(60_000);
        let waits = Waits {
            wait_ms: raw.wait_ms.unwrap_or(default.wait_ms),
            keep_ms: raw.keep_ms.unwrap_or(default.retention_ms),
            timeout_ms,
            replay_ms: raw.replay_ms.unwrap_or(3_600_000),
            quiet_ms: raw.quiet_ms.unwrap_or(timeout_ms.saturating_mul(2)),
        };
        waits.times().validate().map_err(|error| {
            let names = [
                ("PROVIDER_TIMEOUT_MS", "`timeout_ms`"),
                ("PROVIDER_WINDOW_MS", "`replay_ms`"),
                ("QUIET_MS", "`quiet_ms`"),
                ("WAIT_MS", "`wait_ms`"),
            ];
            names.iter().fold(error, |error, (theirs, ours)| error.replace(theirs, ours))
        })?;
        Ok(Self {
            host: raw.host,
            origin,
            forms,
            api,
            on_unknown: raw.on_unknown.map(RawOnUnknown::read).transpose()?.unwrap_or_default(),
            rules: Rules {
                done: raw.done.or_else(|| raw.preset.map(Preset::done)).unwrap_or_default(),
                failed_if: raw.failed_if.or_else(|| raw.preset.and_then(Preset::failed_if)),
                log_in: raw.log_in.unwrap_or_else(|| {
                    let known = raw.preset.map_or(&[][..], Preset::log_in);
                    known.iter().map(|path| (*path).to_owned()).collect()
                }),
                not_taken: raw.not_taken,
            },
            identity: raw.identity.map_or_else(
                || IDENTITY.iter().map(|name| (*name).to_owned()).collect(),
                |names| names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            ),
            session: raw.session,
            ignore: raw.ignore,
            cors: raw.cors,
            missing: raw.missing,
            edited: raw.edited,
            one_at_a_time: raw.one_at_a_time,
            max_body: bounded("max_body", raw.max_body, BODY_MAX, BODY_MAX_MAX)?,
            max_answer: bounded("max_answer", raw.max_answer, ANSWER_DEFAULT, ANSWER_MAX)?,
            waits,
            script: raw.script.unwrap_or(true),
            off: raw.off,
        })
    }

    /// What an address is, if it is one of this route's.
    pub fn pattern(&self, method: &str, path: &str, query: &str) -> Option<(Kind, &Pattern)> {
        let forms = self.forms.iter().map(|pattern| (Kind::Form, pattern));
        let all = forms.chain(self.api.iter().map(|pattern| (Kind::Api, pattern)));
        all.filter(|_| !self.off).find(|(_, pattern)| pattern.matches(method, path, query))
    }

    /// Whether there is any form at all, so that pages are looked at.
    pub fn has_forms(&self) -> bool {
        !self.off && !self.forms.is_empty()
    }

    /// What `Access-Control-Allow-Origin` says to a script of this origin, if it may read what the gate says itself.
    pub fn allows(&self, origin: &str) -> Option<&str> {
        self.cors.iter().map(String::as_str).find(|allowed| *allowed == "*" || *allowed == origin)
    }

    /// The origin's host and port.
    pub fn origin_host(&self) -> &str {
        self.origin.split_once("://").map_or("", |(_, host)| host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(gate: &str) -> Result<Config, String> {
        Config::read([gate.to_owned()], |_| Some("x".repeat(32)))
    }

    fn route(more: &str) -> Result<Route, String> {
        let gate = format!(
            r#"{{"routes":[{{"origin":"https://shop.example/","forms":["POST /checkout"]{more}}}]}}"#
        );
        read(&gate).map(|config| config.routes[0].clone())
    }

    #[test]
    fn ten_lines_are_enough() {
        let config = read(
            r#"{"routes":[{"origin":"https://shop.example","forms":["POST /checkout"],"api":["POST /v1/*"]}]}"#,
        );
        let config = config.unwrap();
        let found = |method, path| config.find("any.host", method, path, "").map(|found| found.kind);
        assert_eq!(found("POST", "/checkout"), Some(Kind::Form));
        assert_eq!(found("POST", "/v1/charges"), Some(Kind::Api));
        assert_eq!(found("GET", "/checkout"), None);
        assert_eq!(route("").unwrap().origin, "https://shop.example");
        assert_eq!(route("").unwrap().on_unknown, OnUnknown::NeverAgain);
    }

    #[test]
    fn a_preset_sets_what_is_not_set() {
        assert_eq!(route(r#","preset":"django""#).unwrap().rules.done, Done::Redirect);
        assert_eq!(route(r#","preset":"django","done":"answer""#).unwrap().rules.done, Done::Answer);
        assert!(route(r#","preset":"woocommerce""#).unwrap().rules.failed_if.is_some());
        assert_eq!(route(r#","preset":"laravel""#).unwrap().rules.log_in, ["/login"]);
        assert!(route(r#","preset":"laravel","log_in":[]"#).unwrap().rules.log_in.is_empty());
        assert!(route("").unwrap().rules.log_in.is_empty());
    }

    #[test]
    fn a_host_has_its_own_routes() {
        let config = read(
            r#"{"routes":[{"host":"a.example","origin":"https://a","forms":["POST /x"]},{"host":"b.example","origin":"https://b"}]}"#,
        );
        let config = config.unwrap();
        assert!(config.find("a.example", "POST", "/x", "").is_some());
        assert!(config.find("b.example", "POST", "/x", "").is_none());
        assert_eq!(config.of_host("b.example").next().unwrap().origin, "https://b");
        assert!(config.of_host("c.example").next().is_none());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (more, named) in [
            (r#","form":["POST /x"]"#, "form"),
            (r#","preset":"drupal""#, "drupal"),
            (r#","max_body":0"#, "max_body"),
            (r#","max_answer":99999999"#, "max_answer"),
            (r#","on_unknown":"hope""#, "hope"),
            (r#","on_unknown":{"lookup":"/orders"}"#, "lookup"),
            (r#","quiet_ms":1"#, "quiet_ms"),
            (r#","not_taken":[409]"#, "not_taken"),
            (r#","api":["/v1"]"#, "/v1"),
            (r#","host":"Shop.Example""#, "such as shop.example"),
            (r#","host":"https://shop.example""#, "such as shop.example"),
            (r#","host":"shop.example:443""#, "such as shop.example"),
            (r#","host":"shop.example/""#, "such as shop.example"),
            (r#","host":"""#, "`host`"),
            (r#","log_in":["/login","accounts/login/"]"#, "such as /accounts/login/"),
            (r#","log_in":["https://shop.example/login"]"#, "such as /login"),
            (r#","log_in":["/login?next=*"]"#, "such as /login"),
            (r#","cors":["https://app.example/"]"#, "https://app.example/"),
            (r#","cors":["https://App.example"]"#, "https://App.example"),
            (r#","cors":["https://app.example:443"]"#, "https://app.example:443"),
        ] {
            let error = route(more).unwrap_err();
            assert!(error.contains(named), "{more}: {error}");
        }
        assert!(read("{").unwrap_err().contains("GATE"));
        assert!(read(r#"{"routes":[]}"#).unwrap_err().contains("GATE"));
        assert!(read(r#"{"routes":[{"origin":"shop.example"}]}"#).unwrap_err().contains("origin"));
        assert!(Config::read([], |_| None).unwrap_err().contains("GATE"));
        let unsigned = Config::read([r#"{"routes":[{"origin":"https://a"}]}"#.to_owned()], |_| None);
        assert!(unsigned.unwrap_err().contains("SIGNING_KEY"));
    }

    #[test]
    fn a_host_and_log_ins_are_taken_as_requests_name_them() {
        for host in ["shop.example", "127.0.0.1:8788", "[::1]", "xn--schn-7qa.example"] {
            assert!(route(&format!(r#","host":"{host}""#)).is_ok(), "{host}");
        }
        assert!(route(r#","log_in":["/login","/accounts/*","*"]"#).is_ok());
    }

    #[test]
    fn what_is_too_long_for_one_variable_goes_on_in_the_next() {
        let gates =
            ["https://a", "https://b"].map(|origin| format!(r#"{{"routes":[{{"origin":"{origin}"}}]}}"#));
        let config = Config::read(gates.clone(), |_| Some("x".repeat(32))).unwrap();
        assert_eq!((config.routes.len(), config.routes[1].origin.as_str()), (2, "https://b"));
        let [first, _] = gates;
        let wrong = [first, r#"{"routes":[{"origin":"b"}]}"#.to_owned()];
        assert!(Config::read(wrong, |_| Some("x".repeat(32))).unwrap_err().starts_with("GATE_2: `origin`"));
    }

    #[test]
    fn scripts_of_the_origins_that_are_named_may_read_what_the_gate_says() {
        let named = route(r#","cors":["https://app.example"]"#).unwrap();
        assert_eq!(named.allows("https://app.example"), Some("https://app.example"));
        assert_eq!(named.allows("https://other.example"), None);
        assert_eq!(route(r#","cors":["*"]"#).unwrap().allows("https://any.example"), Some("*"));
        assert_eq!(route("").unwrap().allows("https://app.example"), None);
    }

    #[test]
    fn a_form_that_logs_in_is_refused_unless_it_is_forced() {
        let gate = |more: &str| {
            read(&format!(
                r#"{{"routes":[{{"origin":"https://a","forms":["POST /accounts/Login/"]{more}}}]}}"#
            ))
        };
        assert!(gate("").unwrap_err().contains("force"));
        assert!(gate(r#","force":true"#).is_ok());
    }

    #[test]
    fn a_gate_that_is_off_passes_all_on() {
        let route = route(r#","off":true"#).unwrap();
        assert!(route.pattern("POST", "/checkout", "").is_none());
        assert!(!route.has_forms());
    }
}
