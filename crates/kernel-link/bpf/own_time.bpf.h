/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long the programs take, which is not the work of the tasks that they interrupt. In a loop that does nothing but be
 * recorded they take a third of what they take in a server, whose own code and data have the caches. So it is measured
 * while they record.
 *
 * 1. Each CPU counts the runs, and times one of so many. That number is prime: programs that follow each other in a fixed order
 *    all have their turn.
 * 2. Classes differ in who pays. Before a task is seen to leave its CPU the kernel has closed its account: what a switch costs
 *    is on the next task, and on nobody's if the CPU idles next.
 * 3. A run in which an interrupt came, or another task had the CPU (5 in record.bpf.c), says nothing.
 * 4. What calling a program takes is not seen from inside. Calibration has the difference.
 */
#ifndef WEIR_OWN_TIME_BPF_H
#define WEIR_OWN_TIME_BPF_H

#include "probe.bpf.h"

enum {
	ONE_OF = 17,
	TOO_LONG_NS = 20000, /* a choice: the longest programs, of births and execs, take 1 to 4 us */
};

enum own_class {
	OWN_SWITCH, /* a recorded task gets a CPU, and pays */
	OWN_WAKE,   /* one wakes another one, and pays */
	OWN_PASS,   /* one writes or reads, and pays */
	OWN_OTHER,
	OWN_CLASSES,
};

struct own_times {
	__u64 until_timed; /* runs */
	struct {
		__u64 runs;
		__u64 timed;
		__u64 ns; /* of the timed ones */
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

/* The body of a program: an expression that gives the class of this run. */
#define TIMED(class)                               \
	({                                         \
		struct stopwatch watch_ = own_begin(); \
		own_end(watch_, class);                \
		0;                                     \
	})

#endif
