/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPU hotplug, for schedulers that keep waiting tasks in DSQs of their own.
 *
 * 1. A kick is sent through an interrupt that the kicking CPU sends to itself. A CPU that is going
 *    offline no longer receives it, and the kernel (up to 7.2 at least) then waits for it forever:
 *    later kicks from that CPU are lost, and the scheduler cannot even be unloaded. So a CPU that
 *    is going offline kicks no other CPU.
 * 2. A CPU that is going offline sleeps until its runqueue counts no task, and checks that only
 *    when it picks a task. A waiting task is counted at the runqueue on which it was enqueued. When
 *    another CPU takes such a task it must kick the first CPU, which otherwise sleeps forever (seen
 *    in 6.16 to 6.19).
 * 3. It must also give away the tasks that its runqueue counts, but kernels without "Fix CPU
 *    hotplug hang when a dying CPU's tasks sit in the BPF scheduler" (in 6.12 since 6.12.114) no
 *    longer let it take tasks from the scheduler's DSQs. A task that is pinned to this CPU can run
 *    nowhere else, so the CPU would never go offline. Such a CPU still consumes the global DSQ.
 * 4. A CPU that comes online but is missing from the topology tables would never be found idle: the
 *    scheduler is reloaded.
 */
#ifndef WEIR_HOTPLUG_BPF_H
#define WEIR_HOTPLUG_BPF_H

#include "topology.bpf.h"

/* The CPU is going offline, or is offline. */
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

/* 2: the task is counted at the runqueue of `cpu` from now on. */
static __always_inline void count_at(s32 *counted_at, s32 cpu)
{
	s32 before = *counted_at;

	*counted_at = cpu;
	if (before != cpu && is_leaving(before))
		kick(before, SCX_KICK_IDLE);
}

#ifdef __bpf__
/* 3: moves the tasks counted at `cpu` from this DSQ to the global one. */
static __always_inline void give_away(s32 cpu, u64 dsq_id)
{
	struct task_struct *p;

	for_each_queued(p, dsq_id) {
		if (scx_bpf_task_cpu(p) == cpu)
			dsq_move(&p_it, p, SCX_DSQ_GLOBAL);
	}
}

/* The same for a DSQ that only this CPU consumes. */
static __always_inline void give_all_away(u64 dsq_id)
{
	struct task_struct *p;

	for_each_queued(p, dsq_id)
		dsq_move(&p_it, p, SCX_DSQ_GLOBAL);
}
#endif

/* 4: returns whether the topology tables contain the CPU. */
static __always_inline bool mark_online(s32 cpu)
{
	WRITE_ONCE(leaving[cpu & MAX_CPU_MASK], false);
	return has_place(cpu);
}

static __always_inline void mark_offline(s32 cpu)
{
	WRITE_ONCE(leaving[cpu & MAX_CPU_MASK], true);
}

#endif
