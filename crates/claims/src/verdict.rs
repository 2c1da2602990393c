// SPDX-License-Identifier: GPL-2.0-only
//! Verdicts on claims.
//!
//! A difference counts from `delta` on: 1 %, or half of the smallest expected one if that is less. `k` is the number of
//! samples that the sign test needs.
//!
//! 1. *holds*: at least k samples have a difference in the expected range; without a range, k samples have the expected
//!    sign and the median is at least delta.
//! 2. *direction*: k samples have the expected sign and the median is at least delta, but the size is not as published.
//! 3. *refuted*: k samples have the opposite sign and the median is at least delta; or the whole interval of the median is
//!    below delta in the expected direction, so that a difference that counts is excluded.
//! 4. *depends*: the sign differs between the steps of a parameter, or one uncertain constant decides it.
//! 5. *unclear*: anything else; with the smallest difference that the runs could have told.
//!
//! If no difference is expected, the claim holds if the interval is within the limits and is refuted if it is outside of
//! them.

use crate::{Decider, Effects, Expectation, Steps, needed};

/// Difference from which on a claim is judged, unless a smaller one was published: 1 %, in parts per million.
const DELTA_PPM: i64 = 10_000;

/// Judgement in one word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// Sign and size are as published.
    Holds,
    /// The sign is as published, the size is not.
    Direction,
    /// There is no such difference, or the opposite one.
    Refuted,
    /// It holds for some values of a parameter or constant.
    Depends,
    /// These runs cannot tell.
    Unclear,
    /// No run can judge it.
    Untestable,
}

impl Verdict {
    /// All verdicts, in the order of summaries.
    pub const ALL: [Verdict; 6] =
        [Verdict::Holds, Verdict::Direction, Verdict::Depends, Verdict::Refuted, Verdict::Unclear, Verdict::Untestable];

    /// Word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Direction => "direction",
            Verdict::Refuted => "refuted",
            Verdict::Depends => "depends",
            Verdict::Unclear => "unclear",
            Verdict::Untestable => "untestable",
        }
    }

    /// Words in texts.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Direction => "holds in direction",
            Verdict::Refuted => "does not hold",
            Verdict::Depends => "depends",
            Verdict::Unclear => "cannot be told",
            Verdict::Untestable => "cannot be judged",
        }
    }
}

/// The judgement of one comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Parameter or group of constants on which it depends, with the threshold.
    pub depends_on: Option<String>,
    /// Median difference, in parts per million.
    pub effect_ppm: i64,
    /// Interval of the median at 95 %.
    pub interval_ppm: Option<(i64, i64)>,
    /// Samples with the expected sign, or within the limits if no sign is expected, and all.
    pub agreeing: (usize, usize),
    /// Smallest difference that these runs could have told.
    pub tellable_ppm: Option<i64>,
    /// Judgements at the values of a parameter.
    pub steps: Vec<Step>,
}

/// The judgement at one value of a parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The value.
    pub value: String,
    /// Expected sign.
    pub sign: i64,
    /// The verdict there.
    pub verdict: Verdict,
    /// Median difference, in parts per million.
    pub effect_ppm: i64,
    /// Interval of the median at 95 %.
    pub interval_ppm: Option<(i64, i64)>,
}

/// Judges the differences of all samples. `decider` is the group of constants with which they correlate, if any.
pub fn judge(effects: &Effects, expect: Expectation, decider: Option<&Decider>) -> Judgement {
    let mut judged = Judgement {
        verdict: verdict(effects, expect),
        depends_on: None,
        effect_ppm: effects.median(),
        interval_ppm: effects.interval(),
        agreeing: (agreeing(effects, expect), effects.count()),
        tellable_ppm: effects.tellable(),
        steps: Vec::new(),
    };
    if let (Verdict::Unclear, Some(decider)) = (judged.verdict, decider.filter(|decider| decider.splits_sign)) {
        judged.verdict = Verdict::Depends;
        judged.depends_on = Some(decider.to_string());
    }
    judged
}

/// Limits of what counts as no difference.
fn limits(expect: Expectation) -> (i64, i64) {
    expect.range_ppm.unwrap_or((-DELTA_PPM, DELTA_PPM))
}

fn agreeing(effects: &Effects, expect: Expectation) -> usize {
    let (low, high) = limits(expect);
    match expect.sign {
        0 => effects.number(|one| low <= one && one <= high),
        sign => effects.number(|one| one.signum() == sign),
    }
}

