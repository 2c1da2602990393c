// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tells what the scheduler does with a tree of tasks, and when the CPUs of the machine idle, go and come. See tree.bpf.h
 * for what it shares with the recorder.
 *
 * 1. Every switch to or from a task of the tree or an idle task is sent; switches among other tasks are not.
 * 2. A task is blocked from the switch that took it from its CPU with a state set. Only a wakeup
 *    of such a task counts: one that finds the task still runnable changes nothing.
 * 3. A wakeup begins where the waker is (sched_waking) and not where the task is queued (sched_wakeup): the interrupt
 *    between two CPUs is part of the latency. But a task that was still leaving its CPU then cannot run earlier than
 *    it has left. The event is sent at sched_wakeup, when it is certain and the runqueue is known.
 * 4. A task that goes to sleep can be woken before it is switched out: the scheduler lets go of the runqueue while it
 *    looks for another task. Then the switch says that it sleeps, but its state is cleared. Both happened.
 * 5. A kernel may keep its tracepoints quiet while certain tasks have a CPU. Then a switch from such a task is not seen,
 *    nor a wakeup that it or an interrupt makes meanwhile. A task that leaves a CPU which it was not seen to get got it
 *    as long ago as it has run since it left the last one; a task that runs without having been seen to wake was woken
 *    by then. Both are told, and marked as inferred.
 * 6. A kernel may let a task lose its CPU in the midst of a program (7.2 does: probes of tracepoints no longer disable
 *    preemption), and skips that program's calls by others on that CPU until the task is back. Switches and wakeups, a
 *    child's first one among them, have interrupts off. A name that was not heard of is told when its task leaves its CPU.
 */
#include "tree.bpf.h"

enum {
	IDLE_TASK = 0xffffffff,
	OTHER_TASK = 0xfffffffe, /* not in the tree */
};

/* How the previous task left its CPU; the two SLEEP_ flags may be there too. */
enum {
	LEFT_BLOCKED = 1 << 8,
	LEFT_DEAD = 1 << 9,
	LEFT_FOR_HIGHER_CLASS = 1 << 10,
	LEFT_AND_WOKEN = 1 << 11, /* it sleeps, and its wakeup has been seen already */
	LEFT_UNSEEN = 1 << 12,	  /* somebody did; inferred from the CPU time of the next */
};

/* A task of this priority or below belongs to a real-time class (MAX_RT_PRIO of include/linux/sched/prio.h). */
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
	__u64 wake_ns; /* of the last wakeup, as the three below */
	__u32 waker;
	__u32 waker_cpu;
	__u32 wake_flags;
	__u32 blocked;
	__u64 since_ns; /* when it left its CPU, or was woken after that */
	__u64 ran_ns;	/* its CPU time when it left its CPU */
	__u32 sleep_flags;
	__u32 running;
	__u32 early; /* a wakeup came while it had its CPU */
	__u32 unused;
	char comm[COMM_LENGTH]; /* the name that was told last */
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

/* 6: tells a name that was not heard of. It is loaded as two words. Before 6.2 there are no casts, and no call is missed. */
static void look_at_name(struct task_struct *task, struct note *note, __u64 now)
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

/* Its parent wakes it up, having made it. */
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

/* A task of the tree has had its CPU since `now`; its switch has been told. */
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

/* A task leaves its CPU that was not seen to get it. */
static void infer_switch_in(struct task_struct *task, struct note *note, __u64 now)
{
	__u64 since = now - (task->se.sum_exec_runtime - note->ran_ns);

	/* The scheduler's clock and this one are not read at the same moment. */
	if (since < note->since_ns)
		since = note->since_ns;
	report_switch(OTHER_TASK, note->member.task, since, 0, LEFT_UNSEEN);
	switch_in(task, note, since);
}

/* How a task of the tree leaves its CPU. */
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
	look_at_name(task, note, now);
	if (state & TASK_DEAD)
		return LEFT_DEAD;
	/* `state` is what it was when the scheduler was called; a wakeup or a signal since then has cleared it. */
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
