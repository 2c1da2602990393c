/* SPDX-License-Identifier: GPL-2.0-only */
#include <weir/host.h>

/* Kernel interface that <weir/group.bpf.h> declares. */
#define WEIR_GROUP_BPF_H
#define CGROUP_STORAGE(name, stored) static stored name
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

struct cgroup {
	s32 level;
	struct cgroup *parent;
	bool is_stored;
	u32 stored;
};

struct scx_init_task_args {
	struct cgroup *cgroup;
};

static bool no_memory;
static s32 held;	/* references not released yet */

static void *bpf_cgrp_storage_get(void *map, struct cgroup *cgrp, void *value, u64 flags)
{
	(void)map;
	(void)value;
	cgrp->is_stored |= flags == BPF_LOCAL_STORAGE_GET_F_CREATE && !no_memory;
	return cgrp->is_stored ? &cgrp->stored : NULL;
}

static struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level)
{
	if (level < 0 || level > cgrp->level)
		return NULL;
	while (cgrp->level > level)
		cgrp = cgrp->parent;
	held++;
	return cgrp;
}

static void bpf_cgroup_release(struct cgroup *cgrp)
{
	(void)cgrp;
	held--;
}

#include <weir/jobs.bpf.h>
#include "machine.h"

static struct cgroup root, below[70], deep[5];

static u32 make(struct cgroup *cgrp, struct cgroup *parent, u32 weight)
{
	*cgrp = (struct cgroup){ .parent = parent, .level = parent ? parent->level + 1 : 0 };
	CHECK(make_job(cgrp, weight) == 0, "weight %u", weight);
	CHECK(held == 0, "%d", held);
	return number_of(cgrp);
}

/* Point 1 of jobs.bpf.h: numbers, weights, parents and paths of jobs. */
static void jobs_have_numbers_and_paths(void)
{
	struct scx_init_task_args args = { .cgroup = &deep[2] };
	struct cgroup unknown = { .level = 1, .parent = &root };
	u64 path;

	CHECK(make(&root, NULL, 100) == ROOT_JOB && job_at(0)->weight == 100 && job_at(0)->path == 1, "the root");
	path = job_at(0)->path;
	for (u32 level = 0; level < 4; level++) {
		u32 parent = level ? number_of(&deep[level - 1]) : ROOT_JOB;
		u32 number = make(&deep[level], level ? &deep[level - 1] : &root, 10 + level);

		path |= 1ULL << number;
		CHECK(number == level + 1 && last_job == number, "%u", number);
		CHECK(job_at(number)->parent == parent && job_at(number)->weight == 10 + level, "%u", number);
		CHECK(job_at(number)->path == path, "%#llx", (unsigned long long)job_at(number)->path);
	}
	/*
	 * Point 2 of jobs.bpf.h: a cgroup of the fifth level counts as its parent at the fourth;
	 * its weight and removal do not affect that one.
	 */
	CHECK(make(&deep[4], &deep[3], 99) == 4, "%u", number_of(&deep[4]));
	weigh_job(&deep[4], 98);
	CHECK(job_at(4)->weight == 13, "%u", job_at(4)->weight);
	end_job(&deep[4]);
	CHECK(make(&below[0], &root, 1) == 5, "%u: the fourth job still exists", number_of(&below[0]));
	end_job(&below[0]);
	weigh_job(&deep[3], 50);
	weigh_job(&root, 70);
	CHECK(job_at(4)->weight == 50 && job_at(0)->weight == 70, "%u", job_at(4)->weight);
	/* Point 3 of jobs.bpf.h: the job of a new task, and of an unknown cgroup. */
	CHECK(first_job(&args) == 3 && number_of(&unknown) == ROOT_JOB, "%u", first_job(&args));
	CHECK(held == 0, "%d", held);
	for (u32 level = 0; level < 4; level++)
		end_job(&deep[3 - level]);
}

/*
 * Point 2 of jobs.bpf.h: the table holds 63 jobs beside the root; numbers of removed jobs are
 * reused.
 */
static void job_numbers_are_reused(void)
{
	for (u32 round = 0; round < 3; round++) {
		for (u32 i = 0; i < 70; i++) {
			u32 number = make(&below[i], &root, 200 + i);

			CHECK(number == (i < 63 ? i + 1 : ROOT_JOB), "%u is %u", i, number);
		}
		CHECK(last_job == 63 && job_at(63)->weight == 262 && job_at(0)->weight == 70, "%u", last_job);
		end_job(&below[66]);
		end_job(&below[20]);
		CHECK(make(&below[20], &root, 5) == 21, "%u", number_of(&below[20]));
		for (u32 i = 0; i < 70; i++)
			end_job(&below[i]);
	}
	end_job(&root);
	CHECK(make(&below[0], &root, 1) == 1, "the root's number is not reused");
}

int main(void)
{
	jobs_have_numbers_and_paths();
	job_numbers_are_reused();
	no_memory = true;
	below[1] = (struct cgroup){ .level = 1, .parent = &root };
	CHECK(make_job(&below[1], 100) == -12, "ENOMEM");
	return 0;
}
