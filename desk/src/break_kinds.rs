//! The kinds of breaks: all that any task, or the payments Worker, writes into the table. docs/operations.md says what each means.

use web::route::FromPath;

/// All of them, in the order of their names: as they are stored, and as they are shown.
pub const KINDS: [(&str, &str); 15] = [
    ("amount", "amount"),
    ("capture_failed", "capture failed"),
    ("dispute", "dispute"),
    ("ended", "ended"),
    ("missing", "missing"),
    ("movement", "movement"),
    ("orphan", "orphan"),
    ("report", "report"),
    ("settlement", "settlement"),
    ("silent", "silent"),
    ("status", "status"),
    ("unanswered", "unanswered"),
    ("unmoved", "unmoved"),
    ("unsettled", "unsettled"),
    ("webhook", "webhook"),
];

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakKind {
    name: &'static str,
    word: &'static str,
}

impl BreakKind {
    /// As addresses and the read model have it.
    pub const fn as_str(self) -> &'static str {
        self.name
    }

    /// As it is shown.
    pub const fn word(self) -> &'static str {
        self.word
    }

    /// What closes an open break of this kind, as it is stored, once its payment was asked: a sentence for whoever has done that.
    pub fn closed_by(kind: &str) -> &'static str {
        match kind {
            "webhook" => "accept it once you have looked",
            "capture_failed" | "silent" => "the next sweep closes it if the payment has gone on",
            "unsettled" => "it closes once the payment stands in a report",
            "report" | "settlement" | "ended" => "accept it once it is settled",
            _ => "the next reconciliation closes it if both sides agree",
        }
    }

    /// From the text of an address.
    pub fn parse(text: &str) -> Option<Self> {
        KINDS.into_iter().find(|(name, _)| *name == text).map(|(name, word)| Self { name, word })
    }
}

impl FromPath for BreakKind {
    fn from_path(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    fn fits(text: &str) -> bool {
        Self::parse(text).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::compare::Kind;

    #[test]
    fn what_a_comparison_finds_is_among_them_and_each_has_a_row_in_the_documents() {
        let compared = [
            Kind::Orphan,
            Kind::Missing,
            Kind::Amount,
            Kind::Status,
            Kind::Movement,
            Kind::Dispute,
            Kind::Unanswered,
            Kind::Ended,
        ];
        assert!(compared.iter().all(|kind| BreakKind::parse(kind.as_str()).is_some()));
        assert!(KINDS.is_sorted());
        assert_eq!(BreakKind::parse("capture_failed").map(BreakKind::word), Some("capture failed"));
        assert_eq!(BreakKind::parse("of another release"), None);
        assert_eq!(
            BreakKind::closed_by("webhook"),
            "accept it once you have looked",
            "nothing else closes it"
        );
        assert!(BreakKind::closed_by("amount").contains("reconciliation"));
        let operations = include_str!("../../docs/operations.md");
        for (kind, _) in KINDS {
            assert!(operations.contains(&format!("`{kind}`")), "{kind}");
        }
    }
}
