// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns candidate positions into matches.

use super::{Found, Judge, SAMPLED};
use crate::window::View;
use std::io;

/// A match: bytes that also occur earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Start within the piece.
    pub start: u32,
    /// Length in bytes.
    pub length: u32,
    /// Distance back to the earlier occurrence, in bytes.
    pub distance: u64,
}

impl Match {
    fn end(&self) -> usize {
        self.start as usize + self.length as usize
    }

    /// Trims the match to what follows the previous match, unless it is the longer of the two.
    fn beside(self, last: Option<&Match>) -> Match {
        match last {
            Some(last) if self.length <= last.length && (self.start as usize) < last.end() => {
                let start = (last.end() as u32).min(self.end() as u32);
                Match { start, length: self.end() as u32 - start, ..self }
            }
            _ => self,
        }
    }
}

/// A match of at least this length is not shortened in favor of a longer one.
const LONG: u32 = 1024;

/// Shortens the last match so that it ends where the next one begins.
fn shorten_last(matches: &mut Vec<Match>, next: &Match) {
    if let Some(last) = matches.last_mut() {
        last.length = last.length.min(next.start.saturating_sub(last.start));
        if (last.length as usize) < SAMPLED {
            matches.pop();
        }
    }
}

/// Chooses matches in the piece at file offset `start`, in order and without overlap; sources before `from` are
/// excluded. `view` reads the file up to the end of the piece.
///
/// # Errors
/// Those of reading the file again.
pub fn choose(
    piece: &[u8],
    found: &[Found],
    start: u64,
    from: u64,
    judge: &Judge,
    view: &mut View<'_>,
) -> io::Result<Vec<Match>> {
    let mut matches: Vec<Match> = Vec::new();
    let mut covered = 0;
    let least = judge.lengths().last().copied().unwrap_or(0);
    // The last candidate that was too short: its other samples would give the same match.
    let mut rejected = Match { start: 0, length: 0, distance: 0 };
    for sample in found {
        let end = sample.end as usize;
        let position = start + u64::from(sample.end);
        let newest = sample.places[0];
        if end <= covered || position - newest == rejected.distance && end <= rejected.end() {
            continue;
        }
        // A match may extend backwards over the last one if that is short, but not over the one before.
        let floor = match matches.as_slice() {
            [.., before, last] if last.length < LONG => before.end(),
            [last] if last.length < LONG => 0,
            _ => covered,
        };
        let newest = extend(piece, start, end, newest, floor, from, view)?;
        let mut best = newest;
        for place in &sample.places()[1..] {
            if best.is_some_and(|best| best.end() == piece.len()) {
                break;
            }
            best = better(best, extend(piece, start, end, *place, floor, from, view)?, judge);
        }
        match best.map(|best| best.beside(matches.last())) {
            Some(matched) if u64::from(matched.length) >= least => {
                covered = matched.end();
                shorten_last(&mut matches, &matched);
                matches.push(matched);
            }
            _ => rejected = newest.unwrap_or(rejected),
        }
    }
    Ok(matches)
}

/// Returns the match with the greater gain.
fn better(near: Option<Match>, far: Option<Match>, judge: &Judge) -> Option<Match> {
    let (Some(near), Some(far)) = (near, far) else { return near.or(far) };
    if judge.gain(&far) > judge.gain(&near) { Some(far) } else { Some(near) }
}

/// Extends the match around a sample that ends at `end` in the piece and at `other` in the file, back to `floor` at
/// most. Returns `None` if the sampled bytes differ.
fn extend(
    piece: &[u8],
    start: u64,
    end: usize,
    other: u64,
    floor: usize,
    from: u64,
    view: &mut View<'_>,
) -> io::Result<Option<Match>> {
    let distance = start + end as u64 - other;
    let mut back = 0;
    loop {
        let (here, there) = (end - back, other - back as u64);
        let most = (here - floor).min(usize::try_from(there - from).unwrap_or(usize::MAX));
        let before = view.backward(there, most)?;
        let same = common_end(&piece[here - before.len()..here], before);
        back += same;
        if same < before.len() || before.is_empty() {
            break;
        }
    }
    // If an earlier match covers part of the sample, the remaining bytes alone must match.
    if back < SAMPLED.min(end - floor) {
        return Ok(None);
    }
    let mut ahead = 0;
    while end + ahead < piece.len() {
        let rest = &piece[end + ahead..];
        let after = view.forward(other + ahead as u64, rest.len())?;
        let same = common(rest, after);
        ahead += same;
        if same < after.len() || after.is_empty() {
            break;
        }
    }
    Ok(Some(Match { start: (end - back) as u32, length: (back + ahead) as u32, distance }))
}

/// Length of the common prefix.
fn common(a: &[u8], b: &[u8]) -> usize {
    let mut same = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let differ = word(x) ^ word(y);
        if differ != 0 {
            return same + (differ.trailing_zeros() / 8) as usize;
        }
        same += 8;
    }
    same + a[same..].iter().zip(&b[same..]).take_while(|(x, y)| x == y).count()
}

/// Length of the common suffix.
fn common_end(a: &[u8], b: &[u8]) -> usize {
    let mut same = 0;
    for (x, y) in a.rchunks_exact(8).zip(b.rchunks_exact(8)) {
        let differ = word(x) ^ word(y);
        if differ != 0 {
            return same + (differ.leading_zeros() / 8) as usize;
        }
        same += 8;
    }
    let rest = |bytes: &[u8]| bytes.len() - same;
    same + a[..rest(a)].iter().rev().zip(b[..rest(b)].iter().rev()).take_while(|(x, y)| x == y).count()
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}
