//! Adyen's settlement details report: what its bytes are. Pure.
//!
//! CSV ([RFC 4180](https://www.rfc-editor.org/rfc/rfc4180)) with a head whose columns are found by their names, in any order. It is read in
//! slices, however long it is: [`Head::read`] reads the first line, [`Head::rows`] the whole lines of what follows.
//!
//! Outcomes: what is no such report (or breaks off within a line) is refused and says where; a line that moves money and cannot be read
//! is [`Line::Unreadable`], and the others count; types that are not known are kept by their names. Amounts are decimals in major
//! units: they become our minor units digit by digit, and what these cannot express is not rounded.
//!
//! Source: <https://docs.adyen.com/reporting/settlement-reconciliation/transaction-level/settlement-details-report>

use chrono::DateTime;
use serde::Serialize;

use super::adyen_merchants::within;
use super::csv::{Csv, LINE_MAX_BYTES, Record};
use payments::payment::id::PaymentId;
use payments::providers::adyen::minor_units;
use payments::providers::adyen::report::{NAME_MAX, is_plain_name};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The columns that are read. Others are ignored.
#[derive(Clone, Copy)]
enum Column {
    MerchantAccount,
    PspReference,
    MerchantReference,
    CreationDate,
    TimeZone,
    Type,
    ModificationReference,
    GrossCurrency,
    GrossDebit,
    GrossCredit,
    BatchNumber,
}

const NAMES: [&str; 11] = [
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
];

/// What a line says has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// What was captured is paid out.
    Settled,
    /// … and taken back: the scheme did not pay.
    SettledReversed,
    /// A refund.
    Refunded,
    /// … that came back.
    RefundedReversed,
    /// A bank has taken money back.
    Chargeback,
    /// … for a second time.
    SecondChargeback,
    /// … and has given it back.
    ChargebackReversed,
    /// No payment's money: fees, payouts, corrections.
    Costs,
    /// A type that is not known here.
    Unknown,
}

/// No payment's money. <https://docs.adyen.com/developers/reporting/settlement-detail-report/settlement-detail-report-structure/journal-types>
const COSTS: [&str; 14] = [
    "AuthorisationSchemeFee",
    "Balancetransfer",
    "BankInstructionReturned",
    "DepositCorrection",
    "EpaPaid",
    "Fee",
    "InternalCompanyPayout",
    "InvoiceDeduction",
    "ManualCorrected",
    "MatchedStatement",
    "MerchantPayout",
    "MiscCosts",
    "PaymentCost",
    "ReserveAdjustment",
];

impl Type {
    /// From its name.
    pub fn of(name: &str) -> Self {
        match name {
            "Settled" => Self::Settled,
            "SettledReversed" => Self::SettledReversed,
            "Refunded" => Self::Refunded,
            "RefundedReversed" => Self::RefundedReversed,
            "Chargeback" => Self::Chargeback,
            "SecondChargeback" => Self::SecondChargeback,
            "ChargebackReversed" => Self::ChargebackReversed,
            name if COSTS.contains(&name) => Self::Costs,
            _ => Self::Unknown,
        }
    }

    /// Whether it moves the money of a payment.
    pub const fn moves_money(self) -> bool {
        !matches!(self, Self::Costs | Self::Unknown)
    }
}

/// A line of a payment whose money has moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The same in every file that has this line: a report of a payout and one of several overlap.
    pub id: String,
    /// Where it stands in the file; the head is line 1.
    pub line: u64,
    /// `Type`, as it is written.
    pub kind: String,
    /// The payment's `pspReference`.
    pub payment: String,
    /// The payment of ours that `Merchant Reference` names.
    pub resource: Option<String>,
    /// The `pspReference` of what was done to the payment; else the payment's.
    pub modification: String,
    /// In our minor units.
    pub amount_minor: u64,
    /// In lower case.
    pub currency: String,
    /// When it was made, in ms since the epoch; `None` if the time zone is not known.
    pub made_at_ms: Option<u64>,
    /// The payout.
    pub batch: String,
}

/// A line of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Money of a payment has moved.
    Moved(Row),
    /// Nothing of a payment's money: it is counted, by its type.
    Counted {
        /// As it is written.
        kind: String,
        /// It is one that is not known.
        is_unknown: bool,
    },
    /// It moves money, and cannot be read: for a person.
    Unreadable {
        /// Where it stands.
        line: u64,
        /// What is wrong.
        error: String,
    },
}

