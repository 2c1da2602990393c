/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counts the dispatch calls in two ways: by an atomic instruction, and by reading the number,
 * looking for work, and writing it. Where CPUs wait for a lock in between, the second count loses
 * updates.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED 7

u64 exact;
u64 tally;

OP2(void, tally_enqueue, struct task_struct *, p, u64, enq_flags)
{
	dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
}

OP2(void, tally_dispatch, s32, cpu, struct task_struct *, prev)
{
	u64 read = tally;

	__sync_fetch_and_add(&exact, 1);
	dsq_move_to_local(SHARED);
	tally = read + 1;
}

SLEEPABLE_OP0(s32, tally_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SCHEDULER(tally_ops,
	.enqueue = (void *)tally_enqueue,
	.dispatch = (void *)tally_dispatch,
	.init = (void *)tally_init,
	.name = "tally",
);
