// SPDX-License-Identifier: GPL-2.0-only
//! Value of `indexes=`: the numbers assigned to the objects of a level. Three forms: a list of all numbers, in tree
//! order; loops of `STEP*COUNT`, fastest-varying first; or the names of the levels to count along, fastest-varying
//! first.

use super::parse;

/// A loop as (step, count): object number `index` has the coordinate `index / step % count` in it.
type Loop = (usize, usize);

/// Parses the numbers of `total` objects; they must be distinct and below `limit`. `widths` holds the number of
/// objects of each level, outer levels first.
pub(super) fn read(
    text: &str,
    total: usize,
    limit: usize,
    widths: &[(parse::Level, usize)],
) -> Result<Vec<usize>, String> {
    let numbers = if text.contains('*') {
        count_along(loops(text)?, total)?
    } else if text.starts_with(|c: char| c.is_ascii_digit()) {
        let number = |word: &str| word.parse().map_err(|_| format!("indexes: {word:?} is not a number"));
        text.split(',').map(number).collect::<Result<Vec<usize>, String>>()?
    } else {
        count_along(levels(text, total, widths)?, total)?
    };
    if numbers.len() != total {
        return Err(format!("indexes: {} numbers; expected {total}, one per object", numbers.len()));
    }
    let mut seen = vec![false; limit];
    for &number in &numbers {
        match seen.get_mut(number) {
            Some(seen) if !*seen => *seen = true,
            Some(_) => return Err(format!("indexes: {number} occurs twice")),
            None => return Err(format!("indexes: {number}; expected numbers below {limit}")),
        }
    }
    Ok(numbers)
}

fn loops(text: &str) -> Result<Vec<Loop>, String> {
    let positive = |number: &str| number.parse().ok().filter(|&number: &usize| number > 0);
    let one = |word: &str| {
        let parts = word.split_once('*').and_then(|(step, count)| Some((positive(step)?, positive(count)?)));
        parts.ok_or_else(|| format!("indexes: {word:?}; expected STEP*COUNT"))
    };
    text.split(':').map(one).collect()
}

/// Converts level names to loops: the step is the number of counted objects below one object of the level; the count
/// is the number of objects of the level below one object of the next outer level that is named.
fn levels(text: &str, total: usize, widths: &[(parse::Level, usize)]) -> Result<Vec<Loop>, String> {
    let mut named = Vec::new();
    for name in text.split(':') {
        let level = parse::level(1, name).map_err(|_| format!("indexes: unknown level {name:?}"))?;
        let at = widths.iter().position(|&(other, _)| other == level);
        let at = at.ok_or_else(|| format!("indexes: no level {name:?} here"))?;
        if named.contains(&at) {
            return Err(format!("indexes: level {name:?} occurs twice"));
        }
        named.push(at);
    }
    let of = |&at: &usize| {
        let outer = named.iter().filter(|&&other| other < at).max();
        let width = widths[at].1;
        (total / width, width / outer.map_or(1, |&outer| widths[outer].1))
    };
    let found: Vec<Loop> = named.iter().map(of).collect();
    if found.iter().any(|&(step, count)| step == 0 || count == 0) {
        return Err(format!("indexes: {text:?} names a level inside the counted objects"));
    }
    Ok(found)
}

/// Numbers that the loops produce. The innermost loop may be omitted.
fn count_along(mut loops: Vec<Loop>, total: usize) -> Result<Vec<usize>, String> {
    let product = loops.iter().try_fold(1usize, |product, &(_, count)| product.checked_mul(count));
    let least = loops.iter().map(|&(step, _)| step).min().unwrap_or(1);
    match product {
        Some(product) if product == total => {}
        Some(product) if product.checked_mul(least) == Some(total) => loops.push((1, least)),
        _ => return Err(format!("indexes: the loops do not count {total} objects")),
    }
    let number = |index: usize| {
        let mut rest = 1;
        let digits = loops.iter().map(|&(step, count)| {
            let digit = index / step % count * rest;
            rest *= count;
            digit
        });
        digits.sum()
    };
    Ok((0..total).map(number).collect())
}
