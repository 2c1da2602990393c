// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reports context switches, wakeups and births of a tree of tasks, and idle times and hotplug of all CPUs. tree.bpf.h
 * has the parts shared with the recorder.
 *
 * 1. Every switch to or from a task of the tree or an idle task is sent; switches between other tasks are not.
 * 2. A task is blocked from the switch that took it off its CPU with a state set. Only a wakeup of such a task is
 *    reported: a wakeup of a task that is still runnable changes nothing.
 * 3. A wakeup begins at the waker (sched_waking), not where the task is queued (sched_wakeup): an IPI in between is
 *    part of the latency. But a task that was still being switched out then cannot run before it has left its CPU. The
 *    event is sent at sched_wakeup, when the wakeup is certain and the runqueue is known.
 * 4. A task that goes to sleep can be woken before it is switched out, since the scheduler drops the runqueue lock
 *    while it looks for another task. Then the switch reports a sleep, but the task's state is already cleared. Both
 *    happened.
 * 5. A kernel may suppress tracepoints while certain tasks run. Then a switch from such a task is not seen, nor a
 *    wakeup made by it or by an interrupt meanwhile. If a task leaves a CPU without having been seen to get it, it got
 *    it as long ago as it has run since it left the last one; if a task runs without having been seen to wake, it was
 *    woken by then. Both are reported, and marked as inferred.
 * 6. A kernel may preempt a task inside a program (7.2 does: tracepoint programs no longer disable preemption), and
 *    skips that program's calls by others on that CPU until the task is back. Switches and wakeups, including a
 *    child's first one, have interrupts disabled. A missed rename is reported when its task leaves its CPU.
 */
#include "tree.bpf.h"

enum {
	IDLE_TASK = 0xffffffff,
	OTHER_TASK = 0xfffffffe, /* not in the tree */
};

/* How the previous task left its CPU; combined with the two SLEEP_ flags. */
enum {
	LEFT_BLOCKED = 1 << 8,
	LEFT_DEAD = 1 << 9,
	LEFT_FOR_HIGHER_CLASS = 1 << 10,
	LEFT_AND_WOKEN = 1 << 11, /* it sleeps, and its wakeup has already been seen */
	LEFT_UNSEEN = 1 << 12,	  /* switch not seen; inferred from the CPU time of the next task */
};

/* Tasks of lower priority values are in a real-time class (MAX_RT_PRIO of include/linux/sched/prio.h). */
enum {
	MAX_RT_PRIO = 100,
};

struct switched {
	struct head head; /* `task` runs now; `work_ns` is the CPU time of `previous` */
	__u32 previous;
	__u32 cpu;
	__u32 flags;
	__u32 unused;
};

struct wake {
	struct head head;
	__u32 waker;
	__u32 waker_cpu;
	__u32 target_cpu;
	__u32 flags;
};

struct hotplug {
	struct head head; /* `task` is NOBODY */
	__u32 cpu;
	__u32 online;
};

struct rename {
	struct head head;
	char comm[COMM_LENGTH];
};

struct note {
	struct member member;
	__u64 wake_ns; /* time of the last wakeup; the next three fields belong to it */
	__u32 waker;
	__u32 waker_cpu;
	__u32 wake_flags;
	__u32 blocked;
	__u64 since_ns; /* when it was switched out, or was woken after that */
	__u64 ran_ns;	/* its CPU time when it was switched out */
	__u32 sleep_flags;
	__u32 running;
	__u32 early; /* a wakeup came while it was on its CPU */
	__u32 unused;
	char comm[COMM_LENGTH]; /* the name that was last reported */
};

#include "notes.bpf.h"
#include "hotplug.bpf.h"

static void cpu_changed(__u32 cpu, bool online)
{
	struct hotplug *event = RESERVE(hotplug);

	if (!event)
		return;
	fill_head(&event->head, KIND_HOTPLUG, NOBODY, bpf_ktime_get_ns(), 0);
	event->cpu = cpu;
	event->online = online;
	bpf_ringbuf_submit(event, wakeup_flag());
}

static void report_rename(struct note *note, __u64 now)
{
	struct rename *event = RESERVE(rename);

	if (!event)
		return;
	fill_head(&event->head, KIND_RENAME, note->member.task, now, 0);
	__builtin_memcpy(event->comm, note->comm, COMM_LENGTH);
	bpf_ringbuf_submit(event, wakeup_flag());
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	struct note *note = note_of(task);

	if (!note)
		return 0;
	__builtin_memset(note->comm, 0, COMM_LENGTH);
	bpf_probe_read_kernel_str(note->comm, COMM_LENGTH, comm);
	report_rename(note, bpf_ktime_get_ns());
	return 0;
}

/* 6: reports a missed rename. The name is loaded as two words. Before 6.2 there are no casts, and no call is missed. */
static void report_missed_rename(struct task_struct *task, struct note *note, __u64 now)
{
	struct timespec64 *name;
	__s64 *known = (__s64 *)note->comm;

	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return;
	name = bpf_core_cast(task->comm, struct timespec64);
	if (name->tv_sec == known[0] && name->tv_nsec == known[1])
		return;
	known[0] = name->tv_sec;
	known[1] = name->tv_nsec;
	report_rename(note, now);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct note *note = note_of(task);

	if (!note)
		return 0;
	note_waker(note, bpf_get_current_task_btf(), bpf_ktime_get_ns());
	note->waker_cpu = bpf_get_smp_processor_id();
	return 0;
}

