/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weights: a task's share of its CPU is proportional to its weight.
 *
 * 1. Each nice value has a weight, 1024 for nice 0. One step changes the weight by a factor of
 *    about 1.25, so that of two tasks one gets 10 % more and the other 10 % less. The 40 values are
 *    those of all kernels with CFS (`sched_prio_to_weight`). They are data: no formula gives them,
 *    and the factors lie between 1.20 and 1.28.
 * 2. SCHED_IDLE has the weight 3, whatever its nice value.
 * 3. Virtual time is computed by a division. The kernels multiply by 2^32 / weight, which they
 *    store beside each weight because divisions were slow. The difference is below one millionth.
 */
#ifndef CFS_WEIGHT_BPF_H
#define CFS_WEIGHT_BPF_H

#include <weir/scx.bpf.h>

#define NICE_LEVELS 40
#define NICE_0_WEIGHT 1024
#define IDLE_WEIGHT 3

/* 1: weight by nice + 20. */
static const u32 weights[NICE_LEVELS] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
	9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
	1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
	110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
};

static __always_inline u32 weight_of(const struct task_struct *p)
{
	u32 level = p->static_prio - 100;

	if (p->policy == SCHED_IDLE)
		return IDLE_WEIGHT;
	return level < NICE_LEVELS ? weights[level] : NICE_0_WEIGHT;
}

/* 3: virtual time of `ns` of CPU time. */
static __always_inline u64 weighed(u64 ns, u32 weight)
{
	return ns * NICE_0_WEIGHT / (weight ? weight : 1);
}

#endif
