// SPDX-License-Identifier: GPL-2.0-only
//! Interactivity test report: the pictures of a film that were shown too late, in the manner of mpv.

use crate::RunReport;
use crate::numbers::count;
use crate::table::{align, plain};
use crate::times;
use ids::Nanos;
use measures::{Periods, TaskMeasures};
use std::fmt::Write;

/// A film in a workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Film {
    /// Name of the workload.
    pub workload: String,
    /// Label of the part that is the film; `None`: the whole workload is.
    pub label: Option<String>,
    /// Name of the film.
    pub name: String,
    /// Number of its pictures.
    pub pictures: u64,
}

/// Pictures of the film in some runs.
#[derive(Default)]
struct Shown {
    runs: u64,
    runs_with_late: u64,
    periods: Periods,
}

/// For each setup with one of these films, the line that mpv shows at the end of its first run; then a table of all
/// runs. Empty if no run has a film.
///
/// A picture is late if it is shown when the next one is due: mpv drops it then (`--framedrop=vo`), the model shows it.
pub fn films(films: &[Film], runs: &[RunReport]) -> String {
    let heads = ["film", "scheduler", "runs", "pictures", "late", "worst", "runs with late"];
    let (mut text, mut table) = (String::new(), plain(&heads));
    for film in films {
        let of_film: Vec<&RunReport> = runs.iter().filter(|run| run.tags.workload == film.workload).collect();
        let setups = times::setups(&of_film);
        for (name, &setup) in times::names(&setups).iter().zip(&setups) {
            let mut shown = Shown::default();
            for periods in of_film.iter().filter(|run| times::setup(run) == setup).filter_map(|run| display(film, run))
            {
                if shown.runs == 0 {
                    let _ = writeln!(text, "{} under {name}\n{}", film.name, status(film, periods));
                }
                shown.runs += 1;
                shown.runs_with_late += u64::from(periods.late.count() > 0);
                shown.periods.add(periods);
            }
            if shown.runs > 0 {
                table.add_row(row(film, name, &shown));
            }
        }
    }
    if text.is_empty() { text } else { text + "\n" + &align(&mut table) + "\n" }
}

/// Periods of the task that shows the pictures.
fn display<'a>(film: &Film, run: &'a RunReport) -> Option<&'a Periods> {
    let name = film.label.as_ref().map_or("display".to_owned(), |label| format!("{label}/display"));
    let task = |task: &&TaskMeasures| task.name == name;
    run.measures.tasks.iter().find(task)?.periods.as_deref()
}

/// mpv's status line: position, length, and the number of dropped frames if there are any.
fn status(film: &Film, periods: &Periods) -> String {
    let (shown, late) = (periods.response.count(), periods.late.count());
    let at = |pictures: u64| clock(Nanos(pictures * periods.length.0));
    let dropped = if late > 0 { format!(" Dropped: {late}") } else { String::new() };
    format!("V: {} / {} ({}%){dropped}", at(shown), at(film.pictures), 100 * shown / film.pictures.max(1))
}

/// `00:01:00`: the nearest second, since a period is a rounded number of nanoseconds.
fn clock(time: Nanos) -> String {
    let seconds = (time.0 + 500_000_000) / 1_000_000_000;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn row(film: &Film, name: &str, shown: &Shown) -> [String; 7] {
    let Shown { runs, runs_with_late, periods } = shown;
    let (pictures, late) = (periods.response.count(), periods.late.count());
    [
        film.name.clone(),
        name.to_owned(),
        count(*runs),
        format!("{} of {}", count(pictures), count(film.pictures * runs)),
        count(late),
        if late > 0 { periods.summary().late.max.to_string() } else { "-".to_owned() },
        count(*runs_with_late),
    ]
}
