// SPDX-License-Identifier: GPL-2.0-only
//! Use of memory by tasks, as far as the workload describes it.
//!
//! The keys are the same in rt-app files and in compositions. A task without any of them has no footprint, no stream
//! and no memory: effects of memory do not act on it. A class gives typical values with limits, for tasks whose use of
//! memory was not measured; keys of the task override them.

use ids::Placement;

/// A quantity known within limits; runs use the typical value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Lower limit.
    pub low: u64,
    /// Value used in runs.
    pub typical: u64,
    /// Upper limit.
    pub high: u64,
}

impl Limits {
    /// A quantity that is known.
    pub const fn exactly(value: u64) -> Limits {
        Limits { low: value, typical: value, high: value }
    }

    const fn within(low: u64, typical: u64, high: u64) -> Limits {
        Limits { low, typical, high }
    }
}

/// A class of programs with typical use of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryClass {
    /// Name on command lines and in files.
    pub name: &'static str,
    /// What its numbers rest on.
    pub source: &'static str,
    uses: [Limits; 4],
}

const NOTHING: Limits = Limits::exactly(0);
const KIB: u64 = 1 << 10;

/// All classes. Each has footprint in bytes, dirty percent, stream in MB/s, and memory share in percent.
pub const MEMORY_CLASSES: [MemoryClass; 4] = [
    MemoryClass {
        name: "small",
        source: "a guess: shells and daemons",
        uses: [
            Limits::within(16 * KIB, 64 * KIB, 256 * KIB),
            Limits::within(10, 30, 60),
            Limits::within(1, 10, 50),
            Limits::within(1, 3, 10),
        ],
    },
    MemoryClass {
        name: "compiler",
        source: "footprint: cost of moving cc1 -O2 between two cores every 1 to 16 ms, over the cost of a line; stream: its \
                 page faults, a lower bound; the rest is a guess",
        uses: [
            Limits::within(256 * KIB, 512 * KIB, 1_024 * KIB),
            Limits::within(10, 30, 60),
            Limits::within(100, 300, 1_000),
            Limits::within(5, 15, 40),
        ],
    },
    MemoryClass {
        name: "database",
        source: "a guess: more than a private cache, many misses",
        uses: [
            Limits::within(1_024 * KIB, 4_096 * KIB, 16_384 * KIB),
            Limits::within(5, 20, 50),
            Limits::within(500, 1_500, 4_000),
            Limits::within(20, 40, 60),
        ],
    },
    MemoryClass {
        name: "stream",
        source: "stream: one thread that reads 256 MiB to 1 GiB, on a virtual machine; share: a guess",
        uses: [NOTHING, NOTHING, Limits::within(5_000, 10_000, 19_000), Limits::within(60, 80, 100)],
    },
];

/// Use of memory by a task.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// Class that gives what the other fields do not.
    pub class: Option<&'static str>,
    /// Working set in bytes: what the task accesses again and again.
    pub footprint: Option<Limits>,
    /// Part of the working set that the task writes, in percent.
    pub dirty: Option<Limits>,
    /// Bytes accessed once, in MB/s of undisturbed work.
    pub stream: Option<Limits>,
    /// Share of its undisturbed time in which the task waits for memory, in percent.
    pub share: Option<Limits>,
    /// Region to which the working set belongs; tasks with the same region share it.
    pub region: Option<String>,
    /// Nodes of the memory; `None`: as the machine does it.
    pub placement: Option<Placement>,
}

/// Quantity of a [`MemoryUse`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// [`MemoryUse::footprint`].
    Footprint,
    /// [`MemoryUse::dirty`].
    Dirty,
    /// [`MemoryUse::stream`].
    Stream,
    /// [`MemoryUse::share`].
    Share,
}

impl Quantity {
    /// All quantities.
    pub const ALL: [Quantity; 4] = [Quantity::Footprint, Quantity::Dirty, Quantity::Stream, Quantity::Share];

    /// Key in files and on command lines; also the group of constants that are high or low together in a sample.
    pub fn key(self) -> &'static str {
        match self {
            Quantity::Footprint => "footprint",
            Quantity::Dirty => "dirty",
            Quantity::Stream => "stream",
            Quantity::Share => "memory-share",
        }
    }
}

