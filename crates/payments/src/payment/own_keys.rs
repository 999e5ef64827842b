//! Accounts with keys of their own at Stripe: where a payment names the connected account in which it was made, one of these has this name. So it
//! is frozen with the payment and with each of its requests, and goes wherever the name of a connected account goes: to the questions, the
//! read model, the books that are compared.
//!
//! Stripe has no account of such a name. A release that does not know it sends it as `Stripe-Account` and is refused: nothing is charged with
//! another key.

/// How the names begin. An account at Stripe begins with `acct_`.
const PREFIX: &str = "keys:";

/// Stands for keys that nobody has: an id is never empty.
pub const OF_NOBODY: &str = PREFIX;

/// What stands for the keys of an API account.
pub fn name_of(account: &str) -> String {
    format!("{PREFIX}{account}")
}

/// The API account whose keys this stands for. `None` if it is the name of a connected account.
pub fn account_of(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_connected_account_is_taken_for_one_with_keys() {
        assert_eq!(account_of(&name_of("shop-a")), Some("shop-a"));
        assert_eq!(account_of("acct_keys"), None);
        assert_eq!(account_of("acct_1"), None);
    }
}
