// SPDX-License-Identifier: GPL-2.0-only
//! `weir machine measure`: measures those costs of this machine that user space can time.

use super::Args;
use crate::args::MachineFormat;
use crate::output::print;
use crate::select;
use anyhow::{Context, Result};
use host::hardware::{self, Quantiles, Quantity, Scope};
use serde_json::{Value, json};
use std::fmt::Write;

/// Measures this machine and prints the results.
pub fn measure(args: &Args) -> Result<()> {
    let host = select::machine("host")?;
    let usable = hardware::usable().context("cannot read the CPUs that may be used")?;
    let scope = if args.keys { Scope::Keys } else { Scope::All };
    let mut quantities = hardware::measure(&host.topology, &usable, scope, &mut |what| say!("measuring {what}"));
    if scope == Scope::All {
        let sizes = [host.private_kb, host.llc_kb].map(|kib| kib as usize * 1_024);
        let progress = &mut |what: &str| say!("measuring {what}");
        quantities.extend(hardware::measure_memory(&host.topology, &usable, sizes, progress));
        for (distance, _, a, b) in hardware::pairs(&host.topology, &usable) {
            say!("measuring locks between CPUs {a} and {b}, {distance}");
            quantities.extend(executor::lock_costs::measure(a, b));
        }
    }
    quantities.extend(kernel_link::newidle::quantity());
    let text = match args.format {
        MachineFormat::Toml => lines(&quantities),
        MachineFormat::Json => format!("{:#}\n", measured(&quantities)),
    };
    print(&text)?;
    Ok(())
}

/// One line for each quantity, followed in brackets by its key in machine files.
fn lines(quantities: &[Quantity]) -> String {
    let mut text = format!("{:>9}  {:<20}  in nanoseconds unless stated otherwise\n", "median", "10 % to 90 %");
    for Quantity { key, what, value } in quantities {
        let Quantiles { p10, median, p90 } = value;
        let range = format!("{} to {}", number(*p10), number(*p90));
        let key = key.map_or_else(String::new, |key| format!(" [{key}]"));
        let _ = writeln!(text, "{:>9}  {range:<20}  {what}{key}", number(*median));
    }
    text += "\nnot measured:\n";
    for what in hardware::UNMEASURED {
        let _ = writeln!(text, "- {what}");
    }
    text
}

/// With one decimal below 100.
fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn measured(quantities: &[Quantity]) -> Value {
    let row = |Quantity { key, what, value }: &Quantity| json!({ "key": key, "what": what, "p10": value.p10, "median": value.median, "p90": value.p90 });
    json!({
        "weir": 1,
        "measured": quantities.iter().map(row).collect::<Vec<_>>(),
        "unmeasured": hardware::UNMEASURED,
    })
}
