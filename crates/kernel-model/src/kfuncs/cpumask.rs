// SPDX-License-Identifier: GPL-2.0-only
//! `bpf_cpumask_*`: allocation of masks, and operations on any mask.
//!
//! Bits at and above the number of CPUs are ignored when read and never set, as in the kernel, where every operation
//! stops at `nr_cpu_ids`.

use super::args::mask;
use crate::core::Core;
use bpf_machine::{Context, FaultKind, GuestAddr};
use ids::{CpuId, CpuSet};

/// `-EACCES`.
const EACCES: i32 = -13;

/// Implements `bpf_cpumask_create()`.
pub(super) fn create(core: &mut Core, _: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    core.objects.cpumasks.create(cx.memory)
}

/// Implements `bpf_cpumask_acquire(mask)`.
pub(super) fn acquire(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    core.objects.cpumasks.acquire(cx.memory, a[0])?;
    Ok(a[0])
}

/// Implements `bpf_cpumask_release(mask)`.
pub(super) fn release(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    core.objects.cpumasks.release(cx.memory, a[0])?;
    Ok(0)
}

/// Implements `bpf_cpumask_test_cpu(cpu, mask)`.
pub(super) fn test_cpu(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(core.objects.mask_contains(cx.memory, a[1], CpuId(a[0] as u32))?.into())
}

/// Changes one bit of a mask and returns its old value; a CPU that does not exist is ignored.
fn change(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>, set: bool) -> Result<u64, FaultKind> {
    let cpu = a[0] as u32;
    let exists = core.objects.cpumasks.has_cpu(cpu);
    let bytes = core.objects.mask_bytes_mut(cx.memory, a[1])?;
    if !exists {
        return Ok(0);
    }
    let (byte, bit) = (&mut bytes[cpu as usize / 8], 1 << (cpu % 8));
    let old = *byte & bit != 0;
    if set {
        *byte |= bit;
    } else {
        *byte &= !bit;
    }
    Ok(old.into())
}

/// Implements `bpf_cpumask_test_and_set_cpu(cpu, mask)`.
pub(super) fn test_and_set_cpu(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    change(core, a, cx, true)
}

/// Implements `bpf_cpumask_test_and_clear_cpu(cpu, mask)`.
pub(super) fn test_and_clear_cpu(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    change(core, a, cx, false)
}

/// Implements `bpf_cpumask_set_cpu(cpu, mask)`.
pub(super) fn set_cpu(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    change(core, a, cx, true).map(|_| 0)
}

/// Implements `bpf_cpumask_clear_cpu(cpu, mask)`.
pub(super) fn clear_cpu(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    change(core, a, cx, false).map(|_| 0)
}

fn store(core: &Core, cx: &mut Context<'_>, to: GuestAddr, set: &CpuSet) -> Result<(), FaultKind> {
    let bytes = core.objects.mask_bytes_mut(cx.memory, to)?;
    crate::guest::write_mask(bytes, set);
    Ok(())
}

/// Implements `bpf_cpumask_setall(mask)`.
pub(super) fn set_all(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    store(core, cx, a[0], &CpuSet::first_n(core.objects.cpus() as usize))?;
    Ok(0)
}

/// Implements `bpf_cpumask_clear(mask)`.
pub(super) fn clear(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    store(core, cx, a[0], &CpuSet::new())?;
    Ok(0)
}

/// Implements `bpf_cpumask_copy(dst, src)`.
pub(super) fn copy(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let set = mask(core, cx, a[1])?;
    store(core, cx, a[0], &set)?;
    Ok(0)
}

/// Implements `bpf_cpumask_populate(dst, src, src__sz)`: copies a bitmap from the program's memory.
pub(super) fn populate(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let cpus = core.objects.cpus();
    let needed = cpus.div_ceil(64) * 8;
    if a[2] < needed.into() {
        return super::args::int(EACCES);
    }
    let bytes = cx.memory.bytes(a[1], needed)?;
    let has = |cpu: &u32| bytes[*cpu as usize / 8] >> (cpu % 8) & 1 == 1;
    let set = (0..cpus).filter(has).map(CpuId).collect();
    store(core, cx, a[0], &set)?;
    Ok(0)
}

