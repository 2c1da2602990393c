// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records what a process tree does with its CPUs, and why it stops.
 *
 * 1. Only the tree. A task that is recorded carries a `struct note` in task storage. The first child of the recorder's
 *    thread gets one when it is forked, and every child of a task with a note gets one, before it runs for the first
 *    time. All other tasks of the machine cost one failed lookup per switch.
 * 2. Work, not time slices. A position in a task's life is its CPU time: `se.sum_exec_runtime`, which the scheduler
 *    brings up to date on every switch, plus the time since it was switched in. Preemptions therefore need no events:
 *    they do not change what the task does.
 * 3. One event per sleep. The wakeup's cause is noted in the sleeper at sched_waking, where the waker is still
 *    `current` and the context is the waker's. The event is sent when the sleeper runs again, so a wakeup of a task
 *    that had not left its CPU yet sends nothing.
 * 4. Where a wakeup comes from is in the preemption count, which text traces do not show: they print `current`, and an
 *    interrupt borrows whoever runs. See interrupt_context().
 * 5. Nothing is lost silently: what does not fit the ring buffer is counted per CPU, and the kernel counts the calls
 *    that it skipped because the same program was active on that CPU.
 */
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* Layouts are read by src/event.rs. All members are aligned to their size, without holes. */

enum kind {
	KIND_BIRTH = 1,
	KIND_SLEEP = 2,
	KIND_EXEC = 3,
	KIND_ATTRIBUTES = 4,
	KIND_EXIT = 5,
	KIND_END = 6,
};

enum {
	NOBODY = 0xffffffff, /* the waker is not recorded, or there is no parent */
	COMM_LENGTH = 16,
	ARGUMENTS_MAX = 4096, /* bytes of a command line that are kept */
	MASK_WORDS_MAX = 64,  /* 4096 CPUs, as many as Weir simulates */
	RING_BYTES = 16 << 20,
};

/* Flags of a sleep. */
enum {
	SLEEP_IOWAIT = 1 << 0,
	SLEEP_UNINTERRUPTIBLE = 1 << 1,
	WAKE_HARDIRQ = 1 << 2,
	WAKE_NMI = 1 << 3,
	WAKE_SOFTIRQ = 1 << 4,
	WAKE_SOFTIRQ_SHIFT = 8, /* the softirq's number stands in bits 8 to 15 */
};

struct head {
	__u64 time_ns;
	__u32 kind;
	__u32 task;
	__u64 work_ns; /* CPU time of `task` at that time; of its parent in a birth */
};

struct birth {
	struct head head;
	__u32 parent;
	__u32 pid;
	__u32 tgid;
	__u32 unused;
	char comm[COMM_LENGTH];
};

struct sleep {
	struct head head;
	__u64 wake_ns;
	__u64 waker_work_ns;
	__u32 waker;
	__u32 flags;
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

struct attributes {
	struct head head;
	__u32 policy;
	__u32 rt_priority;
	__s32 nice;
	__u32 words;
	__u64 dl_runtime_ns;
	__u64 dl_deadline_ns;
	__u64 dl_period_ns;
	__u64 cpus[MASK_WORDS_MAX];
};

struct exit {
	struct head head;
	__u64 utime_ns;
	__u64 stime_ns;
	__u64 peak_rss_pages;
	char comm[COMM_LENGTH];
};

/* What user space sets before the programs are loaded. */
struct settings {
	__u32 recorder_thread; /* its next child is the root of the tree; set to 0 when that is born */
	__u32 mask_words;      /* words of the kernel's CPU masks, at most MASK_WORDS_MAX */
	__s64 preempt_count_from_rq; /* from this CPU's struct rq to its preemption count */
	__u32 next_task;
	__u32 unused;
};

struct settings settings SEC(".data.settings") = { .mask_words = 1 };

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} lost SEC(".maps");

/* The softirq that a CPU serves, or served last. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} softirq SEC(".maps");

struct note {
	__u32 task;
	__u32 waker;
	__u64 switched_in_ns;
	__u64 work_ns; /* at that time */
	/* The sleep that has begun. */
	__u64 blocked_ns;
	__u64 blocked_work_ns;
	__u32 blocked; /* whether one has, and has not been reported */
	__u32 flags;
	/* The last wakeup. */
	__u64 wake_ns;
	__u64 waker_work_ns;
	__u32 wake_flags;
	/* What was reported last. */
	__u32 policy;
	__u32 rt_priority;
	__s32 static_prio;
	__u64 cpus;
	__u64 peak_at_exec_pages; /* peak RSS of what the process was before its last exec */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct note);
} notes SEC(".maps");

