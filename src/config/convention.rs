//! The convention of tutorials, which the lab answers by, so that their exercises pass as they are written. In the demo only: a client that
//! depends on it would find another one in production.

use payments::payment::money::Currency;

/// Where answers differ from the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Convention {
    /// `CREATED_STATUS=200`: in the place of 201.
    pub created_status: Option<u16>,
    /// `KEY_ECHO=body`: an operation's answer names the client's key, in `Idempotency-Key` and in its JSON.
    pub echoes_key: bool,
    /// `ERROR_MEMBER=error`: a problem also says its title in `error`.
    pub has_error: bool,
    /// `DEFAULT_CURRENCY`: of a payment that says none.
    pub currency: Option<Currency>,
}

/// Reads it. The error is one sentence that says what to set.
pub(super) fn read(setting: impl Fn(&str) -> Option<String>, demo: bool) -> Result<Convention, String> {
    let names = ["CREATED_STATUS", "KEY_ECHO", "ERROR_MEMBER", "DEFAULT_CURRENCY"];
    if let Some(name) = names.into_iter().find(|name| setting(name).is_some() && !demo) {
        return Err(format!("{name} is for the demo only: remove it."));
    }
    let is_second = |name: &str, [first, second]: [&str; 2]| match setting(name).as_deref() {
        None => Ok(false),
        Some(word) if word == first => Ok(false),
        Some(word) if word == second => Ok(true),
        Some(_) => Err(format!("{name} must be {first} or {second}.")),
    };
    let currency = setting("DEFAULT_CURRENCY").map(|code| Currency::parse_offered(&code)).transpose();
    Ok(Convention {
        created_status: is_second("CREATED_STATUS", ["201", "200"])?.then_some(200),
        echoes_key: is_second("KEY_ECHO", ["none", "body"])?,
        has_error: is_second("ERROR_MEMBER", ["none", "error"])?,
        currency: currency.map_err(|message| format!("DEFAULT_CURRENCY {message}."))?,
    })
}
