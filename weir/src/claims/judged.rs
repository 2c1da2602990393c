// SPDX-License-Identifier: GPL-2.0-only
//! The judgement of a claim from the values of its runs.

use super::measure::{self, Key};
use super::runs::{Results, Wanted};
use super::searches;
use crate::output::quote;
use anyhow::{Context, Result, bail};
use claims::{
    Claim, Decider, Effects, Expectation, Experiment, Judgement, Setup, Side, Test, Verdict, decider, difference_ppm,
    judge_steps,
};

/// Factor that makes quotients of two measures whole numbers.
const SCALE: u128 = 1_000_000_000;

/// A claim and what its runs showed.
pub struct Judged<'a> {
    pub claim: &'a Claim,
    pub judgement: Judgement,
    /// Why no run can judge the claim.
    pub reason: Option<String>,
    /// Group of constants with which the difference correlates.
    pub decider: Option<Decider>,
    /// The first side against itself with other seeds; `None` if no difference is expected anyway.
    pub placebo: Option<Judgement>,
    /// The same without what carries the claim.
    pub off: Option<Judgement>,
    /// Number of runs.
    pub runs: u64,
    /// Command line that repeats the runs.
    pub command: String,
    /// Command lines of `weir sim` for the main comparison; all samples have the same seeds there.
    pub similar: Vec<String>,
}

impl Judged<'_> {
    /// Whether a sign is expected, and not a difference within limits.
    pub fn expects_a_sign(&self) -> bool {
        matches!(&self.claim.test, Test::Runs(runs) if last_sign(runs) != 0)
    }
}

/// Two sides of a comparison; with one only, two measures of the same runs are compared.
#[derive(Clone)]
struct Pair {
    a: Side,
    b: Option<Side>,
}

impl Pair {
    /// The pairs of an experiment: at each value of its parameter, or one.
    fn all(runs: &Experiment) -> Vec<Pair> {
        let at = |value: &str| Pair { a: runs.a.at(value), b: runs.b.as_ref().map(|side| side.at(value)) };
        match &runs.steps {
            Some(steps) => steps.values.iter().map(|value| at(value)).collect(),
            None => vec![at("")],
        }
    }

    /// The last pair without what carries the claim.
    fn off(runs: &Experiment) -> Option<Pair> {
        let off = runs.off.as_ref()?;
        let last = Pair::all(runs).pop()?;
        let changed = |side: &Side, own| side.with(&off.both).with(own);
        Some(Pair { a: changed(&last.a, &off.a), b: last.b.map(|side| changed(&side, &off.b)) })
    }
}

/// Keys of the measures that are compared.
fn keys(runs: &Experiment) -> Vec<Key> {
    std::iter::once(runs.measure.clone()).chain(runs.over.clone()).collect()
}

/// Seeds of a sample. Each sample has seeds of its own: with common ones the noise of a single seed would count as often as
/// there are samples.
fn seeds(runs: &Experiment, first: u64, draw: u64) -> std::ops::Range<u64> {
    let first = first + (draw - 1) * runs.seeds;
    first..first + runs.seeds
}

/// Distance of the seeds of the placebo from those of the same sample.
fn placebo_distance(runs: &Experiment) -> u64 {
    runs.draws * runs.seeds
}

/// Whether the first side is compared with itself: a claim that expects no difference would hold in any case.
fn has_placebo(runs: &Experiment) -> bool {
    runs.b.is_some() && last_sign(runs) != 0
}

/// Expected sign in the last pair.
fn last_sign(runs: &Experiment) -> i64 {
    runs.steps.as_ref().and_then(|steps| steps.signs.last().copied()).unwrap_or(runs.expect.sign)
}

/// Expectation of the last pair.
fn last_expectation(runs: &Experiment) -> Expectation {
    let of_step = runs.steps.as_ref().and_then(|steps| steps.ranges_ppm.last().copied().flatten());
    Expectation { sign: last_sign(runs), range_ppm: of_step.or(runs.expect.range_ppm) }
}

