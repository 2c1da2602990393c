// SPDX-License-Identifier: GPL-2.0-only
//! Search for the best of many candidates by successive halving (Karnin, Koren and Somekh 2013; Jamieson and Talwalkar
//! 2016), with tests of significance.
//!
//! 1. All candidates have runs of the same seeds. Round by round the number of seeds doubles, up to all of them.
//! 2. In each round, candidates are ranked by the mean of their ranks among the runs of each seed. The first one is the
//!    leader, unless another one is significantly better than it.
//! 3. A candidate leaves if it is significantly worse than the leader, or if it is in the worse half by rank. The second
//!    reason is no evidence, and is reported apart. Halving stops at a number of finalists.
//! 4. The leader is selected by the same runs that compare it. Each comparison therefore has its share of the level among
//!    all pairs of candidates (Bonferroni), whichever of them is made. The last round has half of the level, the earlier
//!    ones share the other half.

use crate::family::{doubled_ranks, interval, median};
use crate::{Direction, Interval, LEVEL_PPM, Row, Verdict, paired};

/// Fewest seeds of a round. A rank by fewer would often drop the best candidate: by four seeds it drops one that is better
/// than all others by two standard deviations in less than 1 % of searches (`best_candidate_survives_ranks_of_four_seeds`).
const FEWEST_SEEDS: usize = 4;

/// Why a candidate is no longer searched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It takes part in the next round, or was in the last one and does not differ significantly from the leader.
    Stays,
    /// It leads.
    Leads,
    /// It is significantly worse than the leader.
    Worse,
    /// It left by its rank alone.
    Rank,
    /// It has no value for some seed, for example because the scheduler was ejected.
    Failed,
}

/// Place of a candidate among those of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rank {
    /// Place, from 1.
    pub place: usize,
    /// Number of candidates in the round.
    pub of: usize,
}

/// A candidate after its last round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// What became of it.
    pub fate: Fate,
    /// The round, from 1; 0 if none has ended.
    pub round: usize,
    /// Number of its seeds.
    pub seeds: usize,
    /// Its rank; `None` without values.
    pub rank: Option<Rank>,
    /// Median of its values.
    pub median: Option<u64>,
    /// The leader of the round, and the candidate's difference from it: leader is `a`. `None` for the leader itself.
    pub against: Option<(usize, Interval)>,
}

/// The state of a search.
#[derive(Clone, Debug)]
pub struct Halving {
    direction: Direction,
    finalists: usize,
    /// Numbers of seeds.
    rounds: Vec<usize>,
    /// Number of rounds that have ended.
    ended: usize,
    standings: Vec<Standing>,
}

impl Halving {
    /// A search among `candidates`, each with at most `seeds` runs, that halves by rank down to `finalists`.
    pub fn new(candidates: usize, seeds: usize, finalists: usize, direction: Direction) -> Halving {
        let finalists = finalists.max(1);
        let halvings = (0..).find(|&count| candidates.div_ceil(1 << count) <= finalists).unwrap_or(0);
        // Without halvings, one early round lets candidates go that are plainly worse.
        let wanted = (halvings + 1).max(2);
        let possible = (1..).take_while(|&count| seeds >> (count - 1) >= FEWEST_SEEDS).last().unwrap_or(1);
        let count = wanted.min(possible);
        let rounds = (0..count).rev().map(|doublings| seeds >> doublings).collect();
        let fresh = Standing { fate: Fate::Stays, round: 0, seeds: 0, rank: None, median: None, against: None };
        Halving { direction, finalists, rounds, ended: 0, standings: vec![fresh; candidates] }
    }

    /// Number of seeds of each round.
    pub fn rounds(&self) -> &[usize] {
        &self.rounds
    }

    /// Number of rounds that have ended.
    pub fn ended(&self) -> usize {
        self.ended
    }

    /// The candidates in the order given to [`Halving::new`].
    pub fn standings(&self) -> &[Standing] {
        &self.standings
    }

    /// Seeds of the next round and the candidates in it; `None` after the last round, or if fewer than two candidates
    /// are left after the first.
    pub fn next(&self) -> Option<(usize, Vec<usize>)> {
        let seeds = *self.rounds.get(self.ended)?;
        let inside = |standing: &Standing| matches!(standing.fate, Fate::Stays | Fate::Leads);
        let left: Vec<usize> = (0..self.standings.len()).filter(|&one| inside(&self.standings[one])).collect();
        (left.len() > 1 || self.ended == 0 && !left.is_empty()).then_some((seeds, left))
    }

