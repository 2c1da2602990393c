// SPDX-License-Identifier: GPL-2.0-only
//! Smaller versions of a case, for a search for the smallest one that still fails. Each version differs in one thing;
//! those that promise to save most come first.

use crate::{Case, machine_named};

/// Machines in order of their CPUs, the ones with less structure first.
const MACHINES: [(&str, u64); 8] = [
    ("core:1 pu:1", 1),
    ("core:2 pu:1", 2),
    ("core:1 pu:2", 2),
    ("core:3 pu:1", 3),
    ("core:4 pu:1", 4),
    ("core:2 pu:2", 4),
    ("node:2 core:1 pu:1", 2),
    ("node:2 core:2 pu:1", 4),
];

/// Number of tasks of a workload.
const TASKS: [(&str, u64); 15] = [
    ("hog", 1),
    ("pair", 2),
    ("pingpong", 2),
    ("lock", 2),
    ("film-25", 2),
    ("streams", 3),
    ("noise", 4),
    ("slice-edge", 6),
    ("hogs", 8),
    ("periodic-4", 8),
    ("latency", 8),
    ("video", 10),
    ("preempt-mix", 16),
    ("desktop", 82),
    ("build", 2833),
];

/// Parts that replace larger ones: tasks that never sleep, and tasks that sleep and wake each other.
const SIMPLE: [(&str, u64); 7] = [
    ("hog", 1),
    ("pair", 2),
    ("pingpong", 2),
    ("lock", 2),
    ("hog,count=3", 3),
    ("hog,count=4", 4),
    ("pingpong,count=2", 4),
];

/// Workloads that replace a whole one: tasks that come, sleep and wake beside others that never sleep.
const WHOLE: [(&str, u64); 10] = [
    ("hog", 1),
    ("pair", 2),
    ("pingpong", 2),
    ("hog+pingpong", 3),
    ("pair+hog,start=20ms", 3),
    ("hog,count=3", 3),
    ("pair+pingpong", 4),
    ("hog,count=4", 4),
    ("hog,count=3+hog,start=20ms", 4),
    ("film-25+pair", 4),
];

/// CPUs of a part, the simplest first.
const CPUS: [&str; 3] = ["0", "1", "0-1"];

/// Shortest duration that a case is cut to, in ms, and shortest time after its last fault.
const SHORTEST_MS: u64 = 20;
const AFTER_FAULT_MS: u64 = 500;

impl Case {
    /// Smaller versions of the case, each of which may or may not be valid and fail.
    #[must_use]
    pub fn smaller(&self) -> Vec<Case> {
        let mut all = Vec::new();
        all.extend(self.replaced());
        all.extend(self.parts_removed());
        all.extend(self.faults_removed());
        all.extend(self.on_smaller_machines());
        all.extend(self.parts_replaced());
        all.extend(self.keys_changed());
        if self.interleaved {
            all.push(Case { interleaved: false, ..self.clone() });
        }
        if self.seed != 0 {
            all.push(Case { seed: 0, ..self.clone() });
        }
        all.extend(self.shortened());
        all.retain(|case| case != self);
        all
    }