/// Adds the runs of a claim.
///
/// # Errors
/// If there is no such measure.
pub fn want(claim: &Claim, runs: &Experiment, first: u64, wanted: &mut Wanted) -> Result<()> {
    let place = format!("{}: claim {:?}", claim.place, claim.id);
    let keys = keys(runs);
    let check = |key: &Key| match &runs.a {
        Side::Search(_) if key == searches::KEY => Ok(()),
        Side::Search(_) => bail!("measure {key:?}: expected {}, the only measure of a search", searches::KEY),
        Side::Run(_) => measure::check(key),
    };
    keys.iter().try_for_each(check).with_context(|| place.clone())?;
    let mut add = |side: &Side, first: u64| {
        let points = |draw: u64| seeds(runs, first, draw).map(move |seed| (draw, seed));
        let points: Vec<(u64, u64)> = (1..=runs.draws).flat_map(points).collect();
        wanted.add(side, runs.draws, &points, &keys, &place);
    };
    let pairs = Pair::all(runs);
    for pair in pairs.iter().chain(&Pair::off(runs)) {
        add(&pair.a, first);
        pair.b.iter().for_each(|side| add(side, first));
    }
    if let Some(pair) = pairs.last().filter(|_| has_placebo(runs)) {
        add(&pair.a, first + placebo_distance(runs));
    }
    Ok(())
}

/// Judges a claim whose runs have been done.
pub fn judge<'a>(claim: &'a Claim, first: u64, results: &Results) -> Judged<'a> {
    match &claim.test {
        Test::Untestable(why) => untestable(claim, why.clone(), 0, Vec::new()),
        Test::Runs(runs) => judge_runs(claim, runs, first, results),
    }
}

fn untestable(claim: &Claim, reason: String, runs: u64, similar: Vec<String>) -> Judged<'_> {
    let command = format!("weir claims {}", claim.id);
    let none = Effects::of(&[]);
    let judgement = claims::judge(&none, Expectation { sign: 0, range_ppm: None }, None);
    let judgement = Judgement { verdict: Verdict::Untestable, interval_ppm: None, ..judgement };
    Judged { claim, judgement, reason: Some(reason), decider: None, placebo: None, off: None, runs, command, similar }
}

fn judge_runs<'a>(claim: &'a Claim, runs: &Experiment, first: u64, results: &Results) -> Judged<'a> {
    let pairs = Pair::all(runs);
    let main = pairs.last().expect("an experiment has a pair");
    let facts = results.facts(&main.a, runs.draws);
    let (count, similar) = (count(runs), similar(main, runs));
    if let Some(effect) = runs.needs.iter().find(|need| !facts.effects.contains(need)) {
        let reason = format!("the machine does not model {effect}, which carries the claim");
        return untestable(claim, reason, count, similar);
    }
    let differences = |pair: &Pair| pair_differences(pair, runs, first, results);
    let of_main = differences(main);
    let known: Vec<i64> = of_main.iter().flatten().copied().collect();
    let groups: Vec<(String, Vec<u64>)> = facts
        .groups
        .into_iter()
        .map(|(group, positions)| {
            let kept = positions.iter().zip(&of_main).filter(|(_, known)| known.is_some());
            (group, kept.map(|(position, _)| *position).collect())
        })
        .collect();
    let decider = if known.len() < 6 { None } else { decider(&groups, &known) };
    let effects = |pair: &Pair| Effects::of(&differences(pair).into_iter().flatten().collect::<Vec<_>>());
    let expect = last_expectation(runs);
    let judgement = match &runs.steps {
        None => claims::judge(&Effects::of(&known), expect, decider.as_ref()),
        Some(steps) => {
            let all: Vec<Effects> = pairs.iter().map(&effects).collect();
            judge_steps(&all, runs.expect, steps)
        }
    };
    let off = Pair::off(runs).map(|pair| claims::judge(&effects(&pair), expect, None));
    let placebo = has_placebo(runs).then(|| {
        let same = placebo_differences(main, runs, first, results);
        claims::judge(&Effects::of(&same), Expectation { range_ppm: None, ..expect }, None)
    });
    let missing = runs.draws as usize - known.len();
    let reason = (missing > 0).then(|| format!("{missing} of {} samples have no result", runs.draws));
    let first = if first == 1 { String::new() } else { format!(" --first-seed {first}") };
    let command = format!("weir claims {}{first}", claim.id);
    Judged { claim, judgement, reason, decider, placebo, off, runs: count, command, similar }
}

