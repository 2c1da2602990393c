// SPDX-License-Identifier: GPL-2.0-only
//! Tables of a machine file about memory: `[caches]`, `[numa]` and `[bandwidth]`.

use super::Table;
use super::effects::NANOSECONDS;
use crate::{Bandwidth, Caches, Estimate, MachineError, Numa, Remote};
use ids::{Placement, Topology};
use std::ops::RangeInclusive;

/// Sizes of caches, up to 1 TiB.
const KIB: RangeInclusive<u64> = 1..=1 << 30;
/// Lines of known processors have 32 to 256 bytes.
const LINE: RangeInclusive<u64> = 16..=1024;
/// Misses in flight: processors have up to 64 line-fill buffers a core.
const OVERLAP: RangeInclusive<u64> = 1..=64;
/// Up to 10 TB/s for a node.
const MB_S: RangeInclusive<u64> = 1..=10_000_000;
/// Default of `balance_ms`: the kernel's `numa_balancing_scan_period_min_ms`.
const BALANCE_MS: u64 = 1_000;

/// Reads `[caches]`; sizes not given there are those of the machine.
pub(super) fn caches(
    mut table: Table<'_, '_>,
    topology: &Topology,
    cache_kb: [u64; 2],
) -> Result<Caches, MachineError> {
    let mut size = |key: &'static str, known: u64| match (table.optional(key), known) {
        (Some(value), _) if key == "llc_kb" && value.get_ref().is_array() => {
            let sizes = table.list(key, value, KIB)?;
            match sizes.len() == topology.llcs() {
                true => Ok(sizes),
                false => {
                    Err(table.wrong(key, value, &format!("one size, or {} for each last-level cache", topology.llcs())))
                }
            }
        }
        (Some(value), _) => Ok(vec![table.integer(key, value, KIB)?]),
        (None, 0) => table.required(key).map(|_| vec![]),
        (None, known) => Ok(vec![known]),
    };
    let (private_kb, llc_kb) = (size("private_kb", cache_kb[0])?[0], size("llc_kb", cache_kb[1])?);
    let line_bytes = match table.optional("line_bytes") {
        Some(value) => table.integer("line_bytes", value, LINE)?,
        None => 64,
    };
    let private_ns = table.required_estimate("private_ns", NANOSECONDS)?;
    let llc_ns = table.required_estimate("llc_ns", NANOSECONDS)?;
    let value = table.required("memory_ns")?;
    let memory_ns = table.estimate("memory_ns", value, NANOSECONDS)?;
    if !(private_ns.typical <= llc_ns.typical && llc_ns.typical <= memory_ns.typical) {
        return Err(table.wrong("memory_ns", value, "at least llc_ns, which is at least private_ns"));
    }
    let value = table.required("dirty_ns")?;
    let expected = "3 nondecreasing numbers: same last-level cache, same node, other node";
    let dirty = table.estimates("dirty_ns", value, NANOSECONDS)?;
    if !dirty.is_sorted_by_key(|one| one.typical) {
        return Err(table.wrong("dirty_ns", value, expected));
    }
    let dirty_ns = dirty.try_into().map_err(|_| table.wrong("dirty_ns", value, expected))?;
    let overlap = table.required_estimate("overlap", OVERLAP)?;
    table.finish()?;
    Ok(Caches { private_kb, llc_kb, line_bytes, private_ns, llc_ns, memory_ns, dirty_ns, overlap })
}

/// Reads `[numa]`.
pub(super) fn numa(mut table: Table<'_, '_>, topology: &Topology) -> Result<Numa, MachineError> {
    let key = "latency_ns";
    let expected = "rows of a SLIT distance, then its lowest, typical and highest latency; the first distance is 10, \
                    and distances and latencies ascend";
    let value = table.required(key)?;
    let rows = value.get_ref().as_array().ok_or_else(|| table.wrong(key, value, expected))?;
    let mut latency_ns = Vec::new();
    for row in rows.iter() {
        let numbers = table.list(key, row, NANOSECONDS)?;
        match numbers[..] {
            [distance, low, typical, high]
                if low <= typical && typical <= high && distance <= u64::from(Topology::MAX_DISTANCE) =>
            {
                latency_ns.push(Remote { distance: distance as u32, latency_ns: Estimate { low, typical, high } });
            }
            _ => return Err(table.wrong(key, row, expected)),
        }
    }
    let ascend = latency_ns
        .is_sorted_by(|a, b| a.distance < b.distance && a.latency_ns.typical <= b.latency_ns.typical)
        && latency_ns.first().is_some_and(|row| row.distance == Topology::LOCAL_DISTANCE);
    if !ascend || latency_ns.iter().any(|row| row.latency_ns.low == 0) {
        return Err(table.wrong(key, value, expected));
    }
    let placement = match table.optional("placement") {
        Some(value) => {
            let placement = value.get_ref().as_str().and_then(Placement::parse);
            let exists = |placement: &Placement| match placement {
                Placement::Node(node) => topology.has_node(*node),
                _ => true,
            };
            placement.filter(exists).ok_or_else(|| table.wrong("placement", value, Placement::EXPECTED))?
        }
        None => Placement::default(),
    };
    let balance_ms = match table.optional("balance_ms") {
        Some(value) => table.integer("balance_ms", value, 1..=3_600_000)?,
        None => BALANCE_MS,
    };
    let move_page_ns = match table.optional("move_page_ns") {
        Some(value) => table.estimate("move_page_ns", value, NANOSECONDS)?,
        None => Estimate::exactly(0),
    };
    table.finish()?;
    Ok(Numa { latency_ns, placement, balance_ms, move_page_ns })
}

