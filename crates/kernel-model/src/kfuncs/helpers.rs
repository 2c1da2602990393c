// SPDX-License-Identifier: GPL-2.0-only
//! BPF helpers that need the kernel: clocks, current task and CPU, random numbers, formatted text. The numbers are
//! those of `include/uapi/linux/bpf.h`.

use super::{Nature, text};
use crate::core::Core;
use bpf_machine::{Context, FaultKind, GuestAddr, Memory};
use ids::CpuId;

/// `-EINVAL` and `-E2BIG` as 64-bit results.
const EINVAL: u64 = text::EINVAL as i64 as u64;
const E2BIG: u64 = -7i64 as u64;

/// Cost class of a helper, as an index of `machine_model::Nature`; also for the helpers that the BPF machine
/// implements itself.
pub(crate) fn helper_nature(helper: u32) -> usize {
    let nature = match helper {
        5 | 118 | 125 => Nature::Clock,
        // These access map elements, task storage, timers or, as probe reads, kernel memory.
        1..=3 | 87..=89 | 113 | 115 | 130..=134 | 156 | 157 | 169..=172 | 195 | 210 | 211 => Nature::Lookup,
        6 | 165 | 177 => Nature::Scan,
        _ => Nature::Trivial,
    };
    nature as usize
}

/// Names of the helpers that the model or the BPF machine implements, by number.
const NAMES: [(u32, &str); 43] = [
    (1, "bpf_map_lookup_elem"),
    (2, "bpf_map_update_elem"),
    (3, "bpf_map_delete_elem"),
    (5, "bpf_ktime_get_ns"),
    (6, "bpf_trace_printk"),
    (7, "bpf_get_prandom_u32"),
    (8, "bpf_get_smp_processor_id"),
    (14, "bpf_get_current_pid_tgid"),
    (16, "bpf_get_current_comm"),
    (35, "bpf_get_current_task"),
    (42, "bpf_get_numa_node_id"),
    (87, "bpf_map_push_elem"),
    (88, "bpf_map_pop_elem"),
    (89, "bpf_map_peek_elem"),
    (93, "bpf_spin_lock"),
    (94, "bpf_spin_unlock"),
    (113, "bpf_probe_read_kernel"),
    (115, "bpf_probe_read_kernel_str"),
    (118, "bpf_jiffies64"),
    (125, "bpf_ktime_get_boot_ns"),
    (130, "bpf_ringbuf_output"),
    (131, "bpf_ringbuf_reserve"),
    (132, "bpf_ringbuf_submit"),
    (133, "bpf_ringbuf_discard"),
    (134, "bpf_ringbuf_query"),
    (153, "bpf_per_cpu_ptr"),
    (154, "bpf_this_cpu_ptr"),
    (156, "bpf_task_storage_get"),
    (157, "bpf_task_storage_delete"),
    (158, "bpf_get_current_task_btf"),
    (164, "bpf_for_each_map_elem"),
    (165, "bpf_snprintf"),
    (169, "bpf_timer_init"),
    (170, "bpf_timer_set_callback"),
    (171, "bpf_timer_start"),
    (172, "bpf_timer_cancel"),
    (177, "bpf_trace_vprintk"),
    (181, "bpf_loop"),
    (182, "bpf_strncmp"),
    (194, "bpf_kptr_xchg"),
    (195, "bpf_map_lookup_percpu_elem"),
    (210, "bpf_cgrp_storage_get"),
    (211, "bpf_cgrp_storage_delete"),
];

/// Helpers that kernels have but do not allow in struct_ops programs (observed in 7.2.13: "program of this type
/// cannot use helper ..."): `bpf_scx_get_func_proto` falls back to `bpf_base_func_proto`, which has 113 and 115
/// instead of the first two.
pub(crate) const REFUSED: [(u32, &str); 3] =
    [(4, "bpf_probe_read"), (45, "bpf_probe_read_str"), (160, "bpf_ktime_get_coarse_ns")];

/// Error message for a helper that the kernel does not allow.
pub(crate) fn refusal(name: &str, (major, minor): (u16, u16)) -> String {
    format!("kernel {major}.{minor} does not allow the helper {name} in schedulers")
}

/// Name of a helper, or its number if the model does not know it.
pub(crate) fn helper_name(helper: u32) -> String {
    let known = NAMES.binary_search_by_key(&helper, |(number, _)| *number);
    let refused = || REFUSED.iter().find(|(number, _)| *number == helper).map(|(_, name)| *name);
    let name = known.ok().map(|index| NAMES[index].1).or_else(refused);
    name.map_or_else(|| format!("helper {helper}"), str::to_owned)
}

