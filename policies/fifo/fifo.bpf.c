/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fifo: one shared queue, first come, first served.
 *
 * 1. Every task that waits stands in one queue. Whichever CPU becomes free takes the first task that may run there.
 *    So no CPU idles while a task waits, and nobody waits longer than the tasks before it take.
 * 2. A task runs for at most one default slice (20 ms) and then goes to the end of the queue.
 * 3. If a CPU idles when a task wakes or its slice ends, the task goes straight to it and skips the queue: who stands there may
 *    not run on that CPU.
 * 4. The kernel can be mistaken about that: a real-time task was faster, or the scheduler has just been loaded, when every
 *    CPU counts as idle that has not idled since. Since 7.1 it brings the task back then, and the next CPU is tried. So it does
 *    with a task that loses its CPU to a real-time task.
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
		dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, SCX_ENQ_IMMED);
	return cpu;
}

/*
 * Its slice is over, or the idle CPU was none: is there another? If not, it stands in line. Who has just woken does so at once:
 * nothing was idle. The last look comes after that, as a CPU that began to idle in between has found the queue empty.
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

/* A CPU needs work. If the queue has none, the kernel lets `prev` go on. */
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