impl MemoryUse {
    /// Keys of rt-app files and compositions.
    pub const KEYS: [&'static str; 7] =
        ["memory", "footprint", "dirty", "stream", "memory-share", "region", "placement"];

    /// Sets the value of a key. Quantities are a number, or lowest, typical and highest separated by colons.
    ///
    /// # Errors
    /// What was expected.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "memory" => {
                let names = || MEMORY_CLASSES.map(|class| class.name).join(", ");
                let found = MEMORY_CLASSES.iter().find(|class| class.name == value);
                self.class = Some(found.ok_or_else(|| format!("a class of programs: {}", names()))?.name);
            }
            "footprint" => {
                let expected = "a size such as 640K or 4M, or LOW:TYPICAL:HIGH, up to 1T";
                self.footprint = Some(limits(value, size).ok_or(expected)?);
            }
            "dirty" => self.dirty = Some(limits(value, percent).ok_or("PERCENT of the footprint that is written")?),
            "stream" => {
                let expected = "MB/s such as 1640 or 2GB/s, or LOW:TYPICAL:HIGH, up to 1000GB/s";
                self.stream = Some(limits(value, bandwidth).ok_or(expected)?);
            }
            "memory-share" => {
                self.share = Some(limits(value, percent).ok_or("PERCENT of the time spent waiting for memory")?);
            }
            "region" if value.is_empty() => return Err("NAME of a region that tasks share".to_owned()),
            "region" => self.region = Some(value.to_owned()),
            "placement" => {
                self.placement = Some(Placement::parse(value).ok_or_else(|| Placement::EXPECTED.to_owned())?);
            }
            _ => return Err(format!("one of the keys {}", MemoryUse::KEYS.join(", "))),
        }
        Ok(())
    }

    /// Limits of a quantity: the task's own, or its class's.
    ///
    /// A stream without a share is that of a task that only streams: its share is 100 %.
    pub fn limits(&self, quantity: Quantity) -> Limits {
        let own = match quantity {
            Quantity::Footprint => self.footprint,
            Quantity::Dirty => self.dirty,
            Quantity::Stream => self.stream,
            Quantity::Share => self.share,
        };
        let class = MEMORY_CLASSES.iter().find(|class| self.class == Some(class.name));
        match (own, class) {
            (Some(own), _) => own,
            (None, Some(class)) => class.uses[quantity as usize],
            (None, None) if quantity == Quantity::Share && self.stream.is_some_and(|stream| stream.high > 0) => {
                Limits::exactly(100)
            }
            (None, None) => NOTHING,
        }
    }

    /// Completes the use by what `outer` sets: its values come first.
    pub(crate) fn override_by(&mut self, outer: &MemoryUse) {
        let MemoryUse { class, footprint, dirty, stream, share, region, placement } = outer.clone();
        if class.is_some() {
            // A class replaces all that the task says of itself.
            *self = MemoryUse { region: self.region.take(), placement: self.placement, ..MemoryUse::default() };
        }
        self.class = class.or(self.class);
        self.footprint = footprint.or(self.footprint);
        self.dirty = dirty.or(self.dirty);
        self.stream = stream.or(self.stream);
        self.share = share.or(self.share);
        self.region = region.or(self.region.take());
        self.placement = placement.or(self.placement);
    }

    /// Checks that the values belong together.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn check(&self) -> Result<(), String> {
        let footprint = self.limits(Quantity::Footprint);
        let has_footprint = footprint.high > 0;
        let streams = self.limits(Quantity::Stream).high > 0;
        match self {
            MemoryUse { region: Some(region), .. } if footprint.low == 0 => {
                Err(format!("region {region:?} has no size; expected a footprint above 0 as well"))
            }
            MemoryUse { dirty: Some(_), .. } if !has_footprint => {
                Err("dirty is a part of the footprint; expected a footprint as well".to_owned())
            }
            _ if streams && self.limits(Quantity::Share).low == 0 => {
                Err("a stream takes time; expected a memory-share above 0".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Whether any quantity is uncertain.
    pub fn is_uncertain(&self) -> bool {
        Quantity::ALL.iter().any(|&quantity| {
            let Limits { low, high, .. } = self.limits(quantity);
            low < high
        })
    }
}

/// Parses `TYPICAL` or `LOW:TYPICAL:HIGH`.
fn limits(text: &str, one: fn(&str) -> Option<u64>) -> Option<Limits> {
    match text.split(':').map(one).collect::<Vec<_>>()[..] {
        [Some(value)] => Some(Limits::exactly(value)),
        [Some(low), Some(typical), Some(high)] if low <= typical && typical <= high => {
            Some(Limits { low, typical, high })
        }
        _ => None,
    }
}

/// Parses a number of bytes, with an optional binary suffix.
fn size(text: &str) -> Option<u64> {
    let suffixes = [('K', 10), ('M', 20), ('G', 30)];
    let (number, shift) =
        suffixes.iter().find_map(|&(suffix, shift)| Some((text.strip_suffix(suffix)?, shift))).unwrap_or((text, 0));
    number.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|&bytes| bytes <= 1 << 40)
}

/// Parses a bandwidth in MB/s.
fn bandwidth(text: &str) -> Option<u64> {
    let (number, factor) = match (text.strip_suffix("GB/s"), text.strip_suffix("MB/s")) {
        (Some(number), _) => (number, 1_000),
        (_, Some(number)) => (number, 1),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|&mb_s| mb_s <= 1_000_000)
}

fn percent(text: &str) -> Option<u64> {
    text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|&percent| percent <= 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(pairs: &[(&str, &str)]) -> Result<MemoryUse, String> {
        let mut memory = MemoryUse::default();
        pairs.iter().try_for_each(|(key, value)| memory.set(key, value))?;
        memory.check()?;
        Ok(memory)
    }

    #[test]
    fn memory_keys_have_units_and_limits() {
        let memory = used(&[("footprint", "256K:640K:1M"), ("stream", "2GB/s"), ("dirty", "30%")]).unwrap();
        assert_eq!(memory.limits(Quantity::Footprint), Limits::within(256 << 10, 640 << 10, 1 << 20));
        assert_eq!(memory.limits(Quantity::Stream), Limits::exactly(2_000));
        assert_eq!(memory.limits(Quantity::Dirty), Limits::exactly(30));
        assert_eq!(memory.limits(Quantity::Share), Limits::exactly(100), "a stream alone");
        assert!(memory.is_uncertain());
    }

    #[test]
    fn class_gives_what_the_task_does_not() {
        let memory = used(&[("memory", "compiler"), ("footprint", "2M"), ("placement", "interleave")]).unwrap();
        assert_eq!(memory.limits(Quantity::Footprint), Limits::exactly(2 << 20));
        assert_eq!(memory.limits(Quantity::Share), Limits::within(5, 15, 40));
        assert_eq!(memory.placement, Some(Placement::Interleave));
    }

    #[test]
    fn outer_values_override_those_of_a_task() {
        let mut memory = used(&[("footprint", "1M"), ("dirty", "50")]).unwrap();
        memory.override_by(&used(&[("footprint", "2M")]).unwrap());
        assert_eq!(memory.limits(Quantity::Footprint), Limits::exactly(2 << 20));
        assert_eq!(memory.limits(Quantity::Dirty), Limits::exactly(50));
        memory.override_by(&used(&[("memory", "small")]).unwrap());
        assert_eq!(memory.limits(Quantity::Footprint).typical, 64 << 10, "a class replaces all");
    }

    #[test]
    fn invalid_memory_keys_say_what_was_expected() {
        for (key, value, expected) in [
            ("memory", "editor", "a class of programs: small, compiler, database, stream"),
            ("footprint", "1X", "a size such as 640K or 4M"),
            ("footprint", "3M:2M:4M", "a size such as 640K or 4M"),
            ("footprint", "2000G", "a size such as 640K or 4M"),
            ("stream", "-1", "MB/s such as 1640"),
            ("memory-share", "101", "PERCENT of the time"),
            ("dirty", "30", "dirty is a part of the footprint"),
            ("region", "", "NAME of a region"),
            ("region", "heap", "region \"heap\" has no size"),
            ("placement", "near", "first-touch, interleave, balancing, or node:N"),
            ("colour", "red", "one of the keys memory, footprint"),
        ] {
            let error = used(&[(key, value)]).unwrap_err();
            assert!(error.starts_with(expected), "{key}={value}: {error}");
        }
        let pairs: [&[(&str, &str)]; 2] =
            [&[("region", "heap"), ("footprint", "0:0:1M")], &[("stream", "5000"), ("memory-share", "0")]];
        for pair in pairs {
            assert!(used(pair).is_err(), "{pair:?}");
        }
        let none = used(&[("footprint", "640K"), ("stream", "0")]).unwrap();
        assert_eq!(none.limits(Quantity::Share), Limits::exactly(0), "no stream takes no time");
    }
}
