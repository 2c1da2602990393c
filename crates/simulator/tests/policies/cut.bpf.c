/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Woken tasks get an infinite slice. When another task starts running elsewhere, it sets the slice
 * of the task on CPU 1 to 0 without a kick: the next tick there notices.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED 7
#define CUT_CPU 1
#define INFINITE (~0ULL)

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

s32 running_pid;

OP2(void, cut_enqueue, struct task_struct *, p, u64, enq_flags)
{
	dsq_insert(p, SHARED, INFINITE, enq_flags);
}

OP1(void, cut_running, struct task_struct *, p)
{
	struct task_struct *victim;

	if (bpf_get_smp_processor_id() == CUT_CPU) {
		running_pid = p->pid;
		return;
	}
	victim = bpf_task_from_pid(running_pid);
	if (!victim)
		return;
	victim->scx.slice = 0;
	bpf_task_release(victim);
}

OP2(void, cut_dispatch, s32, cpu, struct task_struct *, prev)
{
	dsq_move_to_local(SHARED);
}

SLEEPABLE_OP0(s32, cut_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SCHEDULER(cut_ops,
	.enqueue = (void *)cut_enqueue,
	.running = (void *)cut_running,
	.dispatch = (void *)cut_dispatch,
	.init = (void *)cut_init,
	.name = "cut",
);