    /// Significance level of each comparison of a round, counted from 0: the largest probability with which it calls two
    /// equal candidates different.
    pub fn level(&self, round: usize) -> f64 {
        let whole = (1_000_000 - LEVEL_PPM) as f64 / 1e6;
        let share = match self.rounds.len() {
            1 => whole,
            count if round + 1 == count => whole / 2.0,
            count => whole / 2.0 / (count - 1) as f64,
        };
        let candidates = self.standings.len();
        share / (candidates * candidates.saturating_sub(1) / 2).max(1) as f64
    }

    /// Fewest seeds with which the last round can tell two candidates apart.
    pub fn fewest_seeds(&self) -> usize {
        // All differences of n pairs have one sign in 2 of 2^n combinations.
        let level = self.level(self.rounds.len() - 1);
        (1..).find(|&seeds| 0.5f64.powi(seeds - 1) <= level).map_or(0, |seeds| seeds as usize)
    }

    /// Ends a round: `values` has those of each candidate of [`Halving::next`], one for each seed; `None` if some is
    /// missing.
    ///
    /// # Panics
    /// If no round is left, or the numbers of candidates or values differ from those of [`Halving::next`].
    pub fn end_round(&mut self, values: &[Option<Vec<u64>>]) {
        let (seeds, inside) = self.next().expect("a round is left");
        assert_eq!(inside.len(), values.len(), "a list of values for each candidate");
        let level = self.level(self.ended);
        let round = self.ended + 1;
        let is_last = round == self.rounds.len();
        self.ended = round;
        let mut field: Vec<(usize, &[u64])> = Vec::new();
        for (&candidate, values) in inside.iter().zip(values) {
            let standing = &mut self.standings[candidate];
            (standing.round, standing.seeds) = (round, seeds);
            match values {
                Some(values) => {
                    assert_eq!(values.len(), seeds, "a value for each seed");
                    field.push((candidate, values));
                }
                None => {
                    *standing = Standing { fate: Fate::Failed, rank: None, median: None, against: None, ..*standing }
                }
            }
        }
        if field.is_empty() {
            return;
        }
        field.sort_by_key(|&(candidate, _)| (self.standings[candidate].rank.map(|rank| rank.place), candidate));
        let order = ranked(&field, self.direction);
        let against = |leader: usize, other: usize| compare([field[leader].1, field[other].1], self.direction, level);
        let leader = leader(&order, &against);
        let keep = self.finalists.max(field.len().div_ceil(2));
        let mut kept = 0;
        for (place, &at) in order.iter().enumerate() {
            let difference = (at != leader).then(|| against(leader, at));
            let is_worse = difference.is_some_and(|difference| difference.verdict == Verdict::Worse);
            let fate = match at == leader {
                true => Fate::Leads,
                _ if is_worse => Fate::Worse,
                _ if is_last || kept < keep => Fate::Stays,
                _ => Fate::Rank,
            };
            kept += usize::from(matches!(fate, Fate::Leads | Fate::Stays));
            let standing = &mut self.standings[field[at].0];
            standing.fate = fate;
            standing.rank = Some(Rank { place: place + 1, of: field.len() });
            standing.median = Some(median(field[at].1));
            standing.against = difference.map(|difference| (field[leader].0, difference));
        }
    }
}

/// Compares the values of two candidates.
fn compare([a, b]: [&[u64]; 2], direction: Direction, level: f64) -> Interval {
    let row = Row { a: a.to_vec(), b: b.to_vec(), direction };
    let mut interval = interval(&row, &paired::judge_one(&row, level));
    if a == b {
        // Equal in each run, for example because a setting has no effect: nothing is left to chance.
        (interval.low_ppm, interval.high_ppm, interval.verdict) = (Some(0), Some(0), Verdict::Same);
    }
    interval
}

