// SPDX-License-Identifier: GPL-2.0-only
//! Text tables: the first columns are names, aligned left; the others numbers, aligned right.

/// Formats rows below a header; `names` is the number of name columns.
pub fn table(header: &[&str], names: usize, rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (column, cell) in cells.enumerate() {
            let width = widths[column];
            let cell = if column < names { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
            text += if column == 0 { "" } else { "  " };
            text += &cell;
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut header.iter().copied());
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

/// A share as a percentage; `-` if the denominator is 0.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", 100.0 * part as f64 / whole as f64)
}

/// Shortens a name to a width, with an ellipsis.
pub fn shorten(name: &str, width: usize) -> String {
    let name = report::escape(name);
    match name.chars().count() {
        count if count <= width => name.into_owned(),
        _ => name.chars().take(width - 1).chain(['…']).collect(),
    }
}

/// Shortens a path to a number of characters at its beginning: its end says more.
pub fn shorten_path(path: &str, width: usize) -> String {
    let path = report::escape(path);
    match path.chars().count() {
        count if count <= width => path.into_owned(),
        count => ['…'].into_iter().chain(path.chars().skip(count - width + 1)).collect(),
    }
}
