/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Jobs: a table of the cgroups that receive shares.
 *
 * 1. Each cgroup is a job with a number. The root is job 0, and kthreads belong to it. A job
 *    records its parent, its weight (`cpu.weight`), and the path from the root to itself as a bit
 *    mask.
 * 2. The table holds JOBS jobs, up to JOB_DEPTH levels below the root. Tasks of a cgroup that does
 *    not fit belong to the job of its parent.
 * 3. A policy stores a task's job in its own struct task: first_job() in init_task, number_of() in
 *    cgroup_move. Other data of a job is in a table of the policy, indexed by the same numbers.
 */
#ifndef WEIR_JOBS_BPF_H
#define WEIR_JOBS_BPF_H

#include "group.bpf.h"

#define JOBS 64
#define JOB_DEPTH 4
#define ROOT_JOB 0
#define DEFAULT_WEIGHT 100

struct job {
	u64 path;	/* 1: the job and those that it is in, as bits */
	u32 parent;
	u32 weight;
	u32 taken;
};

struct job jobs[JOBS];

/* Highest number in use so far. */
u32 last_job;

/* Number of each cgroup's job. */
CGROUP_STORAGE(job_numbers, u32);

static __always_inline struct job *job_at(u32 number)
{
	return &jobs[number % JOBS];
}

static __always_inline u32 number_of(struct cgroup *cgrp)
{
	u32 *number = bpf_cgrp_storage_get(&job_numbers, cgrp, NULL, 0);

	return number ? *number : ROOT_JOB;
}

static __always_inline u32 parent_of(struct cgroup *cgrp)
{
	struct cgroup *parent = cgrp->level ? bpf_cgroup_ancestor(cgrp, cgrp->level - 1) : NULL;
	u32 number = ROOT_JOB;

	if (parent) {
		number = number_of(parent);
		bpf_cgroup_release(parent);
	}
	return number;
}

/* Reserves a free number; JOBS if there is none. */
static __always_inline u32 take_number(void)
{
	int number;

	for_range(number, 1, JOBS) {
		if (__sync_val_compare_and_swap(&job_at(number)->taken, 0, 1) == 0) {
			if ((u32)number > last_job)
				last_job = number;
			return number;
		}
	}
	return JOBS;
}

/* 2: implements ops.cgroup_init. */
static __always_inline s32 make_job(struct cgroup *cgrp, u32 weight)
{
	u32 *kept = bpf_cgrp_storage_get(&job_numbers, cgrp, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	u32 parent = parent_of(cgrp), number = ROOT_JOB;
	struct job *j;

	if (!kept)
		return -12; /* ENOMEM */
	if (cgrp->level && cgrp->level <= JOB_DEPTH)
		number = take_number();
	if (cgrp->level && (number == ROOT_JOB || number == JOBS)) {
		*kept = parent;
		return 0;
	}
	j = job_at(number);
	j->parent = parent;
	j->weight = weight;
	j->path = 1ULL << number | (number ? job_at(parent)->path : 0);
	j->taken = 1;
	*kept = number;
	return 0;
}

/* Returns whether the cgroup has a job of its own. */
static __always_inline bool is_own(struct cgroup *cgrp, u32 number)
{
	return !cgrp->level || number != parent_of(cgrp);
}

/* Implements ops.cgroup_exit. The cgroup has no tasks. */
static __always_inline void end_job(struct cgroup *cgrp)
{
	u32 number = number_of(cgrp);

	if (number != ROOT_JOB && is_own(cgrp, number))
		job_at(number)->taken = 0;
}

/* Implements ops.cgroup_set_weight. */
static __always_inline void weigh_job(struct cgroup *cgrp, u32 weight)
{
	u32 number = number_of(cgrp);

	if (is_own(cgrp, number))
		job_at(number)->weight = weight;
}

/*
 * 3: in a sleepable program, pointers read from kernel structures are trusted only under the RCU
 * read lock.
 */
static __always_inline u32 first_job(struct scx_init_task_args *args)
{
	u32 number;

	bpf_rcu_read_lock();
	number = number_of(args->cgroup);
	bpf_rcu_read_unlock();
	return number;
}

#endif
