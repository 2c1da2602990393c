// SPDX-License-Identifier: GPL-2.0-only
//! `[promises]`: invariants that a scheduler promises for every run.

use crate::ProfileError;
use crate::parse::{Node, Reader};
use ids::Nanos;
use invariants::{GangsBy, Promises, WeightedShare, Weights, WorkConserving};
use toml::de::{DeTable, DeValue};

const WORDS: [&str; 17] = [
    "work-conserving",
    "starvation-ms",
    "weighted-share-percent",
    "weighted-share-cpus",
    "weighted-share-whole",
    "weighted-share-turn-ms",
    "weighted-share-settles-ms",
    "weighted-share-by",
    "key-order",
    "preemption-us",
    "stint-ticks",
    "gang-corun-percent",
    "gang-settles-ms",
    "gang-by",
    "windows",
    "caps",
    "caps-half-life-ms",
];

/// Promises given by one table; those it does not mention keep their previous value. A number is withdrawn with
/// `false`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SomePromises {
    work_conserving: Option<WorkConserving>,
    starvation: Option<Option<Nanos>>,
    share_percent: Option<Option<u32>>,
    share_cpus: Option<Option<u32>>,
    share_whole: Option<bool>,
    share_turn: Option<Nanos>,
    share_settles: Option<Nanos>,
    share_by: Option<Weights>,
    key_order: Option<bool>,
    preemption: Option<Option<Nanos>>,
    stint_ticks: Option<Option<u32>>,
    corun_percent: Option<Option<u32>>,
    gang_settles: Option<Option<Nanos>>,
    gang_by: Option<GangsBy>,
    windows: Option<bool>,
    caps: Option<bool>,
    caps_half_life: Option<Option<Nanos>>,
}

impl SomePromises {
    pub(crate) fn put_into(self, promises: &mut Promises) {
        let before = promises.weighted_share;
        let percent = self.share_percent.unwrap_or(before.map(|share| share.percent));
        let known = before.unwrap_or(WeightedShare::new(0, u32::MAX));
        promises.weighted_share = percent.map(|percent| WeightedShare {
            percent,
            cpus: self.share_cpus.unwrap_or(Some(known.cpus)).unwrap_or(u32::MAX),
            whole: self.share_whole.unwrap_or(known.whole),
            turn: self.share_turn.unwrap_or(known.turn),
            settles: self.share_settles.unwrap_or(known.settles),
            by: self.share_by.unwrap_or(known.by),
        });
        promises.work_conserving = self.work_conserving.unwrap_or(promises.work_conserving);
        promises.starvation = self.starvation.unwrap_or(promises.starvation);
        promises.key_order = self.key_order.unwrap_or(promises.key_order);
        promises.preemption = self.preemption.unwrap_or(promises.preemption);
        promises.stint_ticks = self.stint_ticks.unwrap_or(promises.stint_ticks);
        promises.corun_percent = self.corun_percent.unwrap_or(promises.corun_percent);
        promises.gang_settles = self.gang_settles.unwrap_or(promises.gang_settles);
        promises.gang_by = self.gang_by.unwrap_or(promises.gang_by);
        promises.windows = self.windows.unwrap_or(promises.windows);
        promises.caps = self.caps.unwrap_or(promises.caps);
        promises.caps_half_life = self.caps_half_life.unwrap_or(promises.caps_half_life);
    }
}

