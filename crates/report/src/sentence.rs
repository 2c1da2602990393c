// SPDX-License-Identifier: GPL-2.0-only
//! Interpretation of a comparison in one or two sentences, the largest differences first, better and worse alike:
//! makespan or work, wakeup latency, response time, idle CPUs beside waiting tasks, by their confidence intervals. If
//! the runs are inconclusive, it states the smallest difference they could have detected, or how many runs could.

use crate::numbers::{GLUE, permille, ppm, times};
use crate::setups::{Compared, Group, Judgement, Setup};
use measures::catalogue::CATALOGUE;
use statistics::{Family, Verdict};

/// A measure used in sentences: key, phrases for a smaller and a larger value, and its name.
struct Topic {
    key: &'static str,
    less: &'static str,
    more: &'static str,
    noun: &'static str,
}

const TOPICS: [Topic; 6] = [
    Topic { key: "makespan_ns", less: "finishes {} sooner", more: "finishes {} later", noun: "the makespan" },
    Topic { key: "work_ns", less: "gets {} less work done", more: "gets {} more work done", noun: "the work done" },
    Topic {
        key: "wakeup_latency_ns.mean",
        less: "has a {} shorter mean wakeup latency",
        more: "has a {} longer mean wakeup latency",
        noun: "the mean wakeup latency",
    },
    Topic {
        key: "wakeup_latency_ns.p99",
        less: "has a {} shorter p99 wakeup latency",
        more: "has a {} longer p99 wakeup latency",
        noun: "the p99 wakeup latency",
    },
    Topic {
        key: "response_ns.p99",
        less: "has a {} shorter p99 response time",
        more: "has a {} longer p99 response time",
        noun: "the p99 response time",
    },
    Topic {
        key: "idle_while_runnable_ns",
        less: "leaves CPUs idle while tasks wait for {} less time",
        more: "leaves CPUs idle while tasks wait for {} more time",
        noun: "the time in which CPUs idle while tasks wait",
    },
];

/// Differences below this are left out of sentences.
const SMALL_PPM: i64 = 5_000;

/// Index of a key in the catalogue.
fn index(key: &str) -> usize {
    CATALOGUE.iter().position(|measure| measure.key == key).expect("a key of the catalogue")
}

