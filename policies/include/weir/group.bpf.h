/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whose a task is: its user, its session, its cgroup. Read alike from 6.12 to 7.2, and in Weir's model.
 *
 * A cgroup's weight and cap are told by ops: `cgroup_init` for each cgroup that there is, parents first, and for each new
 * one; `cgroup_set_weight` when it changes; `cgroup_move` when a task leaves one for another. What `init_task` is told
 * (`args->cgroup`) holds until then.
 */
#ifndef WEIR_GROUP_BPF_H
#define WEIR_GROUP_BPF_H

#include "scx.bpf.h"

extern struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;
extern struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
extern struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym;
extern void bpf_cgroup_release(struct cgroup *cgrp) __ksym;

/* One value of type `stored` per cgroup, found through the cgroup itself and freed with it. */
#define CGROUP_STORAGE(name, stored)					\
	struct {							\
		MAP_NUMBER(type, BPF_MAP_TYPE_CGRP_STORAGE);		\
		MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);		\
		MAP_TYPE(key, int);					\
		MAP_TYPE(value, stored);				\
	} name SEC(".maps")

static void *(*const bpf_cgrp_storage_get)(void *map, struct cgroup *cgrp, void *value, u64 flags) = (void *)210;

/* PIDTYPE_SID: the place of a session's leader among the numbers that a process has. */
#define PIDTYPE_SID 3

/* The user who started it: `uid` of the credentials that others judge it by. */
static __always_inline u32 uid_of(struct task_struct *p)
{
	return p->real_cred->uid.val;
}

/* The number of its session's leader; 0 for threads of the kernel. What the kernel groups by, too (autogroups). */
static __always_inline s32 session_of(struct task_struct *p)
{
	return p->signal->pids[PIDTYPE_SID]->numbers[0].nr;
}

/* The id of its cgroup, in an op that is about `p` and has its runqueue locked: all but those of forks, ends and dumps. */
static __always_inline u64 cgroup_of(struct task_struct *p)
{
	struct cgroup *cgrp = scx_bpf_task_cgroup(p);
	u64 id = cgrp->kn->id;

	bpf_cgroup_release(cgrp);
	return id;
}

#endif