/// Calls a helper that the BPF machine does not implement itself.
pub(crate) fn helper(core: &mut Core, helper: u32, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let value = match helper {
        5 | 125 => core.clock().0,
        6 => trace_printk(core, cx, a)?,
        7 => core.random.next().into(),
        8 => core.context.cpu.0.into(),
        14 => pid_tgid(core, cx.memory),
        16 => current_comm(core, cx, a)?,
        35 | 158 => current(core, cx.memory),
        42 => core.node_of(core.context.cpu).into(),
        118 => crate::guest::jiffies(core.time.since_boot().0, core.config.hz),
        153 => per_cpu_ptr(core, cx.memory, a[0], a[1] as u32).unwrap_or(0),
        154 => this_cpu_ptr(core, cx.memory, a[0])?,
        165 => snprintf(cx, a)?,
        177 => trace_vprintk(core, cx, a)?,
        _ => {
            let refused = REFUSED.iter().find(|(number, _)| *number == helper);
            return Err(match refused {
                Some((_, name)) => FaultKind::Refused(refusal(name, core.config.version)),
                None => FaultKind::MissingHelper(helper),
            });
        }
    };
    Ok(value)
}

/// Guest address of the current task of this CPU.
fn current(core: &Core, memory: &Memory) -> GuestAddr {
    core.objects.task_addr(memory, core.current(core.context.cpu), core.context.cpu)
}

/// Implements `bpf_get_current_pid_tgid()`.
fn pid_tgid(core: &Core, memory: &Memory) -> u64 {
    let (pid, tgid) = core.objects.pid_tgid(memory, core.current(core.context.cpu), core.context.cpu);
    u64::from(tgid) << 32 | u64::from(pid)
}

/// Implements `bpf_get_current_comm(buf, size)`: fills the rest of the buffer with NULs.
fn current_comm(core: &Core, cx: &mut Context<'_>, a: [u64; 5]) -> Result<u64, FaultKind> {
    let comm = core.objects.comm(cx.memory, core.current(core.context.cpu), core.context.cpu);
    let buffer = cx.memory.bytes_mut(a[0], a[1] as u32)?;
    if buffer.is_empty() {
        return Ok(EINVAL);
    }
    buffer.fill(0);
    let len = comm.len().min(buffer.len() - 1);
    buffer[..len].copy_from_slice(&comm[..len]);
    Ok(0)
}

/// Implements `bpf_per_cpu_ptr(ptr, cpu)`: address of a per-CPU variable's instance on `cpu`. CPU times are updated
/// here, because programs can read them only through this call.
fn per_cpu_ptr(core: &Core, memory: &mut Memory, addr: GuestAddr, cpu: u32) -> Option<GuestAddr> {
    let (name, addr) = core.objects.per_cpu.find(memory, addr, cpu)?;
    if name == "kernel_cpustat" {
        core.show_cpu_time(memory, CpuId(cpu));
    }
    Some(addr)
}

/// Implements `bpf_this_cpu_ptr(ptr)`.
fn this_cpu_ptr(core: &Core, memory: &mut Memory, addr: GuestAddr) -> Result<u64, FaultKind> {
    let CpuId(cpu) = core.context.cpu;
    let found = per_cpu_ptr(core, memory, addr, cpu);
    found.ok_or_else(|| FaultKind::BadArgument(format!("{addr:#x} is not a per-CPU variable of the kernel")))
}

/// Implements `bpf_snprintf(str, str_size, fmt, data, data_len)`: returns the full length including the NUL, even if
/// the text was truncated.
fn snprintf(cx: &mut Context<'_>, a: [u64; 5]) -> Result<u64, FaultKind> {
    let [to, size, fmt, data, data_len] = a;
    if !data_len.is_multiple_of(8) || data_len > 12 * 8 {
        return Ok(EINVAL);
    }
    let args = text::arguments(cx.memory, data, data_len)?;
    let fmt = cx.memory.c_string(fmt, 4096)?;
    let Ok(mut text) = text::format(cx.memory, &fmt, &args) else { return Ok(EINVAL) };
    let needed = text.len() as u64 + 1;
    if size > 0 {
        text::cut(&mut text, size as usize);
        let buffer = cx.memory.bytes_mut(to, size as u32)?;
        buffer[..text.len()].copy_from_slice(text.as_bytes());
        buffer[text.len()] = 0;
    }
    Ok(needed)
}

/// Implements `bpf_trace_printk(fmt, fmt_size, arg1, arg2, arg3)`.
fn trace_printk(core: &mut Core, cx: &mut Context<'_>, a: [u64; 5]) -> Result<u64, FaultKind> {
    trace(core, cx, a[0], a[1], &a[2..])
}

/// Implements `bpf_trace_vprintk(fmt, fmt_size, data, data_len)`.
fn trace_vprintk(core: &mut Core, cx: &mut Context<'_>, a: [u64; 5]) -> Result<u64, FaultKind> {
    if !a[3].is_multiple_of(8) || a[3] > 12 * 8 {
        return Ok(EINVAL);
    }
    let args = text::arguments(cx.memory, a[2], a[3])?;
    trace(core, cx, a[0], a[1], &args)
}

fn trace(core: &mut Core, cx: &mut Context<'_>, fmt: GuestAddr, size: u64, args: &[u64]) -> Result<u64, FaultKind> {
    if size > 4096 {
        return Ok(E2BIG);
    }
    let fmt = cx.memory.c_string(fmt, size as u32)?;
    let Ok(mut text) = text::format(cx.memory, &fmt, args) else { return Ok(EINVAL) };
    let length = text.len() as u64;
    text::cut(&mut text, text::LINE_SIZE);
    core.print(text.trim_end_matches('\n').to_owned());
    Ok(length)
}
