/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who takes part where CPU time is shared, and how those are put in line who do.
 *
 * 1. Threads of the kernel that belong to one CPU are no clients: they run at once. Else the kernel itself would wait for
 *    quanta of 100 ms. Where there is only one CPU, all tasks are bound to it, and what tells is a flag that the kernel keeps
 *    to itself (kthread_is_per_cpu()): threads that work for long, such as those that look for memory, do not have it.
 * 2. Whoever is put in line tells one idle CPU that it may use.
 * 3. A task that wakes goes to an idle CPU. The kernel can be mistaken there: a real-time task was faster, or the scheduler
 *    has just been loaded, when every CPU counts as idle that has not idled since. Since 7.1 it brings the task back then
 *    (SCX_ENQ_IMMED), which tells all CPUs that count as idle: one of them may be. So it does with a task that loses its CPU to
 *    a real-time task.
 */
#ifndef WEIR_CLIENT_BPF_H
#define WEIR_CLIENT_BPF_H

#include "scx.bpf.h"
#include "kthread.bpf.h"

/* 1 */
static __always_inline bool is_client(const struct task_struct *p)
{
	return !is_bound_thread(p);
}

/* 1: before whoever runs there. */
static __always_inline void run_at_once(struct task_struct *p, u64 slice_ns, u64 enq_flags)
{
	dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags | SCX_ENQ_PREEMPT);
}

/* 3: the CPU to which a task goes that wakes. If that idles, it runs there at once. */
static __always_inline s32 go_to_idle_cpu(struct task_struct *p, s32 prev_cpu, u64 wake_flags, u64 slice_ns)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, SCX_ENQ_IMMED);
	return cpu;
}

#define IDLE_TOLD_AT_MOST 64

/* 2, 3: whether there was one. */
static __always_inline bool tell_idle_cpu(struct task_struct *p, u64 enq_flags)
{
	int told, at_most = enq_flags & SCX_ENQ_REENQ ? IDLE_TOLD_AT_MOST : 1;

	for_range(told, 0, at_most) {
		s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (cpu < 0)
			return told > 0;
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	return true;
}

#endif
