// SPDX-License-Identifier: GPL-2.0-only
//! `weir compare`: compares saved runs and runs as JSON, simulated and real, in one table.

use crate::args::{Compare, Format};
use crate::pages::{self, Runs};
use crate::{input, output};
use anyhow::Result;

/// Compares the files and prints the result. Returns false if some run in them did not complete.
pub fn compare(args: &Compare) -> Result<bool> {
    let [page] = output::check([("--report", args.report.as_deref())])?;
    args.files.iter().for_each(|file| input::note_input(file));
    output::refuse_inputs([&page])?;
    let mut all = Runs::default();
    all.command = Some(command_line(args));
    for path in &args.files {
        let mut runs = Runs::read(path)?;
        runs.records.iter_mut().for_each(|record| record.file = Some(path.display().to_string()));
        all.extend(runs);
    }
    let view = output::view(args.all, args.pairs);
    let text = match args.format {
        Format::Text => report::records_to_text(&all.records, view),
        Format::Json => report::comparisons_to_json(&all.records),
        Format::Csv => report::to_csv(&all.records),
    };
    let printed = output::print(&text);
    if let Some(page) = &page {
        pages::write(page, &all, &[])?;
    }
    printed?;
    Ok(all.are_complete())
}

fn command_line(args: &Compare) -> String {
    let files = args.files.iter().map(|file| output::quote(&file.to_string_lossy()));
    ["weir".to_owned(), "compare".to_owned()].into_iter().chain(files).collect::<Vec<_>>().join(" ")
}
