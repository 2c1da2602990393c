// SPDX-License-Identifier: GPL-2.0-only
//! Report on a search for the best of many candidates.

use crate::numbers::{COLUMNS, is_ratio, ppm, range, ratio, shorten, value_text, wrap};
use crate::{counted, escape};
use measures::catalogue::Measure;
use statistics::{Fate, Halving, Standing, Verdict};
use std::fmt::Write;

/// Widths of the columns behind the name, in characters, each with a blank before it.
const WIDTHS: [usize; 5] = [5, 11, 10, 18, 10];
/// Names that a sentence lists; it counts more of them.
const NAMED: usize = 4;

/// A search, as far as it is.
pub struct Search<'a> {
    /// Properties that all runs share.
    pub title: &'a str,
    /// What is searched for.
    pub measure: &'static Measure,
    /// Whether the greatest value is searched for, not the smallest.
    pub maximize: bool,
    /// Names of the candidates.
    pub names: &'a [String],
    /// Their state.
    pub halving: &'a Halving,
    /// Why candidates have no value; empty for the others.
    pub failures: &'a [String],
    /// Finished runs of its candidates, and runs of the same candidates with all seeds.
    pub runs: (usize, usize),
}

/// What a search has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// All other candidates are significantly worse, or failed.
    Best,
    /// No other candidate is left, but some left by rank alone.
    Leads,
    /// Some other candidate does not differ significantly.
    Tied,
    /// Not all rounds have ended.
    Unfinished,
    /// No candidate has values.
    Nothing,
}

impl Found {
    /// Name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Found::Best => "best",
            Found::Leads => "leads",
            Found::Tied => "tied",
            Found::Unfinished => "unfinished",
            Found::Nothing => "nothing",
        }
    }
}

/// Name of a fate in JSON.
pub fn fate_name(fate: Fate, found: Found) -> &'static str {
    match fate {
        Fate::Leads => "leads",
        Fate::Stays if found == Found::Unfinished => "stays",
        Fate::Stays => "tied",
        Fate::Worse => "worse",
        Fate::Rank => "rank",
        Fate::Failed => "failed",
    }
}

