/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that come and go, for schedulers whose tasks wait in queues of their own.
 *
 * 1. A kick travels through an interrupt that this CPU sends to itself. One that is on its way offline no longer
 *    receives it, and the kernel (up to 7.2 at least) then waits for it for ever: no later kick from that CPU would
 *    arrive either, and the scheduler could not even be unloaded. So such a CPU kicks nobody.
 * 2. A CPU on its way offline sleeps until no task is counted at it, and looks for that only when it picks a task. A task
 *    that waits is counted where it was queued. Another CPU takes it, and must say so, or the first one sleeps for ever
 *    (seen in 6.16 to 6.19).
 * 3. It must also give away the tasks that are counted at it, but kernels without "Fix CPU hotplug hang when a dying
 *    CPU's tasks sit in the BPF scheduler" (in 6.12 since 6.12.114) no longer let it look into the scheduler's queues.
 *    No other CPU can take a task that may run on this one alone, so it would never go. It still looks into the kernel's
 *    own queue.
 * 4. A CPU that comes and that the tables do not know would never be found idle: the scheduler is loaded anew.
 */
#ifndef WEIR_HOTPLUG_BPF_H
#define WEIR_HOTPLUG_BPF_H

#include "topology.bpf.h"

/* On its way offline, or there. */
bool leaving[MAX_CPUS];

static __always_inline bool is_leaving(s32 cpu)
{
	return READ_ONCE(leaving[cpu & MAX_CPU_MASK]);
}

/* 1 */
static __always_inline void kick(s32 cpu, u64 flags)
{
	if (!is_leaving(bpf_get_smp_processor_id()))
		scx_bpf_kick_cpu(cpu, flags);
}

/* 2: the task is counted at `cpu` from now on. */
static __always_inline void count_at(s32 *counted_at, s32 cpu)
{
	s32 before = *counted_at;

	*counted_at = cpu;
	if (before != cpu && is_leaving(before))
		kick(before, SCX_KICK_IDLE);
}

#ifdef __bpf__
/* 3: what is counted at `cpu` leaves this queue for the kernel's own. */
static __always_inline void give_away(s32 cpu, u64 dsq_id)
{
	struct task_struct *p;

	for_each_queued(p, dsq_id) {
		if (scx_bpf_task_cpu(p) == cpu)
			dsq_move(&p_it, p, SCX_DSQ_GLOBAL);
	}
}

/* The same for a queue into which only this CPU looks. */
static __always_inline void give_all_away(u64 dsq_id)
{
	struct task_struct *p;

	for_each_queued(p, dsq_id)
		dsq_move(&p_it, p, SCX_DSQ_GLOBAL);
}
#endif

/* 4: whether it may come. */
static __always_inline bool cpu_comes(s32 cpu)
{
	WRITE_ONCE(leaving[cpu & MAX_CPU_MASK], false);
	return has_place(cpu);
}

static __always_inline void cpu_goes(s32 cpu)
{
	WRITE_ONCE(leaving[cpu & MAX_CPU_MASK], true);
}

#endif
