/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One clock for all CPUs, for timestamps that one CPU writes and another compares.
 *
 * 1. The CPUs' counters may be out of sync. The kernel's jiffies are the same on every CPU.
 * 2. A CPU's own reading is therefore clamped to within two ticks of the time that jiffies give.
 *    The kernel clamps its scheduler clock in the same way where the counters are unstable
 *    (`sched_clock_local`); with synchronized counters the clamp never takes effect.
 */
#ifndef WEIR_CLOCK_BPF_H
#define WEIR_CLOCK_BPF_H

#include "deadline.bpf.h"

/* The same moment on both clocks. */
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