/// Reads `[bandwidth]`.
pub(super) fn bandwidth(mut table: Table<'_, '_>) -> Result<Bandwidth, MachineError> {
    let node_mb_s = table.required_estimate("node_mb_s", MB_S)?;
    let remote_mb_s = match table.optional("remote_mb_s") {
        Some(value) => table.estimate("remote_mb_s", value, MB_S)?,
        None => node_mb_s,
    };
    let slope_permille = table.required_estimate("slope_permille", 0..=10_000)?;
    let knee_permille = table.required_estimate("knee_permille", 0..=10_000)?;
    table.finish()?;
    Ok(Bandwidth { node_mb_s, remote_mb_s, slope_permille, knee_permille })
}

#[cfg(test)]
mod tests {
    use crate::{Effect, Estimate, Machine};
    use ids::Placement;

    const HEAD: &str = "description = \"t\"\nhz = 250\nno_hz_idle = true\nllc_kb = 4096\n\
        topology = { shape = \"node:2 core:2 pu:1\" }\n";
    const GOOD: &str = r#"[caches]
private_kb = 256
private_ns = 4
llc_ns = [13, 15, 17]
memory_ns = [80, 95, 120]
dirty_ns = [20, 25, 60]
overlap = [1, 4, 10]
[numa]
latency_ns = [[10, 80, 95, 120], [20, 120, 140, 160]]
placement = "node:1"
[bandwidth]
node_mb_s = [8000, 12000, 17000]
slope_permille = 300
knee_permille = [75, 95, 135]
"#;

    fn read(text: &str) -> Result<Machine, String> {
        Machine::from_toml("f.toml", &format!("{HEAD}{text}")).map_err(|error| error.to_string())
    }

    #[test]
    fn memory_tables_are_read_and_round_trip() {
        let machine = read(GOOD).unwrap();
        let effects = &machine.effects;
        assert_eq!(effects.modelled().collect::<Vec<_>>(), [Effect::Caches, Effect::Numa, Effect::Bandwidth]);
        let caches = effects.caches.as_ref().unwrap();
        assert_eq!((caches.private_kb, caches.llc_kb(1), caches.line_bytes), (256, 4096, 64));
        assert_eq!(caches.overlap, Estimate { low: 1, typical: 4, high: 10 });
        let numa = effects.numa.as_ref().unwrap();
        assert_eq!((numa.latency(20), numa.placement, numa.balance_ms), (140, Placement::Node(1), 1_000));
        let bandwidth = effects.bandwidth.as_ref().unwrap();
        assert_eq!(bandwidth.remote_mb_s, bandwidth.node_mb_s);
        let back = Machine::from_toml("f.toml", &machine.to_toml()).unwrap();
        assert_eq!(back, machine, "{}", machine.to_toml());
    }

    #[test]
    fn last_level_caches_may_have_a_size_each() {
        let with =
            |sizes: &str| read(&GOOD.replace("private_kb = 256", &format!("private_kb = 256\nllc_kb = {sizes}")));
        let machine = with("[8192, 1024]").unwrap();
        let caches = machine.effects.caches.as_ref().unwrap();
        assert_eq!([0, 1].map(|llc| caches.llc_kb(llc)), [8_192, 1_024]);
        assert_eq!(Machine::from_toml("f.toml", &machine.to_toml()).unwrap(), machine);
        let error = with("[1, 2, 3]").unwrap_err();
        assert_eq!(error, "f.toml:8: llc_kb is [1, 2, 3]; expected one size, or 2 for each last-level cache");
    }

    #[test]
    fn invalid_memory_tables_give_errors_with_line() {
        let cases = [
            ("private_kb = 256\n", "", "f.toml:6: [caches] has no key private_kb"),
            ("[80, 95, 120]\nd", "[1, 2, 3]\nd", "f.toml:10: memory_ns is [1, 2, 3]; expected at least llc_ns"),
            ("[20, 25, 60]", "[25, 20, 60]", "f.toml:11: dirty_ns is [25, 20, 60]; expected 3 nondecreasing"),
            ("overlap = [1, 4, 10]", "overlap = 0", "f.toml:12: overlap is 0; expected an integer from 1 to 64"),
            ("[[10, 80", "[[11, 80", "f.toml:14: latency_ns is"),
            ("[20, 120, 140, 160]", "[20, 120, 140]", "f.toml:14: latency_ns is [20, 120, 140]; expected rows"),
            ("node:1", "node:2", "f.toml:15: placement is \"node:2\"; expected first-touch"),
            ("slope_permille = 300", "", "f.toml:16: [bandwidth] has no key slope_permille"),
        ];
        for (from, to, message) in cases {
            let error = read(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
