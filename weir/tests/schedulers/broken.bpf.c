/* SPDX-License-Identifier: GPL-2.0-only */
/* Schedulers that the kernel ejects, one for each macro: LAZY never dispatches, COMPLAINS calls scx_bpf_error(),
 * WILD writes through a null pointer, ENDLESS never returns.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

OP2(void, broken_enqueue, struct task_struct *, p, u64, enq_flags)
{
#if defined(LAZY)
	dsq_insert(p, 0, SCX_SLICE_DFL, enq_flags);
#elif defined(COMPLAINS)
	scx_error("cannot place pid %d", p->pid);
#elif defined(WILD)
	struct task_struct *volatile missing = NULL;

	missing->scx.slice = 1;
#elif defined(ENDLESS)
	volatile u64 turns = 1;

	while (turns)
		turns |= 1;
#endif
}

SLEEPABLE_OP0(s32, broken_init)
{
	return scx_bpf_create_dsq(0, -1);
}

OP1(void, broken_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(broken_ops,
	.enqueue = (void *)broken_enqueue,
	.init = (void *)broken_init,
	.exit = (void *)broken_exit,
	.name = "broken",
);
