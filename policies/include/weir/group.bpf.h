/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The owner of a task: user, session, and cgroup. The same code works from 6.12 to 7.2 and in
 * Weir's model.
 *
 * Ops report the weight and cap of a cgroup: `cgroup_init` for each cgroup at attach (parents
 * first) and for each new one, `cgroup_set_weight` for each change, `cgroup_move` when a task
 * changes its cgroup. The cgroup that `init_task` gets (`args->cgroup`) holds until the first move.
 */
#ifndef WEIR_GROUP_BPF_H
#define WEIR_GROUP_BPF_H

#include "scx.bpf.h"

extern struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;
extern struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
extern struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym;
extern void bpf_cgroup_release(struct cgroup *cgrp) __ksym;

/* One value of type `stored` per cgroup, looked up by the cgroup and freed with it. */
#define CGROUP_STORAGE(name, stored)					\
	struct {							\
		MAP_NUMBER(type, BPF_MAP_TYPE_CGRP_STORAGE);		\
		MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);		\
		MAP_TYPE(key, int);					\
		MAP_TYPE(value, stored);				\
	} name SEC(".maps")

static void *(*const bpf_cgrp_storage_get)(void *map, struct cgroup *cgrp, void *value, u64 flags) = (void *)210;

/* PIDTYPE_SID: index of the session leader in `signal->pids`. */
#define PIDTYPE_SID 3

/* Real user id of the task's real credentials. */
static __always_inline u32 uid_of(struct task_struct *p)
{
	return p->real_cred->uid.val;
}

/* Pid of the session leader; 0 for kthreads. The kernel's autogroups use the same grouping. */
static __always_inline s32 session_of(struct task_struct *p)
{
	return p->signal->pids[PIDTYPE_SID]->numbers[0].nr;
}

/*
 * Id of the cgroup of `p`. Only for ops about `p` that hold its runqueue lock: all but those for
 * fork, exit, and dump.
 */
static __always_inline u64 cgroup_of(struct task_struct *p)
{
	struct cgroup *cgrp = scx_bpf_task_cgroup(p);
	u64 id = cgrp->kn->id;

	bpf_cgroup_release(cgrp);
	return id;
}

#endif