    /// Number of tasks, as far as known.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        split(&self.workload, '+').iter().map(|part| tasks(part)).sum()
    }

    fn replaced(&self) -> Vec<Case> {
        let fewer = WHOLE.iter().filter(|(_, tasks)| *tasks < self.tasks());
        fewer.map(|(workload, _)| Case { workload: (*workload).to_owned(), ..self.clone() }).collect()
    }

    fn with_parts(&self, parts: &[String]) -> Case {
        Case { workload: parts.join("+"), ..self.clone() }
    }

    fn parts_removed(&self) -> Vec<Case> {
        let parts = split(&self.workload, '+');
        let without = |index: usize| {
            let mut parts = parts.clone();
            parts.remove(index);
            self.with_parts(&parts)
        };
        if parts.len() < 2 { Vec::new() } else { (0..parts.len()).map(without).collect() }
    }

    fn parts_replaced(&self) -> Vec<Case> {
        let parts = split(&self.workload, '+');
        let mut all = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let keys = part.split_once(',').map_or("", |(_, keys)| keys);
            let keys: Vec<String> = split(keys, ',').into_iter().filter(|key| !key.starts_with("count=")).collect();
            for (simple, _) in SIMPLE.iter().filter(|(_, tasks_of)| *tasks_of < tasks(part)) {
                let mut parts = parts.clone();
                parts[index] = std::iter::once((*simple).to_owned())
                    .chain(keys.iter().filter(|key| !key.is_empty()).cloned())
                    .collect::<Vec<_>>()
                    .join(",");
                all.push(self.with_parts(&parts));
            }
        }
        all
    }

    /// Removes keys of parts, and makes their values smaller.
    fn keys_changed(&self) -> Vec<Case> {
        let parts = split(&self.workload, '+');
        let mut all = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let words = split(part, ',');
            for place in 1..words.len() {
                let mut change = |with: Option<String>| {
                    let mut words = words.clone();
                    match with {
                        Some(word) => words[place] = word,
                        None => drop(words.remove(place)),
                    }
                    let mut parts = parts.clone();
                    parts[index] = words.join(",");
                    all.push(self.with_parts(&parts));
                };
                change(None);
                let (key, value) = words[place].split_once('=').unwrap_or((&words[place], ""));
                match key {
                    "cpus" => {
                        let rank = CPUS.iter().position(|cpus| *cpus == value).unwrap_or(CPUS.len());
                        CPUS[..rank].iter().for_each(|cpus| change(Some(format!("cpus={cpus}"))));
                    }
                    "count" => {
                        (2..value.parse().unwrap_or(0)).for_each(|count: u64| change(Some(format!("count={count}"))))
                    }
                    "start" => change(Some("start=1ms".to_owned())),
                    "nice" => [1, 5, -5, 19].iter().for_each(|nice: &i64| {
                        if value.parse::<i64>().is_ok_and(|value| nice * value > 0 && nice.abs() < value.abs()) {
                            change(Some(format!("nice={nice}")));
                        }
                    }),
                    _ => {}
                }
            }
        }
        all
    }

    fn faults_removed(&self) -> Vec<Case> {
        let Some(faults) = &self.faults else { return Vec::new() };
        let all: Vec<&str> = faults.split(',').collect();
        let mut cases = vec![Case { faults: None, ..self.clone() }];
        for index in (0..all.len()).filter(|_| all.len() > 1) {
            let mut rest = all.clone();
            rest.remove(index);
            cases.push(Case { faults: Some(rest.join(",")), ..self.clone() });
        }
        for (index, fault) in all.iter().enumerate() {
            let Some((what, at)) = fault.split_once('@') else { continue };
            let Some(ms) = at.strip_suffix("ms").and_then(|ms| ms.parse::<u64>().ok()) else { continue };
            for rounded in [ms / 2, ms / 100 * 100, ms / 10 * 10].into_iter().filter(|it| *it != ms && *it > 0) {
                let mut other: Vec<String> = all.iter().map(|&fault| fault.to_owned()).collect();
                other[index] = format!("{what}@{rounded}ms");
                cases.push(Case { faults: Some(other.join(",")), ..self.clone() });
            }
        }
        cases
    }

    /// The case on machines with fewer CPUs, or as many and less structure. CPU numbers are reduced to fit.
    fn on_smaller_machines(&self) -> Vec<Case> {
        let Ok(machine) = machine_named(&self.machine) else { return Vec::new() };
        let cpus = machine.online_cpus().len() as u64;
        let here = MACHINES.iter().position(|(name, _)| *name == self.machine).unwrap_or(MACHINES.len());
        let smaller = |(index, (_, count)): &(usize, &(&str, u64))| *count < cpus || *count == cpus && *index < here;
        MACHINES.iter().enumerate().filter(smaller).map(|(_, (name, count))| self.on(name, *count)).collect()
    }

    fn on(&self, machine: &str, cpus: u64) -> Case {
        let parts: Vec<String> = split(&self.workload, '+')
            .iter()
            .map(|part| {
                let fit = |word: String| match word.strip_prefix("cpus=") {
                    Some(list) => format!("cpus={}", fitting(list, cpus)),
                    None => word,
                };
                split(part, ',').into_iter().map(fit).collect::<Vec<_>>().join(",")
            })
            .collect();
        let faults = self.faults.as_ref().map(|faults| {
            let fit = |fault: &str| match fault.strip_prefix("cpu").and_then(|rest| rest.split_once(':')) {
                Some((cpu, action)) => {
                    let cpu: u64 = cpu.parse().unwrap_or(1);
                    format!("cpu{}:{action}", 1 + (cpu.max(1) - 1) % (cpus.max(2) - 1))
                }
                None => fault.to_owned(),
            };
            faults.split(',').map(fit).collect::<Vec<_>>().join(",")
        });
        Case { machine: machine.to_owned(), workload: parts.join("+"), faults, ..self.clone() }
    }

    fn shortened(&self) -> Vec<Case> {
        // A CPU that is still going offline when the run ends looks idle.
        let faults = self.faults.iter().flat_map(|faults| faults.split(['@', ',']));
        let last = faults.filter_map(|time| time.strip_suffix("ms")?.parse::<u64>().ok()).max();
        let (ms, shortest) = (self.duration_ms, last.map_or(SHORTEST_MS, |last| last + AFTER_FAULT_MS));
        let mut all = vec![ms / 4, ms / 2, ms * 3 / 4, ms * 9 / 10, ms / 1000 * 1000, ms / 100 * 100];
        all.retain(|it| (shortest..ms).contains(it));
        all.into_iter().map(|duration_ms| Case { duration_ms, ..self.clone() }).collect()
    }
}

