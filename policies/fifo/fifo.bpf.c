/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fifo: one shared queue, first come, first served.
 *
 * 1. Every task that waits stands in one queue. Whichever CPU becomes free takes the first task that may run there.
 *    So no CPU idles while a task waits, and nobody waits longer than the tasks before it take.
 * 2. A task runs for at most one default slice (20 ms) and then goes to the end of the queue.
 * 3. If a CPU is idle when a task wakes, the task goes straight to it and skips the queue: nobody stands before it.
 * 4. A task whose slice is over stands in line because another one has its CPU now: if some CPU idles, that is told to come.
 *    It happens beside tasks that may run on few CPUs only, for which the idle ones had no use.
 * 5. There is nothing else. Tasks are equal, whatever their nice value; a task that wakes never interrupts another.
 *
 * What it teaches: the four ops that nearly every scheduler has, in the order in which a task meets them. What it
 * costs: all CPUs share the lock of one queue, and a task may change its CPU with every slice.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

/* Numbers of queues are ours to choose below 2^63. */
#define SHARED_DSQ 0

/* A task wakes: choose its CPU. The kernel's own search claims an idle one, the last CPU first, then near ones. */
OP3(s32, fifo_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	return cpu;
}

/* Nothing was idle when it woke, or its slice is over: it stands in line. Only in the first case somebody has just looked. */
OP2(void, fifo_enqueue, struct task_struct *, p, u64, enq_flags)
{
	s32 cpu;

	dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);
	if (enq_flags & SCX_ENQ_WAKEUP)
		return;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* A CPU needs work. If the queue has none, the kernel lets `prev` go on. */
OP2(void, fifo_dispatch, s32, cpu, struct task_struct *, prev)
{
	dsq_move_to_local(SHARED_DSQ);
}

SLEEPABLE_OP0(s32, fifo_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

OP1(void, fifo_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(fifo_ops,
	.select_cpu = (void *)fifo_select_cpu,
	.enqueue = (void *)fifo_enqueue,
	.dispatch = (void *)fifo_dispatch,
	.init = (void *)fifo_init,
	.exit = (void *)fifo_exit,
	.name = "fifo",
);