static void report_wakeup(struct task_struct *task, struct note *note, __u64 time_ns, __u32 flags)
{
	struct wake *event;

	note->blocked = 0;
	note->since_ns = time_ns;
	event = RESERVE(wake);
	if (!event)
		return;
	fill_head(&event->head, KIND_WAKE, note->member.task, time_ns, 0);
	event->waker = note->waker;
	event->waker_cpu = note->waker_cpu;
	event->target_cpu = BPF_CORE_READ(task, thread_info.cpu);
	event->flags = flags;
	bpf_ringbuf_submit(event, wakeup_flag());
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	struct note *note = note_of(task);
	__u64 since;

	if (!note)
		return 0;
	if (!note->blocked) {
		note->early = 1;
		return 0;
	}
	since = note->wake_ns > note->since_ns ? note->wake_ns : note->since_ns;
	report_wakeup(task, note, since, note->wake_flags | note->sleep_flags);
	return 0;
}

/* The parent wakes its new child. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_birth, struct task_struct *child)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct note *of_parent = note_of(parent), *note = note_on_child(child, parent, of_parent);
	__u64 now = bpf_ktime_get_ns();

	if (!note)
		return 0;
	bpf_probe_read_kernel(note->comm, COMM_LENGTH, child->comm);
	note->blocked = 1;
	note->waker = of_parent ? of_parent->member.task : NOBODY;
	note->waker_cpu = bpf_get_smp_processor_id();
	report_birth(child, &note->member, of_parent ? &of_parent->member : NULL, now, 0);
	report_wakeup(child, note, now, WAKE_NEW);
	return 0;
}

static void report_switch(__u32 from, __u32 to, __u64 time_ns, __u64 ran_ns, __u32 flags)
{
	struct switched *event = RESERVE(switched);

	if (!event)
		return;
	fill_head(&event->head, KIND_SWITCH, to, time_ns, ran_ns);
	event->previous = from;
	event->cpu = bpf_get_smp_processor_id();
	event->flags = flags;
	event->unused = 0;
	bpf_ringbuf_submit(event, wakeup_flag());
}

/* A task of the tree is on its CPU since `now`; the switch has been reported. */
static void switch_in(struct task_struct *task, struct note *note, __u64 now)
{
	if (note->blocked) {
		note->waker = NOBODY;
		note->waker_cpu = bpf_get_smp_processor_id();
		report_wakeup(task, note, now, WAKE_UNSEEN | note->sleep_flags);
	}
	note->running = 1;
	note->early = 0;
}

/* A task is switched out that was not seen to be switched in. */
static void infer_switch_in(struct task_struct *task, struct note *note, __u64 now)
{
	__u64 since = now - (task->se.sum_exec_runtime - note->ran_ns);

	/* The scheduler's clock and this clock are not read at the same moment. */
	if (since < note->since_ns)
		since = note->since_ns;
	report_switch(OTHER_TASK, note->member.task, since, 0, LEFT_UNSEEN);
	switch_in(task, note, since);
}

/* A task of the tree is switched out; returns the LEFT_ flags. */
static __u32 switch_out(struct task_struct *task, struct note *note, struct task_struct *next, unsigned int state,
			__u64 now)
{
	bool asleep;

	if (!note->running)
		infer_switch_in(task, note, now);
	note->running = 0;
	note->since_ns = now;
	note->ran_ns = task->se.sum_exec_runtime;
	if (attributes_differ(task, &note->member))
		report_attributes(task, &note->member, now, 0);
	report_missed_rename(task, note, now);
	if (state & TASK_DEAD)
		return LEFT_DEAD;
	/* `state` was read when schedule() was called; a wakeup or signal since then clears task->__state. */
	asleep = state && task->__state;
	if (asleep || (state && note->early)) {
		note->blocked = 1;
		note->sleep_flags = sleep_flags(task, state);
		return LEFT_BLOCKED | note->sleep_flags | (asleep ? 0 : LEFT_AND_WOKEN);
	}
	return task->prio >= MAX_RT_PRIO && next->prio < MAX_RT_PRIO ? LEFT_FOR_HIGHER_CLASS : 0;
}

static __u32 number_of(struct task_struct *task, struct note *note)
{
	if (note)
		return note->member.task;
	return task->pid ? OTHER_TASK : IDLE_TASK;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	struct note *of_prev = note_of(prev), *of_next = note_of(next);
	__u32 from = number_of(prev, of_prev), to = number_of(next, of_next), flags = 0;
	__u64 now;

	if (from == OTHER_TASK && to == OTHER_TASK)
		return 0;
	now = bpf_ktime_get_ns();
	if (of_prev)
		flags = switch_out(prev, of_prev, next, preempted ? 0 : state, now);
	report_switch(from, to, now, prev->se.sum_exec_runtime, flags);
	if (of_next)
		switch_in(next, of_next, now);
	if (of_prev && (flags & LEFT_AND_WOKEN))
		report_wakeup(prev, of_prev, now, of_prev->wake_flags | of_prev->sleep_flags);
	return 0;
}