/// Number of tasks of a part.
fn tasks(part: &str) -> u64 {
    let words = split(part, ',');
    let one = TASKS.iter().find(|(name, _)| *name == words[0]).map_or(100, |(_, tasks)| *tasks);
    let count = words.iter().find_map(|word| word.strip_prefix("count=")).and_then(|count| count.parse().ok());
    one * count.unwrap_or(1)
}

/// The CPUs of a list such as `1-3` or `0\,2`, each reduced below `cpus`.
fn fitting(list: &str, cpus: u64) -> String {
    let list = list.replace('\\', "");
    let number = |text: &str| text.parse::<u64>().unwrap_or(0).min(cpus - 1);
    let range = |range: &str| match range.split_once('-') {
        Some((from, to)) if number(from) < number(to) => format!("{}-{}", number(from), number(to)),
        Some((from, _)) => number(from).to_string(),
        None => number(range).to_string(),
    };
    let mut all: Vec<String> = list.split(',').map(range).collect();
    all.dedup();
    all.join("\\,")
}

/// Splits at separators that are not escaped by a backslash.
fn split(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == separator && !escaped {
            parts.push(String::new());
        } else {
            parts.last_mut().expect("it has one").push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        Case {
            machine: "node:2 core:4 pu:2".to_owned(),
            workload: r"hogs,nice=3,cpus=4-9+video,cpus=2\,11,count=2".to_owned(),
            duration_ms: 4321,
            seed: 7,
            faults: Some("cpu9:offline@123ms,cpu9:online@400ms".to_owned()),
            undisturbed: false,
            interleaved: true,
        }
    }

    #[test]
    fn smaller_versions_differ_in_one_thing_and_keep_cpus_on_the_machine() {
        let all = case().smaller();
        let has = |wanted: &dyn Fn(&Case) -> bool| assert!(all.iter().any(wanted), "{all:#?}");
        has(&|it| it.workload == r"video,cpus=2\,11,count=2");
        has(&|it| it.workload.starts_with(r"hogs,cpus=4-9+"));
        has(&|it| it.workload.ends_with(r"+hog,cpus=2\,11"));
        has(&|it| it.faults.is_none() && it.workload == case().workload);
        has(&|it| it.machine == "core:3 pu:1" && it.workload == r"hogs,nice=3,cpus=2+video,cpus=2,count=2");
        has(&|it| it.machine == "core:2 pu:1" && it.faults.as_deref() == Some("cpu1:offline@123ms,cpu1:online@400ms"));
        has(&|it| it.seed == 0 && it.duration_ms == 4321);
        has(&|it| it.duration_ms == 4000);
        has(&|it| !it.interleaved);
        assert_eq!(case().tasks(), 8 + 20);
    }

    #[test]
    fn a_chain_of_smaller_versions_ends() {
        let (mut case, mut steps) = (case(), 0);
        while let Some(smaller) = case.smaller().pop() {
            case = smaller;
            steps += 1;
            assert!(steps < 200, "{case:?}");
        }
    }
}
