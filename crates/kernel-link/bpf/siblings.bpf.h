/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a task had the other thread of its core busy beside it, which made it slower. A program includes this before it
 * says what a `struct note` is.
 *
 * 1. Each CPU counts for how long it has been busy, and writes that down where it begins to idle and where it ends that.
 * 2. What a task had beside it in a turn is the count of the other thread where it left its CPU, less that where it got it.
 * 3. The count is one word, so that whoever reads it on another CPU has all of it or none: a CPU that idles has its sum there,
 *    a busy one the time at which it would have begun to reach the sum it has now. The lowest bit tells them apart.
 * 4. A CPU that was busy when the recording began and goes on with the same task is not known to be: its first switch tells.
 * 5. Where cores have one thread, the programs have none of this. Of more than two threads of a core one is looked at.
 */
#ifndef WEIR_SIBLINGS_BPF_H
#define WEIR_SIBLINGS_BPF_H

#include "probe.bpf.h"

enum {
	CPU_BUSY = 1,
};

struct thread_of_core {
	__u64 count;
	__u32 other; /* CPU number of the core's other thread, plus 1; 0: there is none */
	__u32 unused;
	__u64 padding[6]; /* a cache line for each CPU */
};

/* Whether any core has several threads. A constant for the verifier, which takes out what is not executed. */
const volatile __u32 has_siblings SEC(".rodata.siblings") = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct thread_of_core);
} threads_of_cores SEC(".maps");

static struct thread_of_core *thread_of_core(__u32 cpu)
{
	return bpf_map_lookup_elem(&threads_of_cores, &cpu);
}

/* This CPU begins or ends to be busy. */
static void note_busy(bool busy, __u64 now)
{
	struct thread_of_core *own = thread_of_core(bpf_get_smp_processor_id());
	__u64 count;

	if (!own)
		return;
	count = own->count;
	if (busy == (count & CPU_BUSY))
		return;
	*(volatile __u64 *)&own->count = (now - (count >> 1)) << 1 | busy;
}

/* For how long the other thread of this CPU's core has been busy. */
static __u64 busy_beside(__u64 now)
{
	struct thread_of_core *own = thread_of_core(bpf_get_smp_processor_id()), *other;
	__u64 count;

	if (!own || !own->other)
		return 0;
	other = thread_of_core(own->other - 1);
	if (!other)
		return 0;
	count = *(volatile __u64 *)&other->count;
	return count & CPU_BUSY ? now - (count >> 1) : count >> 1;
}

#endif
