// SPDX-License-Identifier: GPL-2.0-only
//! Files are read back by a reader of the format that shares no code with the writer.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A value of Thrift's compact protocol.
#[derive(Clone, Debug)]
enum Node {
    Number(i64),
    Bytes(Vec<u8>),
    List(Vec<Node>),
    Struct(BTreeMap<i16, Node>),
}

impl Node {
    fn get(&self, id: i16) -> &Node {
        let Node::Struct(fields) = self else { panic!("{self:?} is no struct") };
        fields.get(&id).unwrap_or_else(|| panic!("no field {id} in {self:?}"))
    }

    fn has(&self, id: i16) -> bool {
        matches!(self, Node::Struct(fields) if fields.contains_key(&id))
    }

    fn number(&self, id: i16) -> i64 {
        let Node::Number(value) = self.get(id) else { panic!("field {id} is no number") };
        *value
    }

    fn text(&self, id: i16) -> String {
        let Node::Bytes(bytes) = self.get(id) else { panic!("field {id} is no text") };
        String::from_utf8(bytes.clone()).unwrap()
    }

    fn list(&self, id: i16) -> &[Node] {
        let Node::List(all) = self.get(id) else { panic!("field {id} is no list") };
        all
    }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap();
        self.0 = rest;
        *first
    }

    fn varint(&mut self) -> u64 {
        let byte = self.byte();
        if byte < 0x80 { byte.into() } else { u64::from(byte & 0x7f) + (self.varint() << 7) }
    }

    fn node(&mut self, kind: u8) -> Node {
        match kind {
            5 | 6 => {
                let raw = self.varint();
                Node::Number((raw >> 1) as i64 ^ -((raw & 1) as i64))
            }
            8 => {
                let length = self.varint() as usize;
                let (bytes, rest) = self.0.split_at(length);
                self.0 = rest;
                Node::Bytes(bytes.to_vec())
            }
            9 => {
                let head = self.byte();
                let length = if head >> 4 == 15 { self.varint() } else { u64::from(head >> 4) };
                Node::List((0..length).map(|_| self.node(head & 15)).collect())
            }
            12 => {
                let (mut fields, mut id) = (BTreeMap::new(), 0);
                loop {
                    let head = self.byte();
                    if head == 0 {
                        return Node::Struct(fields);
                    }
                    assert_ne!(head >> 4, 0, "long form of a field number");
                    id += i16::from(head >> 4);
                    let value = self.node(head & 15);
                    fields.insert(id, value);
                }
            }
            other => panic!("type {other}"),
        }
    }

    /// Run lengths and packed bits, for this number of values.
    fn hybrid(&mut self, width: usize, count: usize) -> Vec<u32> {
        let mut values = Vec::new();
        while values.len() < count {
            let head = self.varint() as usize;
            let bytes = if head & 1 == 0 { width.div_ceil(8) } else { (head >> 1) * width };
            let (data, rest) = self.0.split_at(bytes);
            self.0 = rest;
            let bit = |at: usize| u32::from(data[at / 8] >> (at % 8) & 1);
            let value = |first: usize| (0..width).map(|at| bit(first + at) << at).sum::<u32>();
            if head & 1 == 0 {
                values.extend(std::iter::repeat_n(value(0), head >> 1));
            } else {
                values.extend((0..(head >> 1) * 8).map(|index| value(index * width)));
            }
        }
        values.truncate(count);
        values
    }

    fn plain(&mut self, kind: i64) -> String {
        let take = |input: &mut Self, length: usize| {
            let (bytes, rest) = input.0.split_at(length);
            input.0 = rest;
            bytes.to_vec()
        };
        match kind {
            2 => i64::from_le_bytes(take(self, 8).try_into().unwrap()).to_string(),
            6 => {
                let length = u32::from_le_bytes(take(self, 4).try_into().unwrap());
                String::from_utf8(take(self, length as usize)).unwrap()
            }
            other => panic!("physical type {other}"),
        }
    }
}

/// Header and body of the page at this place, and its end.
fn page(file: &[u8], at: usize) -> (Node, Vec<u8>, usize) {
    let mut input = Input(&file[at..]);
    let header = input.node(12);
    let begin = file.len() - input.0.len();
    let end = begin + header.number(3) as usize;
    let body = zstd::bulk::decompress(&file[begin..end], header.number(2) as usize).unwrap();
    assert_eq!(body.len() as i64, header.number(2));
    (header, body, end)
}

/// Values of a column in one row group; `None` is null.
fn chunk(file: &[u8], chunk: &Node, is_optional: bool) -> Vec<Option<String>> {
    let data = chunk.get(3);
    let (kind, count) = (data.number(1), data.number(5) as usize);
    let at = data.number(9) as usize;
    let dictionary = data.has(11).then(|| {
        let (header, body, end) = page(file, data.number(11) as usize);
        assert_eq!((header.number(1), end), (2, at));
        let mut input = Input(&body);
        (0..header.get(7).number(1)).map(|_| input.plain(kind)).collect::<Vec<_>>()
    });
    let (header, body, end) = page(file, at);
    let first = data.number(if data.has(11) { 11 } else { 9 }) as usize;
    assert_eq!(end - first, data.number(7) as usize, "length of the chunk");
    assert_eq!(header.get(5).number(1), count as i64);
    let mut input = Input(&body);
    let levels = if is_optional {
        input.0 = &input.0[4..];
        input.hybrid(1, count)
    } else {
        vec![1; count]
    };
    let known = levels.iter().filter(|level| **level == 1).count();
    let values: Vec<String> = match dictionary {
        None => (0..known).map(|_| input.plain(kind)).collect(),
        Some(dictionary) => {
            let width = input.byte().into();
            input.hybrid(width, known).into_iter().map(|place| dictionary[place as usize].clone()).collect()
        }
    };
    let mut values = values.into_iter();
    levels.into_iter().map(|level| (level == 1).then(|| values.next().unwrap())).collect()
}