/// The topics of two setups: work is used only if there is no makespan.
fn topics<'a>(compared: &'a Compared) -> impl Iterator<Item = (&'static Topic, Judgement)> + 'a {
    let has_makespan = compared.judgements[index("makespan_ns")].is_some();
    let judged = |topic: &'static Topic| compared.judgements[index(topic.key)].map(|judged| (topic, judged));
    TOPICS.iter().filter_map(judged).filter(move |(topic, _)| topic.key != "work_ns" || !has_makespan)
}

/// Sentences on a setup relative to the baseline of its group.
pub(crate) fn of(group: &Group<'_>, other: &Setup<'_>, compared: &Compared) -> String {
    between(&group.setups[0], other, compared, group.compared.len())
}

/// Sentences on `other` relative to `base`, which is one of `comparisons` comparisons.
pub(crate) fn between(base: &Setup<'_>, other: &Setup<'_>, compared: &Compared, comparisons: usize) -> String {
    let (first, name) = (&base.name, &other.name);
    for setup in [other, base] {
        if !setup.all_completed() && setup.is_part() {
            return String::new();
        }
        if !setup.all_completed() {
            return format!("{} did not complete in all runs, so {name} and {first} did different work.", setup.name);
        }
    }
    if base.runs.len() == 1 && other.runs.len() == 1 {
        return String::new();
    }
    let (mut clear, mut same, mut unclear) = (Vec::new(), Vec::new(), Vec::new());
    for (topic, judged) in topics(compared) {
        match judged.verdict {
            // Statistically clear, but too small for a summary; the table has it.
            Verdict::Better | Verdict::Worse if is_small(&judged) => {}
            Verdict::Better | Verdict::Worse => clear.push((effect(&judged), said(topic, &judged))),
            Verdict::Same | Verdict::Differs => same.push(topic.noun.to_owned()),
            Verdict::Unclear => unclear.push(could_tell(topic, &judged)),
        }
    }
    let mut sentences = Vec::new();
    if !clear.is_empty() {
        clear.sort_by_key(|(effect, _)| std::cmp::Reverse(*effect));
        let clear: Vec<String> = clear.into_iter().map(|(_, said)| said).collect();
        sentences.push(format!("Against {first}, {name} {}.", list(&clear)));
    }
    if !same.is_empty() {
        sentences.push(format!("{} of {name} and {first} {} within 1 %.", capital(&list(&same)), verb(&same)));
    }
    if let Some(fewest) = too_few(base, other, compared, comparisons) {
        sentences.push(fewest);
    } else if !unclear.is_empty() {
        sentences.push(format!("These runs do not show whether {name} and {first} differ in {}.", list(&unclear)));
    }
    sentences.join(" ")
}

/// States that the runs are too few for any difference to be significant, and how many can show one.
fn too_few(base: &Setup<'_>, other: &Setup<'_>, compared: &Compared, comparisons: usize) -> Option<String> {
    let family = Family { paired: compared.paired, comparisons };
    let (runs, fewest) = (base.units().min(other.units()), statistics::fewest_runs(family));
    if runs >= fewest {
        return None;
    }
    let (what, how) = match (base.is_drawn(), compared.paired) {
        (true, _) => ("machine samples", format!(" (--draws {fewest})")),
        (false, true) => ("seeds", format!(" (--seeds {fewest})")),
        (false, false) => ("runs of each", String::new()),
    };
    Some(format!("{runs} {what} cannot show any difference, however large: at least {fewest} can{how}."))
}

fn verb(of: &[String]) -> &'static str {
    if of.len() == 1 { "agrees" } else { "agree" }
}

/// Whether a difference is below half a percent.
fn is_small(judged: &Judgement) -> bool {
    judged.a_median > 0 && judged.diff_ppm.is_some_and(|diff| diff.abs() < SMALL_PPM)
}

/// Size of a difference for ordering: a doubling is as large as a halving.
fn effect(judged: &Judgement) -> u64 {
    let Some(diff) = judged.diff_ppm.filter(|_| judged.a_median > 0) else { return u64::MAX };
    let ratio_ppm = (1_000_000 + diff).max(1) as u64;
    if ratio_ppm >= 1_000_000 { ratio_ppm } else { 1_000_000_000_000 / ratio_ppm }
}

fn said(topic: &Topic, judged: &Judgement) -> String {
    let less = judged.diff_ppm.is_some_and(|diff| diff < 0);
    let words = if less { topic.less } else { topic.more };
    let Some(diff) = judged.diff_ppm.filter(|_| judged.a_median > 0) else { return words.replace("{} ", "") };
    // For large changes (to a third or less, or twice or more) a factor reads better than a percentage.
    let ratio_ppm = (1_000_000 + diff).max(0) as u64;
    let factor = if less { permille(1_000_000, ratio_ppm) } else { permille(ratio_ppm, 1_000_000) };
    let amount = if factor >= if less { 3000 } else { 2000 } {
        format!("{} times", times(factor))
    } else {
        ppm(diff.abs()).trim_start_matches('+').to_owned()
    };
    words.replace("{}", &amount).replace(" %", &format!("{GLUE}%"))
}

fn could_tell(topic: &Topic, judged: &Judgement) -> String {
    match judged.tellable_ppm.filter(|_| judged.a_median > 0) {
        Some(least) => {
            let least = ppm(least).trim_start_matches('+').replace(' ', &GLUE.to_string());
            format!("{} (detectable from {least})", topic.noun)
        }
        None => topic.noun.to_owned(),
    }
}

fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
