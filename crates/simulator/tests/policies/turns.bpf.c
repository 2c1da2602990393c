/* SPDX-License-Identifier: GPL-2.0-only */
/* All tasks have turns of the same length, which can be changed during the run. */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED 7

u64 turn_ns = 40000000;
u64 changes;

struct turn {
	u32 us;
	bool at_once;	/* preempt the task on CPU 0 */
};

SEC("syscall") int set_turn(struct turn *turn)
{
	if (!turn->us)
		return -22; /* EINVAL */
	turn_ns = turn->us * 1000ULL;
	changes++;
	if (turn->at_once)
		scx_bpf_kick_cpu(0, SCX_KICK_PREEMPT);
	return 0;
}

/* Writes to its context, which is read-only. */
SEC("syscall") int scribble(struct turn *turn)
{
	turn->us = 7;
	return 0;
}

OP2(void, turns_enqueue, struct task_struct *, p, u64, enq_flags)
{
	dsq_insert(p, SHARED, turn_ns, enq_flags);
}

OP2(void, turns_dispatch, s32, cpu, struct task_struct *, prev)
{
	dsq_move_to_local(SHARED);
}

SLEEPABLE_OP0(s32, turns_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SCHEDULER(turns_ops,
	.enqueue = (void *)turns_enqueue,
	.dispatch = (void *)turns_dispatch,
	.init = (void *)turns_init,
	.name = "turns",
);
