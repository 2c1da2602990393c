// SPDX-License-Identifier: GPL-2.0-only
//! Text tables whose columns are separated by spaces, not by lines.

use comfy_table::{CellAlignment, Table, presets};

/// Creates a table without lines between its cells.
pub(crate) fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

/// Aligns names left and numbers right, without padding at the edges.
pub(crate) fn align(table: &mut Table) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { 1 }, 1));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}