impl Search<'_> {
    /// What it has found.
    pub fn found(&self) -> Found {
        let has = |fate| self.halving.standings().iter().any(|standing| standing.fate == fate);
        match () {
            () if self.halving.next().is_some() => Found::Unfinished,
            () if !has(Fate::Leads) => Found::Nothing,
            () if has(Fate::Stays) => Found::Tied,
            () if has(Fate::Rank) => Found::Leads,
            () => Found::Best,
        }
    }

    /// Candidates with this fate, the best first; those of later rounds before those of earlier ones.
    pub fn of_fate(&self, fate: Fate) -> Vec<usize> {
        let all = self.halving.standings();
        let mut those: Vec<usize> = (0..all.len()).filter(|&one| all[one].fate == fate).collect();
        those.sort_by_key(|&one| (std::cmp::Reverse(all[one].round), all[one].rank.map(|rank| rank.place), one));
        those
    }

    /// All candidates, the leader first.
    pub fn order(&self) -> Vec<usize> {
        [Fate::Leads, Fate::Stays, Fate::Worse, Fate::Rank, Fate::Failed]
            .into_iter()
            .flat_map(|fate| self.of_fate(fate))
            .collect()
    }

    /// The report as text, at most 80 columns wide.
    pub fn to_text(&self) -> String {
        let goal = if self.maximize { "maximize" } else { "minimize" };
        let seeds: Vec<String> = self.halving.rounds().iter().map(usize::to_string).collect();
        let rounds = match seeds.as_slice() {
            [one] => format!("one round of {one} seeds"),
            all => format!("rounds of {} seeds", all.join(", ")),
        };
        let title = if self.title.is_empty() { String::new() } else { format!("{}; ", self.title) };
        let head = format!(
            "{goal} {}: {title}{rounds}, {} of {}",
            self.measure.key,
            self.runs.0,
            counted(self.runs.1 as u64, "run")
        );
        let mut text = wrap("", &escape(&head)) + "\n\n";
        text += &line("scheduler", ["seeds", self.measure.label, "difference", "range", "result"].map(str::to_owned));
        let (found, common) = (self.found(), common(self.names));
        for candidate in self.order() {
            let standing = &self.halving.standings()[candidate];
            let cells = self.cells(standing, found);
            text += &line(&escape(&self.names[candidate][common..]), cells);
        }
        text.push('\n');
        for sentence in self.sentences(found) {
            let _ = writeln!(text, "{}", wrap("", &sentence));
        }
        text
    }

    fn cells(&self, standing: &Standing, found: Found) -> [String; 5] {
        let against = standing.against.map(|(_, interval)| interval);
        let ends = against.and_then(|interval| interval.low_ppm.zip(interval.high_ppm));
        let scale = if ends.is_some_and(|(low, high)| is_ratio(low) || is_ratio(high)) { ratio } else { ppm };
        let result = match (standing.fate, standing.rank) {
            (Fate::Leads, _) => "first".to_owned(),
            (Fate::Stays, _) if found == Found::Unfinished => "goes on".to_owned(),
            (Fate::Stays, _) if against.is_some_and(|interval| interval.verdict == Verdict::Same) => "same".to_owned(),
            (Fate::Stays, _) => "tied".to_owned(),
            (Fate::Worse, _) => "✗ worse".to_owned(),
            (Fate::Rank, Some(rank)) => format!("rank {}/{}", rank.place, rank.of),
            (Fate::Rank | Fate::Failed, _) => "no value".to_owned(),
        };
        [
            standing.seeds.to_string(),
            value_text(self.measure, standing.median),
            against.and_then(|interval| interval.diff_ppm).map(scale).unwrap_or_default(),
            ends.map(|(low, high)| range(low, high)).unwrap_or_default(),
            result,
        ]
    }

    fn sentences(&self, found: Found) -> Vec<String> {
        let mut all = Vec::new();
        let [leads, stays, worse, rank, failed] =
            [Fate::Leads, Fate::Stays, Fate::Worse, Fate::Rank, Fate::Failed].map(|fate| self.of_fate(fate));
        for &candidate in &failed {
            all.push(format!("{}: {}.", escape(&self.names[candidate]), escape(&self.failures[candidate])));
        }
        let name = |candidate: &usize| escape(&self.names[*candidate]).into_owned();
        match (found, leads.first()) {
            (Found::Unfinished, _) => {
                let (ended, rounds) = (self.halving.ended(), self.halving.rounds().len());
                all.push(format!("{ended} of {} ended: there is no answer yet.", counted(rounds as u64, "round")));
                return all;
            }
            (_, None) => {
                all.push("No candidate has a value for each seed: there is no answer.".to_owned());
                return all;
            }
            (Found::Tied, Some(first)) => {
                all.push(format!("{} is first, but cannot be told apart from {}.", name(first), self.list(&stays)));
                all.extend(self.resolution(&stays));
            }
            (Found::Best, Some(first)) if worse.is_empty() => {
                all.push(format!("{} is the only candidate.", name(first)))
            }
            (Found::Best, Some(first)) => {
                all.push(format!("{} is the best: all others are significantly worse.", name(first)));
            }
            (_, Some(first)) => all.push(format!("{} is the best of the last round.", name(first))),
        }
        if !rank.is_empty() {
            let them = if rank.len() == 1 { ["it", "it"] } else { ["they", "them"] };
            all.push(format!(
                "{} left by rank alone, which is no evidence: {} may be as good. More --finalists keep {} longer.",
                counted(rank.len() as u64, "candidate"),
                them[0],
                them[1]
            ));
        }
        let others: Vec<usize> = worse
            .iter()
            .copied()
            .filter(|&one| self.leader_of(one).is_some_and(|leader| !leads.contains(&leader)))
            .collect();
        if !others.is_empty() {
            let verb = if others.len() == 1 { "was" } else { "were" };
            all.push(format!("{} {verb} worse than the first of an earlier round.", self.list(&others)));
        }
        all.push(
            "Differences are from the first of the same round. If no candidates differ, at most 5 % of searches call any \
             of them worse. The median of the first is optimistic, as the same runs selected it."
                .to_owned(),
        );
        all
    }

    fn leader_of(&self, candidate: usize) -> Option<usize> {
        self.halving.standings()[candidate].against.map(|(leader, _)| leader)
    }

    /// The difference that would have told the tied candidates apart.
    fn resolution(&self, tied: &[usize]) -> Option<String> {
        let intervals =
            || tied.iter().filter_map(|&one| self.halving.standings()[one].against.map(|(_, interval)| interval));
        if intervals().all(|interval| interval.low_ppm == Some(0) && interval.high_ppm == Some(0)) {
            return Some("The values of all their runs are equal.".to_owned());
        }
        if intervals().all(|interval| interval.verdict == Verdict::Same) {
            return Some("The range of each difference lies within 1 %.".to_owned());
        }
        let seeds = self.halving.rounds().last().copied().unwrap_or(0);
        let fewest = self.halving.fewest_seeds();
        if seeds < fewest {
            let candidates = counted(self.names.len() as u64, "candidate");
            return Some(format!("{seeds} seeds can tell none of {candidates} apart: use {fewest} or more."));
        }
        let detectable = intervals().filter_map(|interval| interval.tellable_ppm).max()?;
        Some(format!("Minimum detectable difference: {}.", ppm(detectable).trim_start_matches('+')))
    }

    fn list(&self, candidates: &[usize]) -> String {
        let names: Vec<String> = candidates.iter().map(|&one| escape(&self.names[one]).into_owned()).collect();
        let (shown, more) = match names.len() {
            count if count > NAMED => (&names[..NAMED], Some(format!("{} others", count - NAMED))),
            _ => (&names[..], None),
        };
        let mut parts = shown.to_vec();
        parts.extend(more);
        match parts.split_last() {
            Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
            _ => parts.concat(),
        }
    }
}

/// Length of what all names begin with, up to a comma: a scheduler's name before its tunables.
fn common(names: &[String]) -> usize {
    let shared = |one: &str, other: &str| one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let (Some(first), true) = (names.first(), names.len() > 1) else { return 0 };
    let length = names[1..].iter().map(|name| shared(first, name)).min().unwrap_or(0);
    first.as_bytes()[..length].iter().rposition(|&byte| byte == b',').map_or(0, |comma| comma + 1)
}

/// A line of the table.
fn line(name: &str, cells: [String; 5]) -> String {
    let width = COLUMNS - WIDTHS.iter().map(|width| width + 1).sum::<usize>();
    let mut text = shorten(name, width);
    text += &" ".repeat(width.saturating_sub(text.chars().count()));
    for (place, (cell, width)) in cells.iter().zip(WIDTHS).enumerate() {
        let cell = shorten(cell, width);
        let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
        let _ = if place + 1 == WIDTHS.len() { write!(text, " {cell}") } else { write!(text, " {blanks}{cell}") };
    }
    text.trim_end().to_owned() + "\n"
}
