// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of archived epochs: snapshots that are kept, under names like `2026/1128`.

use super::codec::{Malformed, Reader, Writer};
use super::{Ptr, Result, StoreError};

/// Most epochs that a store keeps.
pub const MAX_EPOCHS: usize = 20_000;

/// An archived snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// `YYYY/MMDD`, with `.1`, `.2` and so on for further ones of the same day.
    pub name: String,
    /// When it was taken, in nanoseconds since 1970.
    pub time: i64,
    /// Generation of its snapshot.
    pub generation: u64,
    /// Root of the epoch's tree.
    pub root: Ptr,
}

/// Whether a name is `YYYY/MMDD` or `YYYY/MMDD.N`.
pub fn is_name(name: &str) -> bool {
    let digits = |text: &str, n: std::ops::RangeInclusive<usize>| {
        n.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    name.split_once('/').is_some_and(|(year, day)| match day.split_once('.') {
        None => digits(year, 4..=4) && digits(day, 4..=4),
        Some((day, number)) => digits(year, 4..=4) && digits(day, 4..=4) && digits(number, 1..=6),
    })
}

/// Adds an epoch behind the others.
pub fn add(epochs: &mut Vec<Epoch>, epoch: Epoch) -> Result<()> {
    let what = match () {
        () if !is_name(&epoch.name) => "expected a name like 2026/1128 or 2026/1128.1",
        () if epochs.iter().any(|other| other.name == epoch.name) => "exists already; choose another name",
        () if epochs.len() >= MAX_EPOCHS => "the archive is full; drop old epochs first",
        () => {
            epochs.push(epoch);
            return Ok(());
        }
    };
    Err(StoreError::Epoch { name: epoch.name, what })
}

/// Takes the named epochs out; all of them must exist.
pub fn remove(epochs: &mut Vec<Epoch>, names: &[String]) -> Result<()> {
    if let Some(name) = names.iter().find(|name| !epochs.iter().any(|epoch| epoch.name == **name)) {
        return Err(StoreError::Epoch { name: name.clone(), what: "does not exist" });
    }
    epochs.retain(|epoch| !names.contains(&epoch.name));
    Ok(())
}

/// The list as it is stored.
pub fn encode(epochs: &[Epoch]) -> Vec<u8> {
    let mut out = Writer::default();
    out.u32(epochs.len() as u32);
    for epoch in epochs {
        out.bytes(epoch.name.as_bytes());
        out.u64(epoch.time as u64);
        out.u64(epoch.generation);
        out.ptr(epoch.root);
    }
    out.0
}

/// Reads a stored list.
pub fn decode(bytes: &[u8]) -> std::result::Result<Vec<Epoch>, Malformed> {
    let mut from = Reader(bytes);
    let mut epochs = Vec::new();
    for _ in 0..from.u32()? {
        let name = String::from_utf8_lossy(from.bytes()?).into_owned();
        if !is_name(&name) {
            return Err(Malformed("an epoch has an impossible name"));
        }
        epochs.push(Epoch { name, time: from.u64()? as i64, generation: from.u64()?, root: from.ptr()? });
    }
    from.end()?;
    Ok(epochs)
}

/// The name of an epoch taken at `now`: the first of its UTC day that is free.
pub fn name_for(now: i64, epochs: &[Epoch]) -> String {
    let (year, month, day) = civil(now.div_euclid(86_400_000_000_000));
    let base = format!("{:04}/{month:02}{day:02}", year.clamp(0, 9999));
    let taken = |name: &str| epochs.iter().any(|epoch| epoch.name == name);
    if !taken(&base) {
        return base;
    }
    (1..).map(|n| format!("{base}.{n}")).find(|name| !taken(name)).unwrap_or(base)
}

/// Year, month and day of a day number counted from 1970-01-01, in the Gregorian calendar.
pub fn civil(days: i64) -> (i64, i64, i64) {
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    // 400 years have 146,097 days, whatever year they begin with.
    let mut year = 1970 + days.div_euclid(146_097) * 400;
    let mut rest = days.rem_euclid(146_097);
    while rest >= 365 + i64::from(leap(year)) {
        rest -= 365 + i64::from(leap(year));
        year += 1;
    }
    let months = [31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while rest >= months[month] {
        rest -= months[month];
        month += 1;
    }
    (year, month as i64 + 1, rest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_dates_match_known_days() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(-1), (1969, 12, 31));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_785), (2026, 11, 28));
        assert_eq!(civil(47_540), (2100, 2, 28));
        assert_eq!(civil(47_541), (2100, 3, 1));
    }

    #[test]
    fn epochs_of_one_day_get_the_date_and_a_running_number() {
        let mut list = Vec::new();
        let now = 20_785 * 86_400_000_000_000;
        for expected in ["2026/1128", "2026/1128.1", "2026/1128.2"] {
            let name = name_for(now, &list);
            assert_eq!(name, expected);
            assert!(is_name(&name));
            add(&mut list, Epoch { name, time: now, generation: 1, root: Ptr::default() }).unwrap();
        }
        assert_eq!(decode(&encode(&list)).unwrap(), list);
        assert!(!is_name("../1128") && !is_name("2026/11280") && !is_name("2026/1128."));
    }
}
