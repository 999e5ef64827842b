//! Writes a [Parquet](https://parquet.apache.org/docs/file-format/) file: one row group, one page a column, plain values, not compressed. Pure:
//! the same rows make the same bytes, which is what `steps` relies on. The crate `parquet` does much more than this, and would be a
//! fourth of the Worker and a minute of each build.
//!
//! Each column may be empty in any row. Numbers are 64 bits wide, times are milliseconds in UTC, and the footer has the least and the greatest
//! value of each column, so that readers leave out files of other days.

/// What a column holds, and where it finds it in a row.
pub enum Column<R> {
    /// UTF-8.
    Text(&'static str, fn(&R) -> Option<&str>),
    /// A whole number.
    Number(&'static str, fn(&R) -> Option<u64>),
    /// A time in ms since the epoch.
    Time(&'static str, fn(&R) -> Option<u64>),
}

impl<R> Column<R> {
    const fn name(&self) -> &'static str {
        match self {
            Self::Text(name, _) | Self::Number(name, _) | Self::Time(name, _) => name,
        }
    }

    /// `BYTE_ARRAY` or `INT64`.
    const fn physical_type(&self) -> i64 {
        match self {
            Self::Text(..) => 6,
            Self::Number(..) | Self::Time(..) => 2,
        }
    }
}

const MAGIC: &[u8] = b"PAR1";
const OPTIONAL: i64 = 1;
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const UNCOMPRESSED: i64 = 0;
const UTF8: i64 = 0;
const TIMESTAMP_MILLIS: i64 = 9;

/// A file of these rows.
pub fn file<R>(rows: &[R], columns: &[Column<R>]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let chunks: Vec<Chunk> = columns.iter().map(|column| chunk(&mut bytes, rows, column)).collect();
    let footer = footer(rows.len(), columns, &chunks);
    bytes.extend(&footer);
    bytes.extend(length(footer.len()).to_le_bytes());
    bytes.extend(MAGIC);
    bytes
}

/// Where a column stands in the file, and what it spans.
struct Chunk {
    offset: usize,
    bytes: usize,
    nulls: usize,
    /// As the file has them; `None` if all is empty.
    least: Option<Vec<u8>>,
    greatest: Option<Vec<u8>>,
}

/// Writes the column's only page, with its header.
fn chunk<R>(bytes: &mut Vec<u8>, rows: &[R], column: &Column<R>) -> Chunk {
    let mut is_there = Vec::with_capacity(rows.len());
    let mut values = Vec::new();
    let (least, greatest) = match column {
        Column::Text(_, of) => {
            let cells: Vec<Option<&str>> = rows.iter().map(of).collect();
            is_there.extend(cells.iter().map(Option::is_some));
            for cell in cells.iter().flatten() {
                values.extend(length(cell.len()).to_le_bytes());
                values.extend(cell.as_bytes());
            }
            let span = |cell: Option<&&str>| cell.map(|cell| cell.as_bytes().to_vec());
            (span(cells.iter().flatten().min()), span(cells.iter().flatten().max()))
        }
        Column::Number(_, of) | Column::Time(_, of) => {
            let cells: Vec<Option<u64>> = rows.iter().map(of).collect();
            is_there.extend(cells.iter().map(Option::is_some));
            cells.iter().flatten().for_each(|cell| values.extend(cell.to_le_bytes()));
            let span = |cell: Option<&u64>| cell.map(|cell| cell.to_le_bytes().to_vec());
            (span(cells.iter().flatten().min()), span(cells.iter().flatten().max()))
        }
    };
    let mut page = levels(&is_there);
    page.extend(values);
    let mut header = Thrift::default();
    header.number(1, 0).number(2, size(page.len())).number(3, size(page.len()));
    header.open(5);
    header.number(1, size(rows.len())).number(2, PLAIN).number(3, RLE).number(4, RLE).close();
    let offset = bytes.len();
    bytes.extend(header.end());
    bytes.extend(page);
    let nulls = is_there.iter().filter(|is_there| !**is_there).count();
    Chunk { offset, bytes: bytes.len() - offset, nulls, least, greatest }
}

/// Which of the values are there: one run of bits, the first one lowest.
fn levels(is_there: &[bool]) -> Vec<u8> {
    let mut run = Vec::new();
    varint(&mut run, (unsigned(is_there.len().div_ceil(8)) << 1) | 1);
    for eight in is_there.chunks(8) {
        run.push(eight.iter().rev().fold(0, |bits, is_there| (bits << 1) | u8::from(*is_there)));
    }
    let mut levels = length(run.len()).to_le_bytes().to_vec();
    levels.extend(run);
    levels
}

fn footer<R>(rows: usize, columns: &[Column<R>], chunks: &[Chunk]) -> Vec<u8> {
    let mut footer = Thrift::default();
    footer.number(1, 1);
    footer.list(2, STRUCT, columns.len() + 1);
    footer.item().text(4, b"row").number(5, size(columns.len())).close();
    for column in columns {
        footer.item().number(1, column.physical_type()).number(3, OPTIONAL).text(4, column.name().as_bytes());
        match column {
            Column::Text(..) => footer.number(6, UTF8).open(10).open(1).close().close(),
            Column::Number(..) => &mut footer,
            // In UTC, in ms.
            Column::Time(..) => {
                footer.number(6, TIMESTAMP_MILLIS).open(10).open(8).yes(1).open(2).open(1).close();
                footer.close().close().close()
            }
        };
        footer.close();
    }
    footer.long(3, size(rows));
    footer.list(4, STRUCT, 1).item();
    footer.list(1, STRUCT, columns.len());
    for (column, chunk) in columns.iter().zip(chunks) {
        footer.item().long(2, size(chunk.offset)).open(3);
        footer.number(1, column.physical_type()).list(2, I32, 2).bare(PLAIN).bare(RLE);
        footer.list(3, BINARY, 1).bare_text(column.name().as_bytes());
        footer.number(4, UNCOMPRESSED).long(5, size(rows));
        footer.long(6, size(chunk.bytes)).long(7, size(chunk.bytes)).long(9, size(chunk.offset));
        footer.open(12).long(3, size(chunk.nulls));
        if let (Some(least), Some(greatest)) = (&chunk.least, &chunk.greatest) {
            footer.text(5, greatest).text(6, least);
        }
        footer.close().close().close();
    }
    let all: usize = chunks.iter().map(|chunk| chunk.bytes).sum();
    footer.long(2, size(all)).long(3, size(rows)).close();
    footer.text(6, b"paid-once");
    // The least and the greatest are in the order of the column's type.
    footer.list(7, STRUCT, columns.len());
    for _ in columns {
        footer.item().open(1).close().close();
    }
    footer.end()
}

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// [Thrift's compact protocol](https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md), as far as a footer needs it.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    /// The last field of the structure that is being written.
    last: u8,
    /// Of those around it.
    around: Vec<u8>,
}

impl Thrift {
    fn field(&mut self, id: u8, kind: u8) -> &mut Self {
        // Fields come in order, and no two are 16 apart.
        self.bytes.push((id.wrapping_sub(self.last) << 4) | kind);
        self.last = id;
        self
    }