/// What was read of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Its lines, each behind the merchant account that it is of.
    pub lines: Vec<(String, Line)>,
    /// How many bytes these are: the next slice begins after them.
    pub bytes: usize,
    /// At which line it begins.
    pub next_line: u64,
}

/// The first line of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    places: [usize; NAMES.len()],
    cells: usize,
    /// How many bytes it is.
    pub bytes: usize,
    /// The number of the next line.
    pub next_line: u64,
}

impl Head {
    /// Reads the first line. `is_all` says that nothing follows these bytes. The error names what is missing.
    pub fn read(bytes: &[u8], is_all: bool) -> Result<Self, String> {
        let start = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
        let mut csv = Csv::at(bytes, start, 1, is_all);
        let cells = match csv.record() {
            Ok(Some(Record { cells, .. })) => cells,
            Ok(None) if is_all => return Err("it is empty".to_owned()),
            Ok(None) => return Err(format!("line 1: is longer than {LINE_MAX_BYTES} bytes")),
            Err(error) => return Err(error),
        };
        let mut places = [0; NAMES.len()];
        let (mut missing, mut doubled) = (Vec::new(), Vec::new());
        for (place, name) in places.iter_mut().zip(NAMES) {
            let is_it = |cell: &Vec<u8>| cell.trim_ascii().eq_ignore_ascii_case(name.as_bytes());
            match cells.iter().filter(|cell| is_it(cell)).count() {
                0 => missing.push(name),
                1 => *place = cells.iter().position(is_it).unwrap_or_default(),
                _ => doubled.push(name),
            }
        }
        if let [only] = cells.as_slice()
            && let Some(between) = only.iter().find(|byte| b";\t|".contains(byte))
        {
            let between = char::from(*between).escape_default();
            return Err(format!("line 1: its columns are set apart by `{between}`, and must be by commas"));
        }
        if !missing.is_empty() {
            return Err(format!("line 1: these columns are missing: {}", missing.join(", ")));
        }
        if !doubled.is_empty() {
            return Err(format!("line 1: these columns are there twice: {}", doubled.join(", ")));
        }
        Ok(Self { places, cells: cells.len(), bytes: csv.at, next_line: csv.line })
    }

    /// Reads the whole lines at the beginning of `bytes`, of which the first has the number `line`. `is_all` says that nothing follows
    /// them.
    pub fn rows(&self, bytes: &[u8], line: u64, is_all: bool) -> Result<Lines, String> {
        let mut csv = Csv::at(bytes, 0, line, is_all);
        let mut lines = Vec::new();
        while let Some(record) = csv.record()? {
            if record.cells.len() != self.cells {
                return Err(format!(
                    "line {}: has {} cells, and the head {}",
                    record.line,
                    record.cells.len(),
                    self.cells
                ));
            }
            lines.push(self.line(&record));
        }
        if csv.at == 0 && bytes.len() > LINE_MAX_BYTES {
            return Err(format!("line {line}: is longer than {LINE_MAX_BYTES} bytes"));
        }
        Ok(Lines { lines, bytes: csv.at, next_line: csv.line })
    }

    fn line(&self, record: &Record) -> (String, Line) {
        let cell = |column: Column| {
            let place = self.places.get(column as usize).copied().unwrap_or(usize::MAX);
            record.cells.get(place).map_or("", |cell| std::str::from_utf8(cell).unwrap_or("\u{fffd}").trim())
        };
        let merchant_account = cell(Column::MerchantAccount).to_owned();
        let name = cell(Column::Type);
        let kind = Type::of(name);
        if !kind.moves_money() {
            let kind_shown = name.chars().filter(|c| !c.is_control()).take(NAME_MAX).collect();
            let counted = Line::Counted { kind: kind_shown, is_unknown: kind == Type::Unknown };
            return (merchant_account, counted);
        }
        let amount = match moved(cell(Column::GrossDebit), cell(Column::GrossCredit)) {
            Ok(text) => minor_units::from_major(text, cell(Column::GrossCurrency)).ok_or_else(|| {
                format!("{} {} is no amount of ours", shown(text), shown(cell(Column::GrossCurrency)))
            }),
            Err(error) => Err(error.to_owned()),
        };
        let payment = cell(Column::PspReference);
        let modification = Some(cell(Column::ModificationReference)).filter(|id| !id.is_empty());
        let modification = modification.unwrap_or(payment);
        let batch = cell(Column::BatchNumber);
        let is_named = [payment, modification, batch].into_iter().all(is_plain_name);
        let made_at = cell(Column::CreationDate);
        let line = match amount {
            Ok(amount_minor) if is_named => Line::Moved(Row {
                // With the time: what was taken back and made again can be the same in all else.
                id: format!("{batch}:{name}:{payment}:{modification}:{amount_minor}:{}", shown(made_at)),
                line: record.line,
                kind: name.to_owned(),
                payment: payment.to_owned(),
                resource: resource_of(cell(Column::MerchantReference)),
                modification: modification.to_owned(),
                amount_minor,
                currency: cell(Column::GrossCurrency).to_ascii_lowercase(),
                made_at_ms: at_ms(made_at, cell(Column::TimeZone)),
                batch: batch.to_owned(),
            }),
            Ok(_) => Line::Unreadable {
                line: record.line,
                error: format!("{name}: a reference, or the number of the batch, is missing or none"),
            },
            Err(error) => Line::Unreadable { line: record.line, error: format!("{name}: {error}") },
        };
        (merchant_account, line)
    }
}

