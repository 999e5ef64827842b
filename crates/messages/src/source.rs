//! The lists of Stripe's that are compared with our records, and the names of their cursors.

/// A list of Stripe's that is compared with our records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// What has happened.
    Events,
    /// What has moved the balance.
    Movements,
    /// What was made.
    Payments,
}

impl Source {
    /// All of them, in the order in which they are read.
    pub const ALL: [Self; 3] = [Self::Events, Self::Movements, Self::Payments];

    /// The name of its cursor.
    pub const fn cursor(self) -> &'static str {
        match self {
            Self::Events => "stripe_events",
            Self::Movements => "stripe_movements",
            Self::Payments => "stripe_payments",
        }
    }

    /// As it is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Movements => "balance_transactions",
            Self::Payments => "payment_intents",
        }
    }

    /// The name of its cursor in an account that is connected, else in the key's own.
    pub fn cursor_of(self, account: Option<&str>) -> String {
        in_account(self.cursor(), account)
    }

    /// The name of the cursor that says since when the list is read.
    pub fn since_of(self, account: Option<&str>) -> String {
        in_account(&format!("{}_since", self.cursor()), account)
    }

    /// From the name of its cursor, of whichever account.
    pub fn of_cursor(name: &str) -> Option<Self> {
        let name = name.split(':').next().unwrap_or(name);
        Self::ALL.into_iter().find(|source| source.cursor() == name)
    }

    /// How far back what was read is compared once more, in ms: payments for `window_ms`.
    pub const fn again_ms(self, window_ms: u64) -> u64 {
        match self {
            Self::Events | Self::Movements => 0,
            Self::Payments => window_ms,
        }
    }
}

fn in_account(name: &str, account: Option<&str>) -> String {
    account.map_or_else(|| name.to_owned(), |account| format!("{name}:{account}"))
}
