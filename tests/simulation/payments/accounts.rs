//! Two accounts at Stripe, and the secret of one of them, which is configured: it is rolled, it is replaced by one of the other
//! account by mistake, and put right again. Each account has books and idempotency keys of its own: the same bytes charge again
//! in the other one.

use std::array;
use std::sync::LazyLock;

use once::account::Credential;
use payments::engine::{CallState, Credentials, ProviderCall};
use payments::providers::HttpAnswer;

use super::bank::{Intent, Ledger};
use super::stripe::Stripe;
use super::wire::LAGS;
use super::world::{Event, Object, World};
use crate::faults::{HOUR, MINUTE, SECOND};
use crate::history::error;
use crate::history::quarantine_ms;
use crate::rng::Rng;

/// Longer than anything takes once the right key is there.
const SETTLED_MS: u64 = 6 * 24 * HOUR;

/// How often the secret is changed in one history.
const CHANGES_MAX: u64 = 3;

/// A secret key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Secret {
    /// Of the account with which everything begins; else of the other one.
    pub(crate) is_first: bool,
    /// How often it was rolled.
    pub(crate) rolled: u64,
}

impl Secret {
    pub(crate) const FIRST: Self = Self { is_first: true, rolled: 0 };
    const OTHER: Self = Self { is_first: false, rolled: 0 };

    pub(crate) fn credentials(self) -> Credentials {
        CREDENTIALS[usize::from(self.is_first)][self.rolled as usize]
    }
}

/// Of each secret that a history may have: made once, since all of them ask after each step.
static CREDENTIALS: LazyLock<[[Credentials; 1 + CHANGES_MAX as usize]; 2]> = LazyLock::new(|| {
    [false, true].map(|is_first| {
        array::from_fn(|rolled| Credentials {
            stripe: Credential::of(&format!("sk_{is_first}_{rolled}"), &["stripe"], true),
            own_stripe: None,
            adyen: Some(Credential::of("", &["adyen"], true)),
            own_adyen: None,
        })
    })
});

/// What is configured, and what else is known of it.
pub(crate) struct Accounts {
    pub(crate) is_on: bool,
    pub(crate) secret: Secret,
    /// Since when, in ms since the epoch.
    since_ms: u64,
    /// The keys may not read their account.
    restricted: bool,
    /// The books of the other account.
    pub(crate) other: Stripe,
}

impl Accounts {
    pub(crate) const fn new(other: Stripe) -> Self {
        Self {
            is_on: false,
            secret: Secret::FIRST,
            since_ms: crate::schedule::EPOCH_MS,
            restricted: false,
            other,
        }
    }

    /// Whether nothing has changed for so long that whatever could end has ended.
    pub(crate) const fn is_settled(&self, now_ms: u64) -> bool {
        self.is_on && now_ms > self.since_ms + SETTLED_MS
    }
}

impl World {
    /// The secret is changed: rolled, or replaced by another account's for a while.
    pub(crate) fn with_accounts(mut self, mut rng: Rng) -> Self {
        self.accounts.is_on = true;
        self.accounts.restricted = rng.permille(150);
        let mut at_ms = 0;
        let mut rolled = 0;
        for _ in 0..rng.between(1, CHANGES_MAX) {
            let most_ms = rng.pick(&[10 * SECOND, MINUTE, HOUR, 30 * HOUR]);
            at_ms += rng.between(10, most_ms);
            if rng.permille(700) {
                self.after(at_ms, Event::Secret(Secret::OTHER));
                let most_ms = rng.pick(&[MINUTE, 3 * HOUR, 30 * HOUR]);
                at_ms += rng.between(SECOND, most_ms);
            }
            rolled += u64::from(rng.permille(400));
            self.after(at_ms, Event::Secret(Secret { is_first: true, rolled }));
        }
        self
    }

    /// Another secret is configured: every incarnation begins anew.
    pub(crate) fn configure(&mut self, secret: Secret) {
        self.tell(|| format!("the secret is {secret:?}"));
        self.counters.count(match (secret == self.accounts.secret, secret.is_first) {
            (true, _) => "accounts: nothing changed",
            (false, true) => "accounts: the first one's key",
            (false, false) => "accounts: another one's key",
        });
        // A send that died with its incarnation may be past its window once the right key is back: it is in quarantine then.
        if !self.accounts.secret.is_first && self.now_ms > self.accounts.since_ms + 12 * MINUTE {
            self.owed_ms = self.owed_ms.max(quarantine_ms(&self.times));
        }
        (self.accounts.secret, self.accounts.since_ms) = (secret, self.now_ms);
        for instance in 0..self.instances.len() {
            if self.instances[instance].alive {
                self.crash(instance, 0);
            }
        }
        if secret.is_first {
            let waiting = self.objects.iter().filter(|object| is_away(object)).count();
            self.counters.add("accounts: waited for", waiting as u64);
        }
        // What waits is asked about every quarter of an hour.
        self.calm_from_ms = self.calm_from_ms.max(self.now_ms + HOUR);
        self.is_busy();
    }

    /// While another account's key is configured, what is in doubt waits for a person.
    pub(crate) fn is_calm(&mut self) {
        if !self.accounts.secret.is_first {
            self.calm_from_ms = self.calm_from_ms.max(self.now_ms + HOUR);
        }
    }

    pub(crate) const fn stripe_with(&mut self, secret: Secret) -> &mut Stripe {
        if secret.is_first { &mut self.stripe } else { &mut self.accounts.other }
    }

    pub(crate) fn ledger_of(&mut self, provider: &str) -> &mut Ledger {
        match provider {
            "stripe" => &mut self.stripe.ledger,
            "stripe-other" => &mut self.accounts.other.ledger,
            _ => &mut self.adyen.ledger,
        }
    }

    /// A `GET` with a key.
    pub(crate) fn get_with(&mut self, secret: Secret, path: &str) -> HttpAnswer {
        if path == "/v1/account" {
            self.counters.count("accounts: asked for");
            if self.accounts.restricted {
                return error(403, "invalid_request_error", Some("more_permissions_required"));
            }
        }
        let now_ms = self.now_ms;
        let stripe = self.stripe_with(secret);
        let answer = stripe.get(now_ms, path);
        let is_hidden = |intent: &Intent| intent.listed_from_ms > now_ms;
        if path.starts_with("/v1/payment_intents?") && stripe.ledger.intents.iter().any(is_hidden) {
            self.counters.count(LAGS);
        }
        answer
    }
}

/// Whether something of an object must wait for the other account's key.
pub(crate) fn is_away(object: &Object) -> bool {
    calls_away(object) > 0
}

/// How many calls of an object must wait for the other account's key.
pub(crate) fn calls_away(object: &Object) -> usize {
    let is_others = |call: &&ProviderCall| {
        let sent_to = call.evidence.sent_to.as_ref();
        let is_open = !matches!(call.state, CallState::Settled(_));
        sent_to.is_some_and(|sent_to| {
            sent_to.credential == Secret::OTHER.credentials().stripe || (sent_to.away.is_some() && is_open)
        })
    };
    object.store.object_state.calls.iter().filter(is_others).count()
}
