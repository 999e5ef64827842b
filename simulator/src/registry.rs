//! The list of providers: the only place, besides their own folders, that names them.

use crate::adyen::Adyen;
use crate::provider::Providers;
use crate::resend::Resend;
use crate::sms::Sms;
use crate::stripe::Stripe;

/// Every provider. Those that answer for an address below `/_sim/` are asked in this order.
pub const PROVIDERS: Providers = Providers(&[&Adyen, &Stripe, &Resend, &Sms]);
