// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts what all tasks of the machine do: switches, wakeups, how long the woken waited for a CPU; and how long CPUs
 * idle and are offline. Sums are kept per CPU and only ever grow: who reads them twice has what happened in between.
 * Nothing is sent.
 *
 * A wakeup counts if the task has left its CPU to sleep. It begins where the waker is; a task that was still leaving
 * its CPU then waits from when it was queued.
 */
#include "kernel_types.h"

/* Layout and buckets are read by src/watch.rs. */
enum {
	OCTAVE_BITS = 4, /* 16 buckets to an octave: a percentile is off by 3 % at most */
	OCTAVES = 36,    /* up to 2^39 ns, nine minutes; longer waits count there */
	BUCKETS = OCTAVES << OCTAVE_BITS,
};

struct sums {
	__u64 switches;
	__u64 wakeups;
	__u64 idle_ns;
	__u64 idle_since_ns; /* 0 while the CPU is busy */
	__u64 offline_ns;
	__u64 offline_since_ns; /* 0 while the CPU is online; user space sets it for those that are offline at first */
	__u64 latency_ns;
	__u64 latencies[BUCKETS];
	__u64 switched_ns; /* when the last switch was seen */
};

struct note {
	__u64 waking_ns; /* the waker's time, 0 if there is none since it has left its CPU */
	__u64 woken_ns;	 /* 0 unless it was woken and has not run yet */
	__u64 blocked;	 /* whether it sleeps */
};

#include "note_map.bpf.h"
#include "hotplug.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct sums);
	__uint(max_entries, 1);
} sums SEC(".maps");

static struct sums *sums_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&sums, &zero);
}

static void end_offline(struct sums *sums, __u64 now)
{
	if (sums->offline_since_ns)
		sums->offline_ns += now - sums->offline_since_ns;
	sums->offline_since_ns = 0;
}

/* Another CPU takes this one up or down, and nothing runs here meanwhile. */
static void cpu_changed(__u32 cpu, bool online)
{
	__u32 zero = 0;
	struct sums *there = bpf_map_lookup_percpu_elem(&sums, &zero, cpu);
	__u64 now = bpf_ktime_get_ns();

	if (!there)
		return;
	end_offline(there, now);
	if (there->idle_since_ns)
		there->idle_ns += now - there->idle_since_ns;
	there->offline_since_ns = online ? 0 : now;
	there->idle_since_ns = online ? now : 0;
	there->switched_ns = now;
}

/* Values below 16 have a bucket each; above, the highest set bit is the octave and the next four bits the bucket. */
static __u32 bucket_of(__u64 value)
{
	__u64 rest = value >> OCTAVE_BITS;
	__u32 octave = 0, place;

	for (int shift = 32; shift; shift >>= 1) {
		if (rest >> shift) {
			rest >>= shift;
			octave += shift;
		}
	}
	octave += rest;
	if (!octave)
		return value;
	place = (octave << OCTAVE_BITS) + ((value >> (octave - 1)) & ((1 << OCTAVE_BITS) - 1));
	return place < BUCKETS ? place : BUCKETS - 1;
}

static void woken(struct note *note, __u64 since_ns)
{
	struct sums *here = sums_here();

	if (here)
		here->wakeups++;
	note->blocked = 0;
	note->woken_ns = since_ns;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct note *note = note_of(task);

	if (note)
		note->waking_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	struct note *note = note_of(task);

	if (note && note->blocked)
		woken(note, note->waking_ns ?: bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	struct note *note = note_of_or_new(task);

	if (note)
		woken(note, bpf_ktime_get_ns());
	return 0;
}

static void fall_asleep(struct task_struct *task)
{
	struct note *note = note_of_or_new(task);

	if (note) {
		note->blocked = 1;
		note->waking_ns = note->woken_ns = 0;
	}
}

static void count_latency(struct sums *here, struct note *note, __u64 now)
{
	__u64 waited = now - note->woken_ns;
	__u32 bucket = bucket_of(waited);

	note->woken_ns = 0;
	here->latency_ns += waited;
	if (bucket < BUCKETS)
		here->latencies[bucket]++;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	struct sums *here = sums_here();
	__u64 now = bpf_ktime_get_ns();
	struct note *note;

	if (!here)
		return 0;
	/* It came between the first look at it and the attachment of these programs. */
	end_offline(here, now);
	if (prev->pid) {
		/* A wakeup or a signal since the scheduler was called has cleared the task's own state. */
		if (!preempted && state && !(state & TASK_DEAD) && prev->__state)
			fall_asleep(prev);
	} else {
		/* Some kernels hide tasks from probes, and with them the switch from such a task to idle. */
		here->idle_ns += now - (here->idle_since_ns ?: here->switched_ns ?: now);
		here->idle_since_ns = 0;
	}
	here->switched_ns = now;
	if (!next->pid) {
		here->idle_since_ns = now;
		return 0;
	}
	here->switches++;
	note = note_of(next);
	if (note && note->woken_ns)
		count_latency(here, note, now);
	return 0;
}