fn verdict(effects: &Effects, expect: Expectation) -> Verdict {
    let (Some(k), Some((low, high))) = (needed(effects.count()), effects.interval()) else { return Verdict::Unclear };
    if expect.sign == 0 {
        let (from, to) = limits(expect);
        return match () {
            () if from <= low && high <= to => Verdict::Holds,
            () if high < from || to < low => Verdict::Refuted,
            () => Verdict::Unclear,
        };
    }
    let delta = delta(expect);
    let towards = effects.median() * expect.sign;
    // The end of the interval that is farthest in the expected direction.
    let farthest = if expect.sign > 0 { high } else { -low };
    let has_sign = |sign: i64| effects.number(|one| one.signum() == sign) >= k;
    let in_range = expect.range_ppm.is_none_or(|(low, high)| effects.number(|one| low <= one && one <= high) >= k);
    match () {
        () if has_sign(expect.sign) && towards >= delta && in_range => Verdict::Holds,
        () if has_sign(expect.sign) && towards >= delta => Verdict::Direction,
        () if has_sign(-expect.sign) && -towards >= delta => Verdict::Refuted,
        () if farthest < delta => Verdict::Refuted,
        () => Verdict::Unclear,
    }
}

/// Difference from which on a claim is judged.
fn delta(expect: Expectation) -> i64 {
    let smallest = expect.range_ppm.map(|(low, high)| low.abs().min(high.abs()));
    smallest.map_or(DELTA_PPM, |smallest| (smallest / 2).clamp(1, DELTA_PPM))
}

/// Judges a claim at the values of a parameter: the differences at each.
///
/// # Panics
/// If the numbers of values and differences differ.
pub fn judge_steps(all: &[Effects], expect: Expectation, steps: &Steps) -> Judgement {
    assert_eq!((all.len(), steps.signs.len()), (steps.values.len(), steps.values.len()), "one for each value");
    let expected = |at: usize| {
        let sign = steps.signs[at];
        let common = expect.range_ppm.filter(|_| sign == expect.sign);
        Expectation { sign, range_ppm: steps.ranges_ppm[at].or(common) }
    };
    let judged: Vec<Step> = (0..all.len())
        .map(|at| {
            let (effects, value) = (&all[at], steps.values[at].clone());
            let verdict = verdict(effects, expected(at));
            let (effect_ppm, interval_ppm) = (effects.median(), effects.interval());
            Step { value, sign: steps.signs[at], verdict, effect_ppm, interval_ppm }
        })
        .collect();
    let last = all.last().cloned().unwrap_or_else(|| Effects::of(&[]));
    let verdict = of_steps(&judged);
    Judgement {
        verdict,
        depends_on: (verdict == Verdict::Depends).then(|| threshold(&steps.of, &judged)),
        effect_ppm: last.median(),
        interval_ppm: last.interval(),
        agreeing: (all.len().checked_sub(1).map_or(0, |at| agreeing(&last, expected(at))), last.count()),
        tellable_ppm: last.tellable(),
        steps: judged,
    }
}

/// The verdict on all steps together: the common one, or dependence if some are as claimed and some are not.
fn of_steps(steps: &[Step]) -> Verdict {
    let has = |verdict: Verdict| steps.iter().any(|step| step.verdict == verdict);
    let agrees = has(Verdict::Holds) || has(Verdict::Direction);
    match (agrees, has(Verdict::Refuted), has(Verdict::Unclear)) {
        (true, true, _) => Verdict::Depends,
        (false, true, false) => Verdict::Refuted,
        (true, false, false) if has(Verdict::Direction) => Verdict::Direction,
        (true, false, false) => Verdict::Holds,
        _ => Verdict::Unclear,
    }
}

