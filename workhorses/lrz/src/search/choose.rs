// SPDX-License-Identifier: MIT OR Apache-2.0
//! From samples that stood elsewhere to repeats.

use super::{Found, Judge, SAMPLED};
use crate::window::View;
use std::io;

/// A repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Where it begins in the piece.
    pub start: u32,
    /// Its length, in bytes.
    pub length: u32,
    /// How far back the same bytes begin.
    pub distance: u64,
}

impl Match {
    fn end(&self) -> usize {
        self.start as usize + self.length as usize
    }
}

/// Repeats in the piece that begins at `start` of the file, in order and without overlap; nothing before `from` is
/// repeated. `view` shows the file up to the end of the piece.
///
/// # Errors
/// What reading again reports.
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
    // What was looked at and did not pay: its other samples would tell the same.
    let mut rejected = Match { start: 0, length: 0, distance: 0 };
    for (index, sample) in found.iter().enumerate() {
        let end = sample.end as usize;
        let position = start + u64::from(sample.end);
        let newest = sample.places[0];
        if end <= covered || position - newest == rejected.distance && end <= rejected.end() {
            continue;
        }
        let newest = extend(piece, start, end, newest, covered, from, view)?;
        let mut best = newest;
        for place in &sample.places()[1..] {
            if best.is_some_and(|best| best.end() == piece.len()) {
                break;
            }
            best = better(best, extend(piece, start, end, *place, covered, from, view)?, judge);
        }
        match best {
            Some(repeat) if pays(&repeat, found, index, start, judge) => {
                covered = repeat.end();
                matches.push(repeat);
            }
            _ => rejected = newest.unwrap_or(rejected),
        }
    }
    Ok(matches)
}

/// Whether a repeat pays. Samples within it that stood within reach of the back end as well tell how much of it the back
/// end would have seen by itself, in parts: the rest has to be long enough.
fn pays(repeat: &Match, found: &[Found], index: usize, start: u64, judge: &Judge) -> bool {
    let length = u64::from(repeat.length);
    if length < judge.least(repeat.distance) || length >= judge.near || !judge.sees_parts {
        return length >= judge.least(repeat.distance);
    }
    let inside = |sample: &&Found| (repeat.start as usize + SAMPLED..=repeat.end()).contains(&(sample.end as usize));
    let is_seen = |sample: &&Found| start + u64::from(sample.end) - sample.places[0] <= judge.reach;
    let before = found[..index].iter().rev().take_while(inside);
    let (mut all, mut seen) = (0, 0);
    for sample in before.chain(found[index..].iter().take_while(inside)) {
        all += 1;
        seen += u64::from(is_seen(&sample));
    }
    length - length * seen / all.max(1) >= judge.least(repeat.distance)
}

/// The one that gains more. Of what the back end sees by itself, a farther copy has to be as long as a near one to pay:
/// its bytes cost the back end far less than others, if need be as several repeats.
fn better(near: Option<Match>, far: Option<Match>, judge: &Judge) -> Option<Match> {
    let (Some(near), Some(far)) = (near, far) else { return near.or(far) };
    let within = near.distance <= judge.reach;
    let least = if within { judge.near } else { 0 };
    if judge.gain(&far) > judge.gain(&near) && u64::from(far.length) >= least { Some(far) } else { Some(near) }
}

/// The repeat around a sample that ends at `end` of the piece and stood before `other`; `None` if the bytes differ.
fn extend(
    piece: &[u8],
    start: u64,
    end: usize,
    other: u64,
    covered: usize,
    from: u64,
    view: &mut View<'_>,
) -> io::Result<Option<Match>> {
    let distance = start + end as u64 - other;
    let mut back = 0;
    loop {
        let (here, there) = (end - back, other - back as u64);
        let most = (here - covered).min(usize::try_from(there - from).unwrap_or(usize::MAX));
        let before = view.backward(there, most)?;
        let same = common_end(&piece[here - before.len()..here], before);
        back += same;
        if same < before.len() || before.is_empty() {
            break;
        }
    }
    // Where what was covered cuts the sample off, the rest is worth as much as any other bytes.
    if back < SAMPLED.min(end - covered) {
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

/// How many first bytes are the same.
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

/// How many last bytes are the same.
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
