/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Orders tasks by their time of insertion according to both clocks, and checks that no clock goes
 * back.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED 7

u64 last;

static u64 look(void)
{
	u64 now = now_ns();

	if (now < last)
		scx_error("%llu after %llu", now, last);
	if (now != bpf_ktime_get_ns())
		scx_error("two clocks, and one shows %llu", now);
	last = now;
	return now;
}

OP2(void, clock_enqueue, struct task_struct *, p, u64, enq_flags)
{
	dsq_insert_by_key(p, SHARED, SCX_SLICE_DFL, look(), enq_flags);
}

OP2(void, clock_dispatch, s32, cpu, struct task_struct *, prev)
{
	look();
	dsq_move_to_local(SHARED);
}

OP1(void, clock_tick, struct task_struct *, p)
{
	look();
}

SLEEPABLE_OP0(s32, clock_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SCHEDULER(clock_ops,
	.enqueue = (void *)clock_enqueue,
	.dispatch = (void *)clock_dispatch,
	.tick = (void *)clock_tick,
	.init = (void *)clock_init,
	.name = "clock",
);
