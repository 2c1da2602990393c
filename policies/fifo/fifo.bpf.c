/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fifo: one shared queue, first come, first served.
 *
 * 1. Every waiting task is in one DSQ. A CPU that becomes free takes the first task that may run
 *    there. So no CPU idles while a runnable task waits, and no task waits longer than the tasks
 *    ahead of it take.
 * 2. A task runs for at most one default slice (20 ms) and then goes to the tail of the queue.
 * 3. If a CPU is idle when a task wakes or its slice ends, the task goes straight to that CPU and
 *    bypasses the queue: no task in the queue may run on that CPU.
 * 4. The kernel's idle mask can be stale: a real-time task may have taken the CPU, and right after
 *    the scheduler is loaded each CPU that has not been idle since counts as idle. Since 7.1 the
 *    kernel then reenqueues the task, and the next CPU is tried. The kernel also reenqueues a task
 *    that loses its CPU to a real-time task.
 * 5. Nothing else. Nice values have no effect, and a waking task never preempts another.
 *
 * Lesson: the four ops that nearly every scheduler implements, in the order in which a task meets
 * them. Cost: all CPUs share the lock of one DSQ, and a task may migrate with every slice.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

/* A scheduler may choose any DSQ id below 2^63. */
#define SHARED_DSQ 0

/*
 * Chooses a CPU for a waking task. The kernel's default search claims an idle one: the previous CPU
 * first, then near ones.
 */
OP3(s32, fifo_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, SCX_ENQ_IMMED);
	return cpu;
}

/*
 * The slice is over, or the CPU was not idle after all: try another idle CPU, otherwise queue the
 * task. A task that has just woken is queued at once, as no CPU was idle. The second search follows
 * the insert, because a CPU that became idle in between has found the queue empty.
 */
OP2(void, fifo_enqueue, struct task_struct *, p, u64, enq_flags)
{
	s32 cpu = enq_flags & SCX_ENQ_WAKEUP ? -1 : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (cpu >= 0) {
		dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, SCX_SLICE_DFL, enq_flags | SCX_ENQ_IMMED);
		return;
	}
	dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* The CPU needs a task. If the queue has none, the kernel lets `prev` continue. */
OP2(void, fifo_dispatch, s32, cpu, struct task_struct *, prev)
{
	dsq_move_to_local_as(SHARED_DSQ, SCX_ENQ_IMMED);
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
