//! Which documents there are, in the order of the navigation.

/// A document of the repository, and its page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document {
    /// Its path in the repository.
    pub(crate) file: &'static str,
    /// The last part of its address; empty for the first page.
    pub(crate) slug: &'static str,
    /// Its name in the navigation.
    pub(crate) name: &'static str,
    /// One sentence, for search engines and previews.
    pub(crate) about: &'static str,
}

impl Document {
    /// Where the site has it.
    pub(crate) fn path(&self) -> String {
        match self.slug {
            "" => "/guide".to_owned(),
            slug => format!("/guide/{slug}"),
        }
    }

    /// The name of the file that is written.
    pub(crate) fn page(&self) -> String {
        match self.slug {
            "" => "overview.html".to_owned(),
            slug => format!("{slug}.html"),
        }
    }
}

/// Documents under one heading.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) documents: &'static [Document],
}

const fn document(
    file: &'static str,
    slug: &'static str,
    name: &'static str,
    about: &'static str,
) -> Document {
    Document { file, slug, name, about }
}

/// All of them.
pub(crate) static GROUPS: &[Group] = &[
    Group {
        name: "Start",
        documents: &[
            document(
                "README.md",
                "",
                "Overview",
                "What Paid Once does, how to start it, and where to read on.",
            ),
            document(
                "docs/try-it.md",
                "try-it",
                "Try it",
                "Authorize, capture, refund, fail and resume a payment with curl, step by step.",
            ),
            document(
                "docs/lab.md",
                "lab",
                "The lab",
                "An experiment with idempotency keys in the browser, and ten with curl, each a minute long.",
            ),
        ],
    },
    Group {
        name: "Use it",
        documents: &[
            document(
                "docs/integrate.md",
                "integrate",
                "Integrate a shop",
                "From a checkout session to the refund: redirect, verify, fulfil, and poll for what is paid.",
            ),
            document(
                "docs/migrate-from-stripe.md",
                "migrate-from-stripe",
                "From Stripe’s API",
                "Which of Stripe’s requests, statuses and webhooks becomes what, and how to move a shop over.",
            ),
            document(
                "docs/protocol.md",
                "protocol",
                "Protocol",
                "What clients of the API may rely on: the key, its states, payments and problems.",
            ),
            document(
                "docs/protocol-shop.md",
                "protocol-shop",
                "For shops",
                "What a shop may rely on: the order’s link, its form, and the receipt.",
            ),
            document(
                "docs/protocol-operator.md",
                "protocol-operator",
                "For operators",
                "What stands behind the protocol’s promises: webhooks, unknown outcomes, the provider’s keys, metrics.",
            ),
            document(
                "docs/gate.md",
                "gate",
                "The gate",
                "Put idempotency in front of forms and APIs that exist already, without a change to their code.",
            ),
            document(
                "docs/testing.md",
                "testing",
                "Testing",
                "How Paid Once is tested, and how to use it in your own tests.",
            ),
        ],
    },
    Group {
        name: "Understand it",
        documents: &[
            document(
                "docs/architecture.md",
                "architecture",
                "Architecture",
                "One request in numbered steps, the folders, and the decisions.",
            ),
            document(
                "docs/choices.md",
                "choices",
                "Choices",
                "How long to keep a key, where keys come from, Redis or not, 409 or 422, and why.",
            ),
            document(
                "docs/performance.md",
                "performance",
                "Performance",
                "What a payment takes, measured against the least that a Worker can do.",
            ),
            document(
                "docs/performance-log.md",
                "performance-log",
                "Performance log",
                "How the numbers came about: earlier measurements, and what was tried.",
            ),
            document(
                "docs/scale.md",
                "scale",
                "Capacity",
                "Up to how many payments a second each part holds, and what to do then.",
            ),
            document(
                "crates/once/README.md",
                "once",
                "The engine",
                "The idempotency engine without I/O, for a flow of your own.",
            ),
            document(
                "crates/once-object/README.md",
                "once-object",
                "Engine on Workers",
                "The engine on a Durable Object with SQLite, for any project on workers-rs.",
            ),
            document(
                "crates/once-testing/README.md",
                "once-testing",
                "Engine tests",
                "Play a flow of the engine with crashes and lost messages, in simulated time.",
            ),
            document(
                "simulator/README.md",
                "simulator",
                "Simulator",
                "The second Worker that plays Stripe, Adyen, Resend and a text message service.",
            ),
        ],
    },
    Group {
        name: "Run it",
        documents: &[
            document(
                "docs/deploy.md",
                "deploy",
                "Deploy",
                "How to deploy it: commands, secrets, the checklist for going live, and how to roll back.",
            ),
            document(
                "docs/accounts.md",
                "accounts",
                "Accounts",
                "API accounts, several shops in one deployment, and their own keys at Stripe and Adyen.",
            ),
            document(
                "docs/settings.md",
                "settings",
                "Settings",
                "All variables with their defaults and ranges, bindings, queues, and counts by Analytics Engine.",
            ),
            document(
                "docs/operations.md",
                "operations",
                "Operations",
                "What runs by itself, what an operator does, and where to look.",
            ),
            document(
                "SECURITY.md",
                "security",
                "Security",
                "How to report a weakness, what is trusted, and what is tested against.",
            ),
            document(
                "CONTRIBUTING.md",
                "contributing",
                "Contributing",
                "All commands, and the habits of the code.",
            ),
            document("CHANGELOG.md", "changelog", "Changelog", "What has changed, release by release."),
            document(
                "docs/development-log.md",
                "development-log",
                "Development log",
                "What changed between the builds before the first release.",
            ),
        ],
    },
];

/// The document at a path of the repository, or the one that describes a folder.
pub(crate) fn at(path: &str) -> Option<&'static Document> {
    let of_folder = format!("{path}/README.md");
    let of_folder = of_folder.trim_start_matches('/');
    GROUPS
        .iter()
        .flat_map(|group| group.documents)
        .find(|document| document.file == path || document.file == of_folder)
}