/// Names of the columns, and their values.
fn read(file: &[u8]) -> Vec<(String, Vec<Option<String>>)> {
    assert_eq!((&file[..4], &file[file.len() - 4..]), (MAGIC, MAGIC));
    let length = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap()) as usize;
    let footer = Input(&file[file.len() - 8 - length..file.len() - 8]).node(12);
    let columns = &footer.list(2)[1..];
    assert_eq!(footer.list(2)[0].number(5), columns.len() as i64);
    let mut table: Vec<(String, Vec<Option<String>>)> = columns.iter().map(|it| (it.text(4), Vec::new())).collect();
    for group in footer.list(4) {
        for ((place, column), (name, values)) in group.list(1).iter().zip(columns).zip(&mut table) {
            let Node::Bytes(path) = &place.get(3).list(3)[0] else { panic!("no path") };
            assert_eq!(path, name.as_bytes());
            values.extend(chunk(file, place, column.number(3) == 1));
        }
    }
    assert!(table.iter().all(|(_, values)| values.len() as i64 == footer.number(3)));
    table
}

/// Text, number, and how often the row is repeated.
type Row = (String, Option<i64>, u64);

fn table(rows: &[Row]) -> Vec<u8> {
    let columns = vec![Column::required("name", Kind::Text), Column::optional("a.b", Kind::Integer)];
    let mut writer = Writer::new(Vec::new(), columns, &[("key", "value")]).unwrap();
    assert_eq!(writer.most_rows, 1 << 20);
    writer.most_rows = 1 << 17;
    for (text, number, count) in rows {
        writer.push(0, Cell::Text(text), *count);
        writer.push(1, number.map_or(Cell::Null, Cell::Integer), *count);
        writer.rows(*count).unwrap();
    }
    writer.finish().unwrap()
}

fn check(rows: &[Row]) {
    let read = read(&table(rows));
    let expected = |value: fn(&Row) -> Option<String>| {
        rows.iter().flat_map(|row| std::iter::repeat_n(value(row), row.2 as usize)).collect::<Vec<_>>()
    };
    assert_eq!(read[0], ("name".to_owned(), expected(|row| Some(row.0.clone()))));
    assert_eq!(read[1], ("a.b".to_owned(), expected(|row| row.1.map(|number| number.to_string()))));
}

proptest! {
    #[test]
    fn written_table_is_read_back(
        rows in prop::collection::vec(("[a-cé]{0,2}", prop::option::of(-3i64..1 << 40), 1u64..20), 0..200)
    ) {
        check(&rows);
    }

    #[test]
    fn run_lengths_are_read_back(runs in prop::collection::vec((0u32..300, 1u64..30), 1..60)) {
        let values: Vec<u32> = runs.iter().flat_map(|(value, length)| vec![*value; *length as usize]).collect();
        let width = levels::width(300);
        let bytes = levels::encode(runs.into_iter(), width);
        prop_assert_eq!(Input(&bytes).hybrid(width as usize, values.len()), values);
    }
}

#[test]
fn row_groups_begin_after_the_wanted_number_of_rows() {
    let rows: Vec<_> = (0..40i64).map(|at| (format!("{}", at % 3), (at % 7 > 0).then_some(at * at), 9_000)).collect();
    check(&rows);
    let bytes = table(&rows);
    let length = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
    let footer = Input(&bytes[bytes.len() - 8 - length..bytes.len() - 8]).node(12);
    assert_eq!(footer.list(4).iter().map(|group| group.number(3)).collect::<Vec<_>>(), [135_000, 135_000, 90_000]);
}

/// A column whose values hardly repeat at first has no dictionary, whatever comes then.
#[test]
fn column_of_distinct_values_is_read_back() {
    let rows = |more: i64| -> Vec<Row> {
        let texts = (0..5_000).map(|at| (format!("{:x}", at * 7919), (at % 9 > 0).then_some(at * at), 1));
        texts.chain((0..more).map(|_| ("x".to_owned(), Some(4), 3))).collect()
    };
    check(&rows(0));
    check(&rows(9_000));
}

#[test]
fn empty_table_and_extreme_integers_are_read_back() {
    check(&[]);
    check(&[("".to_owned(), Some(i64::MIN), 1), ("ü".to_owned(), Some(i64::MAX), 1), ("ü".to_owned(), None, 3)]);
    assert_eq!(Cell::from(Some(u64::MAX)), Cell::Integer(i64::MAX));
}

#[test]
#[should_panic(expected = "values of the column a.b")]
fn row_without_a_value_of_a_column_panics() {
    let columns = vec![Column::required("name", Kind::Text), Column::optional("a.b", Kind::Integer)];
    let mut writer = Writer::new(Vec::new(), columns, &[]).unwrap();
    writer.push(0, Cell::Text("x"), 1);
    let _ = writer.rows(1);
}
