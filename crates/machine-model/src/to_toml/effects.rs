// SPDX-License-Identifier: GPL-2.0-only
//! Writes the effect tables `[smt]`, `[frequency]`, `[power]`, `[[idle]]` and `[locks]`.

use super::{disks as disk_tables, line, memory, quoted};
use crate::{Effects, Estimate, Frequency, Governor, Group, IdleState, Locks, Power, Smt};
use ids::Topology;

/// Writes which effects are assumed, and whether capacities affect execution, where that is not the default.
pub(super) fn write_origins(text: &mut String, effects: &Effects, topology: &Topology) {
    if !effects.assumed.is_empty() {
        let names: Vec<String> = effects.assumed.iter().map(|effect| quoted(effect.name())).collect();
        line(text, "assumed", format!("[{}]", names.join(", ")), "typical of such machines, not known for this one");
    }
    if effects.capacity != topology.is_hybrid() {
        line(text, "capacity_scales_work", effects.capacity, "CPUs of lower capacity execute work more slowly");
    }
}

fn write_devices(text: &mut String, effects: &Effects) {
    let Effects { disks, networks, page_cache, tlb, .. } = effects;
    disk_tables::write(text, disks);
    disk_tables::write_networks(text, networks);
    if let Some(crate::Tlb { wait_ns, target_ns, handler_ns }) = tlb {
        text.push_str("\n[tlb]\n");
        line(text, "wait_ns", estimate(wait_ns), "of the initiator, for the first target");
        line(text, "target_ns", estimate(target_ns), "for each further one");
        line(text, "handler_ns", estimate(handler_ns), "interrupt of a target");
    }
    if let Some(page_cache) = page_cache {
        disk_tables::write_page_cache(text, page_cache);
    }
}

pub(super) fn write(text: &mut String, effects: &Effects) {
    let Effects {
        smt,
        capacity: _,
        frequency,
        idle_states,
        power,
        caches,
        numa,
        bandwidth,
        locks,
        disks: _,
        networks: _,
        page_cache: _,
        tlb: _,
        sample: _,
        assumed: _,
    } = effects;
    if let Some(Smt { throughput_percent }) = smt {
        text.push_str("\n[smt]\n");
        let comment = "2, 3, ... busy threads of a core together; a single one is 100";
        match &throughput_percent[..] {
            [two] => line(text, "throughput_percent", estimate(two), comment),
            many => line(text, "throughput_percent", estimates(many), comment),
        }
    }
    if let Some(frequency) = frequency {
        write_frequency(text, frequency);
    }
    if let Some(Power { idle_percent, voltage_slope_percent }) = power {
        text.push_str("\n[power]\n");
        line(text, "idle_percent", estimate(idle_percent), "all cores asleep; 100 is all busy without turbo");
        line(
            text,
            "voltage_slope_percent",
            estimate(voltage_slope_percent),
            "share of the voltage that scales with frequency",
        );
    }
    for IdleState { name, exit_ns, residency_ns, deep, power_percent } in idle_states {
        text.push_str("\n[[idle]]\n");
        line(text, "name", quoted(name), "");
        line(text, "exit_ns", estimate(exit_ns), "");
        line(text, "residency_ns", residency_ns, "target residency");
        line(text, "deep", deep, "whether its core is inactive for turbo");
        line(text, "power_percent", estimate(power_percent), "");
    }
    write_devices(text, effects);
    memory::write(text, caches.as_ref(), numa.as_ref(), bandwidth.as_ref());
    if let Some(Locks { line_transfer_ns, wakeup_hold_ns, acquire_ns, spinner_slowdown_percent, futex_ns }) = locks {
        text.push_str("\n[locks]\n");
        line(
            text,
            "line_transfer_ns",
            estimates(line_transfer_ns),
            "cache-line transfer: same core, same cache, same node, remote",
        );
        line(text, "wakeup_hold_ns", estimate(wakeup_hold_ns), "part of a wakeup with the runqueue lock held");
        line(text, "acquire_ns", estimates(acquire_ns), "uncontended: atomic, seqlock, spin, queued, rwlock, mutex");
        line(
            text,
            "spinner_slowdown_percent",
            estimate(spinner_slowdown_percent),
            "of a line transfer, per additional spinning CPU",
        );
        if *futex_ns != Estimate::exactly(0) {
            line(text, "futex_ns", estimate(futex_ns), "futex call that neither sleeps nor wakes");
        }
    }
}

fn write_frequency(text: &mut String, frequency: &Frequency) {
    let Frequency {
        mhz,
        turbo_mhz,
        domain,
        turbo_domain,
        turbo_us,
        governor,
        sampling_us,
        transition_us,
        memory_bound_percent,
    } = frequency;
    text.push_str("\n[frequency]\n");
    line(text, "mhz", format!("{mhz:?}"), "selectable frequencies, without turbo");
    if !turbo_mhz.is_empty() {
        line(text, "turbo_mhz", estimates(turbo_mhz), "with 1, 2, ... active cores");
    }
    let group = |group: &Group| quoted(name(&Group::NAMES, group));
    line(text, "domain", group(domain), "CPUs with a common frequency");
    line(text, "turbo_domain", group(turbo_domain), "CPUs with a common turbo limit");
    line(text, "turbo_us", turbo_us, "how often the hardware counts active cores");
    line(text, "governor", quoted(name(&Governor::NAMES, governor)), "");
    line(text, "sampling_us", sampling_us, "minimum time between two frequency changes");
    line(text, "transition_us", transition_us, "from a request to the change");
    line(
        text,
        "memory_bound_percent",
        estimate(memory_bound_percent),
        "share of a task's time independent of frequency",
    );
}

fn name<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, other)| other == value).expect("every value has a name").0
}

/// Formats a number, or its limits with the typical value between them.
pub(super) fn estimate(estimate: &Estimate) -> String {
    match *estimate {
        Estimate { low, typical, high } if low == typical && typical == high => typical.to_string(),
        Estimate { low, typical, high } => format!("[{low}, {typical}, {high}]"),
    }
}

/// Formats a list of estimates. Nested lists of three distinguish it from a single estimate.
pub(super) fn estimates(list: &[Estimate]) -> String {
    let one = |Estimate { low, typical, high }: &Estimate| format!("[{low}, {typical}, {high}]");
    format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(", "))
}
