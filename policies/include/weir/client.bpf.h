/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Clients: the tasks that share CPU time, and how a client is enqueued.
 *
 * 1. Per-CPU kthreads are not clients and run at once; otherwise the kernel itself would wait for
 *    quanta of 100 ms. The test is kthread_is_per_cpu(), not the mask: on a machine with one CPU
 *    every task is pinned. Long-running kthreads, such as those that reclaim memory, are not
 *    per-CPU and therefore are clients.
 * 2. Enqueueing a client kicks one idle CPU in its mask.
 * 3. A waking task goes to an idle CPU. The kernel's idle mask can be stale: a real-time task may
 *    have taken the CPU, and right after the scheduler is loaded each CPU that has not been idle
 *    since counts as idle. Since 7.1 the kernel then reenqueues the task (SCX_ENQ_IMMED), as it
 *    does when a real-time task takes the CPU. A reenqueued task kicks all CPUs that count as idle,
 *    up to 64, as any one of them may really be.
 */
#ifndef WEIR_CLIENT_BPF_H
#define WEIR_CLIENT_BPF_H

#include "scx.bpf.h"
#include "kthread.bpf.h"

/* 1 */
static __always_inline bool is_client(const struct task_struct *p)
{
	return !is_per_cpu_kthread(p);
}

/* 1: preempts the running task. */
static __always_inline void run_at_once(struct task_struct *p, u64 slice_ns, u64 enq_flags)
{
	dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags | SCX_ENQ_PREEMPT);
}

/*
 * 3: returns the CPU for a waking task. If that CPU is idle, the task is inserted into its local
 * DSQ.
 */
static __always_inline s32 go_to_idle_cpu(struct task_struct *p, s32 prev_cpu, u64 wake_flags, u64 slice_ns)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, SCX_ENQ_IMMED);
	return cpu;
}

#define MAX_IDLE_KICKS 64

/* 2, 3: returns whether a CPU was idle. */
static __always_inline bool kick_idle_cpu(struct task_struct *p, u64 enq_flags)
{
	int kicked, at_most = enq_flags & SCX_ENQ_REENQ ? MAX_IDLE_KICKS : 1;

	for_range(kicked, 0, at_most) {
		s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (cpu < 0)
			return kicked > 0;
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	return true;
}

#endif
