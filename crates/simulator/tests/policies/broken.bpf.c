/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A scheduler that is correct for 100 wakeups, and then makes one of the mistakes that a kernel
 * detects.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

SCX_CONSTANT(DSQ_LOCAL_ON);

#define SHARED 7
#define RIGHT 100

enum mistake { REPORTS, TWICE, NO_SUCH_QUEUE, FORBIDDEN_CPU, BAD_STORE, ENDLESS, FORGETS, REFUSES_FORKS };

const volatile u32 mistake = REPORTS;

u32 seen;

OP2(void, broken_enqueue, struct task_struct *, p, u64, enq_flags)
{
	if (++seen < RIGHT) {
		dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
		return;
	}
	switch (mistake) {
	case REPORTS:
		scx_error("wakeup %u is one too many", seen);
		break;
	case TWICE:
		dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
		dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
		break;
	case NO_SUCH_QUEUE:
		dsq_insert(p, SHARED + 1, SCX_SLICE_DFL, enq_flags);
		break;
	case FORBIDDEN_CPU:
		dsq_insert(p, __SCX_DSQ_LOCAL_ON | 1, SCX_SLICE_DFL, enq_flags);
		break;
	case BAD_STORE:
		*(volatile u64 *)8 = 1;
		break;
	case ENDLESS:
		for (;;)
			READ_ONCE(seen);
	case FORGETS:
		break;
	default:
		dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
	}
}

OP2(void, broken_dispatch, s32, cpu, struct task_struct *, prev)
{
	dsq_move_to_local(SHARED);
}

SLEEPABLE_OP2(s32, broken_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	return mistake == REFUSES_FORKS && args->fork && seen >= RIGHT ? -12 : 0;
}

SLEEPABLE_OP0(s32, broken_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SCHEDULER(broken_ops,
	.enqueue = (void *)broken_enqueue,
	.dispatch = (void *)broken_dispatch,
	.init_task = (void *)broken_init_task,
	.init = (void *)broken_init,
	.timeout_ms = 3000,
	.name = "broken",
);
