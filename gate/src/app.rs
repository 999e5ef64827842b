//! What a request's handler has at hand: the settings, and the way to the objects.

use std::cell::OnceCell;
use std::rc::Rc;

use worker::Env;
use worker::js_sys::{JSON, Reflect};

use crate::config::{Config, variable};

/// See the module.
pub(crate) struct Gate {
    pub(crate) config: Rc<Config>,
    pub(crate) env: Env,
}

impl Gate {
    /// Reads the settings once; the error says what to set.
    pub(crate) fn open(env: Env) -> std::result::Result<Self, String> {
        thread_local! { static CONFIG: OnceCell<Rc<Config>> = const { OnceCell::new() }; }
        if let Some(config) = CONFIG.with(|known| known.get().cloned()) {
            return Ok(Self { config, env });
        }
        let read = |at| {
            let name = variable(at);
            let value = Reflect::get(&env, &name.into()).ok().filter(|value| !value.is_undefined())?;
            value.as_string().or_else(|| Some(JSON::stringify(&value).ok()?.into()))
        };
        let gates = (0..).map_while(read);
        let config = Rc::new(Config::read(gates, |name| runtime::setting(&env, name))?);
        CONFIG.with(|known| known.set(Rc::clone(&config)).ok());
        Ok(Self { config, env })
    }
}
