// SPDX-License-Identifier: GPL-2.0-only
//! `weir meter`: locks, microstates, wakeups and interrupts, of saved runs and of the running kernel.

pub mod args;
mod bars;
#[cfg(feature = "real")]
mod live;
mod saved;

use crate::{input, output};
use anyhow::{Result, bail};
use args::{By, Format, Meter, Sort, What};
use meters::{Interrupts, Locks, Microstates, Wakeups};
use output_file::Target;
use std::path::Path;

/// A table of one of the meters.
pub enum Table {
    Locks(Locks),
    Microstates(Microstates),
    Wakeups(Wakeups),
    Interrupts(Interrupts),
}

impl Table {
    /// Sorts and merges as the command line says.
    fn arrange(self, args: &Meter) -> Table {
        match self {
            Table::Locks(mut locks) => {
                locks = match args.by {
                    By::Lock => locks.by_lock(),
                    By::Name => locks.by_name(),
                    By::Task | By::Process | By::Cgroup => locks,
                };
                locks.sort(match args.sort {
                    Sort::Total => meters::Sort::Total,
                    Sort::Mean => meters::Sort::Mean,
                });
                Table::Locks(locks)
            }
            Table::Microstates(states) => {
                let mut states = match args.by {
                    By::Task | By::Lock => states,
                    By::Process => states.merge(|task| task.process),
                    By::Name => states.merge(|task| task.name.clone()),
                    By::Cgroup => states.by_cgroup(),
                };
                states.sort();
                Table::Microstates(states)
            }
            Table::Wakeups(mut wakeups) => {
                wakeups.sort();
                Table::Wakeups(wakeups)
            }
            Table::Interrupts(mut interrupts) => {
                interrupts.sort();
                Table::Interrupts(interrupts)
            }
        }
    }

    /// The table in the format of the command line.
    fn show(&self, args: &Meter) -> String {
        let json = |value: serde_json::Value| format!("{value:#}\n");
        match (self, args.format) {
            (Table::Locks(locks), Format::Text) => locks.to_text(args.all),
            (Table::Locks(locks), Format::Json) => json(locks.to_json()),
            (Table::Locks(locks), Format::Csv) => locks.to_csv(),
            (Table::Locks(locks), Format::Nix) => locks.to_nix(),
            (Table::Locks(locks), Format::Lockmeter) => meters::lockmeter(locks),
            (Table::Microstates(states), Format::Json) => json(states.to_json()),
            (Table::Microstates(states), Format::Csv) => states.to_csv(),
            (Table::Microstates(states), _) => states.to_text(args.all),
            (Table::Wakeups(wakeups), Format::Json) => json(wakeups.to_json()),
            (Table::Wakeups(wakeups), Format::Csv) => wakeups.to_csv(),
            (Table::Wakeups(wakeups), _) => wakeups.to_text(args.all),
            (Table::Interrupts(interrupts), Format::Json) => json(interrupts.to_json()),
            (Table::Interrupts(interrupts), Format::Csv) => interrupts.to_csv(),
            (Table::Interrupts(interrupts), _) => interrupts.to_text(args.all),
        }
    }

    /// Whether no event was lost and every check holds.
    fn is_fine(&self) -> bool {
        match self {
            Table::Locks(locks) => locks.trust.lost == 0 && locks.checks().iter().all(|check| check.holds),
            Table::Microstates(states) => states.trust.lost == 0 && states.unbalanced().is_empty(),
            Table::Wakeups(wakeups) => wakeups.trust.lost == 0,
            Table::Interrupts(interrupts) => interrupts.trust.lost == 0,
        }
    }
}

/// Writes the page of a table, if one is asked for.
fn report(target: Option<&Target>, table: &Table) -> Result<()> {
    target.map_or(Ok(()), |target| output::write_page(target, &page::meter(output::VERSION, &bars::metered(table))))
}

/// Measures and prints. Returns false if events were lost, a check failed or the command failed.
pub fn meter(args: &Meter) -> Result<bool> {
    if matches!(args.format, Format::Nix | Format::Lockmeter) && args.what != What::Locks {
        bail!("--format nix and --format lockmeter are lock tables; expected text, json or csv");
    }
    let fits = match args.by {
        By::Task => true,
        By::Lock => args.what == What::Locks,
        By::Name => matches!(args.what, What::Locks | What::Microstates),
        By::Process | By::Cgroup => args.what == What::Microstates,
    };
    if !fits {
        bail!("--by: expected lock or name with locks, process, name or cgroup with microstates");
    }
    if !args.holds.is_empty() && args.what != What::Locks {
        bail!("--holds: expected with locks");
    }
    if args.sort == Sort::Mean && args.what != What::Locks {
        bail!("--sort mean orders lock tables only");
    }
    let [target] = output::check([("--report", args.report.as_deref())])?;
    match args.first.as_deref() {
        Some(file) if file.contains(['.', '/']) && file.parse::<ids::Nanos>().is_err() => {
            if !args.command.is_empty() || args.pid.is_some() || args.count.is_some() || args.tui {
                bail!("{file} is a saved run; expected no COUNT, -p, --tui and command with it");
            }
            if matches!(args.by, By::Process | By::Cgroup) {
                bail!("--by: a saved run knows neither processes nor cgroups; expected --by name");
            }
            if !args.holds.is_empty() {
                bail!("--holds: {file} is a saved run; expected a command, or the running kernel");
            }
            input::note_input(Path::new(file));
            output::refuse_inputs([&target])?;
            let table = saved::table(Path::new(file), args.what, &args.which)?.arrange(args);
            output::print(&table.show(args))?;
            report(target.as_ref(), &table)?;
            Ok(table.is_fine())
        }
        #[cfg(feature = "real")]
        _ => live::measure(args, target.as_ref()),
        #[cfg(not(feature = "real"))]
        _ => bail!("expected a saved run: this build only simulates; build Weir with its default features"),
    }
}