    fn number(&mut self, id: u8, number: i64) -> &mut Self {
        self.field(id, I32).bare(number)
    }

    fn long(&mut self, id: u8, number: i64) -> &mut Self {
        self.field(id, I64).bare(number)
    }

    fn yes(&mut self, id: u8) -> &mut Self {
        self.field(id, 1)
    }

    fn text(&mut self, id: u8, text: &[u8]) -> &mut Self {
        self.field(id, BINARY).bare_text(text)
    }

    fn bare(&mut self, number: i64) -> &mut Self {
        // Zigzag: the sign is the lowest bit.
        varint(&mut self.bytes, ((number << 1) ^ (number >> 63)).cast_unsigned());
        self
    }

    fn bare_text(&mut self, text: &[u8]) -> &mut Self {
        varint(&mut self.bytes, unsigned(text.len()));
        self.bytes.extend(text);
        self
    }

    /// A list: its items follow.
    fn list(&mut self, id: u8, kind: u8, len: usize) -> &mut Self {
        self.field(id, LIST);
        match u8::try_from(len) {
            Ok(len) if len < 15 => self.bytes.push((len << 4) | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                varint(&mut self.bytes, unsigned(len));
            }
        }
        self
    }

    /// A structure as a field.
    fn open(&mut self, id: u8) -> &mut Self {
        self.field(id, STRUCT).item()
    }

    /// A structure in a list.
    fn item(&mut self) -> &mut Self {
        self.around.push(self.last);
        self.last = 0;
        self
    }

