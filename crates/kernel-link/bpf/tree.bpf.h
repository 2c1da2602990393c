/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parts shared by the recorder and the meter: the tree of tasks that they follow, and the event buffer.
 *
 * 1. Only tasks of the tree are followed. The first child of a given thread, or each of its children, gets a note in
 *    task storage when it is forked, and so does every child of a task with a note, before it runs for the first time.
 * 2. Positions in a task's execution are CPU times, not wall-clock times: `se.sum_exec_runtime`, which the scheduler
 *    updates at every switch, plus the time since the task was switched in.
 * 3. The context of a wakeup is in the preemption count. Text traces do not show it: they print `current`, which in an
 *    interrupt is an unrelated task. See interrupt_context().
 * 4. Nothing is lost silently: events that do not fit the ring buffer are counted per CPU, and the kernel counts the
 *    calls that it skipped because the same program was active on that CPU.
 */
#ifndef WEIR_TREE_BPF_H
#define WEIR_TREE_BPF_H

#include "probe.bpf.h"
#include "preempt.bpf.h"

/* Layouts are parsed by crates/recording/src/wire.rs. All members are aligned to their size, without holes. */

enum kind {
	KIND_BIRTH = 1,
	KIND_SLEEP = 2,
	KIND_EXEC = 3,
	KIND_ATTRIBUTES = 4,
	KIND_EXIT = 5,
	KIND_END = 6,
	KIND_SWITCH = 7,
	KIND_WAKE = 8,
	KIND_RENAME = 9,
	KIND_HOTPLUG = 10,
	KIND_WHO = 11,
	KIND_SIGNAL = 12,
	KIND_DELIVERY = 13,
	KIND_ALARM = 14,
	KIND_LAST = 15,
	KIND_PASS = 16,
	KIND_TOUCHED = 17,
	KIND_FOOTPRINT = 18,
	KIND_REQUEST = 19,
	KIND_YIELD = 20,
};

enum {
	NOBODY = 0xffffffff, /* the waker is not in the tree, or there is no parent */
	COMM_LENGTH = 16,
	MASK_WORDS_MAX = 64, /* 4096 CPUs, as many as Weir simulates */
	RING_BYTES = 16 << 20,
	EVENTS_BETWEEN_LOOKS = 32,
};

/* Flags of a sleep and of the wakeup that ended it. */
enum {
	SLEEP_IOWAIT = 1 << 0,
	SLEEP_UNINTERRUPTIBLE = 1 << 1,
	WAKE_HARDIRQ = 1 << 2,
	WAKE_NMI = 1 << 3,
	WAKE_SOFTIRQ = 1 << 4,
	WAKE_NEW = 1 << 5,       /* the first wakeup, of a new task by its parent */
	WAKE_UNSEEN = 1 << 6,    /* inferred: the task runs again, but no wakeup was seen */
	WAKE_TIMER = 1 << 7,     /* in a timer callback; the expiry is in the event */
	WAKE_OWN_TIMER = 1 << 16, /* the sleeper started that timer for this very sleep */
	SLEEP_NAMES_CHILD = 1 << 17, /* waits for the exit of a specific child; recorder only */
	WAKE_SOFTIRQ_SHIFT = 8, /* softirq number in bits 8 to 15 */
};

struct head {
	__u64 time_ns;
	__u32 kind;
	__u32 task;
	__u64 work_ns; /* CPU time of `task` at that time; for a birth, of its parent */
};

struct birth {
	struct head head;
	__u32 parent;
	__u32 pid;
	__u32 tgid;
	__u32 cpu;
	char comm[COMM_LENGTH];
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

/* Resource use of a task since its birth. 32-bit counters wrap. */
struct counters {
	__u64 read;    /* bytes read by read(2) and similar system calls, from any file */
	__u64 written; /* bytes written by system calls */
	__u32 device_read; /* 512-byte sectors read from devices */
	__u32 device_written; /* 512-byte sectors made dirty */
	__u32 minor_faults;
	__u32 major_faults;
	__u64 beside_ns; /* time on a CPU while its SMT sibling was busy */
};

/* Settings that user space writes before the programs are attached. */
struct settings {
	__u32 root_thread;  /* its next child, or each of its children, is a root of the tree */
	__u32 mask_words;   /* words of the kernel's CPU masks, at most MASK_WORDS_MAX */
	__u32 next_task;
	__u32 all_children; /* 0: only the next child; `root_thread` is set to 0 when that is born */
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

/* Number of events sent by each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} sent SEC(".maps");

/* Current or last softirq of each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} softirq SEC(".maps");

/* Common beginning of every note: task number, and the attributes that were last reported. */
struct member {
	__u32 task;
	__u32 policy;
	__u32 rt_priority;
	__s32 static_prio;
	__u64 cpus;
};

static void count_loss(void)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&lost, &zero);

