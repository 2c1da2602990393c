// SPDX-License-Identifier: GPL-2.0-only
/*
 * Probability of newidle balancing, out of 1024, which the kernel adapts to recent success. Since 7.0 Linux keeps it
 * for each CPU and scheduling domain ("sched/fair: Proportional newidle balance") but does not export it. Each CPU has
 * per-CPU kthreads, and each of them leads to its CPU's runqueue.
 */
#include "probe.bpf.h"

enum {
	DOMAINS_MAX = 16,
	ALWAYS = 1024,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_domain___newidle {
	struct sched_domain___newidle *parent;
	unsigned int newidle_ratio;
};

struct rq___domains {
	struct sched_domain___newidle *sd;
	int cpu;
};
#pragma clang attribute pop

/* Sums over the domains of a CPU. The layout is known to src/newidle.rs. */
struct looks {
	__u32 domains; /* 0: CPU not seen, or the kernel has no ratios */
	__u32 ratios;  /* sum of the ratios */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct looks);
	__uint(max_entries, 4096);
} looks SEC(".maps");

SEC("iter/task")
int on_thread(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct sched_domain___newidle *domain;
	struct rq___domains *rq;
	struct looks sum = {};
	__u32 cpu, ratio;
	int i;

	if (!task || !bpf_core_field_exists(domain->newidle_ratio))
		return 0;
	rq = (void *)BPF_CORE_READ(task, se.cfs_rq, rq);
	cpu = BPF_CORE_READ(rq, cpu);
	domain = BPF_CORE_READ(rq, sd);
	for (i = 0; i < DOMAINS_MAX && domain; i++) {
		ratio = BPF_CORE_READ(domain, newidle_ratio);
		sum.ratios += ratio < ALWAYS ? ratio : ALWAYS;
		sum.domains++;
		domain = BPF_CORE_READ(domain, parent);
	}
	bpf_map_update_elem(&looks, &cpu, &sum, BPF_ANY);
	return 0;
}
