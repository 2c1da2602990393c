/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether a thread of the kernel belongs to a CPU: kthread_is_per_cpu(), of which programs see no more than a flag in a struct
 * that the kernel keeps to itself (kernel/kthread.c), behind an untyped pointer.
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

/* Of a task with PF_KTHREAD; others have nothing there. */
static __noinline bool belongs_to_cpu(const struct task_struct *p)
{
	const struct kthread *thread = ((const struct task_struct___thread *)p)->worker_private;
	u64 flags = 0;

	return !bpf_probe_read_kernel(&flags, sizeof(flags), &thread->flags) && (flags & KTHREAD_IS_PER_CPU);
}

#else
#include "host.h"
#endif

/* Where there is only one CPU, all tasks may use no other one, and most threads of the kernel belong to none. */
static __always_inline bool is_bound_thread(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1 && belongs_to_cpu(p);
}

#endif
