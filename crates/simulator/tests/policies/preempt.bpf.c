/* SPDX-License-Identifier: GPL-2.0-only */
/* Tasks with a negative nice value preempt at once; the others share one queue. */
#include <weir/scx.bpf.h>

LICENSE("GPL");

SCX_CONSTANT(ENQ_PREEMPT);

#define SHARED 7

OP2(void, preempt_enqueue, struct task_struct *, p, u64, enq_flags)
{
	if (p->static_prio < 120)
		dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags | __SCX_ENQ_PREEMPT);
	else
		dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
}

OP2(void, preempt_dispatch, s32, cpu, struct task_struct *, prev)
{
	dsq_move_to_local(SHARED);
}

SLEEPABLE_OP0(s32, preempt_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SCHEDULER(preempt_ops,
	.enqueue = (void *)preempt_enqueue,
	.dispatch = (void *)preempt_dispatch,
	.init = (void *)preempt_init,
	.name = "preempt",
);
