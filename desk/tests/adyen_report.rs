//! Adyen's report is read the same in whatever order its columns stand and however it is cut, and nothing makes the reader panic.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: a panic is its verdict"
)]

use paid_once_desk::tasks::adyen_report::{Head, Line};
use paid_once_desk::tasks::csv::LINE_MAX_BYTES;
use proptest::prelude::*;

const ACCOUNT: &str = "Shop";

/// Currencies with Adyen's decimals, and what 1 of Adyen's minor units is in ours.
const CURRENCIES: [(&str, u32, u32); 5] =
    [("EUR", 2, 1), ("ISK", 2, 1), ("JPY", 0, 1), ("KWD", 3, 1), ("IDR", 0, 100)];

#[derive(Clone, Debug)]
struct Written {
    kind: &'static str,
    payment: String,
    currency: (&'static str, u32, u32),
    theirs: u32,
    /// In quotes, with something in them that only quotes allow.
    comment: String,
}

fn written() -> impl Strategy<Value = Written> {
    let kinds = ["Settled", "Refunded", "RefundedReversed", "Chargeback", "Fee", "Unheard"];
    (
        prop::sample::select(kinds.to_vec()),
        "[A-Z0-9]{16}",
        prop::sample::select(CURRENCIES.to_vec()),
        1..900_000_u32,
        "[ -~\n\r]{0,12}",
    )
        .prop_map(|(kind, payment, currency, theirs, comment)| Written {
            kind,
            payment,
            currency,
            theirs,
            comment,
        })
}

impl Written {
    fn amount(&self) -> String {
        let scale = 10_u32.pow(self.currency.1);
        match self.currency.1 {
            0 => self.theirs.to_string(),
            width => {
                format!("{}.{:0width$}", self.theirs / scale, self.theirs % scale, width = width as usize)
            }
        }
    }

    fn cell(&self, column: &str) -> String {
        match column {
            "Merchant Account" => ACCOUNT.to_owned(),
            "Psp Reference" => self.payment.clone(),
            "Creation Date" => "2026-11-20 10:00:00".to_owned(),
            "TimeZone" => "CET".to_owned(),
            "Type" => self.kind.to_owned(),
            "Modification Reference" => format!("{}M", self.payment),
            "Gross Currency" => self.currency.0.to_owned(),
            "Gross Debit (GC)" => self.amount(),
            "Batch Number" => "7".to_owned(),
            "Comment" => format!("\"{}\"", self.comment.replace('"', "\"\"")),
            _ => String::new(),
        }
    }
}

const COLUMNS: [&str; 12] = [
    "Merchant Account",
    "Psp Reference",
    "Merchant Reference",
    "Creation Date",
    "TimeZone",
    "Type",
    "Modification Reference",
    "Gross Currency",
    "Gross Debit (GC)",
    "Gross Credit (GC)",
    "Batch Number",
    "Comment",
];

fn file(columns: &[&str], rows: &[Written]) -> Vec<u8> {
    let head = columns.join(",");
    let rows = rows.iter().map(|row| columns.iter().map(|name| row.cell(name)).collect::<Vec<_>>().join(","));
    std::iter::once(head).chain(rows).map(|row| format!("{row}\r\n")).collect::<String>().into_bytes()
}

/// What is read, without the numbers of the lines.
fn read(bytes: &[u8]) -> Vec<(String, String, u64)> {
    let head = Head::read(bytes, true).unwrap();
    let lines = head.rows(&bytes[head.bytes..], head.next_line, true).unwrap();
    assert_eq!(head.bytes + lines.bytes, bytes.len());
    lines.lines.into_iter().map(face).collect()
}

fn face((account, line): (String, Line)) -> (String, String, u64) {
    assert_eq!(account, ACCOUNT);
    match line {
        Line::Moved(row) => (row.kind, row.payment, row.amount_minor),
        Line::Counted { kind, .. } => (kind, String::new(), 0),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn any_order_of_columns_is_read_the_same(
        columns in Just(COLUMNS.to_vec()).prop_shuffle(),
        rows in prop::collection::vec(written(), 0..8),
    ) {
        let expected: Vec<_> = rows
            .iter()
            .map(|row| match row.kind {
                "Fee" | "Unheard" => (row.kind.to_owned(), String::new(), 0),
                kind => (kind.to_owned(), row.payment.clone(), u64::from(row.theirs * row.currency.2)),
            })
            .collect();
        prop_assert_eq!(read(&file(&columns, &rows)), expected);
    }

    #[test]
    fn any_slices_are_read_as_the_whole(
        rows in prop::collection::vec(written(), 0..40),
        cuts in prop::collection::vec(1..400_usize, 1..8),
    ) {
        let bytes = file(&COLUMNS, &rows);
        let whole = read(&bytes);
        let head = Head::read(&bytes, true).unwrap();
        let (mut at, mut line) = (head.bytes, head.next_line);
        let mut found = Vec::new();
        let mut cuts = cuts.into_iter().cycle();
        let mut length = 0;
        loop {
            // A slice in which no line ends is read again, longer.
            length += cuts.next().unwrap();
            let end = (at + length).min(bytes.len());
            let is_all = end == bytes.len();
            let lines = head.rows(&bytes[at..end], line, is_all).unwrap();
            if lines.bytes > 0 {
                length = 0;
            }
            at += lines.bytes;
            line = lines.next_line;
            found.extend(lines.lines.into_iter().map(face));
            if is_all {
                break;
            }
        }
        prop_assert_eq!(at, bytes.len());
        prop_assert_eq!(found, whole);
    }

    #[test]
    fn garbage_is_an_error_and_no_panic(
        bytes in prop::collection::vec(prop::sample::select(b"\",\r\n\xef\xbb\xbf\xffaT1.0-".to_vec()), 0..200),
        is_all: bool,
    ) {
        prop_assert!(Head::read(&bytes, is_all).is_err(), "it has no columns");
        let head = Head::read(&file(&COLUMNS, &[]), true).unwrap();
        // Whatever these are: no line of them is one of a payment.
        if let Ok(lines) = head.rows(&bytes, 2, is_all) {
            prop_assert!(lines.bytes <= bytes.len());
            prop_assert!(!lines.lines.iter().any(|(_, line)| matches!(line, Line::Moved(_))), "{:?}", lines.lines);
        }
    }

    #[test]
    fn any_cell_is_a_line_or_an_error(cells in prop::collection::vec("[^\",\r\n]{0,20}", 11..12), kind in 0..3_usize) {
        let kind = ["Settled", "Refunded", "Chargeback"][kind];
        let names = &COLUMNS[..11];
        let mut cells = cells;
        cells[0] = ACCOUNT.to_owned();
        cells[5] = kind.to_owned();
        let text = format!("{}\n{}\n", names.join(","), cells.join(","));
        let head = Head::read(text.as_bytes(), true).unwrap();
        let lines = head.rows(&text.as_bytes()[head.bytes..], 2, true).unwrap();
        prop_assert_eq!(lines.lines.len(), 1);
    }
}

#[test]
fn a_line_is_not_looked_for_without_end() {
    let head = Head::read(&file(&COLUMNS, &[]), true).unwrap();
    let error = head.rows(&vec![b'x'; LINE_MAX_BYTES * 2], 2, false).unwrap_err();
    assert_eq!(error, format!("line 2: is longer than {LINE_MAX_BYTES} bytes"));
}