impl Row {
    /// What it says has happened.
    pub fn kind(&self) -> Type {
        Type::of(&self.kind)
    }

    /// The same, with ids that are [within](super::adyen_merchants) its merchant account.
    #[must_use]
    pub fn within(self, merchant: &str) -> Self {
        let [id, payment, modification] =
            [&self.id, &self.payment, &self.modification].map(|id| within(merchant, id));
        Self { id, payment, modification, ..self }
    }
}

/// The column that has the amount. Which one that is tells the type already: Adyen's description and its sample disagree.
fn moved<'a>(debit: &'a str, credit: &'a str) -> Result<&'a str, &'static str> {
    let is_nothing = |text: &str| text.bytes().all(|b| matches!(b, b'0' | b'.'));
    match (is_nothing(debit), is_nothing(credit)) {
        (false, true) => Ok(debit),
        (true, false) => Ok(credit),
        (true, true) => Err("there is no amount"),
        (false, false) => Err("there is a debit and a credit"),
    }
}

/// Our payment: `{resource}.{derived key}`, see the provider's `reference`.
fn resource_of(reference: &str) -> Option<String> {
    let resource = reference.split('.').next().unwrap_or(reference);
    PaymentId::parse(resource).map(|id| id.to_string())
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(20).collect()
}

/// `YYYY-MM-DD HH:MM:SS` in a time zone that is abbreviated as Adyen does.
fn at_ms(date: &str, zone: &str) -> Option<u64> {
    let offset = match zone {
        "UTC" | "GMT" | "WET" => "+00:00",
        "BST" | "CET" | "WEST" => "+01:00",
        "CEST" | "EET" => "+02:00",
        "EEST" => "+03:00",
        "HKT" | "SGT" => "+08:00",
        "JST" => "+09:00",
        "AEST" => "+10:00",
        "AEDT" => "+11:00",
        "EDT" => "-04:00",
        "EST" | "CDT" => "-05:00",
        "MDT" => "-06:00",
        "MST" | "PDT" => "-07:00",
        "PST" => "-08:00",
        "BRT" => "-03:00",
        // IST, CST and others mean several.
        _ => return None,
    };
    let (day, time) = date.split_once(' ')?;
    let at = DateTime::parse_from_rfc3339(&format!("{day}T{time}{offset}")).ok()?;
    u64::try_from(at.timestamp_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "Company Account,Merchant Account,Psp Reference,Merchant Reference,Payment Method,Creation Date,TimeZone,Type,\
                        Modification Reference,Gross Currency,Gross Debit (GC),Gross Credit (GC),Exchange Rate,Batch Number\r\n";

    fn lines(text: &str) -> Vec<Line> {
        let text = format!("{HEAD}{text}");
        let head = Head::read(text.as_bytes(), true).unwrap();
        let read = head.rows(&text.as_bytes()[head.bytes..], head.next_line, true).unwrap();
        read.lines.into_iter().map(|(_, line)| line).collect()
    }

    fn row(kind: &str, currency: &str, debit: &str, credit: &str) -> Line {
        let text = format!(
            "Co,Shop,PSP1,ref,visa,2026-11-20 10:00:00,CET,{kind},MOD1,{currency},{debit},{credit},1,7\r\n"
        );
        lines(&text).remove(0)
    }

    fn amount(currency: &str, text: &str) -> Option<u64> {
        match row("Settled", currency, "", text) {
            Line::Moved(row) => Some(row.amount_minor),
            _ => None,
        }
    }

    /// The line of Adyen's own description of the report.
    #[test]
    fn a_line_is_read_as_adyen_writes_it() {
        let text = "TestCompany,Shop,1813702551707653,3vpzf7,visa,2013-06-03 11:26:49,CET,Settled,1713702551795048,GBP,,5.00,1,4\r\n";
        let settled = Row {
            id: "4:Settled:1813702551707653:1713702551795048:500:2013-06-03 11:26:49".to_owned(),
            line: 2,
            kind: "Settled".to_owned(),
            payment: "1813702551707653".to_owned(),
            resource: None,
            modification: "1713702551795048".to_owned(),
            amount_minor: 500,
            currency: "gbp".to_owned(),
            made_at_ms: Some(1_370_255_209_000),
            batch: "4".to_owned(),
        };
        assert_eq!(settled.kind(), Type::Settled);
        assert_eq!(lines(text), [Line::Moved(settled)]);
    }

    #[test]
    fn decimals_are_those_of_the_currency_and_nothing_is_rounded() {
        for (currency, text, ours) in [
            ("EUR", "349.99", 34_999),
            ("EUR", "12.5", 1_250),
            ("EUR", "7", 700),
            ("EUR", "0.07", 7),
            ("EUR", "5.000", 500),
            ("CLP", "1000.00", 1_000),
            ("ISK", "1000.00", 100_000),
            ("JPY", "500", 500),
            ("JPY", "500.00", 500),
            ("IDR", "1000", 100_000),
            ("CVE", "25.00", 2_500),
            ("KWD", "1.230", 1_230),
            ("EUR", "999999.99", 99_999_999),
        ] {
            assert_eq!(amount(currency, text), Some(ours), "{currency} {text}");
        }
        for (currency, text) in [
            ("EUR", "5.001"),
            ("JPY", "500.5"),
            ("CLP", "10.50"),
            ("IDR", "1.5"),
            ("EUR", "-5.00"),
            ("EUR", "+5.00"),
            ("EUR", "5e2"),
            ("EUR", ".50"),
            ("EUR", "5."),
            ("EUR", "1.000.00"),
            ("EUR", "\"1,000.00\""),
            ("EUR", "99999999999999999999.00"),
            ("EUR", "10000000000.00"),
            ("MGA", "5.00"),
            ("XXX", "5.00"),
            ("", "5.00"),
            ("EUR", "five"),
            ("EUR", ""),
            ("EUR", "0.00"),
        ] {
            assert_eq!(amount(currency, text), None, "{currency} {text}");
        }
    }

    #[test]
    fn the_amount_is_where_it_stands_and_in_one_place() {
        let moved = |debit, credit| matches!(row("Refunded", "EUR", debit, credit), Line::Moved(row) if row.amount_minor == 500);
        assert!(moved("5.00", ""));
        assert!(moved("", "5.00"));
        assert!(moved("5.00", "0.00"));
        assert!(!moved("5.00", "5.00"));
        assert!(!moved("", ""));
    }

    #[test]
    fn types_that_move_no_payments_money_are_counted() {
        let counted = |kind: &str, is_unknown| Line::Counted { kind: kind.to_owned(), is_unknown };
        assert_eq!(row("Fee", "", "", ""), counted("Fee", false));
        assert_eq!(row("MerchantPayout", "EUR", "x", ""), counted("MerchantPayout", false));
        assert_eq!(row("Confiscated", "EUR", "", "5.00"), counted("Confiscated", true));
        assert_eq!(row("settled", "EUR", "", "5.00"), counted("settled", true));
    }

    #[test]
    fn a_line_that_moves_money_and_cannot_be_read_is_for_a_person() {
        let error = |text: &str| match lines(text).remove(0) {
            Line::Unreadable { line, error } => format!("{line}: {error}"),
            other => panic!("{other:?}"),
        };
        let line = |psp: &str, batch: &str| {
            error(&format!("Co,Shop,{psp},r,visa,2026-11-20 10:00:00,CET,Settled,M,EUR,,5.00,1,{batch}\r\n"))
        };
        assert_eq!(line("", "7"), "2: Settled: a reference, or the number of the batch, is missing or none");
        assert_eq!(line("P", ""), "2: Settled: a reference, or the number of the batch, is missing or none");
        assert_eq!(
            line("=cmd()", "7"),
            "2: Settled: a reference, or the number of the batch, is missing or none"
        );
        let wrong = row("Settled", "EUR", "", "5.005");
        assert_eq!(
            wrong,
            Line::Unreadable { line: 2, error: "Settled: 5.005 EUR is no amount of ours".to_owned() }
        );
    }

    #[test]
    fn each_line_is_of_a_merchant_account_and_another_has_other_ids() {
        let of = |account: &str, kind: &str| {
            let line = format!("Co,{account},P,r,visa,2026-11-20 10:00:00,CET,{kind},M,EUR,,5.00,1,7\r\n");
            let head = Head::read(HEAD.as_bytes(), true).unwrap();
            head.rows(line.as_bytes(), 2, true).unwrap().lines.remove(0)
        };
        assert_eq!(of("Other", "Fee").0, "Other");
        let (account, line) = of(" Shop ", "Settled");
        let Line::Moved(row) = line else { panic!("{line:?}") };
        assert_eq!(account, "Shop");
        assert_eq!(row.clone().within(""), row, "the deployment's");
        let own = row.within("Shop");
        assert_eq!([&*own.payment, &own.modification], ["Shop/P", "Shop/M"]);
        assert_eq!(own.id, "Shop/7:Settled:P:M:500:2026-11-20 10:00:00");
    }

    #[test]
    fn times_are_those_of_the_zone_and_none_where_that_is_not_known() {
        let at = |zone| at_ms("2026-11-20 10:00:00", zone);
        assert_eq!(at("UTC"), Some(1_795_168_800_000));
        assert_eq!(at("CET"), Some(1_795_165_200_000));
        assert_eq!(at("EST"), Some(1_795_186_800_000));
        assert_eq!(at("IST"), None);
        assert_eq!(at_ms("20/11/2026 10:00", "UTC"), None);
    }

    #[test]
    fn quotes_line_ends_and_a_byte_order_mark_are_read() {
        let quoted = "\"Co, \"\"Ltd\"\"\nof Lima\",Shop,P,r,visa,\"2026-11-20 10:00:00\",CET,Settled,M,EUR,,\"5.00\",1,7";
        for (start, end) in [("", "\r\n"), ("\u{feff}", "\n"), ("", "")] {
            let text = format!("{start}{HEAD}{quoted}{end}");
            let head = Head::read(text.as_bytes(), true).unwrap();
            let read = head.rows(&text.as_bytes()[head.bytes..], head.next_line, true).unwrap();
            assert!(
                matches!(&read.lines[..], [(_, Line::Moved(row))] if row.amount_minor == 500),
                "{read:?}"
            );
            assert_eq!((read.bytes + head.bytes, read.next_line), (text.len(), 4));
        }
    }

    #[test]
    fn what_is_no_report_is_refused_and_says_why() {
        let error = |text: &str| Head::read(text.as_bytes(), true).unwrap_err();
        assert_eq!(error(""), "it is empty");
        assert_eq!(error("\r\n\n"), "it is empty");
        assert_eq!(
            error(&HEAD.replace("Type,", "").replace("Batch Number", "Batch")),
            "line 1: these columns are missing: Type, Batch Number"
        );
        assert_eq!(
            error(&HEAD.replace("Exchange Rate", "Type")),
            "line 1: these columns are there twice: Type"
        );
        assert_eq!(error("\"Type"), "line 1: breaks off within a quote");
        for (between, name) in [(";", ";"), ("\t", "\\t")] {
            let told = format!("line 1: its columns are set apart by `{name}`, and must be by commas");
            assert_eq!(error(&HEAD.replace(',', between)), told);
        }
        assert_eq!(
            error(&"x".repeat(LINE_MAX_BYTES + 1)),
            format!("line 1: is longer than {LINE_MAX_BYTES} bytes")
        );
        let rows = |text: &str| {
            let head = Head::read(HEAD.as_bytes(), true).unwrap();
            head.rows(text.as_bytes(), 2, true).unwrap_err()
        };
        assert_eq!(rows("a,b\r\n"), "line 2: has 2 cells, and the head 14");
        assert_eq!(rows("\r\n\r\na,b"), "line 4: has 2 cells, and the head 14");
        assert_eq!(rows("a,\"b\"c"), "line 2: goes on after a closing quote");
        assert_eq!(rows("a,b\"c"), "line 2: has a quote within a cell");
        assert_eq!(rows("a,b\rc"), "line 2: has a carriage return within it");
        assert_eq!(rows("a,b\r"), "line 2: breaks off after a carriage return");
        assert_eq!(
            rows(&"x".repeat(LINE_MAX_BYTES + 1)),
            format!("line 2: is longer than {LINE_MAX_BYTES} bytes")
        );
    }
}
