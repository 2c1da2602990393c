// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records what a process tree does with its CPUs, and why it stops. See tree.bpf.h for what it shares with the meter.
 *
 * 1. Preemptions need no events: they do not change what a task does, and positions are in CPU time. Tasks outside the
 *    tree cost one failed lookup per switch.
 * 2. One event per sleep. The wakeup's cause is noted in the sleeper at sched_waking, where the waker is still
 *    `current` and the context is the waker's. The event is sent when the sleeper runs again, so a wakeup of a task
 *    that had not left its CPU yet sends nothing.
 * 3. What the schedule costs the tasks is counted: how often each got a CPU, and how many interrupts it sent to other CPUs,
 *    which on a virtual machine take many times as long as the wakeup that needs them.
 * 4. A kernel may keep its tracepoints quiet while certain tasks have a CPU: see meter.bpf.c. A task that runs without
 *    having been seen to wake was woken, by nobody in the tree, when it got its CPU; and one that was not seen to get
 *    its CPU got it as long ago as it has run since.
 */
#include "tree.bpf.h"

enum {
	ARGUMENTS_MAX = 4096, /* bytes of a command line that are kept */
};

/* The scheduler counts the CPU time of a task that runs at each tick, of which the slowest kernels have 100 a second. */
enum {
	TICK_MAX_NS = 10000000,
};

struct sleep {
	struct head head;
	__u64 wake_ns;
	__u64 waker_work_ns;
	__u32 waker;
	__u32 flags;
	__u32 switches; /* how often the task had got a CPU when it fell asleep */
	__u32 interrupts; /* and how many interrupts it had sent to other CPUs */
	__u32 cpu;        /* the one that it left */
	__u32 unused;
};

struct end {
	struct head head;
	__u32 switches;
	__u32 interrupts;
};

struct exec {
	struct head head;
	__u64 utime_ns;
	__u64 stime_ns;
	char comm[COMM_LENGTH];
	__u32 length; /* of the whole command line; `arguments` may hold less */
	__u32 kept;
	char arguments[ARGUMENTS_MAX];
};

struct exit {
	struct head head;
	__u64 utime_ns;
	__u64 stime_ns;
	__u64 peak_rss_pages;
	char comm[COMM_LENGTH];
};

struct note {
	struct member member;
	__u32 waker;
	__u32 wake_flags;
	__u32 switches;   /* how often it got a CPU */
	__u32 interrupts; /* sent to other CPUs in its own context */
	__u64 switched_in_ns;
	__u64 work_ns; /* at that time */
	/* The sleep that has begun. */
	__u64 blocked_ns;
	__u64 blocked_work_ns;
	__u32 blocked; /* whether one has, and has not been reported */
	__u32 flags;
	__u32 blocked_cpu;
	__u32 unused;
	/* The last wakeup. */
	__u64 wake_ns;
	__u64 waker_work_ns;
	__u64 peak_at_exec_pages; /* peak RSS of what the process was before its last exec */
};

#include "notes.bpf.h"

