/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One clock for all CPUs, for times that one CPU writes and another compares.
 *
 * 1. Counters of CPUs may be out of step. The kernel's count of ticks is the same everywhere.
 * 2. So a CPU's own reading counts as far as it is no more than two ticks away from that count; else it is moved to the
 *    nearer end. This is what the kernel does to its scheduler's clock where it knows that counters are not in step
 *    (`sched_clock_local`); where they are, nothing is ever moved.
 */
#ifndef WEIR_CLOCK_BPF_H
#define WEIR_CLOCK_BPF_H

#include "deadline.bpf.h"

/* The same moment by both. */
u64 clock_began_ns;
u64 clock_began_jiffies;

/* At init. */
static __always_inline void clock_init(void)
{
	clock_began_ns = bpf_ktime_get_ns();
	clock_began_jiffies = bpf_jiffies64();
}

static __always_inline u64 common_now(void)
{
	u64 tick_ns = 1000000000 / hz, own = bpf_ktime_get_ns();
	u64 counted = clock_began_ns + (bpf_jiffies64() - clock_began_jiffies) * tick_ns;

	if (own + 2 * tick_ns < counted)
		return counted - 2 * tick_ns;
	return own < counted + 2 * tick_ns ? own : counted + 2 * tick_ns;
}

#endif
