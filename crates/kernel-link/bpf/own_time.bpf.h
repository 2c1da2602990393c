/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Run time of the programs, which is not work of the tasks that they interrupt. In a loop that does nothing but be
 * recorded they take a third of the time they take in a server whose own code and data occupy the caches. So it is
 * measured while recording.
 *
 * 1. Each CPU counts the runs and times one out of ONE_OF. That number is prime, so that programs which run in a fixed
 *    sequence are all timed eventually.
 * 2. Classes differ in the task that is charged. When a task is seen to leave its CPU, the kernel has already updated
 *    its CPU time: the cost of a switch is charged to the next task, and to none if the CPU becomes idle.
 * 3. A run during which an interrupt came, or another task had the CPU (5 in record.bpf.c), is discarded.
 * 4. The cost of calling a program is not visible from inside; calibration measures the difference.
 */
#ifndef WEIR_OWN_TIME_BPF_H
#define WEIR_OWN_TIME_BPF_H

#include "probe.bpf.h"

enum {
	ONE_OF = 17,
	TOO_LONG_NS = 20000, /* chosen: the longest programs, for births and execs, take 1 to 4 us */
};

enum own_class {
	OWN_SWITCH, /* charged to the recorded task that is switched in */
	OWN_WAKE,   /* charged to the recorded waker */
	OWN_PASS,   /* charged to the recorded task that writes or reads */
	OWN_OTHER,
	OWN_CLASSES,
};

struct own_times {
	__u64 until_timed; /* runs until the next timed one */
	struct {
		__u64 runs;
		__u64 timed;
		__u64 ns; /* of the timed runs */
	} of[OWN_CLASSES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct own_times);
	__uint(max_entries, 1);
} own_times SEC(".maps");

struct stopwatch {
	struct own_times *times;
	__u64 began; /* 0: this run is not timed */
};

static __always_inline struct stopwatch own_begin(void)
{
	__u32 zero = 0;
	struct stopwatch watch = { .times = bpf_map_lookup_elem(&own_times, &zero) };

	if (!watch.times)
		return watch;
	if (watch.times->until_timed) {
		watch.times->until_timed--;
	} else {
		watch.times->until_timed = ONE_OF - 1;
		watch.began = bpf_ktime_get_ns();
	}
	return watch;
}

static __always_inline void own_end(struct stopwatch watch, enum own_class class)
{
	__u64 took;

	if (!watch.times || class >= OWN_CLASSES)
		return;
	watch.times->of[class].runs++;
	if (!watch.began)
		return;
	took = bpf_ktime_get_ns() - watch.began;
	if (took < TOO_LONG_NS) {
		watch.times->of[class].timed++;
		watch.times->of[class].ns += took;
	}
}

/* Body of a program, given an expression that runs it and returns the class of the run. */
#define TIMED(class)                               \
	({                                         \
		struct stopwatch watch_ = own_begin(); \
		own_end(watch_, class);                \
		0;                                     \
	})

#endif
