// SPDX-License-Identifier: GPL-2.0-only
//! `[promises]`: what a scheduler promises of every run, in the words of profiles.

use crate::ProfileError;
use crate::parse::{Node, Reader};
use ids::Nanos;
use invariants::{Promises, WeightedShare, WorkConserving};
use toml::de::{DeTable, DeValue};

const WORDS: [&str; 7] = [
    "work-conserving",
    "starvation-ms",
    "weighted-share-percent",
    "weighted-share-cpus",
    "key-order",
    "preemption-us",
    "stint-ticks",
];

/// What a table says; of what it does not name holds what was said before. A number may be taken back with `false`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SomePromises {
    work_conserving: Option<WorkConserving>,
    starvation: Option<Option<Nanos>>,
    share_percent: Option<Option<u32>>,
    share_cpus: Option<Option<u32>>,
    key_order: Option<bool>,
    preemption: Option<Option<Nanos>>,
    stint_ticks: Option<Option<u32>>,
}

impl SomePromises {
    pub(crate) fn put_into(self, promises: &mut Promises) {
        let before = promises.weighted_share;
        let percent = self.share_percent.unwrap_or(before.map(|share| share.percent));
        let cpus = self.share_cpus.unwrap_or(before.map(|share| share.cpus)).unwrap_or(u32::MAX);
        promises.weighted_share = percent.map(|percent| WeightedShare { percent, cpus });
        promises.work_conserving = self.work_conserving.unwrap_or(promises.work_conserving);
        promises.starvation = self.starvation.unwrap_or(promises.starvation);
        promises.key_order = self.key_order.unwrap_or(promises.key_order);
        promises.preemption = self.preemption.unwrap_or(promises.preemption);
        promises.stint_ticks = self.stint_ticks.unwrap_or(promises.stint_ticks);
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
                "key-order" => promises.key_order = Some(self.bool(value)?),
                "preemption-us" => {
                    promises.preemption = Some(self.number(value, "microseconds, 1 to 4294967295")?.map(microseconds));
                }
                "stint-ticks" => promises.stint_ticks = Some(self.number(value, "a number of ticks, 1 or more")?),
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

    /// A number, or `false` for none.
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
