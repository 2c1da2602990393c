// SPDX-License-Identifier: GPL-2.0-only
//! `weir workload`: shows the contents of a workload, its parallelism, its critical path, and what it leaves
//! uncertain.

use crate::args::{Format, Workload as Args};
use crate::{output, select};
use anyhow::{Result, bail};
use workload_summary::{Summary, Touched};

/// Analyses a workload and prints the result.
pub fn workload(args: &Args) -> Result<()> {
    let (workload, recorded) = select::recordings(&args.workload, None, Touched::of)?;
    let summary = Summary::of(workload, recorded, args.duration)?;
    let text = match args.format {
        Format::Text => summary.to_text(),
        Format::Json => format!("{:#}\n", summary.to_json()),
        Format::Csv => bail!("--format csv: a workload has no tabular form; expected text or json"),
    };
    output::print(&text)?;
    Ok(())
}
