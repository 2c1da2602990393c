// SPDX-License-Identifier: GPL-2.0-only
//! Rendering of a snapshot. If the area is too small, parts are clipped; head and CPUs have priority over latencies,
//! delays and depths.
//!
//! Parts are distinguishable without colors: `█` tasks of the run, `▒` other tasks, `·` idle.

use crate::follower::WINDOW;
use crate::{CpuShare, Snapshot};
use ids::Nanos;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Sparkline};
use report::count;

/// Maximum number of CPU rows in one column.
const CPU_ROWS: usize = 8;
/// Minimum width of a CPU column with bars; below that, each CPU is a single character.
const NARROWEST: usize = 19;
/// Characters for the utilization of a CPU shown as one character.
const LEVELS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Constant text of a frame, and the footer.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// Title, such as `bfs, workload build, kernel 7.2`.
    pub title: String,
    /// Footer, such as the last line of the command's output.
    pub foot: String,
}

/// Draws a frame.
pub fn draw(frame: &mut Frame<'_>, head: &Head, snapshot: &Snapshot) {
    let area = frame.area();
    let (wide, tall) = (usize::from(area.width), usize::from(area.height));
    let cpus = cpu_lines(&snapshot.cpus, wide.saturating_sub(2), tall.saturating_sub(14).clamp(1, 2 * CPU_ROWS));
    let depths = if tall >= 20 && snapshot.depths.is_some() { 5 } else { 0 };
    let [top, middle, below, bottom, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(cpus.len() as u16 + 2),
        Constraint::Fill(1),
        Constraint::Length(depths),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(head_lines(head, snapshot)), top);
    frame.render_widget(Paragraph::new(cpus).block(titled("CPUs: █ run, ▒ others, · idle")), middle);
    let [left, right] = Layout::horizontal([Constraint::Percentage(50), Constraint::Fill(1)]).areas(below);
    latencies(frame, snapshot, left);
    waiters(frame, snapshot, right);
    if depths > 0 {
        depth(frame, snapshot, bottom);
    }
    frame.render_widget(Paragraph::new(head.foot.as_str()).style(quiet()), foot);
    clean(frame);
}

/// Replaces what would control the terminal, or change the order of the text around it: the last step of each frame.
pub(crate) fn clean(frame: &mut Frame<'_>) {
    for cell in &mut frame.buffer_mut().content {
        if report::escape(cell.symbol()) != cell.symbol() {
            cell.set_symbol("?");
        }
    }
}

fn titled(title: impl Into<Line<'static>>) -> Block<'static> {
    Block::bordered().border_style(quiet()).title(title.into().style(Style::reset()))
}

fn quiet() -> Style {
    Style::new().fg(Color::DarkGray)
}

/// A time in tenths of seconds.
fn seconds(time: Nanos) -> String {
    format!("{}.{} s", time.0 / 1_000_000_000, time.0 / 100_000_000 % 10)
}

fn head_lines(head: &Head, snapshot: &Snapshot) -> Vec<Line<'static>> {
    let rate = |times: u64| {
        let rate = u128::from(times) * 1_000_000_000 / u128::from(snapshot.interval.0.max(1));
        if snapshot.interval == Nanos::ZERO { "-".to_owned() } else { count(rate as u64) }
    };
    let alive = snapshot.alive.map_or(String::new(), |alive| format!(" · {}", report::counted(alive.into(), "task")));
    let rates = format!(
        "{} · {} switches/s · {} wakeups/s{alive}",
        seconds(snapshot.elapsed),
        rate(snapshot.switches),
        rate(snapshot.wakeups)
    );
    let bold = Style::new().add_modifier(Modifier::BOLD);
    vec![Line::styled(head.title.clone(), bold), Line::raw(rates)]
}

