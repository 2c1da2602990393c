/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * faulty: one shared queue with a fault selected by its launch profile. It has no cpu_offline op, so the kernel ends it
 * with a restart code when a CPU goes offline.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED_DSQ 0

enum fault {
	FAULT_NONE,
	FAULT_DROP_ALL,		/* no task that waits is ever queued */
	FAULT_DROP_ONE,		/* the task `victim` is not */
	FAULT_ERROR,		/* scx_error() */
	FAULT_UNKNOWN_DSQ,	/* an insert into a nonexistent queue */
	FAULT_EXIT,		/* scx_bpf_exit() with a code for a restart */
	FAULT_INIT,		/* init returns -ENOMEM */
	FAULT_UNVERIFIABLE,	/* a read that the verifier does not allow */
	FAULT_MARKED_DROP,	/* a task of nice MARK is never queued */
	FAULT_MARKED_ERROR,	/* such a task is an error */
};

/* Unusual nice value: the first task that takes it triggers the fault. */
#define MARK 17

/* Set by the profile. */
const volatile u32 fault;
const volatile s32 victim;
const volatile u32 exit_takes_ms;	/* at most so long, before the end is recorded */

/* Number of queued tasks, read by a test. */
u64 queued;

static void exit_for_restart(void)
{
	static char format[] = "restart, please: %d";
	u64 data[] = { 7 };

	/* SCX_ECODE_ACT_RESTART, and a user part of 7 */
	scx_bpf_exit_bstr(1LL << 48 | 7, format, data, sizeof(data));
}

/* Without this op the kernel would dispatch to idle CPUs directly, without calling enqueue. */
OP3(s32, faulty_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	return prev_cpu;
}

OP2(void, faulty_enqueue, struct task_struct *, p, u64, enq_flags)
{
	bool marked = p->static_prio == 120 + MARK;

	if (fault == FAULT_DROP_ALL || (fault == FAULT_DROP_ONE && p->pid == victim))
		return;
	if (fault == FAULT_MARKED_DROP && marked)
		return;
	if (fault == FAULT_MARKED_ERROR && marked)
		scx_error("asked to fail by a task of nice %d", MARK);
	__sync_fetch_and_add(&queued, 1);
	if (fault == FAULT_UNKNOWN_DSQ) {
		dsq_insert(p, 0x3039, SCX_SLICE_DFL, enq_flags);
		return;
	}
	if (fault == FAULT_ERROR)
		scx_error("asked to fail, %d and %d", 1, 2);
	if (fault == FAULT_EXIT)
		exit_for_restart();
	if (fault == FAULT_UNVERIFIABLE)
		queued += *(u64 *)(p->pid + 0x1000UL);
	dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);
}

OP2(void, faulty_dispatch, s32, cpu, struct task_struct *, prev)
{
	dsq_move_to_local(SHARED_DSQ);
}

SLEEPABLE_OP0(s32, faulty_init)
{
	return fault == FAULT_INIT ? -12 : scx_bpf_create_dsq(SHARED_DSQ, -1);
}

static long (*const bpf_loop)(u32 rounds, void *callback, void *context, u64 flags) = (void *)181;

static long is_time_up(u64 round, u64 *until)
{
	return bpf_ktime_get_ns() >= *until;
}

OP1(void, faulty_exit, struct scx_exit_info *, info)
{
	u64 until = bpf_ktime_get_ns() + exit_takes_ms * 1000000ULL;

	/* Maximum number of iterations that a kernel allows. */
	if (exit_takes_ms)
		bpf_loop(1 << 23, is_time_up, &until, 0);
	record_exit(info);
}

SCHEDULER(faulty_ops,
	.select_cpu = (void *)faulty_select_cpu,
	.enqueue = (void *)faulty_enqueue,
	.dispatch = (void *)faulty_dispatch,
	.init = (void *)faulty_init,
	.exit = (void *)faulty_exit,
	.name = "faulty",
);
