// SPDX-License-Identifier: GPL-2.0-only
//! Claim files. Unknown keys are errors, and every error names its line.

use crate::claim::Changes;
use crate::{Claim, Expectation, Experiment, Off, Search, Setup, Side, Steps, Test};
use serde::Deserialize;
use std::ops::Range;
use toml::{Spanned, Table, Value};

/// Keys of a side that runs: what runs, and options of `weir sim`.
const OF_RUN: [&str; 13] = [
    "scheduler",
    "machine",
    "workload",
    "for",
    "kernel",
    "cpus",
    "without",
    "noise-off",
    "disk",
    "network",
    "page-cache",
    "faults",
    "call",
];
/// Keys of a side that searches.
const OF_SEARCH: [&str; 2] = ["search", "bitmap"];
/// Numbers of samples and seeds of a claim that gives none.
const DRAWS: u64 = 12;
const SEEDS: u64 = 1;
/// Most samples, and most seeds.
const MOST: u64 = 1000;

/// Error in a claim file: place, and what was found and expected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ClaimError {
    /// File and line.
    pub place: String,
    /// What was found and what was expected.
    pub problem: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    claim: Vec<Spanned<RawClaim>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClaim {
    id: String,
    text: String,
    seed_text: String,
    source: String,
    published: Option<String>,
    published_ppm: Option<i64>,
    untestable: Option<String>,
    a: Option<Value>,
    b: Option<Value>,
    machine: Option<String>,
    workload: Option<String>,
    bitmap: Option<String>,
    #[serde(default)]
    options: Table,
    measure: Option<String>,
    over: Option<String>,
    expect: Option<RawExpectation>,
    #[serde(default)]
    needs: Vec<String>,
    draws: Option<u64>,
    seeds: Option<u64>,
    off: Option<RawOff>,
    steps: Option<RawSteps>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
struct RawExpectation {
    sign: i64,
    low_ppm: Option<i64>,
    high_ppm: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOff {
    #[serde(default)]
    both: Table,
    #[serde(default)]
    a: Table,
    #[serde(default)]
    b: Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSteps {
    of: String,
    values: Vec<Value>,
    signs: Vec<i64>,
    /// Published differences; expected is half to double of each.
    published_ppm: Option<Vec<i64>>,
}

impl Claim {
    /// Reads the claims of a file; `name` is the file name in errors.
    ///
    /// # Errors
    /// If the text is not TOML, has an unknown key or a wrong value, or lacks a key.
    pub fn from_toml(name: &str, text: &str) -> Result<Vec<Claim>, ClaimError> {
        let place = |span: Range<usize>| {
            let before = text.get(..span.start).unwrap_or("");
            format!("{name}:{}", before.matches('\n').count() + 1)
        };
        let raw: RawFile = toml::from_str(text).map_err(|error| ClaimError {
            place: place(error.span().unwrap_or(0..0)),
            problem: error.message().lines().next().unwrap_or_default().to_owned(),
        })?;
        let claim = |raw: Spanned<RawClaim>| {
            let place = place(raw.span());
            let raw = raw.into_inner();
            let id = raw.id.clone();
            convert(raw, &place).map_err(|problem| ClaimError { place, problem: format!("claim {id:?}: {problem}") })
        };
        raw.claim.into_iter().map(claim).collect()
    }
}

fn convert(raw: RawClaim, place: &str) -> Result<Claim, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if raw.id.is_empty() || !raw.id.chars().all(is_plain) {
        return Err("id: expected lower-case letters, digits, - and .".to_owned());
    }
    let texts = [("text", &raw.text), ("seed_text", &raw.seed_text), ("source", &raw.source)];
    if let Some((key, _)) = texts.into_iter().find(|(_, text)| text.trim().is_empty()) {
        return Err(format!("{key}: expected a text that is not empty"));
    }
    let test = match &raw.untestable {
        Some(why) if raw.a.is_none() && raw.measure.is_none() && !why.is_empty() => Test::Untestable(why.clone()),
        Some(_) => return Err("untestable: expected a reason, and no runs beside it".to_owned()),
        None => Test::Runs(Box::new(experiment(&raw)?)),
    };
    let RawClaim { id, text, seed_text, source, published, published_ppm, .. } = raw;
    Ok(Claim { id, text, seed_text, source, published, published_ppm, place: place.to_owned(), test })
}

fn experiment(raw: &RawClaim) -> Result<Experiment, String> {
    let missing = |key: &str| format!("expected {key}, or untestable = \"WHY\"");
    let base = base(raw)?;
    let a = side("a", raw.a.as_ref().ok_or_else(|| missing("a"))?, &base)?;
    let b = raw.b.as_ref().map(|value| side("b", value, &base)).transpose()?;
    if b.is_none() && raw.over.is_none() {
        return Err("expected b, or over, a measure to divide by".to_owned());
    }
    let steps = raw.steps.as_ref().map(steps).transpose()?;
    let expect = match (raw.expect, &steps) {
        (Some(expect), _) => expectation(expect)?,
        (None, Some(steps)) => Expectation { sign: steps.signs[0], range_ppm: None },
        (None, None) => return Err(missing("expect = { sign = -1 }")),
    };
    let number = |key: &str, value: Option<u64>, default: u64| match value {
        Some(value) if (1..=MOST).contains(&value) => Ok(value),
        Some(value) => Err(format!("{key} = {value}: expected 1 to {MOST}")),
        None => Ok(default),
    };
    let draws = number("draws", raw.draws, DRAWS)?;
    if crate::needed(draws as usize).is_none() {
        return Err(format!("draws = {draws}: expected 6 or more, as fewer never decide"));
    }
    Ok(Experiment {
        a,
        b,
        measure: raw.measure.clone().ok_or_else(|| missing("measure"))?,
        over: raw.over.clone(),
        expect,
        needs: raw.needs.clone(),
        draws,
        seeds: number("seeds", raw.seeds, SEEDS)?,
        off: off(raw, keys_of(&base))?,
        steps,
    })
}

/// What both sides have in common: a claim with a map of blocks is about searches.
fn base(raw: &RawClaim) -> Result<Side, String> {
    let Some(map) = &raw.bitmap else {
        return Ok(Side::Run(Setup {
            scheduler: String::new(),
            machine: raw.machine.clone().unwrap_or_default(),
            workload: raw.workload.clone().unwrap_or_default(),
            options: changes("options", &raw.options, &OF_RUN)?,
        }));
    };
    if raw.machine.is_some() || raw.workload.is_some() || !raw.options.is_empty() || !raw.needs.is_empty() {
        return Err("bitmap: expected no machine, workload, options or needs beside it".to_owned());
    }
    Ok(Side::Search(Search { name: String::new(), map: map.clone() }))
}

/// Keys of a side.
fn keys_of(side: &Side) -> &'static [&'static str] {
    match side {
        Side::Run(_) => &OF_RUN,
        Side::Search(_) => &OF_SEARCH,
    }
}

/// What is switched off: as the file says, or the effects that carry the claim.
fn off(raw: &RawClaim, keys: &[&str]) -> Result<Option<Off>, String> {
    match &raw.off {
        Some(off) => Ok(Some(Off {
            both: changes("off.both", &off.both, keys)?,
            a: changes("off.a", &off.a, keys)?,
            b: changes("off.b", &off.b, keys)?,
        })),
        None if raw.needs.is_empty() => Ok(None),
        None => {
            let without = vec![("without".to_owned(), raw.needs.join(","))];
            Ok(Some(Off { both: without, a: Vec::new(), b: Vec::new() }))
        }
    }
}

fn expectation(raw: RawExpectation) -> Result<Expectation, String> {
    let RawExpectation { sign, low_ppm, high_ppm } = raw;
    if !(-1..=1).contains(&sign) {
        return Err(format!("expect.sign = {sign}: expected -1, 0 or 1"));
    }
    let range_ppm = match (low_ppm, high_ppm) {
        (Some(low), Some(high)) if low <= high => Some((low, high)),
        (None, None) => None,
        _ => return Err("expect: expected both low_ppm and high_ppm, in this order, or neither".to_owned()),
    };
    if range_ppm.is_some_and(|(low, high)| sign != 0 && (low.signum() != sign || high.signum() != sign)) {
        return Err("expect: expected a range with the sign of expect.sign".to_owned());
    }
    Ok(Expectation { sign, range_ppm })
}

fn steps(raw: &RawSteps) -> Result<Steps, String> {
    let values: Vec<String> = raw.values.iter().filter_map(text).collect();
    if values.len() < 2 || values.len() != raw.signs.len() || values.len() != raw.values.len() {
        return Err("steps: expected two values or more, and as many signs".to_owned());
    }
    if let Some(sign) = raw.signs.iter().find(|sign| !(-1..=1).contains(*sign)) {
        return Err(format!("steps.signs: {sign}: expected -1, 0 or 1"));
    }
    let published = raw.published_ppm.clone().unwrap_or_default();
    let fits = published.iter().zip(&raw.signs).all(|(ppm, sign)| ppm.signum() == *sign);
    if raw.published_ppm.is_some() && (published.len() != values.len() || !fits) {
        return Err("steps.published_ppm: expected a difference with its sign for each value".to_owned());
    }
    let ranges_ppm = (0..values.len()).map(|at| published.get(at).map(|ppm| half_to_double(*ppm))).collect();
    Ok(Steps { of: raw.of.clone(), values, signs: raw.signs.clone(), ranges_ppm })
}

/// Range of sizes in which a published difference counts as reproduced.
fn half_to_double(ppm: i64) -> (i64, i64) {
    let (half, double) = (ppm / 2, ppm.saturating_mul(2));
    (half.min(double), half.max(double))
}

/// A side: a scheduler or search, or a table of what differs from the claim's own keys.
fn side(key: &str, value: &Value, base: &Side) -> Result<Side, String> {
    let keys = keys_of(base);
    let own = match value {
        Value::String(name) => vec![(keys[0].to_owned(), name.clone())],
        Value::Table(table) => changes(key, table, keys)?,
        _ => return Err(format!("{key}: expected a {}, or a table with {}", keys[0], keys.join(", "))),
    };
    let side = base.with(&own);
    let parts = match &side {
        Side::Run(setup) => {
            vec![("scheduler", &setup.scheduler), ("machine", &setup.machine), ("workload", &setup.workload)]
        }
        Side::Search(search) => vec![("search", &search.name)],
    };
    if let Some((part, _)) = parts.into_iter().find(|(_, text)| text.is_empty()) {
        return Err(format!("{key}: expected {part} here or in the claim"));
    }
    Ok(side)
}

fn changes(key: &str, table: &Table, keys: &[&str]) -> Result<Changes, String> {
    let one = |(name, value): (&String, &Value)| {
        if !keys.contains(&name.as_str()) {
            return Err(format!("{key}.{name}: expected {}", keys.join(", ")));
        }
        let value = text(value).ok_or_else(|| format!("{key}.{name}: expected a text or a whole number"))?;
        Ok((name.clone(), value))
    };
    table.iter().map(one).collect()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = r#"
[[claim]]
id = "one"
text = "b is faster"
seed_text = "8% speedup"
source = "A post, 1 January 2011"
published_ppm = -80000
machine = "laptop-2c4t"
workload = "build"
options = { for = "2s" }
a = "fifo"
b = { scheduler = "bfs", cpus = 2 }
measure = "makespan_ns"
expect = { sign = -1, low_ppm = -160000, high_ppm = -40000 }
needs = ["smt"]
"#;

    #[test]
    fn claim_file_gives_sides_expectation_and_defaults() {
        let claims = Claim::from_toml("c.toml", GOOD).unwrap();
        let Test::Runs(runs) = &claims[0].test else { panic!("{claims:?}") };
        let words = |side: &Side| match side {
            Side::Run(setup) => setup.words(),
            Side::Search(_) => panic!("{side:?}"),
        };
        assert_eq!(words(&runs.a), ["--machine", "laptop-2c4t", "--workload", "build", "--for", "2s", "--", "fifo"]);
        assert!(words(runs.b.as_ref().unwrap()).contains(&"--cpus".to_owned()));
        assert_eq!((runs.draws, runs.seeds, claims[0].place.as_str()), (12, 1, "c.toml:2"));
        assert_eq!(runs.off.as_ref().unwrap().both, [("without".to_owned(), "smt".to_owned())]);
        assert_eq!(runs.expect, Expectation { sign: -1, range_ppm: Some((-160_000, -40_000)) });
    }

    #[test]
    fn claim_file_error_names_line_and_expectation() {
        let cases = [
            (
                "id = \"one\"",
                "id = \"One\"",
                "c.toml:2: claim \"One\": id: expected lower-case letters, digits, - and .",
            ),
            ("seed_text", "seed_txt", "c.toml:5: unknown field `seed_txt`"),
            ("sign = -1,", "sign = 2,", "c.toml:2: claim \"one\": expect.sign = 2: expected -1, 0 or 1"),
            ("low_ppm = -160000, ", "", "c.toml:2: claim \"one\": expect: expected both low_ppm and high_ppm"),
            ("-40000", "40000", "c.toml:2: claim \"one\": expect: expected a range with the sign"),
            ("cpus = 2", "cpu = 2", "c.toml:2: claim \"one\": b.cpu: expected scheduler, machine"),
            ("machine = \"laptop-2c4t\"", "", "c.toml:2: claim \"one\": a: expected machine here or in the claim"),
            ("measure = \"makespan_ns\"", "", "c.toml:2: claim \"one\": expected measure, or untestable"),
            ("needs =", "draws = 5\nneeds =", "c.toml:2: claim \"one\": draws = 5: expected 6 or more"),
            ("needs =", "untestable = \"x\"\nneeds =", "c.toml:2: claim \"one\": untestable: expected a reason"),
            ("text = \"b is", "text = \"b\" is", "c.toml:4: "),
        ];
        for (from, to, expected) in cases {
            let error = Claim::from_toml("c.toml", &GOOD.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{from}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn two_claims_cannot_share_an_identifier() {
        let error = crate::read_all([("c.toml", GOOD), ("d.toml", GOOD)]).unwrap_err().to_string();
        assert_eq!(error, "d.toml:2: id \"one\" is that of the claim at c.toml:2; expected another");
    }

    #[test]
    fn step_replaces_braces_in_every_text_of_a_side() {
        let setup = |value: &str| Setup {
            scheduler: format!("bfs,x={value}"),
            machine: format!("pu:{value}"),
            workload: format!("build,jobs={value}"),
            options: vec![("cpus".to_owned(), value.to_owned())],
        };
        assert_eq!(Side::Run(setup("{}")).at("3"), Side::Run(setup("3")));
        let words = setup("3").words().join(" ");
        assert_eq!(words, "--machine pu:3 --workload build,jobs=3 --cpus 3 -- bfs,x=3");
        let search = |value: &str| Search { name: format!("#{value}"), map: format!("trandfactor={value}") };
        assert_eq!(Side::Search(search("{}")).at("5"), Side::Search(search("5")));
    }

    #[test]
    fn claim_with_a_bitmap_compares_searches() {
        let text = r##"
[[claim]]
id = "one"
text = "#5 is faster"
seed_text = "4 times"
source = "A bug, 1 January 2011"
bitmap = "trandfactor=85"
a = "#1"
b = { search = "#5", bitmap = "trandfactor=28" }
measure = "elapsed_ns"
expect = { sign = -1 }
off = { both = { bitmap = "trandfactor=0" } }
"##;
        let claims = Claim::from_toml("c.toml", text).unwrap();
        let Test::Runs(runs) = &claims[0].test else { panic!("{claims:?}") };
        let search = |name: &str, map: &str| Side::Search(Search { name: name.to_owned(), map: map.to_owned() });
        assert_eq!(runs.a, search("#1", "trandfactor=85"));
        assert_eq!(runs.b, Some(search("#5", "trandfactor=28")));
        assert_eq!(runs.a.with(&runs.off.as_ref().unwrap().both), search("#1", "trandfactor=0"));
        let cases = [
            ("a = \"#1\"", "a = {}", "a: expected search here or in the claim"),
            ("a = \"#1\"", "a = { cpus = 2 }", "a.cpus: expected search, bitmap"),
            ("a = \"#1\"", "a = \"#1\"\nmachine = \"pu:1\"", "bitmap: expected no machine, workload"),
            ("both = { bitmap", "both = { cpus", "off.both.cpus: expected search, bitmap"),
        ];
        for (from, to, expected) in cases {
            let error = Claim::from_toml("c.toml", &text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("c.toml:2: claim \"one\": {expected}")), "{from}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}", at in 0..GOOD.len(), with in ".{0,3}") {
            let _ = Claim::from_toml("c", &text);
            let broken: String = GOOD.chars().take(at).chain(with.chars()).chain(GOOD.chars().skip(at)).collect();
            let _ = Claim::from_toml("c", &broken);
        }
    }
}
