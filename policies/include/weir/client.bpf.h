/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who takes part where CPU time is shared, and how those are put in line who do.
 *
 * 1. Threads of the kernel that belong to one CPU are no clients: they run at once. Else the kernel itself would wait for
 *    quanta of 100 ms.
 * 2. Whoever is put in line tells one idle CPU that it may use.
 */
#ifndef WEIR_CLIENT_BPF_H
#define WEIR_CLIENT_BPF_H

#include "scx.bpf.h"

/* 1 */
static __always_inline bool is_client(const struct task_struct *p)
{
	return !(p->flags & PF_KTHREAD) || p->nr_cpus_allowed != 1;
}

/* 1: before whoever runs there. */
static __always_inline void run_at_once(struct task_struct *p, u64 slice_ns, u64 enq_flags)
{
	dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags | SCX_ENQ_PREEMPT);
}

/* 2: whether there was one. */
static __always_inline bool tell_idle_cpu(struct task_struct *p)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (cpu < 0)
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

#endif