static struct note *note_of(struct task_struct *task)
{
	return bpf_task_storage_get(&notes, task, NULL, 0);
}

static void count_loss(void)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&lost, &zero);

	if (count)
		*count += 1;
}

/*
 * The consumer sleeps on a timer and empties the buffer when it wakes. It is woken early only when a quarter of the
 * buffer is full: waking it for each event would cost more than the event, on the CPUs that are being observed.
 */
static __u64 wakeup_flag(void)
{
	return bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= RING_BYTES / 4 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/* Room for an event of this type, or NULL and the loss is counted. The verifier wants the size as a constant. */
#define RESERVE(type)                                                                  \
	({                                                                             \
		struct type *event_ = bpf_ringbuf_reserve(&events, sizeof(*event_), 0); \
		if (!event_)                                                           \
			count_loss();                                                  \
		event_;                                                                \
	})

static void fill_head(struct head *head, __u32 kind, __u32 task, __u64 time_ns, __u64 work_ns)
{
	head->time_ns = time_ns;
	head->kind = kind;
	head->task = task;
	head->work_ns = work_ns;
}

/* CPU time of a task that runs now. */
static __u64 work_now(struct note *note, __u64 now)
{
	return note->work_ns + (now - note->switched_in_ns);
}

static void report_attributes(struct task_struct *task, struct note *note, __u64 now, __u64 work_ns)
{
	struct attributes *event;
	__u32 words = settings.mask_words;

	note->policy = task->policy;
	note->rt_priority = task->rt_priority;
	note->static_prio = task->static_prio;
	note->cpus = task->cpus_mask.bits[0];
	event = RESERVE(attributes);
	if (!event)
		return;
	fill_head(&event->head, KIND_ATTRIBUTES, note->task, now, work_ns);
	event->policy = note->policy;
	event->rt_priority = note->rt_priority;
	event->nice = note->static_prio - 120; /* NICE_TO_PRIO(): nice 0 is static priority 120 */
	event->dl_runtime_ns = task->dl.dl_runtime;
	event->dl_deadline_ns = task->dl.dl_deadline;
	event->dl_period_ns = task->dl.dl_period;
	if (words > MASK_WORDS_MAX)
		words = MASK_WORDS_MAX;
	event->words = words;
	bpf_probe_read_kernel(event->cpus, words * sizeof(__u64), &task->cpus_mask);
	bpf_ringbuf_submit(event, wakeup_flag());
}

/* Of the affinity only the first 64 CPUs are compared: a change beyond them is seen at the next exec. */
static bool attributes_differ(struct task_struct *task, struct note *note)
{
	return note->static_prio != task->static_prio || note->policy != task->policy ||
	       note->rt_priority != task->rt_priority || note->cpus != task->cpus_mask.bits[0];
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct note *of_parent = note_of(parent), *of_child;
	__u64 now = bpf_ktime_get_ns();
	__u32 recorder = settings.recorder_thread;
	struct birth *event;

	if (!of_parent) {
		if (!recorder || recorder != parent->pid)
			return 0;
		settings.recorder_thread = 0; /* only that thread comes here, so no race */
	}
	of_child = bpf_task_storage_get(&notes, child, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!of_child) {
		count_loss();
		return 0;
	}
	of_child->task = __sync_fetch_and_add(&settings.next_task, 1);
	of_child->waker = NOBODY;
	event = RESERVE(birth);
	if (event) {
		fill_head(&event->head, KIND_BIRTH, of_child->task, now, of_parent ? work_now(of_parent, now) : 0);
		event->parent = of_parent ? of_parent->task : NOBODY;
		event->pid = child->pid;
		event->tgid = child->tgid;
		event->unused = 0;
		bpf_probe_read_kernel(event->comm, COMM_LENGTH, child->comm);
		bpf_ringbuf_submit(event, wakeup_flag());
	}
	if (of_parent) {
		of_child->policy = of_parent->policy;
		of_child->rt_priority = of_parent->rt_priority;
		of_child->static_prio = of_parent->static_prio;
		of_child->cpus = of_parent->cpus;
	}
	if (!of_parent || attributes_differ(child, of_child))
		report_attributes(child, of_child, now, 0);
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
	work_ns = work_now(note, now);
	event = RESERVE(exec);
	if (!event)
		return 0;
	fill_head(&event->head, KIND_EXEC, note->task, now, work_ns);
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
	if (attributes_differ(task, note))
		report_attributes(task, note, now, work_ns);
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
	fill_head(&event->head, KIND_EXIT, note->task, now, work_now(note, now));
	event->utime_ns = task->utime;
	event->stime_ns = task->stime;
	event->peak_rss_pages = peak_rss_pages(task, note);
	bpf_probe_read_kernel(event->comm, COMM_LENGTH, task->comm);
	bpf_ringbuf_submit(event, wakeup_flag());
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq, unsigned int vector)
{
	__u32 zero = 0, *current_vector = bpf_map_lookup_elem(&softirq, &zero);

	if (current_vector)
		*current_vector = vector;
	return 0;
}

/*
 * In which context this CPU is. The preemption count is a per-CPU variable that BPF cannot name where the kernel keeps
 * no symbols of data (KALLSYMS_ALL=n). But its distance from this CPU's `struct rq`, another per-CPU variable, is in
 * BTF, and every task points to the rq of its CPU. The idle task does so too.
 */
static __u32 interrupt_context(struct task_struct *current)
{
	void *rq = BPF_CORE_READ(current, se.cfs_rq, rq);
	__u32 zero = 0, count = 0, flags = 0, *vector;
	struct task_struct___rt *rt = (void *)current;

	bpf_probe_read_kernel(&count, sizeof(count), rq + settings.preempt_count_from_rq);
	if (bpf_core_field_exists(rt->softirq_disable_cnt))
		count |= BPF_CORE_READ(rt, softirq_disable_cnt) & SOFTIRQ_SERVED;
	if (count & NMI_MASK)
		flags |= WAKE_NMI;
	if (count & HARDIRQ_MASK)
		flags |= WAKE_HARDIRQ;
	if (count & SOFTIRQ_SERVED) {
		flags |= WAKE_SOFTIRQ;
		vector = bpf_map_lookup_elem(&softirq, &zero);
		if (vector)
			flags |= (*vector & 0xff) << WAKE_SOFTIRQ_SHIFT;
	}
	return flags;
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
	note->wake_ns = now;
	note->waker = NOBODY;
	note->waker_work_ns = 0;
	note->wake_flags = interrupt_context(current);
	if (note->wake_flags)
		return 0;
	of_waker = note_of(current);
	if (of_waker) {
		note->waker = of_waker->task;
		note->waker_work_ns = work_now(of_waker, now);
	}
	return 0;
}

static void report_sleep(struct note *note)
{
	struct sleep *event = RESERVE(sleep);

	if (!event)
		return;
	fill_head(&event->head, KIND_SLEEP, note->task, note->blocked_ns, note->blocked_work_ns);
	event->wake_ns = note->wake_ns;
	event->waker_work_ns = note->waker_work_ns;
	event->waker = note->waker;
	event->flags = note->flags | note->wake_flags;
	bpf_ringbuf_submit(event, wakeup_flag());
}

static void switch_out(struct task_struct *task, struct note *note, unsigned int state)
{
	__u64 now = bpf_ktime_get_ns(), work_ns = task->se.sum_exec_runtime;
	struct head *event;

	if (attributes_differ(task, note))
		report_attributes(task, note, now, work_ns);
	if (state & TASK_DEAD) {
		event = RESERVE(head);
		if (!event)
			return;
		fill_head(event, KIND_END, note->task, now, work_ns);
		bpf_ringbuf_submit(event, wakeup_flag());
		return;
	}
	note->blocked = 1;
	note->blocked_ns = now;
	note->blocked_work_ns = work_ns;
	note->flags = (state & TASK_UNINTERRUPTIBLE ? SLEEP_UNINTERRUPTIBLE : 0) |
		      (BPF_CORE_READ_BITFIELD(task, in_iowait) ? SLEEP_IOWAIT : 0);
}

static void switch_in(struct task_struct *task, struct note *note)
{
	/* A switch with a state set but no wakeup since: a signal was pending, and it did not sleep. */
	if (note->blocked && note->wake_ns >= note->switched_in_ns)
		report_sleep(note);
	note->blocked = 0;
	note->switched_in_ns = bpf_ktime_get_ns();
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