/// Names the values at which the claim holds and those at which it does not.
fn threshold(of: &str, steps: &[Step]) -> String {
    let list = |agrees: bool| {
        let is_listed = |step: &&Step| match step.verdict {
            Verdict::Holds | Verdict::Direction => agrees,
            Verdict::Refuted => !agrees,
            _ => false,
        };
        steps.iter().filter(is_listed).map(|step| step.value.as_str()).collect::<Vec<_>>().join(", ")
    };
    format!("{of}: as claimed at {}; not at {}", list(true), list(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FASTER: Expectation = Expectation { sign: -1, range_ppm: Some((-160_000, -40_000)) };

    fn around(center: i64, step: i64) -> Effects {
        Effects::of(&(-5..=6).map(|at| center + at * step).collect::<Vec<_>>())
    }

    fn word(effects: &Effects, expect: Expectation) -> &'static str {
        judge(effects, expect, None).verdict.word()
    }

    #[test]
    fn claim_holds_if_sign_and_size_agree_in_enough_samples() {
        assert_eq!(word(&around(-80_000, 4_000), FASTER), "holds");
        assert_eq!(word(&around(-80_000, 4_000), Expectation { sign: -1, range_ppm: None }), "holds");
        let judged = judge(&around(-80_000, 4_000), FASTER, None);
        assert_eq!((judged.effect_ppm, judged.interval_ppm), (-78_000, Some((-92_000, -64_000))));
        assert_eq!(judged.agreeing, (12, 12));
    }

    #[test]
    fn claim_of_another_size_holds_in_direction() {
        assert_eq!(word(&around(-25_000, 1_000), FASTER), "direction");
        assert_eq!(word(&around(-300_000, 1_000), FASTER), "direction");
    }

    #[test]
    fn opposite_or_negligible_difference_refutes_a_claim() {
        assert_eq!(word(&around(50_000, 4_000), FASTER), "refuted");
        assert_eq!(word(&around(0, 100), FASTER), "refuted");
        assert_eq!(word(&around(-2_000, 100), FASTER), "refuted", "significant, but far below what was claimed");
    }

    #[test]
    fn published_difference_below_one_percent_is_judged_by_its_own_size() {
        let small = Expectation { sign: -1, range_ppm: Some((-18_000, -4_500)) };
        assert_eq!(word(&around(-8_000, 300), small), "holds");
        assert_eq!(word(&around(-3_000, 10), small), "direction");
        assert_eq!(word(&around(-1_000, 10), small), "refuted");
    }

    #[test]
    fn wide_differences_are_unclear_and_say_what_could_have_been_told() {
        let judged = judge(&around(-20_000, 20_000), FASTER, None);
        assert_eq!((judged.verdict, judged.tellable_ppm), (Verdict::Unclear, Some(70_000)));
        assert_eq!(word(&Effects::of(&[-80_000; 5]), FASTER), "unclear", "five samples never suffice");
    }

    #[test]
    fn equality_holds_within_its_limits_and_is_refuted_outside() {
        let same = Expectation { sign: 0, range_ppm: Some((-20_000, 20_000)) };
        assert_eq!(word(&around(1_000, 1_000), same), "holds");
        assert_eq!(judge(&around(15_000, 4_000), same, None).agreeing, (7, 12), "samples within the limits agree");
        assert_eq!(word(&around(50_000, 1_000), same), "refuted");
        assert_eq!(word(&around(15_000, 4_000), same), "unclear");
    }

    #[test]
    fn claim_that_holds_at_some_steps_depends_on_the_parameter() {
        let steps = Steps {
            of: "CPUs".to_owned(),
            values: ["2", "4", "8"].map(str::to_owned).to_vec(),
            signs: vec![1, 1, 1],
            ranges_ppm: vec![None; 3],
        };
        let any = Expectation { sign: 1, range_ppm: None };
        let judged = judge_steps(&[around(-50_000, 100), around(0, 100), around(90_000, 100)], any, &steps);
        assert_eq!(judged.verdict, Verdict::Depends);
        assert_eq!(judged.depends_on.as_deref(), Some("CPUs: as claimed at 8; not at 2, 4"));
        assert_eq!(judged.effect_ppm, 90_050, "the effect is that of the last step");
        let all = |center: i64| judge_steps(&[around(center, 10), around(center, 10), around(center, 10)], any, &steps);
        assert_eq!([all(50_000).verdict, all(-50_000).verdict], [Verdict::Holds, Verdict::Refuted]);
        let unclear = [around(50_000, 10), around(0, 30_000), around(50_000, 10)];
        assert_eq!(judge_steps(&unclear, any, &steps).verdict, Verdict::Unclear);
    }

    #[test]
    fn constant_that_splits_the_sign_makes_an_unclear_claim_depend_on_it() {
        let decider =
            Decider { group: "smt".to_owned(), correlation_permille: 900, splits_sign: true, threshold_permille: 480 };
        let effects = around(-20_000, 20_000);
        let judged = judge(&effects, FASTER, Some(&decider));
        assert_eq!(judged.verdict, Verdict::Depends);
        assert!(judged.depends_on.unwrap().starts_with("smt"));
        let decider = Decider { splits_sign: false, ..decider };
        assert_eq!(judge(&effects, FASTER, Some(&decider)).verdict, Verdict::Unclear);
    }
}
