/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * SCHED_IDLE as a level of its own: its tasks run only when no other task wants the CPU.
 *
 * 1. They wait in a DSQ of their own, ordered by deadline, which is tried last. An exiting task is
 *    not at this level, because others may wait for resources that it holds.
 * 2. The kernel ejects a scheduler that lets a task wait for 30 s. So where other tasks want the
 *    CPU, the first waiting task is promoted: it runs before them for 2 ms, and its slice is then
 *    used up. One task is promoted at a time, often enough that each gets its 2 ms within 8 s. The
 *    first task in an empty queue waits for 8 s.
 * 3. No task overtakes the first one, even if that one may not run on this CPU: otherwise a pinned
 *    task could starve.
 *
 * Before including this, a policy defines IDLE_DSQ (a DSQ that it creates), ON_PROMOTION(p), and
 * POLICY_NOW() (its clock).
 */
#ifndef WEIR_IDLE_LEVEL_BPF_H
#define WEIR_IDLE_LEVEL_BPF_H

#include "deadline.bpf.h"

#define IDLE_LEVEL (1ULL << 62)	/* later than any deadline */
#define IDLE_ROUND_NS (8 * 1000000000ULL)
#define IDLE_SLICE_NS (2 * MS_NS)

u64 next_promotion;

static __always_inline bool is_idle_level(struct task_struct *p)
{
	return p->policy == SCHED_IDLE && !(p->flags & PF_EXITING);
}

/* The deadline with the level in its top bits: the smaller key runs first. */
static __always_inline u64 with_level(struct task_struct *p, u64 deadline)
{
	return deadline | (is_idle_level(p) ? IDLE_LEVEL : 0);
}

/* Inserts `p` into the DSQ of its level. */
static __always_inline void insert_by_level(struct task_struct *p, u64 normal_dsq, struct budget *t, u64 enq_flags)
{
	u64 dsq_id = is_idle_level(p) ? IDLE_DSQ : normal_dsq;

	if (dsq_id == IDLE_DSQ && scx_bpf_dsq_nr_queued(IDLE_DSQ) == 0)
		WRITE_ONCE(next_promotion, POLICY_NOW() + IDLE_ROUND_NS);
	dsq_insert_by_key(p, dsq_id, t->slice_ns, t->deadline, enq_flags);
}

/* 2, 3: returns whether a task was promoted to `cpu`. */
static __noinline bool promote(s32 cpu, u64 now)
{
	u32 waiting = scx_bpf_dsq_nr_queued(IDLE_DSQ);
	struct task_struct *p;

	if (waiting == 0 || now < READ_ONCE(next_promotion))
		return false;
	for_each_queued(p, IDLE_DSQ) {
		u64 period = IDLE_ROUND_NS / waiting;

		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || !dsq_move(&p_it, p, SCX_DSQ_LOCAL))
			return false;
		ON_PROMOTION(p);
		WRITE_ONCE(next_promotion, now + (period > 2 * IDLE_SLICE_NS ? period : 2 * IDLE_SLICE_NS));
		return true;
	}
	return false;
}

#endif
