/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the recorder and the meter share: the tree of tasks that they follow, and the buffer for what they say of it.
 *
 * 1. Only the tree. The first child of a given thread, or each of its children, gets a note in task storage when it is
 *    forked, and every child of a task with a note gets one, before it runs for the first time.
 * 2. Work, not time slices. A position in a task's life is its CPU time: `se.sum_exec_runtime`, which the scheduler
 *    brings up to date on every switch, plus the time since it was switched in.
 * 3. Where a wakeup comes from is in the preemption count, which text traces do not show: they print `current`, and an
 *    interrupt borrows whoever runs. See interrupt_context().
 * 4. Nothing is lost silently: what does not fit the ring buffer is counted per CPU, and the kernel counts the calls
 *    that it skipped because the same program was active on that CPU.
 */
#ifndef WEIR_TREE_BPF_H
#define WEIR_TREE_BPF_H

#include "probe.bpf.h"

/* Layouts are read by src/event.rs. All members are aligned to their size, without holes. */

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
	WAKE_NEW = 1 << 5,       /* the first one: its parent made it */
	WAKE_UNSEEN = 1 << 6,    /* inferred: the task runs again, and nothing was seen to wake it */
	WAKE_TIMER = 1 << 7,     /* in the function of a timer, whose expiry is in the event */
	WAKE_OWN_TIMER = 1 << 16, /* one that the sleeper started to end this very sleep */
	SLEEP_NAMES_CHILD = 1 << 17, /* for the end of a child that the call names; only of the recorder */
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

/* What a task has touched since its birth. Those of 32 bits begin at 0 again. */
struct counters {
	__u64 read;    /* bytes that system calls read, from wherever: read(2) and its kin */
	__u64 written; /* bytes that they wrote */
	__u32 device_read; /* sectors of 512 bytes that it had devices read */
	__u32 device_written; /* and that it made dirty, to be written */
	__u32 minor_faults;
	__u32 major_faults;
	__u64 beside_ns; /* for which the other thread of its core was busy while it had a CPU */
};

/* What user space sets before the programs are attached. */
struct settings {
	__u32 root_thread;  /* its next child, or each of its children, is a root of the tree */
	__u32 mask_words;   /* words of the kernel's CPU masks, at most MASK_WORDS_MAX */
	__u32 next_task;
	__u32 all_children; /* 0: only the next child; `root_thread` is set to 0 when that is born */
};

struct settings settings SEC(".data.settings") = { .mask_words = 1 };

/* From a CPU's struct rq to its preemption count. A constant for the verifier, which wants to know offsets. */
const volatile __s64 preempt_count_from_rq SEC(".rodata.offsets") = 0;

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

/* How many events each CPU has sent. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} sent SEC(".maps");

/* The softirq that a CPU serves, or served last. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} softirq SEC(".maps");

/* What every note begins with: who the task is, and which of its attributes were reported last. */
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
 * The consumer sleeps on a timer and empties the buffer when it wakes. It is woken early only when a quarter of the
 * buffer is full: waking it for each event would cost more than the event, on the CPUs that are being observed. How full
 * it is, each CPU asks at times only.
 */
static __u64 wakeup_flag(void)
{
	__u32 zero = 0, *count = bpf_map_lookup_elem(&sent, &zero);

	if (count && ++*count % EVENTS_BETWEEN_LOOKS)
		return BPF_RB_NO_WAKEUP;
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

/* Of the affinity only the first 64 CPUs are compared: a change beyond them is seen at the next exec. */
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
		settings.root_thread = 0; /* only that thread comes here, so no race */
	return true;
}

/* Numbers the child and reports it, with all that is not as its parent's. */
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

/*
 * In which context this CPU is. The preemption count is a per-CPU variable that BPF cannot name where the kernel keeps
 * no symbols of data (KALLSYMS_ALL=n). But its distance from this CPU's `struct rq`, another per-CPU variable, is in
 * BTF, and every task points to the rq of its CPU. The idle task does so too.
 */
static __u32 interrupt_context(struct task_struct *current)
{
	void *address = (void *)current->se.cfs_rq->rq + preempt_count_from_rq;
	__u32 zero = 0, count = 0, flags = 0, *vector;
	struct task_struct___rt *rt = (void *)current;

	/* A structure that begins with an int, as the count is one. Before 6.2 there are no casts. */
	if (bpf_ksym_exists(bpf_rdonly_cast))
		count = bpf_core_cast(address, struct refcount_struct)->refs.counter;
	else
		bpf_probe_read_kernel(&count, sizeof(count), address);
	if (bpf_core_field_exists(rt->softirq_disable_cnt))
		count |= rt->softirq_disable_cnt & SOFTIRQ_SERVED;
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