/// Places of the candidates in `field`, the best first: by the sum of their ranks among the values of each seed; ties in
/// the order of `field`.
fn ranked(field: &[(usize, &[u64])], direction: Direction) -> Vec<usize> {
    let mut sums = vec![0i64; field.len()];
    for seed in 0..field[0].1.len() {
        // Only the order matters; values above 2^63 ns would be 292 years.
        let of_seed: Vec<i64> = field.iter().map(|(_, values)| values[seed].min(i64::MAX as u64) as i64).collect();
        sums.iter_mut().zip(doubled_ranks(&of_seed)).for_each(|(sum, rank)| *sum += rank);
    }
    let mut order: Vec<usize> = (0..field.len()).collect();
    order.sort_by_key(|&at| if direction == Direction::HigherIsBetter { -sums[at] } else { sums[at] });
    order
}

/// The first of `order`, or the one that is significantly better than it, and so on. Three candidates may be better in a
/// circle: then the last that was found leads.
fn leader(order: &[usize], against: &impl Fn(usize, usize) -> Interval) -> usize {
    let mut leader = order[0];
    for _ in order {
        let better = |&&at: &&usize| at != leader && against(leader, at).verdict == Verdict::Better;
        match order.iter().find(better) {
            Some(&better) => leader = better,
            None => break,
        }
    }
    leader
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::SplitMix64;

    /// Approximately standard normal sample: the sum of twelve uniform samples minus 6.
    fn normal(draw: &mut SplitMix64) -> f64 {
        (0..12).map(|_| (draw.next() >> 40) as f64 / (1u64 << 24) as f64).sum::<f64>() - 6.0
    }

    /// Values of candidates with these means for each seed. Runs of a seed share half of the variance, as paired runs do.
    fn planted(draw: &mut SplitMix64, means: &[f64], seeds: usize, deviation: f64) -> Vec<Vec<u64>> {
        let mut all = vec![Vec::new(); means.len()];
        for _ in 0..seeds {
            let common = normal(draw);
            for (values, mean) in all.iter_mut().zip(means) {
                values.push((1e6 * (mean + deviation * (0.7 * common + 0.7 * normal(draw)))) as u64);
            }
        }
        all
    }

    fn searched(all: &[Vec<u64>], finalists: usize, direction: Direction) -> Halving {
        let mut search = Halving::new(all.len(), all[0].len(), finalists, direction);
        while let Some((seeds, inside)) = search.next() {
            search.end_round(&inside.iter().map(|&one| Some(all[one][..seeds].to_vec())).collect::<Vec<_>>());
        }
        search
    }

    fn fates(search: &Halving) -> Vec<Fate> {
        search.standings().iter().map(|standing| standing.fate).collect()
    }

    #[test]
    fn rounds_double_up_to_all_seeds() {
        let rounds = |candidates, seeds| Halving::new(candidates, seeds, 4, Direction::LowerIsBetter).rounds().to_vec();
        assert_eq!(rounds(16, 64), [16, 32, 64]);
        assert_eq!(rounds(17, 64), [8, 16, 32, 64]);
        assert_eq!(rounds(3, 16), [8, 16]);
        assert_eq!(rounds(100, 10), [5, 10], "a round has four seeds or more");
        assert_eq!(rounds(100, 3), [3]);
    }

    /// One of sixteen is 4 % better than the others, which differ by chance alone.
    #[test]
    fn planted_best_leads_and_all_others_are_worse_or_left_by_rank() {
        for direction in [Direction::LowerIsBetter, Direction::HigherIsBetter] {
            let mut means = [1.0; 16];
            means[11] = if direction == Direction::LowerIsBetter { 0.96 } else { 1.04 };
            let search = searched(&planted(&mut SplitMix64(3), &means, 64, 0.02), 4, direction);
            let fates = fates(&search);
            assert_eq!(fates[11], Fate::Leads, "{fates:?}");
            assert!(!fates.contains(&Fate::Stays), "{fates:?}");
            assert!(fates.iter().filter(|fate| **fate == Fate::Worse).count() >= 3, "{fates:?}");
        }
    }

    /// Four seeds tell nothing apart, so only ranks remove candidates: the worse half, and none below the finalists.
    #[test]
    fn worse_half_leaves_by_rank_down_to_the_finalists() {
        let all: Vec<Vec<u64>> = (0..16).map(|one| vec![100 + one; 16]).collect();
        for direction in [Direction::LowerIsBetter, Direction::HigherIsBetter] {
            let mut search = Halving::new(16, 16, 5, direction);
            let (seeds, inside) = search.next().unwrap();
            search.end_round(&inside.iter().map(|&one| Some(all[one][..seeds].to_vec())).collect::<Vec<_>>());
            let best_half = if direction == Direction::LowerIsBetter { 0..8 } else { 8..16 };
            assert_eq!(search.next(), Some((8, best_half.collect())));
            let searched = searched(&all, 5, direction);
            assert_eq!(fates(&searched).iter().filter(|fate| **fate == Fate::Rank).count(), 11, "16, 8 and 5 remain");
        }
    }

    #[test]
    fn tie_of_the_two_best_is_a_tie() {
        let means = [1.0, 0.9, 1.0, 0.9, 1.1, 1.1];
        let search = searched(&planted(&mut SplitMix64(5), &means, 64, 0.02), 4, Direction::LowerIsBetter);
        let fates = fates(&search);
        assert_eq!([fates[1], fates[3]].map(|fate| matches!(fate, Fate::Leads | Fate::Stays)), [true; 2], "{fates:?}");
        assert!([0, 2, 4, 5].iter().all(|&one| matches!(fates[one], Fate::Worse | Fate::Rank)), "{fates:?}");
        assert!([0, 2].iter().all(|&one| fates[one] == Fate::Worse), "10 % of 2 % is told apart: {fates:?}");
    }

    /// 5 % of 300 searches are 15; 25 or more would occur once in 100 times. Without the division by all pairs it would
    /// be a third of the searches.
    #[test]
    fn equal_candidates_are_rarely_called_worse() {
        let mut draw = SplitMix64(11);
        let calls_worse = |_: &usize| {
            let all = planted(&mut draw, &[1.0; 8], 32, 0.02);
            fates(&searched(&all, 4, Direction::LowerIsBetter)).contains(&Fate::Worse)
        };
        let wrong = (0..300).filter(calls_worse).count();
        assert!(wrong <= 24, "{wrong} of 300");
    }

    #[test]
    fn best_candidate_survives_ranks_of_four_seeds() {
        let mut draw = SplitMix64(17);
        let mut means = [1.0; 16];
        means[6] = 0.96;
        let survives = |_: &usize| {
            let mut search = Halving::new(16, 16, 4, Direction::LowerIsBetter);
            assert_eq!(search.next().unwrap().0, 4);
            search.end_round(&planted(&mut draw, &means, 4, 0.02).into_iter().map(Some).collect::<Vec<_>>());
            search.standings()[6].fate != Fate::Rank
        };
        assert!((0..500).filter(survives).count() > 495);
    }

    #[test]
    fn candidate_without_values_fails_and_the_others_go_on() {
        let mut search = Halving::new(3, 16, 4, Direction::LowerIsBetter);
        search.end_round(&[Some(vec![5; 8]), None, Some(vec![5; 8])]);
        assert_eq!(fates(&search), [Fate::Leads, Fate::Failed, Fate::Stays]);
        assert_eq!(search.next(), Some((16, vec![0, 2])));
        search.end_round(&[None, None]);
        assert_eq!((fates(&search), search.next()), (vec![Fate::Failed; 3], None));
    }

    /// All candidates have the same values: there is no difference to find, and the first one of the file leads.
    #[test]
    fn equal_values_are_equal_within_one_percent() {
        let search = searched(&vec![(1000..1064).collect(); 4], 4, Direction::LowerIsBetter);
        assert_eq!(fates(&search), [Fate::Leads, Fate::Stays, Fate::Stays, Fate::Stays]);
        assert!(search.standings()[1..].iter().all(|one| one.against.unwrap().1.verdict == Verdict::Same));
    }

    #[test]
    fn seeds_below_the_fewest_tell_nothing_apart() {
        let fewest = Halving::new(8, 16, 4, Direction::LowerIsBetter).fewest_seeds();
        let worse = |seeds: usize| {
            let all: Vec<Vec<u64>> =
                (1..=8).map(|step| (0..seeds as u64).map(|seed| 1000 * step + seed).collect()).collect();
            fates(&searched(&all, 8, Direction::LowerIsBetter)).contains(&Fate::Worse)
        };
        // Both numbers of seeds have two rounds.
        assert_eq!((worse(fewest - 1), worse(fewest)), (false, true), "{fewest}");
    }
}
