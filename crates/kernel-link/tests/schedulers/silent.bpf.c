/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * silent: one shared queue without an exit op, so that its exit is only in the kernel log. It uses the kernel
 * configuration: a number that every kernel has, and a switch that none has.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED_DSQ 0

extern int CONFIG_HZ __kconfig;
extern bool CONFIG_WEIR_IS_IN_NO_KERNEL __kconfig __attribute__((weak));

/* Set by the profile: waiting tasks are never queued. */
const volatile bool drop;

/* Configuration values for a test: HZ, plus 100000 if the unknown switch is set. */
u64 configured;

OP2(void, silent_enqueue, struct task_struct *, p, u64, enq_flags)
{
	if (!drop)
		dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);
}

OP2(void, silent_dispatch, s32, cpu, struct task_struct *, prev)
{
	dsq_move_to_local(SHARED_DSQ);
}

SLEEPABLE_OP0(s32, silent_init)
{
	configured = CONFIG_HZ + (CONFIG_WEIR_IS_IN_NO_KERNEL ? 100000 : 0);
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

SCHEDULER(silent_ops,
	.enqueue = (void *)silent_enqueue,
	.dispatch = (void *)silent_dispatch,
	.init = (void *)silent_init,
	.name = "silent",
);