/// Number of runs, shared or not.
fn count(runs: &Experiment) -> u64 {
    let sides = |pair: &Pair| 1 + u64::from(pair.b.is_some());
    let pairs: u64 = Pair::all(runs).iter().chain(&Pair::off(runs)).map(sides).sum();
    (pairs + u64::from(has_placebo(runs))) * runs.draws * runs.seeds
}

/// The difference of each sample: the median over its seeds; `None` if no seed has one.
fn pair_differences(pair: &Pair, runs: &Experiment, first: u64, results: &Results) -> Vec<Option<i64>> {
    let of_seed = |draw: u64, seed: u64| {
        let value = |side: &Side, key: &Key| results.value(side, runs.draws, draw, seed, key);
        match (&pair.b, &runs.over) {
            (None, over) => Some(difference_ppm(value(&pair.a, over.as_ref()?)?, value(&pair.a, &runs.measure)?)),
            (Some(b), None) => Some(difference_ppm(value(&pair.a, &runs.measure)?, value(b, &runs.measure)?)),
            (Some(b), Some(over)) => {
                let quotient = |side: &Side| quotient(value(side, &runs.measure)?, value(side, over)?);
                Some(difference_ppm(quotient(&pair.a)?, quotient(b)?))
            }
        }
    };
    (1..=runs.draws).map(|draw| median(seeds(runs, first, draw).filter_map(|seed| of_seed(draw, seed)))).collect()
}

/// The differences of the first side with other seeds against itself.
fn placebo_differences(pair: &Pair, runs: &Experiment, first: u64, results: &Results) -> Vec<i64> {
    let value = |draw: u64, seed: u64| {
        let of = |key: &Key| results.value(&pair.a, runs.draws, draw, seed, key);
        match &runs.over {
            None => of(&runs.measure),
            Some(over) => quotient(of(&runs.measure)?, of(over)?),
        }
    };
    let of_seed =
        |draw: u64, seed: u64| Some(difference_ppm(value(draw, seed)?, value(draw, seed + placebo_distance(runs))?));
    (1..=runs.draws)
        .filter_map(|draw| median(seeds(runs, first, draw).filter_map(|seed| of_seed(draw, seed))))
        .collect()
}

fn quotient(value: u64, over: u64) -> Option<u64> {
    (over > 0).then(|| u64::try_from(u128::from(value) * SCALE / u128::from(over)).unwrap_or(u64::MAX))
}

fn median(values: impl Iterator<Item = i64>) -> Option<i64> {
    let values: Vec<i64> = values.collect();
    (!values.is_empty()).then(|| Effects::of(&values).median())
}

/// Command lines of `weir sim`, or of `bitfit`, for a comparison.
fn similar(pair: &Pair, runs: &Experiment) -> Vec<String> {
    let often = format!(" --draws {} --seeds {}", runs.draws, runs.seeds);
    let line = |setup: &Setup, schedulers: &[&str]| {
        let words = setup.words();
        let options = words.split_last().map(|(_, options)| options).unwrap_or_default();
        let options = options.iter().filter(|word| *word != "--").map(|word| quote(word));
        let all = schedulers.iter().map(|name| quote(name)).chain(options).collect::<Vec<_>>().join(" ");
        format!("weir sim {all}{often}")
    };
    match (&pair.a, &pair.b) {
        (Side::Run(a), Some(Side::Run(b))) if Setup { scheduler: a.scheduler.clone(), ..b.clone() } == *a => {
            vec![line(a, &[&a.scheduler, &b.scheduler])]
        }
        (Side::Run(a), Some(Side::Run(b))) => vec![line(a, &[&a.scheduler]), line(b, &[&b.scheduler])],
        (Side::Run(a), _) => vec![line(a, &[&a.scheduler])],
        (Side::Search(_), _) => vec!["bitfit bench".to_owned()],
    }
}
