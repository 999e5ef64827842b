//! CSV ([RFC 4180](https://www.rfc-editor.org/rfc/rfc4180)): how a cell is written, and a reader that gets a file in slices. It stops before a
//! line that is not complete, and refuses what can be read in two ways.

use std::borrow::Cow;

/// The longest line, in bytes: a slice must be longer.
pub const LINE_MAX_BYTES: usize = 16_384;

/// A cell as it is written: in quotes where it needs them. Our own never do, a provider's id or a shop's order might.
pub(crate) fn quoted(cell: &str) -> Cow<'_, str> {
    if cell.contains([',', '"', '\r', '\n']) { in_quotes(cell).into() } else { cell.into() }
}

/// The same in quotes, whatever stands in it.
pub(crate) fn in_quotes(cell: &str) -> String {
    format!("\"{}\"", cell.replace('"', "\"\""))
}

/// The cells of a line.
pub(super) struct Record {
    pub(super) cells: Vec<Vec<u8>>,
    pub(super) line: u64,
}

/// Reads records one by one, and stops before one that is not whole.
pub(super) struct Csv<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    /// The number of the line at `at`.
    pub(super) line: u64,
    /// Nothing follows `bytes`.
    is_all: bool,
}

/// Where in a cell the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing of it is read.
    Start,
    /// It has no quotes.
    Plain,
    /// Between its quotes.
    Quoted,
    /// After what may be the second one.
    Closed,
}

impl<'a> Csv<'a> {
    pub(super) const fn at(bytes: &'a [u8], at: usize, line: u64, is_all: bool) -> Self {
        Self { bytes, at, line, is_all }
    }

    /// The next record; `None` if there is none, or not the whole of it. Empty lines are none.
    pub(super) fn record(&mut self) -> Result<Option<Record>, String> {
        loop {
            let first = self.line;
            let Some(cells) = self.cells()? else { return Ok(None) };
            if cells.iter().any(|cell| !cell.is_empty()) || cells.len() > 1 {
                return Ok(Some(Record { cells, line: first }));
            }
        }
    }

    fn cells(&mut self) -> Result<Option<Vec<Vec<u8>>>, String> {
        let mut cells = Vec::new();
        let mut cell = Vec::new();
        let mut place = Place::Start;
        let mut lines = self.line;
        let mut rest = self.bytes.iter().copied().enumerate().skip(self.at).peekable();
        if rest.peek().is_none() {
            return Ok(None);
        }
        let wrong = |what: &str| Err(format!("line {}: {what}", self.line));
        let mut end = self.bytes.len();
        while let Some((at, byte)) = rest.next() {
            if at - self.at >= LINE_MAX_BYTES {
                return wrong(&format!("is longer than {LINE_MAX_BYTES} bytes"));
            }
            lines += u64::from(byte == b'\n');
            place = match (place, byte) {
                (Place::Quoted, b'"') => Place::Closed,
                (Place::Quoted, _) => {
                    cell.push(byte);
                    Place::Quoted
                }
                (Place::Closed, b'"') => {
                    cell.push(byte);
                    Place::Quoted
                }
                (_, b',') => {
                    cells.push(std::mem::take(&mut cell));
                    Place::Start
                }
                (_, b'\n') => {
                    cells.push(cell);
                    (self.at, self.line) = (at + 1, lines);
                    return Ok(Some(cells));
                }
                (_, b'\r') => match rest.peek() {
                    Some((_, b'\n')) => place,
                    None => {
                        end = at;
                        break;
                    }
                    Some(_) => return wrong("has a carriage return within it"),
                },
                (Place::Start, b'"') => Place::Quoted,
                (Place::Closed, _) => return wrong("goes on after a closing quote"),
                (_, b'"') => return wrong("has a quote within a cell"),
                (_, _) => {
                    cell.push(byte);
                    Place::Plain
                }
            };
        }
        if !self.is_all {
            return Ok(None);
        }
        if place == Place::Quoted {
            return wrong("breaks off within a quote");
        }
        // The last line need not end; of a lone carriage return there nothing is known.
        if end < self.bytes.len() {
            return wrong("breaks off after a carriage return");
        }
        cells.push(cell);
        (self.at, self.line) = (self.bytes.len(), lines + 1);
        Ok(Some(cells))
    }
}
