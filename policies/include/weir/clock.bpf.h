/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One clock for all CPUs, for times that one CPU writes and another compares.
 *
 * 1. Counters of CPUs may be out of step. The kernel's coarse clock is the same everywhere, and a tick old at most.
 * 2. So a CPU's own reading counts as far as it lies between the coarse time and two ticks later; else it is moved to the
 *    nearer end. This is what the kernel does to its scheduler's clock where it knows that counters are not in step
 *    (`sched_clock_local`); where they are, nothing is ever moved.
 */
#ifndef WEIR_CLOCK_BPF_H
#define WEIR_CLOCK_BPF_H

#include "deadline.bpf.h"

static __always_inline u64 common_now(void)
{
	u64 coarse = bpf_ktime_get_coarse_ns(), own = bpf_ktime_get_ns();
	u64 latest = coarse + 2 * (1000000000 / hz);

	if (own < coarse)
		return coarse;
	return own < latest ? own : latest;
}

#endif