/// Bars of all CPUs, in as many columns as needed; or a character per CPU.
fn cpu_lines(cpus: &[CpuShare], wide: usize, rows: usize) -> Vec<Line<'static>> {
    let columns = (1..=(wide / NARROWEST).max(1)).find(|columns| cpus.len().div_ceil(*columns) <= rows.min(CPU_ROWS));
    let Some(columns) = columns else { return cpu_signs(cpus, wide, rows) };
    let rows = cpus.len().div_ceil(columns);
    let each = wide / columns;
    let line = |row: usize| {
        let in_row = (0..columns).map(|column| column * rows + row);
        let cells = in_row.filter_map(|cpu| Some((cpu, cpus.get(cpu)?)));
        Line::from(cells.flat_map(|(cpu, share)| cpu_cell(cpu, share, each)).collect::<Vec<_>>())
    };
    (0..rows).map(line).collect()
}

/// Formats `  3 ██████▒▒····  62 %  2 wait  cc1[131]` in exactly `wide` columns; if narrow, parts are dropped from
/// the right.
fn cpu_cell(cpu: usize, share: &CpuShare, wide: usize) -> Vec<Span<'static>> {
    let busy = share.run + share.others;
    let whole = u128::from((busy + share.idle).0.max(1));
    let number = format!("{cpu:>4} ");
    if share.is_offline {
        return vec![Span::raw(format!("{number}{:<1$}", "offline", wide.saturating_sub(number.len())))];
    }
    let percent = format!(" {:>3} % ", u128::from(busy.0) * 100 / whole);
    let waiting = share.waiting.filter(|_| wide >= 34);
    let waiting = waiting.map_or(String::new(), |waiting| format!("{:>4} wait ", count(waiting.into())));
    let name_wide = if wide >= 60 && share.waiting.is_some() { 22 } else { 0 };
    let name = fit(share.current.as_deref().unwrap_or_default(), name_wide);
    let rest = number.len() + percent.len() + waiting.len() + name_wide;
    let bar = wide.saturating_sub(rest + 1);
    let cells = |time: Nanos| (u128::from(time.0) * bar as u128 + whole / 2) / whole;
    let run = cells(share.run) as usize;
    let others = (cells(busy) as usize).saturating_sub(run);
    vec![
        Span::raw(number),
        Span::styled("█".repeat(run), Style::new().fg(Color::Cyan)),
        Span::styled("▒".repeat(others), Style::new().fg(Color::Yellow)),
        Span::styled("·".repeat(bar.saturating_sub(run + others)), quiet()),
        Span::raw(format!("{percent}{waiting}{name} ")),
    ]
}

/// One character per CPU, by utilization. Each row begins with the number of its first CPU.
fn cpu_signs(cpus: &[CpuShare], wide: usize, rows: usize) -> Vec<Line<'static>> {
    const NUMBER: usize = 5;
    // Multiples of ten make it easy to find a CPU by number.
    let each = ((wide.saturating_sub(NUMBER)) / 10 * 10).max(10);
    let sign = |share: &CpuShare| {
        let busy = (share.run + share.others).0;
        let whole = (busy + share.idle.0).max(1);
        let level = (u128::from(busy) * 8).div_ceil(u128::from(whole)) as usize;
        if share.is_offline { ' ' } else { LEVELS[level.min(8)] }
    };
    let line = |(row, shares): (usize, &[CpuShare])| {
        let signs: String = shares.iter().map(sign).collect();
        Line::from(vec![Span::raw(format!("{:>4} ", row * each)), Span::styled(signs, Style::new().fg(Color::Cyan))])
    };
    let mut lines: Vec<_> = cpus.chunks(each).enumerate().map(line).collect();
    if lines.len() > rows {
        lines.truncate(rows.max(1) - 1);
        lines.push(Line::raw(format!("     and {} more CPUs", cpus.len() - (rows.max(1) - 1) * each)));
    }
    lines
}

/// Truncates or pads text to exactly `wide` characters.
fn fit(text: &str, wide: usize) -> String {
    format!("{:<wide$}", text.chars().take(wide).collect::<String>())
}

/// Description of the window length: one to two times [`WINDOW`].
fn window() -> String {
    let short = WINDOW.0 / 1_000_000_000;
    format!("last {short} to {} s", 2 * short)
}

