// SPDX-License-Identifier: GPL-2.0-only
//! Effect tables of a machine file: `[smt]`, `[frequency]`, `[power]`, `[[idle]]` and `[locks]`. Those of memory are in
//! `memory`, those of disks in `disks`.

use super::{Table, Value, disks as disk_tables, memory, networks as network_tables, page_cache as page_cache_table};
use crate::{Effect, Effects, Estimate, Frequency, Governor, Group, IdleState, Locks, MachineError, Power, Smt, Tlb};
use ids::Topology;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use toml::de::DeValue;

/// Upper limit beyond any processor.
const MHZ: RangeInclusive<u64> = 1..=20_000;
/// Up to a minute.
const MICROSECONDS: RangeInclusive<u64> = 0..=60_000_000;
/// Up to a second.
pub(super) const NANOSECONDS: RangeInclusive<u64> = 0..=1_000_000_000;
/// x86 has at most 10 idle states, arm64 fewer.
const IDLE_STATES: RangeInclusive<usize> = 1..=10;

/// Reads all tables that are present.
///
/// `cache_kb`: sizes of a core's own cache and of a last-level cache as given for the machine; 0: not given.
pub(super) fn read(file: &mut Table<'_, '_>, topology: &Topology, cache_kb: [u64; 2]) -> Result<Effects, MachineError> {
    let smt = file.table("smt", "[smt]")?.map(|table| smt(table, topology)).transpose()?;
    let frequency = file.table("frequency", "[frequency]")?.map(frequency).transpose()?;
    let power = file.table("power", "[power]")?.map(power).transpose()?;
    let idle_states = match file.optional("idle") {
        Some(value) => idle_states(file, value)?,
        None => Vec::new(),
    };
    let locks = file.table("locks", "[locks]")?.map(locks).transpose()?;
    let caches =
        file.table("caches", "[caches]")?.map(|table| memory::caches(table, topology, cache_kb)).transpose()?;
    let numa = file.table("numa", "[numa]")?.map(|table| memory::numa(table, topology)).transpose()?;
    let bandwidth = file.table("bandwidth", "[bandwidth]")?.map(memory::bandwidth).transpose()?;
    let disks = file.table("disks", "[disks]")?.map(|table| disk_tables::read(&table, topology)).transpose()?;
    let networks = file.table("networks", "[networks]")?.map(|table| network_tables::read(&table, topology));
    let page_cache = file.table("page_cache", "[page_cache]")?.map(page_cache_table::read).transpose()?;
    let tlb = file.table("tlb", "[tlb]")?.map(tlb).transpose()?;
    let (disks, networks) = (disks.unwrap_or_default(), networks.transpose()?.unwrap_or_default());
    let mut effects = Effects {
        smt,
        frequency,
        idle_states,
        power,
        caches,
        numa,
        bandwidth,
        locks,
        disks,
        networks,
        page_cache,
        tlb,
        ..Effects::default()
    };
    effects.capacity = match file.optional("capacity_scales_work") {
        Some(value) => {
            value.get_ref().as_bool().filter(|scales| !scales || topology.is_hybrid()).ok_or_else(|| {
                file.wrong("capacity_scales_work", value, "true or false, and CPUs of unequal capacity")
            })?
        }
        None => topology.is_hybrid(),
    };
    if let Some(value) = file.optional("assumed") {
        effects.assumed = assumed(file, value, &effects)?;
    }
    Ok(effects)
}

/// Reads the names of effects whose constants are only typical of the machine's class.
fn assumed<'a, 't>(
    file: &Table<'a, 't>,
    value: Value<'a, 't>,
    effects: &Effects,
) -> Result<BTreeSet<Effect>, MachineError> {
    let items = value.get_ref().as_array().ok_or_else(|| file.wrong("assumed", value, "an array of effects"))?;
    let one = |item: Value<'a, 't>| {
        let effect: Effect = file.string("assumed", item)?.parse().map_err(|problem| file.error(item, problem))?;
        let modelled = effects.modelled().any(|modelled| modelled == effect);
        modelled.then_some(effect).ok_or_else(|| file.wrong("assumed", item, "effects that this file describes"))
    };
    items.iter().map(one).collect()
}

impl<'a, 't> Table<'a, 't> {
    /// Reads an integer, or a list of lowest, typical and highest value.
    pub(super) fn estimate(
        &self,
        key: &str,
        value: Value<'a, 't>,
        range: RangeInclusive<u64>,
    ) -> Result<Estimate, MachineError> {
        if value.get_ref().as_array().is_none() {
            return Ok(Estimate::exactly(self.integer(key, value, range)?));
        }
        match self.list(key, value, range)?[..] {
            [low, typical, high] if low <= typical && typical <= high => Ok(Estimate { low, typical, high }),
            _ => Err(self.wrong(key, value, "an integer, or 3 nondecreasing ones: lowest, typical, highest")),
        }
    }

