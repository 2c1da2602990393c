/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * SMT-nice: a light task does not slow down a heavy one from the sibling thread of its core.
 *
 * 1. A task has a weight: 40 for nice -20 down to 1 for nice 19, and 0 for SCHED_IDLE and kthreads.
 *    The weight drops by one with every slice and starts over after 1.
 * 2. A task must not run beside a sibling whose task is heavier, unless the heavier weight modulo 4
 *    is 1. As weights count down, light tasks get a quarter of the slices beside a heavy one.
 *    Kthreads run anywhere.
 * 3. When the weight on a CPU changes, siblings whose task has become too light pick again, and
 *    idle siblings look for tasks that may run now.
 */
#ifndef WEIR_SMT_NICE_BPF_H
#define WEIR_SMT_NICE_BPF_H

#include "deadline.bpf.h"
#include "hotplug.bpf.h"

RODATA bool smt_nice = false;

/* The task that runs on a CPU. */
struct smt_load {
	u32 weight;
	bool busy;
	bool indifferent;	/* a kthread */
};

struct smt_load smt_loads[MAX_CPUS];

static __always_inline struct smt_load *smt_load_of(s32 cpu)
{
	return &smt_loads[cpu & MAX_CPU_MASK];
}

/* 1 */
static __always_inline u32 smt_weight(const struct task_struct *p)
{
	u32 level = p->static_prio - 100;

	if ((p->flags & PF_KTHREAD) || p->policy == SCHED_IDLE)
		return 0;
	return level < NICE_LEVELS ? NICE_LEVELS - level : 1;
}

static __always_inline u32 smt_weight_after_slice(const struct task_struct *p, u32 weight)
{
	return weight > 1 ? weight - 1 : smt_weight(p);
}

/* 2 */
static __always_inline bool outweighs(u32 sibling, u32 weight)
{
	return sibling > weight && sibling % 4 != 1;
}

/* Returns whether a heavier task on a sibling keeps `p` from running on `cpu`. */
static __noinline bool is_outweighed(struct task_struct *p, u32 weight, s32 cpu)
{
	u32 heaviest = 0;
	s32 steps, sibling;

	if (p->flags & PF_KTHREAD)
		return false;
	for_each_sibling(steps, sibling, cpu) {
		u32 other = READ_ONCE(smt_load_of(sibling)->weight);

		heaviest = other > heaviest ? other : heaviest;
	}
	return outweighs(heaviest, weight);
}

static __noinline void kick_siblings(s32 cpu, u32 weight)
{
	s32 steps, sibling;

	for_each_sibling(steps, sibling, cpu) {
		const struct smt_load *load = smt_load_of(sibling);

		if (!READ_ONCE(load->busy))
			kick(sibling, SCX_KICK_IDLE);
		else if (!load->indifferent && outweighs(weight, READ_ONCE(load->weight)))
			kick(sibling, SCX_KICK_PREEMPT);
	}
}

/* 3: `p` runs on `cpu` from now on. */
static __always_inline void smt_runs(const struct task_struct *p, u32 weight, s32 cpu)
{
	struct smt_load *load = smt_load_of(cpu);
	u32 before = load->weight;

	if (!smt_nice)
		return;
	load->busy = true;
	load->indifferent = (p->flags & PF_KTHREAD) != 0;
	WRITE_ONCE(load->weight, weight);
	if (weight != before)
		kick_siblings(cpu, weight);
}

/* 3: `cpu` becomes idle. */
static __always_inline void smt_idles(s32 cpu)
{
	struct smt_load *load = smt_load_of(cpu);
	u32 before = load->weight;

	if (!smt_nice)
		return;
	load->busy = load->indifferent = false;
	WRITE_ONCE(load->weight, 0);
	if (before)
		kick_siblings(cpu, 0);
}

#endif