	if (count)
		*count += 1;
}

/*
 * The consumer polls the buffer periodically. It is woken early only when a quarter of the buffer is full: a wakeup for
 * each event would cost more than the event, on the CPUs that are being observed. Each CPU checks the fill level only
 * once in EVENTS_BETWEEN_LOOKS events.
 */
static __u64 wakeup_flag(void)
{
	__u32 zero = 0, *count = bpf_map_lookup_elem(&sent, &zero);

	if (count && ++*count % EVENTS_BETWEEN_LOOKS)
		return BPF_RB_NO_WAKEUP;
	return bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= RING_BYTES / 4 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/* Reserves an event of this type; NULL counts as a loss. The verifier requires a constant size. */
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

static void report_attributes(struct task_struct *task, struct member *member, __u64 now, __u64 work_ns)
{
	struct attributes *event;
	__u32 words = settings.mask_words;

	member->policy = task->policy;
	member->rt_priority = task->rt_priority;
	member->static_prio = task->static_prio;
	member->cpus = task->cpus_mask.bits[0];
	event = RESERVE(attributes);
	if (!event)
		return;
	fill_head(&event->head, KIND_ATTRIBUTES, member->task, now, work_ns);
	event->policy = member->policy;
	event->rt_priority = member->rt_priority;
	event->nice = member->static_prio - 120; /* NICE_TO_PRIO(): nice 0 is static priority 120 */
	event->dl_runtime_ns = task->dl.dl_runtime;
	event->dl_deadline_ns = task->dl.dl_deadline;
	event->dl_period_ns = task->dl.dl_period;
	if (words > MASK_WORDS_MAX)
		words = MASK_WORDS_MAX;
	event->words = words;
	bpf_probe_read_kernel(event->cpus, words * sizeof(__u64), &task->cpus_mask);
	bpf_ringbuf_submit(event, wakeup_flag());
}

/* Only the first 64 CPUs of the affinity are compared; other changes are noticed at the next exec. */
static bool attributes_differ(struct task_struct *task, struct member *member)
{
	return member->static_prio != task->static_prio || member->policy != task->policy ||
	       member->rt_priority != task->rt_priority || member->cpus != task->cpus_mask.bits[0];
}

/* Whether a child of `parent`, which is not in the tree, is a root of it. */
static bool begins_tree(struct task_struct *parent)
{
	__u32 root_thread = settings.root_thread;

	if (!root_thread || root_thread != parent->pid)
		return false;
	if (!settings.all_children)
		settings.root_thread = 0; /* only that thread executes this, so there is no race */
	return true;
}

/* Assigns a number to the child and reports it, with attributes that differ from its parent's. */
static void report_birth(struct task_struct *child, struct member *member, struct member *of_parent, __u64 now,
			 __u64 parent_work_ns)
{
	struct birth *event;

	member->task = __sync_fetch_and_add(&settings.next_task, 1);
	event = RESERVE(birth);
	if (event) {
		fill_head(&event->head, KIND_BIRTH, member->task, now, parent_work_ns);
		event->parent = of_parent ? of_parent->task : NOBODY;
		event->pid = child->pid;
		event->tgid = child->tgid;
		event->cpu = bpf_get_smp_processor_id();
		bpf_probe_read_kernel(event->comm, COMM_LENGTH, child->comm);
		bpf_ringbuf_submit(event, wakeup_flag());
	}
	if (of_parent) {
		member->policy = of_parent->policy;
		member->rt_priority = of_parent->rt_priority;
		member->static_prio = of_parent->static_prio;
		member->cpus = of_parent->cpus;
	}
	if (!of_parent || attributes_differ(child, member))
		report_attributes(child, member, now, 0);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq, unsigned int vector)
{
	__u32 zero = 0, *current_vector = bpf_map_lookup_elem(&softirq, &zero);

	if (current_vector)
		*current_vector = vector;
	return 0;
}

/* Interrupt context of this CPU, as WAKE_ flags. */
static __u32 interrupt_context(struct task_struct *current)
{
	__u32 zero = 0, count = preemption_count(current), flags = 0, *vector;

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

static __u32 sleep_flags(struct task_struct *task, unsigned int state)
{
	return (state & TASK_UNINTERRUPTIBLE ? SLEEP_UNINTERRUPTIBLE : 0) |
	       (BPF_CORE_READ_BITFIELD(task, in_iowait) ? SLEEP_IOWAIT : 0);
}

#endif
