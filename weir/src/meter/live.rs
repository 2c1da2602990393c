// SPDX-License-Identifier: GPL-2.0-only
//! Tables of the running kernel: of a command, a process or the whole machine, once or at intervals.

use super::Table;
use super::args::{Format, Meter, What};
use crate::output;
use anyhow::{Context, Result, anyhow, bail};
use host::signals::{self, Signals};
use ids::Nanos;
use kernel_link::tables::{LockFunctions, Reading, Scope, Tables, What as Kind};
use output_file::Target;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io::{self, IsTerminal};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest time between two looks at signals, keys and the command. The measured time of a command ends at a look.
const LOOK: Duration = Duration::from_millis(10);

/// Time between two live tables, unless an interval is given.
const FRAME: Nanos = Nanos::from_ms(1000);

/// Terminal that is restored when this is dropped.
struct Screen(DefaultTerminal);

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Why the measurement ends.
enum End {
    /// The command exited.
    Exited(ExitStatus),
    /// A signal, a key, the last interval, or the exit of the process.
    Stopped,
}

/// Measures and prints. Returns false if events were lost, a check failed or the command failed.
pub fn measure(args: &Meter, page: Option<&Target>) -> Result<bool> {
    let interval = args.first.as_deref().map(interval).transpose()?;
    let scope = match args.pid {
        Some(process) => Scope::Process(process),
        None if args.command.is_empty() => Scope::Machine,
        None => Scope::Command,
    };
    let holds = args.holds.iter().map(|text| text.parse().map_err(|error| anyhow!("--holds {error}")));
    let holds = holds.collect::<Result<Vec<LockFunctions>>>()?;
    let signals = Signals::block()?;
    let mut tables = Tables::start(kind(args.what), scope, &holds)?;
    let mut screen = screen(args)?;
    let mut child = match scope {
        Scope::Command => Some(signals.unblocked(|| tables.spawn(&mut command(args, screen.is_some())))?),
        _ => None,
    };
    if scope == Scope::Machine && interval.is_none() && screen.is_none() {
        say!("weir: measuring the whole machine until Ctrl-C");
    }
    let period = interval.or(screen.is_some().then_some(FRAME));
    let (mut left, mut fine) = (args.count, true);
    let (mut shown, mut due) = (None, period.map(|period| Instant::now() + Duration::from_nanos(period.0)));
    let end = loop {
        let now = Instant::now();
        let wait = due.map_or(LOOK, |due| due.saturating_duration_since(now).min(LOOK));
        tables.receive(wait)?;
        if let Some(end) = ended(args, &signals, child.as_mut(), screen.is_some())? {
            break end;
        }
        if due.is_none_or(|due| Instant::now() < due) {
            continue;
        }
        due = due.zip(period).map(|(due, period)| due + Duration::from_nanos(period.0));
        let table = Table::of(tables.read()?).arrange(args);
        fine &= table.is_fine();
        match &mut screen {
            Some(Screen(terminal)) => draw(terminal, args, &table)?,
            None if !output::print(&(table.show(args) + "\n"))? => break End::Stopped,
            None => {}
        }
        shown = Some(table);
        left = left.map(|left| left - 1);
        if left == Some(0) {
            break End::Stopped;
        }
    };
    drop(screen.take());
    finish(args, page, &mut tables, (left, shown), child, end).map(|last| fine && last)
}

/// Prints the last table, and tells whether it and the command are fine.
fn finish(
    args: &Meter,
    page: Option<&Target>,
    tables: &mut Tables,
    (left, shown): (Option<u64>, Option<Table>),
    child: Option<Child>,
    end: End,
) -> Result<bool> {
    let mut fine = true;
    if left != Some(0) {
        // A thread leaves its CPU for the last time shortly after its process was waited for.
        tables.receive(LOOK)?;
        let table = Table::of(tables.read()?).arrange(args);
        fine = table.is_fine();
        output::print(&table.show(args))?;
        super::report(page, &table)?;
    } else if let Some(table) = shown {
        if args.tui {
            output::print(&table.show(args))?;
        }
        super::report(page, &table)?;
    }
    if let (End::Stopped, Some(mut child)) = (&end, child) {
        signals::send(child.id(), 15);
        child.wait().context("cannot wait for the command")?;
    }
    if let End::Exited(status) = end
        && !status.success()
    {
        say!("weir: the command failed: {status}");
        fine = false;
    }
    Ok(fine)
}

impl Table {
    fn of(reading: Reading) -> Table {
        match reading {
            Reading::Locks(locks) => Table::Locks(locks),
            Reading::Microstates(states) => Table::Microstates(states),
            Reading::Wakeups(wakeups) => Table::Wakeups(wakeups),
            Reading::Interrupts(interrupts) => Table::Interrupts(interrupts),
        }
    }
}

fn kind(what: What) -> Kind {
    match what {
        What::Locks => Kind::Locks,
        What::Microstates => Kind::Microstates,
        What::Wakeups => Kind::Wakeups,
        What::Interrupts => Kind::Interrupts,
    }
}

/// An interval: a time with its unit, or a number of seconds as in vmstat(8).
fn interval(text: &str) -> Result<Nanos> {
    let seconds = text.parse::<u32>().ok().map(|seconds| Nanos::from_secs(u64::from(seconds)));
    let time = seconds.or_else(|| text.parse().ok()).filter(|&time| time >= Nanos::from_ms(10));
    time.ok_or_else(|| {
        anyhow!("{text:?}: expected a saved run (FILE.weirrun), or an interval from 10ms on, such as 2s")
    })
}

fn command(args: &Meter, captured: bool) -> Command {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    if captured {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    } else if args.format != Format::Text {
        // Standard output has only the table.
        command.stdout(io::stderr());
    }
    command
}

fn screen(args: &Meter) -> Result<Option<Screen>> {
    if !args.tui {
        return Ok(None);
    }
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        bail!("--tui needs a terminal; an interval such as 1s prints tables instead");
    }
    Ok(Some(Screen(ratatui::try_init().context("--tui: cannot use the terminal")?)))
}

/// Whether the measurement is over. Signals are passed on to the command.
fn ended(args: &Meter, signals: &Signals, child: Option<&mut Child>, keys: bool) -> Result<Option<End>> {
    let quit = keys && pressed_quit()?;
    let Some(child) = child else {
        let gone = args.pid.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists());
        return Ok((quit || gone || signals.take().is_some()).then_some(End::Stopped));
    };
    if quit {
        return Ok(Some(End::Stopped));
    }
    signals.pass_on(child.id());
    Ok(child.try_wait().context("cannot wait for the command")?.map(End::Exited))
}

fn pressed_quit() -> Result<bool> {
    while event::poll(Duration::ZERO)? {
        let Event::Key(key) = event::read()? else { continue };
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if key.kind == KeyEventKind::Press
            && matches!((key.code, control), (KeyCode::Char('q' | 'Q'), _) | (KeyCode::Char('c' | 'C'), true))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn draw(terminal: &mut DefaultTerminal, args: &Meter, table: &Table) -> Result<()> {
    let text = table.show(&Meter { format: Format::Text, ..args.clone() });
    let title = format!("weir meter {}", format!("{:?}", args.what).to_lowercase());
    terminal.draw(|frame| live_view::draw_table(frame, &title, &text, "q ends"))?;
    Ok(())
}
