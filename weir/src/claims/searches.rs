// SPDX-License-Identifier: GPL-2.0-only
//! Searches of maps of blocks, timed on this machine: the experiment of Red Hat's bugs 435456 and 446085.

use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use bitfit::history::Algorithm;
use bitfit::{State, history, maps};
use claims::Search;
use std::hint::black_box;
use std::time::Instant;

/// Key of the only measure of a search.
pub const KEY: &str = "elapsed_ns";
/// Calls of each search for each sample. The fastest counts, since other load only ever makes a call slower.
const CALLS: usize = 5;
/// Size of the bug's map in MiB, and the largest.
const MIB: u64 = 50;
const MOST_MIB: u64 = 1024;

/// A search whose names are known.
#[derive(Clone, Copy)]
struct Resolved {
    algorithm: &'static Algorithm,
    /// One block in so many is metadata; 0: none.
    factor: u64,
    mib: u64,
}

/// Checks the names of a search.
///
/// # Errors
/// If there is no such search, or its map is not described by `trandfactor=N` and `mib=N`.
pub fn check(search: &Search) -> Result<()> {
    resolve(search).map(|_| ())
}

fn resolve(search: &Search) -> Result<Resolved> {
    let known = || history::ALGORITHMS.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
    let algorithm = history::find(&search.name).with_context(|| {
        format!("search {:?}: expected {} or {}", search.name, known(), history::WITHOUT_PREFETCH.name)
    })?;
    let (mut factor, mut mib) = (None, MIB);
    for part in search.map.split(',') {
        let number = part.split_once('=').and_then(|(key, value)| Some((key, value.parse().ok()?)));
        match number {
            Some(("trandfactor", value)) => factor = Some(value),
            Some(("mib", value)) if (1..=MOST_MIB).contains(&value) => mib = value,
            _ => bail!("bitmap {:?}: expected trandfactor=N, and mib=N of 1 to {MOST_MIB}", search.map),
        }
    }
    let factor = factor.with_context(|| format!("bitmap {:?}: expected trandfactor=N", search.map))?;
    Ok(Resolved { algorithm, factor, mib })
}

/// Times of searches of one map for a free block, from a quarter of the map on, in nanoseconds. The seed places the
/// metadata. The searches take turns, so that what slows the machine for some tenths of a second affects all of them and
/// no search every time.
///
/// # Errors
/// As [`check`].
pub fn elapsed_ns(searches: &[&Search], seed: u64, progress: &Progress) -> Result<Vec<u64>> {
    let searches = searches.iter().map(|search| resolve(search)).collect::<Result<Vec<Resolved>>>()?;
    let Some(Resolved { factor, mib, .. }) = searches.first() else { return Ok(Vec::new()) };
    debug_assert!(searches.iter().all(|one| (one.factor, one.mib) == (*factor, *mib)), "one map");
    let mut map = vec![0; (mib << 20) as usize];
    maps::fill(&mut map, State::Free, *factor, seed);
    // Four blocks to a byte: the number of bytes is a quarter of the number of blocks.
    let goal = map.len();
    let mut fastest = vec![u64::MAX; searches.len()];
    for _ in 0..CALLS {
        for (search, fastest) in searches.iter().zip(&mut fastest) {
            let begin = Instant::now();
            black_box((search.algorithm.find)(black_box(&map), State::Free, goal));
            *fastest = (*fastest).min(begin.elapsed().as_nanos() as u64);
        }
    }
    searches.iter().for_each(|_| progress.begin(None).end());
    Ok(fastest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(name: &str, map: &str) -> Search {
        Search { name: name.to_owned(), map: map.to_owned() }
    }

    #[test]
    fn searches_are_refused_with_what_was_expected() {
        let error = |name, map| check(&search(name, map)).unwrap_err().to_string();
        assert!(
            error("#7", "trandfactor=1").starts_with("search \"#7\": expected #1, #2, #3, #4, #5, #6, 2009 or #5 ")
        );
        for map in ["", "mib=4", "trandfactor=x", "trandfactor=1,mib=0", "trandfactor=1,mib=4096", "trandfactor=1,x=2"]
        {
            assert!(error("#1", map).starts_with(&format!("bitmap {map:?}: expected trandfactor=N")), "{map}");
        }
        assert!(check(&search("#5 without prefetch", "trandfactor=0,mib=1")).is_ok());
    }

    #[test]
    fn each_search_gets_its_own_time() {
        let progress = Progress::new(2);
        let time = |mib: u64, names: [&str; 2]| {
            let searches = names.map(|name| search(name, &format!("trandfactor=85,mib={mib}")));
            elapsed_ns(&[&searches[0], &searches[1]], 1, &progress).unwrap()
        };
        let (small, large) = (time(1, ["#6", "#1"]), time(16, ["#6", "#1"]));
        for (small, large) in small.iter().zip(&large) {
            assert!(*large > 4 * small, "{small} ns and {large} ns for the 16-fold map");
        }
        let turned = time(16, ["#1", "#6"]);
        assert_eq!(large[0] > large[1], turned[1] > turned[0], "{large:?} and, the other way round, {turned:?}");
    }
}