    fn close(&mut self) -> &mut Self {
        self.bytes.push(0);
        self.last = self.around.pop().unwrap_or_default();
        self
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Files are far below 2 GiB: a batch is bounded.
fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn size(len: usize) -> i64 {
    length(len).into()
}

fn unsigned(len: usize) -> u64 {
    length(len).into()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The cells of a file by column, as texts: reads what [`file`] writes, and nothing else.
    pub(in crate::tasks::history) fn decode<R>(
        bytes: &[u8],
        columns: &[Column<R>],
    ) -> BTreeMap<&'static str, Vec<Option<String>>> {
        let mut at = MAGIC.len();
        let mut found = BTreeMap::new();
        for column in columns {
            let mut numbers = Vec::new();
            // The header's numbers, each after the byte of its field: type, sizes, values, encodings.
            for field in [0x15, 0x15, 0x15, 0x2c, 0x15, 0x15, 0x15, 0x15] {
                assert_eq!(bytes[at], field);
                at += 1;
                if field == 0x15 {
                    let (mut number, mut shift) = (0_usize, 0);
                    loop {
                        let byte = bytes[at];
                        at += 1;
                        number |= usize::from(byte & 0x7f) << shift;
                        shift += 7;
                        if byte < 0x80 {
                            break;
                        }
                    }
                    numbers.push(number / 2);
                }
            }
            at += 2;
            let (size, rows) = (numbers[1], numbers[3]);
            let page = &bytes[at..at + size];
            at += size;
            let four = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
            let run = &page[4..4 + four(page)];
            let bits = &run[run.len() - rows.div_ceil(8)..];
            let mut values = &page[4 + run.len()..];
            let cells = (0..rows).map(|row| {
                (bits[row / 8] >> (row % 8) & 1 == 1).then(|| {
                    let (text, len) = match column {
                        Column::Text(..) => {
                            let len = four(values);
                            (String::from_utf8(values[4..4 + len].to_vec()).unwrap(), 4 + len)
                        }
                        _ => (u64::from_le_bytes(values[..8].try_into().unwrap()).to_string(), 8),
                    };
                    values = &values[len..];
                    text
                })
            });
            found.insert(column.name(), cells.collect());
        }
        found
    }

    struct Row(Option<&'static str>, Option<u64>);

    const COLUMNS: [Column<Row>; 3] = [
        Column::Text("name", |row| row.0),
        Column::Number("number", |row| row.1),
        Column::Time("at", |row| row.1),
    ];

    #[test]
    fn a_page_says_which_values_are_there() {
        // Its length, one run of bits of two groups, and the bits.
        let is_there = [true, false, true, true, false, false, false, false, false, true];
        assert_eq!(levels(&is_there), [3, 0, 0, 0, 0b101, 0b0000_1101, 0b10]);
        assert_eq!(levels(&[]), [1, 0, 0, 0, 1]);
    }

    #[test]
    fn a_number_is_as_short_as_it_can_be() {
        let written = |number| {
            let mut thrift = Thrift::default();
            thrift.bare(number);
            thrift.bytes
        };
        assert_eq!(written(0), [0]);
        assert_eq!(written(-1), [1]);
        assert_eq!(written(63), [126]);
        assert_eq!(written(64), [0x80, 1]);
    }

    /// What other programs make of it: tests/worker/history.test.mjs.
    #[test]
    fn a_file_is_framed_and_the_same_each_time() {
        let rows = [Row(Some("é"), Some(7)), Row(None, None), Row(Some("b"), Some(1 << 40))];
        let bytes = file(&rows, &COLUMNS);
        assert!(bytes.starts_with(MAGIC) && bytes.ends_with(MAGIC));
        let end = bytes.len() - 8;
        let len = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap());
        let footer =
            footer(3, &COLUMNS, &COLUMNS.each_ref().map(|column| chunk(&mut MAGIC.to_vec(), &rows, column)));
        assert!(usize::try_from(len).unwrap().abs_diff(footer.len()) < 8, "{len}");
        assert_eq!(bytes, file(&rows, &COLUMNS));
        let cells = decode(&bytes, &COLUMNS);
        assert_eq!(cells["name"], [Some("é".to_owned()), None, Some("b".to_owned())]);
        assert_eq!(cells["at"], [Some("7".to_owned()), None, Some((1_u64 << 40).to_string())]);
        assert!(file::<Row>(&[], &COLUMNS).len() > 12);
    }
}
