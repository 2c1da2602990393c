// SPDX-License-Identifier: GPL-2.0-only
//! The page of all verdicts, in Markdown.

use super::figures::{Figures, tellable};
use super::judged::Judged;
use super::text;
use claims::{Judgement, Verdict};
use std::fmt::Write;

/// Shipped files of claims with the titles of their sections. The section of another file has its name.
const SECTIONS: [(&str, &str); 6] = [
    ("bfs.toml", "BFS"),
    ("vrq.toml", "-gc and VRQ"),
    ("nix.toml", "NIX"),
    ("lecture.toml", "A lecture on scalability"),
    ("lrzip.toml", "lrzip"),
    ("bitfit.toml", "GFS2's bitmaps"),
];
/// Half-width of a bar in characters, and the difference that fills it: 50 %.
const HALF_BAR: u64 = 12;
const FULL_BAR_PPM: u64 = 500_000;

/// The page.
pub fn page(all: &[Judged<'_>], commit: Option<&str>) -> String {
    let mut text = claims::INTRODUCTION.replace("{SUMMARY}", &text::summary(all));
    text = text.replace("{COMMIT}", &commit.map_or_else(|| "an unnamed commit".to_owned(), |id| format!("`{id}`")));
    let file = |judged: &Judged<'_>| judged.claim.place.rsplit_once(':').map(|(file, _)| file.to_owned());
    for section in all.chunk_by(|one, next| file(one) == file(next)) {
        let section: Vec<&Judged<'_>> = section.iter().collect();
        let name = section.first().and_then(|first| file(first)).unwrap_or_default();
        let title = SECTIONS.iter().find(|(file, _)| *file == name).map_or(name.as_str(), |(_, title)| title);
        let _ = write!(text, "\n## {title}\n\n");
        text += "| claim | published | here | verdict | what decides |\n|---|---|---|---|---|\n";
        section.iter().for_each(|judged| text += &row(judged));
        text += &pictures(&section);
        for judged in section {
            finding(judged).iter().for_each(|finding| text += &detail(judged, finding));
        }
    }
    text + "\n" + claims::LEARNED
}

/// What was found when a claim was looked into.
fn finding(judged: &Judged<'_>) -> Option<&'static str> {
    claims::FINDINGS.iter().find(|(id, _)| *id == judged.claim.id).map(|(_, finding)| *finding)
}

/// Row of the table of a section.
fn row(judged: &Judged<'_>) -> String {
    let Judged { claim, judgement, reason, decider, .. } = judged;
    let published = claim.published.as_deref().unwrap_or("");
    let figures = Figures::of(claim);
    let mut here = if judgement.agreeing.1 > 0 { figures.judged(judgement) } else { String::new() };
    if !judgement.steps.is_empty() {
        let step = |step: &claims::Step| format!("{}: {}", step.value, figures.one(step.effect_ppm));
        here = judgement.steps.iter().map(step).collect::<Vec<_>>().join("; ");
    }
    if let (Verdict::Unclear, Some(ppm)) = (judgement.verdict, judgement.tellable_ppm) {
        let _ = write!(here, "; could have told {}", tellable(ppm));
    }
    let verdict = match judgement.verdict {
        Verdict::Refuted | Verdict::Depends => format!("**{}**", judgement.verdict.words()),
        other => other.words().to_owned(),
    };
    let decides = judgement.depends_on.clone().or_else(|| decider.as_ref().map(|decider| decider.group.clone()));
    let decides = decides.or_else(|| reason.clone()).unwrap_or_default();
    let text = format!("{} `{}`", claim.text, claim.id);
    format!("| {} | {} | {here} | {verdict} | {} |\n", cell(&text), cell(published), cell(&decides))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A line of a picture: name, difference and interval.
type Bar = (String, i64, Option<(i64, i64)>);

/// Section of a claim that was looked into: runs, picture, and what was found.
fn detail(judged: &Judged<'_>, finding: &str) -> String {
    let Judged { claim, runs, command, similar, .. } = judged;
    let mut text = format!("\n### {}\n\n{}\n\n> {}\n>\n> {}\n", claim.id, claim.text, claim.seed_text, claim.source);
    text += &picture(judged);
    let commands = format!("`{command}`, {runs} runs; with seeds common to all samples:");
    let _ = writeln!(text, "\n{}\n\n{commands}\n\n```\n{}\n```", finding.trim_end(), similar.join("\n"));
    text
}

/// Whether a claim has a picture of its own: it has a figure to compare with, or several values to compare.
fn has_picture(judged: &Judged<'_>) -> bool {
    judged.judgement.agreeing.1 > 0 && (judged.claim.published_ppm.is_some() || !judged.judgement.steps.is_empty())
}

/// The pictures of a section, folded.
fn pictures(section: &[&Judged<'_>]) -> String {
    let is_shown = |judged: &&&Judged<'_>| has_picture(judged) && finding(judged).is_none();
    let one = |judged: &&Judged<'_>| format!("\n`{}`\n{}", judged.claim.id, picture(judged));
    let all: String = section.iter().filter(is_shown).map(one).collect();
    if all.is_empty() { all } else { format!("\n<details><summary>In pictures</summary>\n{all}\n</details>\n") }
}

/// Bars of what was published, of what was found, and of both checks.
fn picture(judged: &Judged<'_>) -> String {
    let Judged { claim, judgement, placebo, off, .. } = judged;
    let figures = Figures::of(claim);
    let mut rows: Vec<Bar> = Vec::new();
    if let Some(ppm) = claim.published_ppm {
        rows.push(("published".to_owned(), ppm, None));
    }
    match judgement.steps.as_slice() {
        [] => rows.push(("here".to_owned(), judgement.effect_ppm, judgement.interval_ppm)),
        steps => {
            rows.extend(steps.iter().map(|step| (format!("at {}", step.value), step.effect_ppm, step.interval_ppm)))
        }
    }
    let mut more = |name: &str, judged: &Option<Judgement>| {
        let judged = judged.iter().filter(|one| one.agreeing.1 > 0);
        rows.extend(judged.map(|one| (name.to_owned(), one.effect_ppm, one.interval_ppm)));
    };
    more("switched off", off);
    more("placebo", placebo);
    let mut text = "\n```\n".to_owned();
    for (name, effect, interval) in rows {
        let line = format!("{name:<14}{} {}", bar(effect), figures.with_interval(effect, interval));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text + "```\n"
}

/// A bar to the left or right of a line in the middle.
fn bar(ppm: i64) -> String {
    let length = (ppm.unsigned_abs().min(FULL_BAR_PPM) * HALF_BAR).div_ceil(FULL_BAR_PPM) as usize;
    let (half, full) = (HALF_BAR as usize, "█".repeat(length));
    if ppm < 0 { format!("{full:>half$}│{:half$}", "") } else { format!("{:half$}│{full:<half$}", "") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_points_to_the_side_of_the_sign_and_is_bounded() {
        let bars = [bar(-500_000), bar(1), bar(i64::MAX / 100)];
        assert_eq!(bars[0], format!("{}│{}", "█".repeat(12), " ".repeat(12)));
        assert_eq!(bars[1], format!("{}│█{}", " ".repeat(12), " ".repeat(11)));
        assert_eq!(bars[2], format!("{}│{}", " ".repeat(12), "█".repeat(12)));
    }
}