fn combine(core: &Core, a: [u64; 5], cx: &mut Context<'_>, join: impl Fn(u64, u64) -> u64) -> Result<u64, FaultKind> {
    let (left, right) = (mask(core, cx, a[1])?, mask(core, cx, a[2])?);
    let words: Vec<u64> = left.words().iter().zip(right.words()).map(|(l, r)| join(*l, *r)).collect();
    let set = CpuSet::from_words(&words);
    store(core, cx, a[0], &set)?;
    Ok((!set.is_empty()).into())
}

/// Implements `bpf_cpumask_and(dst, src1, src2)`: returns whether the masks have a CPU in common.
pub(super) fn and(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    combine(core, a, cx, |left, right| left & right)
}

/// Implements `bpf_cpumask_or(dst, src1, src2)`.
pub(super) fn or(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    combine(core, a, cx, |left, right| left | right).map(|_| 0)
}

/// Implements `bpf_cpumask_xor(dst, src1, src2)`.
pub(super) fn xor(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    combine(core, a, cx, |left, right| left ^ right).map(|_| 0)
}

/// The number of a CPU, or the number of CPUs for `None`.
fn or_none(core: &Core, cpu: Option<CpuId>) -> Result<u64, FaultKind> {
    Ok(cpu.map_or(core.objects.cpus(), |cpu| cpu.0).into())
}

/// Implements `bpf_cpumask_first(mask)`.
pub(super) fn first(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    or_none(core, mask(core, cx, a[0])?.first())
}

/// Implements `bpf_cpumask_first_zero(mask)`.
pub(super) fn first_zero(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let set = mask(core, cx, a[0])?;
    or_none(core, (0..core.objects.cpus()).map(CpuId).find(|cpu| !set.contains(*cpu)))
}

/// Implements `bpf_cpumask_first_and(src1, src2)`.
pub(super) fn first_and(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let (left, right) = (mask(core, cx, a[0])?, mask(core, cx, a[1])?);
    or_none(core, left.next_common_from(&right, CpuId(0)))
}

/// Implements `bpf_cpumask_any_distribute(mask)`.
pub(super) fn any_distribute(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let set = mask(core, cx, a[0])?;
    Ok(core.any_distribute(&set).into())
}

/// Implements `bpf_cpumask_any_and_distribute(src1, src2)`.
pub(super) fn any_and_distribute(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let common = mask(core, cx, a[0])?.intersection(&mask(core, cx, a[1])?);
    Ok(core.any_distribute(&common).into())
}

/// Implements `bpf_cpumask_weight(mask)`.
pub(super) fn weight(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(mask(core, cx, a[0])?.len() as u64)
}

/// Implements `bpf_cpumask_empty(mask)`.
pub(super) fn empty(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(mask(core, cx, a[0])?.is_empty().into())
}

/// Implements `bpf_cpumask_full(mask)`.
pub(super) fn full(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok((mask(core, cx, a[0])?.len() == core.objects.cpus() as usize).into())
}

/// Implements `bpf_cpumask_equal(src1, src2)`.
pub(super) fn equal(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok((mask(core, cx, a[0])? == mask(core, cx, a[1])?).into())
}

/// Implements `bpf_cpumask_intersects(src1, src2)`.
pub(super) fn intersects(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(core.objects.masks_intersect(cx.memory, [a[0], a[1]])?.into())
}

/// Implements `bpf_cpumask_subset(src1, src2)`: returns whether src2 has every CPU of src1.
pub(super) fn subset(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(mask(core, cx, a[0])?.is_subset(&mask(core, cx, a[1])?).into())
}
