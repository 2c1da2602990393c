/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The preemption count of this CPU, which tells whether it serves an interrupt. It is a per-CPU variable that BPF cannot
 * name if the kernel has no data symbols (KALLSYMS_ALL=n). But its distance from this CPU's `struct rq`, another per-CPU
 * variable, is in BTF, and every task, even the idle task, points to the rq of its CPU.
 */
#ifndef WEIR_PREEMPT_BPF_H
#define WEIR_PREEMPT_BPF_H

#include "probe.bpf.h"

/* Distance from a CPU's struct rq to its preemption count. A constant, since the verifier must know offsets. */
const volatile __s64 preempt_count_from_rq SEC(".rodata.offsets") = 0;

static __u32 preemption_count(struct task_struct *current)
{
	void *address = (void *)current->se.cfs_rq->rq + preempt_count_from_rq;
	struct task_struct___rt *rt = (void *)current;
	__u32 count = 0;

	/* refcount_struct serves as a structure that begins with an int. Before 6.2 there are no casts. */
	if (bpf_ksym_exists(bpf_rdonly_cast))
		count = bpf_core_cast(address, struct refcount_struct)->refs.counter;
	else
		bpf_probe_read_kernel(&count, sizeof(count), address);
	if (bpf_core_field_exists(rt->softirq_disable_cnt))
		count |= rt->softirq_disable_cnt & SOFTIRQ_SERVED;
	return count;
}

#endif
