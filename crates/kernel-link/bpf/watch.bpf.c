// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts switches, wakeups and wakeup latencies of all tasks of the machine, and idle and offline times of CPUs. Sums
 * are kept per CPU and only grow, so the difference of two readings is what happened in between. No events are sent.
 *
 * A wakeup counts if the task was blocked. Its latency starts at the waker (sched_waking), or, if the task was still
 * being switched out then, when it was queued.
 */
#include "kernel_types.h"

/* Layout and buckets are known to src/watch.rs. */
enum {
	OCTAVE_BITS = 4, /* 16 buckets per octave: percentiles are accurate to 3 % */
	OCTAVES = 36,    /* up to 2^39 ns, nine minutes; longer waits are in the last bucket */
	BUCKETS = OCTAVES << OCTAVE_BITS,
};

struct sums {
	__u64 switches;
	__u64 wakeups;
	__u64 idle_ns;
	__u64 idle_since_ns; /* 0 while the CPU is busy */
	__u64 offline_ns;
	__u64 offline_since_ns; /* 0 while the CPU is online; user space initializes it for offline CPUs */
	__u64 latency_ns;
	__u64 latencies[BUCKETS];
	__u64 switched_ns; /* time of the last switch */
};

struct note {
	__u64 waking_ns; /* time of sched_waking; 0 if there was none since it was switched out */
	__u64 woken_ns;	 /* time of the wakeup; 0 unless it was woken and has not run yet */
	__u64 blocked;	 /* whether it is blocked */
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

/* Runs on another CPU; the CPU that goes up or down runs nothing meanwhile. */
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
	/* The CPU came online after it was checked and before these programs were attached. */
	end_offline(here, now);
	if (prev->pid) {
		/* A wakeup or signal since schedule() was called has cleared the task's state. */
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