impl Reader<'_> {
    pub(crate) fn promises(&self, table: &DeTable<'_>) -> Result<SomePromises, ProfileError> {
        let mut promises = SomePromises::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "work-conserving" => promises.work_conserving = Some(self.work_conserving(value)?),
                "starvation-ms" => {
                    promises.starvation = Some(self.number(value, "milliseconds, 1 to 4294967295")?.map(milliseconds));
                }
                "weighted-share-percent" => promises.share_percent = Some(self.number(value, "percent, 1 or more")?),
                "weighted-share-cpus" => promises.share_cpus = Some(self.number(value, "a number of CPUs, 1 or more")?),
                "weighted-share-whole" => promises.share_whole = Some(self.bool(value)?),
                "weighted-share-turn-ms" => promises.share_turn = Some(self.milliseconds(value)?),
                "weighted-share-settles-ms" => promises.share_settles = Some(self.milliseconds(value)?),
                "weighted-share-by" => promises.share_by = Some(self.weights(value)?),
                "key-order" => promises.key_order = Some(self.bool(value)?),
                "preemption-us" => {
                    promises.preemption = Some(self.number(value, "microseconds, 1 to 4294967295")?.map(microseconds));
                }
                "stint-ticks" => promises.stint_ticks = Some(self.number(value, "a number of ticks, 1 or more")?),
                "gang-corun-percent" => promises.corun_percent = Some(self.number(value, "percent, 1 or more")?),
                "gang-settles-ms" => {
                    promises.gang_settles =
                        Some(self.number(value, "milliseconds, 1 to 4294967295")?.map(milliseconds));
                }
                "gang-by" => promises.gang_by = Some(self.gangs_by(value)?),
                "windows" => promises.windows = Some(self.bool(value)?),
                "caps" => promises.caps = Some(self.bool(value)?),
                "caps-half-life-ms" => {
                    let number = self.number(value, "milliseconds, 1 to 4294967295")?;
                    promises.caps_half_life = Some(number.map(milliseconds));
                }
                _ => return Err(self.unknown("promise", key, &WORDS)),
            }
        }
        Ok(promises)
    }

    fn work_conserving(&self, value: &Node<'_>) -> Result<WorkConserving, ProfileError> {
        match value.get_ref() {
            DeValue::Boolean(true) => Ok(WorkConserving::Yes),
            DeValue::Boolean(false) => Ok(WorkConserving::No),
            DeValue::String(word) if word == "eventually" => Ok(WorkConserving::Eventually),
            _ => Err(self.error(value.span(), "expected true, false or \"eventually\"")),
        }
    }

    fn weights(&self, value: &Node<'_>) -> Result<Weights, ProfileError> {
        match value.get_ref() {
            DeValue::String(word) if word == "nice" => Ok(Weights::Nice),
            DeValue::String(word) if word == "scx" => Ok(Weights::Scx),
            DeValue::String(word) if word == "shares" => Ok(Weights::Shares),
            DeValue::String(word) if word == "groups" => Ok(Weights::Groups),
            _ => Err(self.error(value.span(), "expected \"nice\", \"scx\", \"shares\" or \"groups\"")),
        }
    }

    fn gangs_by(&self, value: &Node<'_>) -> Result<GangsBy, ProfileError> {
        match value.get_ref() {
            DeValue::String(word) if word == "groups" => Ok(GangsBy::Groups),
            DeValue::String(word) if word == "processes" => Ok(GangsBy::Processes),
            _ => Err(self.error(value.span(), "expected \"groups\" or \"processes\"")),
        }
    }

    fn milliseconds(&self, value: &Node<'_>) -> Result<Nanos, ProfileError> {
        let number = self.number(value, "milliseconds, 1 to 4294967295")?;
        Ok(number.map_or(Nanos::ZERO, milliseconds))
    }

    /// Parses a number, or `false` for none.
    fn number(&self, value: &Node<'_>, what: &str) -> Result<Option<u32>, ProfileError> {
        if matches!(value.get_ref(), DeValue::Boolean(false)) {
            return Ok(None);
        }
        let number =
            self.integer(value).ok().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
        number.map(Some).ok_or_else(|| self.error(value.span(), format!("expected {what}, or false")))
    }
}

fn milliseconds(number: u32) -> Nanos {
    Nanos::from_ms(number.into())
}

fn microseconds(number: u32) -> Nanos {
    Nanos::from_us(number.into())
}
