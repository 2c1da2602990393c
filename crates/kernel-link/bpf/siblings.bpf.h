/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time during which a task's SMT sibling was busy, which slowed the task down. A program includes this before it
 * defines `struct note`.
 *
 * 1. Each CPU accumulates its busy time and stores it when it enters and leaves idle.
 * 2. A task's time beside a busy sibling in a run interval is the sibling's busy time when the task is switched out,
 *    less that when it was switched in.
 * 3. The count is a single word, so that a reader on another CPU sees it atomically: an idle CPU stores its sum; a
 *    busy one stores the time at which it would have had to start to reach its current sum. The lowest bit tells them
 *    apart.
 * 4. A CPU that was busy when the recording began and keeps running the same task is unknown until its first switch.
 * 5. On machines without SMT the programs contain none of this. With more than two threads per core, only one sibling
 *    is considered.
 */
#ifndef WEIR_SIBLINGS_BPF_H
#define WEIR_SIBLINGS_BPF_H

#include "probe.bpf.h"

enum {
	CPU_BUSY = 1,
};

struct thread_of_core {
	__u64 count;
	__u32 other; /* CPU number of the SMT sibling plus 1; 0: none */
	__u32 unused;
	__u64 padding[6]; /* one cache line per CPU */
};

/* Whether the machine has SMT. A constant for the verifier, which removes dead code. */
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

/* This CPU becomes busy or idle. */
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

/* Busy time of this CPU's SMT sibling so far. */
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