fn latencies(frame: &mut Frame<'_>, snapshot: &Snapshot, area: Rect) {
    let block = titled(format!("wakeup latency, {}", window()));
    let inner = block.inner(area);
    let (wide, tall) = (usize::from(inner.width), usize::from(inner.height));
    let ranges = snapshot.latencies.ranges(tall.saturating_sub(1));
    let most = ranges.iter().map(|range| range.count).max().unwrap_or(0).max(1);
    let summary = snapshot.latencies.summary();
    let mut lines = vec![match summary.count {
        0 => Line::styled("no wakeups", quiet()),
        _ => Line::raw(format!("p50 {}, p99 {}, max {}", summary.p50, summary.p99, summary.max)),
    }];
    let row = |range: &crate::latency::Range| {
        let label = range.end.map_or_else(|| "longer".to_owned(), |end| format!("≤ {}", short(end)));
        let bar = wide.saturating_sub(18);
        let long = (u128::from(range.count) * bar as u128).div_ceil(u128::from(most)) as usize;
        Line::from(vec![
            Span::raw(format!("{label:>8} ")),
            Span::styled(fit(&"█".repeat(long), bar), Style::new().fg(Color::Cyan)),
            Span::raw(format!(" {:>7}", count(range.count))),
        ])
    };
    lines.extend(ranges.iter().map(row));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Formats a range bound, such as `500 us`; bounds are whole numbers.
fn short(time: Nanos) -> String {
    match time.0 {
        ..1_000_000 => format!("{} us", time.0 / 1_000),
        1_000_000..1_000_000_000 => format!("{} ms", time.0 / 1_000_000),
        _ => format!("{} s", time.0 / 1_000_000_000),
    }
}

fn waiters(frame: &mut Frame<'_>, snapshot: &Snapshot, area: Rect) {
    let block = titled(format!("longest run delay, {}", window()));
    let inner = block.inner(area);
    // In a narrow area, names have priority over CPU numbers.
    let wide = usize::from(inner.width);
    let on = if wide >= 37 { 7 } else { 0 };
    let name = wide.saturating_sub(18 + on);
    let lines = match &snapshot.waiters {
        None => vec![
            Line::styled("not available: tasks are tracked", quiet()),
            Line::styled("with -w WORKLOAD or -- COMMAND", quiet()),
        ],
        Some(waiters) if waiters.is_empty() => vec![Line::styled("no task waited", quiet())],
        Some(waiters) => {
            let line = |task: &str, waited: &str, now: &str, cpu: &str| {
                let place = format!(" {cpu:>6}");
                format!("{} {waited:>8} {now:>8}{}", fit(task, name), fit(&place, on))
            };
            let head = line("task", "waited", "now", "on");
            let row = |waiter: &crate::Waiter| {
                let (now, cpu) = match waiter.now {
                    Some((now, cpu)) => (now.to_string(), format!("CPU{cpu}")),
                    None => ("-".to_owned(), String::new()),
                };
                Line::raw(line(&waiter.name, &waiter.waited.to_string(), &now, &cpu))
            };
            std::iter::once(Line::styled(head, quiet())).chain(waiters.iter().map(row)).collect()
        }
    };
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn depth(frame: &mut Frame<'_>, snapshot: &Snapshot, area: Rect) {
    let depths = snapshot.depths.as_deref().unwrap_or_default();
    let shown = usize::from(area.width).saturating_sub(2).min(depths.len());
    let depths: Vec<u64> = depths[depths.len() - shown..].iter().map(|&depth| depth.into()).collect();
    let (now, most) = (depths.last().copied().unwrap_or(0), depths.iter().copied().max().unwrap_or(0));
    let time = seconds(Nanos(snapshot.frame.0 * shown as u64));
    let title = format!("tasks waiting for a CPU: {}, at most {} in the last {time}", count(now), count(most));
    let line = Sparkline::default().data(&depths).max(most.max(1)).style(Style::new().fg(Color::Yellow));
    frame.render_widget(line.block(titled(title)), area);
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
