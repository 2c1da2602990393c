// SPDX-License-Identifier: GPL-2.0-only
//! `weir inspect`: describes a BPF object.

use crate::args::{Format, Inspect};
use crate::output::print;
use crate::select;
use anyhow::{Result, bail};
use inspect::Facts;

/// Prints the description of the object, or the beginning of a launch profile for it.
pub fn inspect(args: &Inspect) -> Result<()> {
    let object = select::object(&args.object)?;
    let facts = || Facts::of(&args.object, select::path_of(&args.object).is_some(), &object);
    let text = match (args.profile, args.format) {
        (true, _) => inspect::profile(&args.object, &object),
        (false, Format::Json) => format!("{:#}\n", facts().to_json()),
        (false, Format::Text) => facts().to_text(),
        (false, Format::Csv) => bail!("--format csv is not supported here; expected text or json"),
    };
    // Escaped because names come from the object.
    let lines: String = text.lines().map(|line| format!("{}\n", report::escape(line))).collect();
    print(&lines)?;
    Ok(())
}
