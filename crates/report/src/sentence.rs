// SPDX-License-Identifier: GPL-2.0-only
//! What a comparison means, in a sentence or two: the end of the work, the mean wait and the 99th percentile of waits,
//! as their intervals have it. It says when the runs cannot tell, and what they could have told.

use crate::numbers::{GLUE, permille, ppm, times};
use crate::setups::{Compared, Group, Judgement, Setup};
use measures::catalogue::CATALOGUE;
use statistics::Verdict;

/// What the sentences speak of: key, what is said if it is better or worse, and what it is called.
struct Topic {
    key: &'static str,
    less: &'static str,
    more: &'static str,
    noun: &'static str,
}

const TOPICS: [Topic; 4] = [
    Topic { key: "makespan_ns", less: "finishes {} sooner", more: "finishes {} later", noun: "the makespan" },
    Topic { key: "work_ns", less: "gets {} less work done", more: "gets {} more work done", noun: "the work done" },
    Topic {
        key: "wakeup_latency_ns.mean",
        less: "lets woken tasks wait {} less on average",
        more: "lets woken tasks wait {} longer on average",
        noun: "the mean wait",
    },
    Topic {
        key: "wakeup_latency_ns.p99",
        less: "has a {} shorter wait at p99",
        more: "has a {} longer wait at p99",
        noun: "the wait at p99",
    },
];

/// Where the index of a key is.
fn index(key: &str) -> usize {
    CATALOGUE.iter().position(|measure| measure.key == key).expect("a key of the catalogue")
}

/// The topics of two setups: work counts only where there is no makespan.
fn topics<'a>(compared: &'a Compared) -> impl Iterator<Item = (&'static Topic, Judgement)> + 'a {
    let has_makespan = compared.judgements[index("makespan_ns")].is_some();
    let judged = |topic: &'static Topic| compared.judgements[index(topic.key)].map(|judged| (topic, judged));
    TOPICS.iter().filter_map(judged).filter(move |(topic, _)| topic.key != "work_ns" || !has_makespan)
}

/// Words for a setup against the base of its group.
pub(crate) fn of(group: &Group<'_>, other: &Setup<'_>, compared: &Compared) -> String {
    let (first, name) = (&group.setups[0].name, &other.name);
    for setup in [other, &group.setups[0]] {
        if !setup.all_completed() && setup.is_part() {
            return String::new();
        }
        if !setup.all_completed() {
            return format!(
                "{} did not come to its end in all runs, so {name} and {first} did other work.",
                setup.name
            );
        }
    }
    if group.setups[0].runs.len() == 1 && other.runs.len() == 1 {
        return String::new();
    }
    let (mut clear, mut same, mut unclear) = (Vec::new(), Vec::new(), Vec::new());
    for (topic, judged) in topics(compared) {
        match judged.verdict {
            Verdict::Better | Verdict::Worse => clear.push(said(topic, &judged)),
            Verdict::Same | Verdict::Differs => same.push(topic.noun.to_owned()),
            Verdict::Unclear => unclear.push(could_tell(topic, &judged)),
        }
    }
    let mut sentences = Vec::new();
    if !clear.is_empty() {
        sentences.push(format!("Against {first}, {name} {}.", list(&clear)));
    }
    if !same.is_empty() {
        sentences.push(format!("{} of {name} and {first} {} within 1 %.", capital(&list(&same)), verb(&same)));
    }
    if !unclear.is_empty() {
        sentences.push(format!("Whether {name} and {first} differ in {}, these runs cannot tell.", list(&unclear)));
    }
    sentences.join(" ")
}

fn verb(of: &[String]) -> &'static str {
    if of.len() == 1 { "agrees" } else { "agree" }
}

fn said(topic: &Topic, judged: &Judgement) -> String {
    let less = judged.diff_ppm.is_some_and(|diff| diff < 0);
    let words = if less { topic.less } else { topic.more };
    let Some(diff) = judged.diff_ppm.filter(|_| judged.a_median > 0) else { return words.replace("{} ", "") };
    // From twice or a third on, a factor reads better than a percentage.
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
            format!("{} (they would have told {least})", topic.noun)
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
