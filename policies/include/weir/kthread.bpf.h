/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tells whether a kthread is per-CPU. kthread_is_per_cpu() is not available to BPF programs; the
 * flag is in a struct that is private to kernel/kthread.c, behind an untyped pointer.
 */
#ifndef WEIR_KTHREAD_BPF_H
#define WEIR_KTHREAD_BPF_H

#ifdef __bpf__
#include "scx.bpf.h"

struct kthread {
	u64 flags;
} __attribute__((preserve_access_index));

struct task_struct___thread {
	struct kthread *worker_private;
} __attribute__((preserve_access_index));

#define KTHREAD_IS_PER_CPU 1ULL

/* `p` must have PF_KTHREAD; `worker_private` is meaningless for other tasks. */
static __noinline bool has_per_cpu_flag(const struct task_struct *p)
{
	const struct kthread *thread = ((const struct task_struct___thread *)p)->worker_private;
	u64 flags = 0;

	return !bpf_probe_read_kernel(&flags, sizeof(flags), &thread->flags) && (flags & KTHREAD_IS_PER_CPU);
}

#else
#include "host.h"
#endif

/*
 * nr_cpus_allowed alone does not suffice: on a machine with one CPU it is 1 for every task, and
 * most kthreads are not per-CPU.
 */
static __always_inline bool is_per_cpu_kthread(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1 && has_per_cpu_flag(p);
}

#endif