    pub(super) fn estimates(
        &self,
        key: &str,
        value: Value<'a, 't>,
        range: RangeInclusive<u64>,
    ) -> Result<Vec<Estimate>, MachineError> {
        let items = value.get_ref().as_array().ok_or_else(|| self.wrong(key, value, "an array"))?;
        items.iter().map(|item| self.estimate(key, item, range.clone())).collect()
    }

    pub(super) fn required_estimate(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Estimate, MachineError> {
        let value = self.required(key)?;
        self.estimate(key, value, range)
    }

    pub(super) fn required_integer(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<u64, MachineError> {
        let value = self.required(key)?;
        self.integer(key, value, range)
    }

    /// Reads one of several words; the type's default if the key is absent.
    pub(super) fn word<T: Copy + Default>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<T, MachineError> {
        let Some(value) = self.optional(key) else { return Ok(T::default()) };
        let found = words.iter().find(|(word, _)| value.get_ref().as_str() == Some(word));
        let names: Vec<&str> = words.iter().map(|word| word.0).collect();
        found.map(|word| word.1).ok_or_else(|| self.wrong(key, value, &format!("one of {}", names.join(", "))))
    }
}

fn smt(mut table: Table<'_, '_>, topology: &Topology) -> Result<Smt, MachineError> {
    let (key, threads) = ("throughput_percent", topology.threads());
    let value = table.required(key)?;
    let many =
        value.get_ref().as_array().is_some_and(|items| items.iter().any(|item| item.get_ref().as_array().is_some()));
    let range = 100..=100 * threads as u64;
    let throughput_percent = match many {
        true => table.estimates(key, value, range)?,
        false => vec![table.estimate(key, value, range)?],
    };
    let falls = throughput_percent.windows(2).any(|pair| pair[1].typical < pair[0].typical);
    if throughput_percent.len() + 1 != threads || falls {
        let expected = format!("{} nondecreasing numbers, for 2 to {threads} busy threads of a core", threads - 1);
        return Err(table.wrong(key, value, &expected));
    }
    table.finish()?;
    Ok(Smt { throughput_percent })
}

fn frequency(mut table: Table<'_, '_>) -> Result<Frequency, MachineError> {
    let value = table.required("mhz")?;
    let mhz: Vec<u32> = table.list("mhz", value, MHZ)?.into_iter().map(|mhz| mhz as u32).collect();
    if mhz.is_empty() || !mhz.is_sorted_by(|a, b| a < b) {
        return Err(table.wrong("mhz", value, "ascending frequencies"));
    }
    let last = u64::from(*mhz.last().expect("at least one frequency"));
    let turbo_mhz = match table.optional("turbo_mhz") {
        Some(value) => {
            let turbo = table.estimates("turbo_mhz", value, last..=*MHZ.end())?;
            if turbo.is_empty() || !turbo.is_sorted_by(|a, b| a.typical >= b.typical) {
                return Err(table.wrong(
                    "turbo_mhz",
                    value,
                    "frequencies that do not increase with the number of active cores",
                ));
            }
            turbo
        }
        None => Vec::new(),
    };
    let (domain, turbo_domain) = (table.word("domain", &Group::NAMES)?, table.word("turbo_domain", &Group::NAMES)?);
    let microseconds = |table: &mut Table<'_, '_>, key, default: u64, least: u64| match table.optional(key) {
        Some(value) => table.integer(key, value, least..=*MICROSECONDS.end()),
        None => Ok(default),
    };
    let frequency = Frequency {
        mhz,
        turbo_mhz,
        domain,
        turbo_domain,
        turbo_us: microseconds(&mut table, "turbo_us", 1_000, 1)?,
        governor: table.word("governor", &Governor::NAMES)?,
        sampling_us: microseconds(&mut table, "sampling_us", 10_000, 1)?,
        transition_us: microseconds(&mut table, "transition_us", 0, 0)?,
        memory_bound_percent: table.required_estimate("memory_bound_percent", 0..=100)?,
    };
    table.finish()?;
    Ok(frequency)
}

fn tlb(mut table: Table<'_, '_>) -> Result<Tlb, MachineError> {
    let wait_ns = table.required_estimate("wait_ns", NANOSECONDS)?;
    let target_ns = table.required_estimate("target_ns", NANOSECONDS)?;
    let handler_ns = table.required_estimate("handler_ns", NANOSECONDS)?;
    table.finish()?;
    Ok(Tlb { wait_ns, target_ns, handler_ns })
}

fn locks(mut table: Table<'_, '_>) -> Result<Locks, MachineError> {
    let value = table.required("line_transfer_ns")?;
    let expected = "4 nondecreasing numbers: within a core, below one cache, within a node, between nodes";
    let lines = table.estimates("line_transfer_ns", value, NANOSECONDS)?;
    if !lines.is_sorted_by_key(|line| line.typical) {
        return Err(table.wrong("line_transfer_ns", value, expected));
    }
    let line_transfer_ns = lines.try_into().map_err(|_| table.wrong("line_transfer_ns", value, expected))?;
    let wakeup_hold_ns = table.required_estimate("wakeup_hold_ns", NANOSECONDS)?;
    let value = table.required("acquire_ns")?;
    let expected = "6 numbers: atomic, seqlock, spin, queued, rwlock, mutex";
    let acquire_ns = table.estimates("acquire_ns", value, NANOSECONDS)?;
    let acquire_ns = acquire_ns.try_into().map_err(|_| table.wrong("acquire_ns", value, expected))?;
    let spinner_slowdown_percent = table.required_estimate("spinner_slowdown_percent", 0..=1_000)?;
    let futex_ns = match table.optional("futex_ns") {
        Some(value) => table.estimate("futex_ns", value, NANOSECONDS)?,
        None => Estimate::exactly(0),
    };
    table.finish()?;
    Ok(Locks { line_transfer_ns, wakeup_hold_ns, acquire_ns, spinner_slowdown_percent, futex_ns })
}

fn power(mut table: Table<'_, '_>) -> Result<Power, MachineError> {
    let idle_percent = table.required_estimate("idle_percent", 0..=99)?;
    let voltage_slope_percent = table.required_estimate("voltage_slope_percent", 0..=100)?;
    table.finish()?;
    Ok(Power { idle_percent, voltage_slope_percent })
}

fn idle_states<'a, 't>(file: &Table<'a, 't>, value: Value<'a, 't>) -> Result<Vec<IdleState>, MachineError> {
    let expected = "1 to 10 tables [[idle]] with increasing residency_ns";
    let items = value.get_ref().as_array().ok_or_else(|| file.wrong("idle", value, expected))?;
    let mut states = Vec::new();
    for item in items.iter() {
        let DeValue::Table(content) = item.get_ref() else { return Err(file.wrong("idle", item, expected)) };
        let table = Table { source: file.source, what: "[[idle]]", span: item.span(), content, known: Vec::new() };
        states.push(idle_state(table)?);
    }
    let rise = states.is_sorted_by(|a, b| a.residency_ns < b.residency_ns);
    if !IDLE_STATES.contains(&states.len()) || !rise {
        return Err(file.wrong("idle", value, expected));
    }
    Ok(states)
}

fn idle_state(mut table: Table<'_, '_>) -> Result<IdleState, MachineError> {
    let value = table.required("name")?;
    let name = table.string("name", value)?.to_owned();
    let exit_ns = table.required_estimate("exit_ns", NANOSECONDS)?;
    let residency_ns = table.required_integer("residency_ns", NANOSECONDS)?;
    let value = table.required("deep")?;
    let deep = value.get_ref().as_bool().ok_or_else(|| table.wrong("deep", value, "true or false"))?;
    let power_percent = table.required_estimate("power_percent", 0..=100)?;
    table.finish()?;
    Ok(IdleState { name, exit_ns, residency_ns, deep, power_percent })
}

#[cfg(test)]
mod tests {
    use crate::{AcquireCost, Effects, Estimate, Governor, Group, Machine};
    use ids::Locality;

    const HEAD: &str = "description = \"test\"\nhz = 250\nno_hz_idle = true\ntopology = { shape = \"core:2 pu:2\" }\n";
    const GOOD: &str = r#"[smt]
throughput_percent = [115, 125, 135]
[frequency]
mhz = [1000, 2000]
turbo_mhz = [[2900, 3000, 3100], 2500]
turbo_domain = "node"
governor = "ondemand"
memory_bound_percent = 20
[power]
idle_percent = 30
voltage_slope_percent = 50
[[idle]]
name = "C1"
exit_ns = 2000
residency_ns = 2000
deep = false
power_percent = 40
[[idle]]
name = "C6"
exit_ns = 133000
residency_ns = 600000
deep = true
power_percent = 0
[locks]
line_transfer_ns = [[6, 8, 10], 20, 60, 130]
wakeup_hold_ns = [100, 200, 500]
acquire_ns = [5, 1, 8, [15, 23, 45], 17, 15]
spinner_slowdown_percent = [50, 100, 200]
futex_ns = [100, 300, 900]
"#;

    fn read(text: &str) -> Result<Effects, String> {
        Machine::from_toml("f.toml", &format!("{HEAD}{text}")).map(|machine| machine.effects).map_err(|e| e.to_string())
    }

    #[test]
    fn effect_tables_are_read() {
        let effects = read(GOOD).unwrap();
        assert_eq!(effects.smt.unwrap().throughput_percent, [Estimate { low: 115, typical: 125, high: 135 }]);
        let frequency = effects.frequency.unwrap();
        assert_eq!(
            (frequency.governor, frequency.domain, frequency.turbo_domain),
            (Governor::Ondemand, Group::Core, Group::Node)
        );
        assert_eq!(frequency.turbo_mhz, [Estimate { low: 2900, typical: 3000, high: 3100 }, Estimate::exactly(2500)]);
        assert_eq!(frequency.sampling_us, 10_000);
        assert_eq!(effects.idle_states.iter().map(|state| state.exit_ns.typical).collect::<Vec<_>>(), [2_000, 133_000]);
        assert_eq!(effects.power.unwrap().idle_percent, Estimate::exactly(30));
        let locks = effects.locks.unwrap();
        assert_eq!([Locality::Same, Locality::Smt, Locality::Far].map(|far| locks.line(far)), [0, 8, 130]);
        assert_eq!(locks.wakeup_hold_ns.high, 500);
        assert_eq!(
            (locks.acquire_ns[AcquireCost::Queued as usize].low, locks.spinner_slowdown_percent.typical),
            (15, 100)
        );
        assert_eq!(read("").unwrap(), Effects::default(), "no effect by default");
        let four = GOOD.replace("[115, 125, 135]", "[125, [130, 140, 150], 160]");
        let head = HEAD.replace("pu:2", "pu:4");
        let four = Machine::from_toml("f", &format!("{head}{}", four)).unwrap();
        assert_eq!(four.effects.smt.unwrap().throughput_percent[1].high, 150);
    }

    #[test]
    fn invalid_effect_tables_give_errors_with_line() {
        let cases = [
            (
                "[115, 125, 135]",
                "[125, 115, 135]",
                "f.toml:6: throughput_percent is [125, 115, 135]; expected an integer, or 3",
            ),
            (
                "[115, 125, 135]",
                "[[120, 130, 140], 150]",
                "f.toml:6: throughput_percent is [[120, 130, 140], 150]; expected 1 nondecreasing numbers",
            ),
            ("[115, 125, 135]", "201", "f.toml:6: throughput_percent is 201; expected an integer from 100 to 200"),
            ("[1000, 2000]", "[2000, 1000]", "f.toml:8: mhz is [2000, 1000]; expected ascending frequencies"),
            ("[1000, 2000]", "[]", "f.toml:8: mhz is []; expected ascending frequencies"),
            ("2500]", "1900]", "f.toml:9: turbo_mhz is 1900; expected an integer from 2000 to 20000"),
            (
                "2500]",
                "3500]",
                "f.toml:9: turbo_mhz is [[2900, 3000, 3100], 3500]; expected frequencies that do not increase",
            ),
            (
                "\"node\"",
                "\"socket\"",
                "f.toml:10: turbo_domain is \"socket\"; expected one of core, llc, node, machine",
            ),
            (
                "\"ondemand\"",
                "1",
                "f.toml:11: governor is 1; expected one of performance, ondemand, conservative, schedutil",
            ),
            ("memory_bound_percent = 20", "", "f.toml:7: [frequency] has no key memory_bound_percent"),
            (
                "idle_percent = 30",
                "idle_percent = 100",
                "f.toml:14: idle_percent is 100; expected an integer from 0 to 99",
            ),
            ("residency_ns = 600000", "residency_ns = 2000", "f.toml:16: idle is"),
            ("deep = true", "deep = 1", "f.toml:26: deep is 1; expected true or false"),
            ("exit_ns = 2000", "exit_us = 2", "f.toml:16: [[idle]] has no key exit_ns"),
            (
                "20, 60, 130]",
                "60, 20, 130]",
                "f.toml:29: line_transfer_ns is [[6, 8, 10], 60, 20, 130]; expected 4 nondecreasing numbers",
            ),
            (
                "20, 60, 130]",
                "130]",
                "f.toml:29: line_transfer_ns is [[6, 8, 10], 130]; expected 4 nondecreasing numbers",
            ),
            (
                "turbo_domain",
                "turbo_group",
                "f.toml:10: [frequency] has an unknown key turbo_group (did you mean turbo_us?)",
            ),
        ];
        for (from, to, expected) in cases {
            assert!(GOOD.contains(from), "{from}");
            let error = read(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.starts_with(expected), "{error}\nexpected {expected}");
        }
    }
}
