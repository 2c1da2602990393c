/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every task is placed on its previous CPU at wakeup; a single optional kick decides whether other
 * CPUs are used.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED 7

extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags) __ksym;

const volatile bool kick = false;

OP3(s32, nokick_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	return prev_cpu;
}

OP2(void, nokick_enqueue, struct task_struct *, p, u64, enq_flags)
{
	s32 cpu;

	dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
	if (!kick)
		return;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

OP2(void, nokick_dispatch, s32, cpu, struct task_struct *, prev)
{
	dsq_move_to_local(SHARED);
}

SLEEPABLE_OP0(s32, nokick_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SCHEDULER(nokick_ops,
	.select_cpu = (void *)nokick_select_cpu,
	.enqueue = (void *)nokick_enqueue,
	.dispatch = (void *)nokick_dispatch,
	.init = (void *)nokick_init,
	.name = "nokick",
);