/* CPU time of a task that runs now. Too much if it was not seen to get its CPU: then as the scheduler counts. */
static __u64 work_now(struct task_struct *task, struct note *note, __u64 now)
{
	__u64 counted = task->se.sum_exec_runtime, by_clock = note->work_ns + (now - note->switched_in_ns);

	return by_clock > counted + TICK_MAX_NS ? counted : by_clock;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct note *of_parent = note_of(parent), *of_child = note_on_child(child, parent, of_parent);
	__u64 now = bpf_ktime_get_ns();

	if (!of_child)
		return 0;
	of_child->waker = NOBODY;
	report_birth(child, &of_child->member, of_parent ? &of_parent->member : NULL, now,
		     of_parent ? work_now(parent, of_parent, now) : 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, pid_t old_pid)
{
	struct note *note = note_of(task);
	unsigned long start, length;
	struct exec *event;
	__u64 now, work_ns;

	if (!note)
		return 0;
	now = bpf_ktime_get_ns();
	work_ns = work_now(task, note, now);
	event = RESERVE(exec);
	if (!event)
		return 0;
	fill_head(&event->head, KIND_EXEC, note->member.task, now, work_ns);
	event->utime_ns = task->utime;
	event->stime_ns = task->stime;
	bpf_probe_read_kernel(event->comm, COMM_LENGTH, task->comm);
	/* The kernel has just written the arguments to the new stack: the pages are there, and no fault is needed. */
	start = BPF_CORE_READ(task, mm, arg_start);
	length = BPF_CORE_READ(task, mm, arg_end) - start;
	event->length = length;
	if (length > ARGUMENTS_MAX)
		length = ARGUMENTS_MAX;
	event->kept = bpf_probe_read_user(event->arguments, length, (void *)start) ? 0 : length;
	bpf_ringbuf_submit(event, wakeup_flag());
	note->peak_at_exec_pages = task->signal->maxrss;
	if (attributes_differ(task, &note->member))
		report_attributes(task, &note->member, now, work_ns);
	return 0;
}

/*
 * Peak RSS of the program that the process runs. The last thread's do_exit() has raised `maxrss` to the memory's
 * high-water mark by now. But an exec has raised it to that of the parent's memory, which a vfork borrows; a program
 * that stayed below it has only the counters, each exact to some pages a CPU.
 */
static __u64 peak_rss_pages(struct task_struct *task, struct note *note)
{
	__u64 peak = task->signal->maxrss, now, high;
	struct mm_struct *mm = task->mm;

	if (peak > note->peak_at_exec_pages || !mm)
		return peak;
	now = BPF_CORE_READ(mm, rss_stat[MM_FILEPAGES].count) + BPF_CORE_READ(mm, rss_stat[MM_ANONPAGES].count) +
	      BPF_CORE_READ(mm, rss_stat[MM_SHMEMPAGES].count);
	high = BPF_CORE_READ(mm, hiwater_rss);
	return now > high ? now : high;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct note *note = note_of(task);
	struct exit *event;
	__u64 now;

	if (!note)
		return 0;
	now = bpf_ktime_get_ns();
	event = RESERVE(exit);
	if (!event)
		return 0;
	fill_head(&event->head, KIND_EXIT, note->member.task, now, work_now(task, note, now));
	event->utime_ns = task->utime;
	event->stime_ns = task->stime;
	event->peak_rss_pages = peak_rss_pages(task, note);
	bpf_probe_read_kernel(event->comm, COMM_LENGTH, task->comm);
	bpf_ringbuf_submit(event, wakeup_flag());
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct note *note = note_of(task), *of_waker;
	struct task_struct *current;
	__u64 now;

	if (!note)
		return 0;
	now = bpf_ktime_get_ns();
	current = bpf_get_current_task_btf();
	of_waker = note_waker(note, current, now);
	note->waker_work_ns = of_waker ? work_now(current, of_waker, now) : 0;
	return 0;
}

/* The sleep of a task that runs again. */
static void report_sleep(struct task_struct *task, struct note *note, __u64 now)
{
	struct sleep *event = RESERVE(sleep);
	bool seen = note->wake_ns >= note->switched_in_ns;

	note->blocked = 0;
	if (!event)
		return;
	fill_head(&event->head, KIND_SLEEP, note->member.task, note->blocked_ns, note->blocked_work_ns);
	event->wake_ns = seen ? note->wake_ns : now - (task->se.sum_exec_runtime - note->blocked_work_ns);
	event->waker_work_ns = seen ? note->waker_work_ns : 0;
	event->waker = seen ? note->waker : NOBODY;
	event->flags = note->flags | (seen ? note->wake_flags : WAKE_UNSEEN);
	event->switches = note->switches;
	event->interrupts = note->interrupts;
	event->cpu = note->blocked_cpu;
	event->unused = 0;
	bpf_ringbuf_submit(event, wakeup_flag());
}

static void switch_out(struct task_struct *task, struct note *note, unsigned int state)
{
	__u64 now = bpf_ktime_get_ns(), work_ns = task->se.sum_exec_runtime;
	struct end *event;

	if (note->blocked)
		report_sleep(task, note, now);
	if (attributes_differ(task, &note->member))
		report_attributes(task, &note->member, now, work_ns);
	if (state & TASK_DEAD) {
		event = RESERVE(end);
		if (!event)
			return;
		fill_head(&event->head, KIND_END, note->member.task, now, work_ns);
		event->switches = note->switches;
		event->interrupts = note->interrupts;
		bpf_ringbuf_submit(event, wakeup_flag());
		return;
	}
	/* No wakeup has cleared its state, so it was a signal: it does not sleep. */
	if (!task->__state && note->wake_ns < note->switched_in_ns)
		return;
	note->blocked = 1;
	note->blocked_ns = now;
	note->blocked_work_ns = work_ns;
	note->blocked_cpu = bpf_get_smp_processor_id();
	note->flags = sleep_flags(task, state);
}

static void switch_in(struct task_struct *task, struct note *note)
{
	__u64 now = bpf_ktime_get_ns();

	if (note->blocked)
		report_sleep(task, note, now);
	note->switches++;
	note->switched_in_ns = now;
	note->work_ns = task->se.sum_exec_runtime;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	struct note *note;

	if (!preempted && state) {
		note = note_of(prev);
		if (note)
			switch_out(prev, note, state);
	}
	note = note_of(next);
	if (note)
		switch_in(next, note);
	return 0;
}

/* Whoever has the CPU pays for it, also in an interrupt of its own. */
SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(on_interrupt_sent, unsigned int cpu)
{
	struct note *note = note_of(bpf_get_current_task_btf());

	if (note)
		note->interrupts++;
	return 0;
}
