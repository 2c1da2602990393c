/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * groups: prints the arguments of the cgroup ops and the user and session of tasks, and runs tasks
 * in FIFO order. -DREFUSE_INIT='"x"' names the cgroup whose cgroup_init fails, -DREFUSE_MOVE='"t"'
 * the task whose prep_move fails; -DCHANGES also prints quiescent and runnable.
 */
#include <weir/group.bpf.h>

LICENSE("GPL");

/* Number of enqueues by cgroup level. */
u64 enqueued[8];
u64 last_cgroup;
/* Number of kfuncs that returned the cgroup of the last enqueued task correctly. */
u32 found;

/* Last weight passed for each cgroup. */
CGROUP_STORAGE(weights, u32);
u32 last_weight;

static __always_inline void keep(struct cgroup *cgrp, u32 weight)
{
	u32 *kept = bpf_cgrp_storage_get(&weights, cgrp, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (kept)
		*kept = weight;
}

#ifndef REFUSE_INIT
#define REFUSE_INIT "-"
#endif
#ifndef REFUSE_MOVE
#define REFUSE_MOVE "-"
#endif

/* Compares the first letter only: names in the tests have one letter. */
static __always_inline bool is_called(const char *name, const char *refused)
{
	char own[2];

	bpf_probe_read_kernel_str(own, sizeof(own), name);
	return own[0] == refused[0];
}

/* Never dispatches directly, so every task goes through `enqueue`. */
OP3(s32, groups_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	return prev_cpu;
}

OP2(void, groups_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct cgroup *cgrp = scx_bpf_task_cgroup(p), *same, *root;
	u64 *count = BOUNDED_AT(enqueued, (u32)cgrp->level);
	u32 *weight = bpf_cgrp_storage_get(&weights, cgrp, NULL, 0);

	last_weight = weight ? *weight : 0;
	if (count)
		(*count)++;
	last_cgroup = cgrp->kn->id;
	found = 0;
	same = bpf_cgroup_from_id(last_cgroup);
	if (same) {
		found += same->kn->id == last_cgroup;
		bpf_cgroup_release(same);
	}
	root = bpf_cgroup_ancestor(cgrp, 0);
	if (root) {
		found += root->level == 0;
		bpf_cgroup_release(root);
	}
	bpf_cgroup_release(cgrp);
	found += cgroup_of(p) == last_cgroup;
	dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SLEEPABLE_OP2(s32, groups_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	if (!(p->flags & PF_KTHREAD))
		bpf_printk("%s of user %d, session %d", p->comm, uid_of(p), session_of(p));
	if (args->fork)
		bpf_printk("%s is born in %s, level %d", p->comm, args->cgroup->kn->name, args->cgroup->level);
	return 0;
}

OP2(void, groups_exit_task, struct task_struct *, p, struct scx_exit_task_args *, args)
{
	if (p->flags & PF_EXITING)
		bpf_printk("%s ends, of user %d", p->comm, uid_of(p));
}

/* Loaders reject a program that is not in the ops table. */
#ifdef CHANGES
OP1(void, groups_quiescent, struct task_struct *, p)
{
	bpf_printk("%s quiescent", p->comm);
}

OP1(void, groups_runnable, struct task_struct *, p)
{
	bpf_printk("%s runnable", p->comm);
}
#endif

SLEEPABLE_OP2(s32, groups_cgroup_init, struct cgroup *, cgrp, struct scx_cgroup_init_args *, args)
{
	u64 quota_us = KERNEL_HAS_FIELD(args->bw_quota_us) ? args->bw_quota_us : 0;

	bpf_printk("init %s, weight %d, quota %lld", cgrp->kn->name, args->weight, quota_us);
	keep(cgrp, args->weight);
	return is_called(cgrp->kn->name, REFUSE_INIT) ? -12 : 0;
}

SLEEPABLE_OP1(void, groups_cgroup_exit, struct cgroup *, cgrp)
{
	bpf_printk("exit %s", cgrp->kn->name);
}

SLEEPABLE_OP3(s32, groups_cgroup_prep_move, struct task_struct *, p, struct cgroup *, from, struct cgroup *, to)
{
	bpf_printk("%s may go from %s to %s", p->comm, from->kn->name, to->kn->name);
	return is_called(p->comm, REFUSE_MOVE) ? -13 : 0;
}

OP3(void, groups_cgroup_move, struct task_struct *, p, struct cgroup *, from, struct cgroup *, to)
{
	bpf_printk("%s goes from %s to %s", p->comm, from->kn->name, to->kn->name);
	last_cgroup = cgroup_of(p);
}

OP3(void, groups_cgroup_cancel_move, struct task_struct *, p, struct cgroup *, from, struct cgroup *, to)
{
	bpf_printk("%s stays in %s instead of %s", p->comm, from->kn->name, to->kn->name);
}

OP2(void, groups_cgroup_set_weight, struct cgroup *, cgrp, u32, weight)
{
	bpf_printk("weight of %s: %d", cgrp->kn->name, weight);
	keep(cgrp, weight);
}

OP4(void, groups_cgroup_set_bandwidth, struct cgroup *, cgrp, u64, period_us, u64, quota_us, u64, burst_us)
{
	bpf_printk("%s gets %lld us in %lld", cgrp->kn->name, quota_us, period_us);
}

OP2(void, groups_cgroup_set_idle, struct cgroup *, cgrp, bool, idle)
{
	bpf_printk("%s idle: %d", cgrp->kn->name, idle);
}

OP1(void, groups_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(groups_ops,
	.select_cpu = (void *)groups_select_cpu,
	.enqueue = (void *)groups_enqueue,
	.init_task = (void *)groups_init_task,
	.exit_task = (void *)groups_exit_task,
#ifdef CHANGES
	.quiescent = (void *)groups_quiescent,
	.runnable = (void *)groups_runnable,
#endif
	.cgroup_init = (void *)groups_cgroup_init,
	.cgroup_exit = (void *)groups_cgroup_exit,
	.cgroup_prep_move = (void *)groups_cgroup_prep_move,
	.cgroup_move = (void *)groups_cgroup_move,
	.cgroup_cancel_move = (void *)groups_cgroup_cancel_move,
	.cgroup_set_weight = (void *)groups_cgroup_set_weight,
	.cgroup_set_bandwidth = (void *)groups_cgroup_set_bandwidth,
	.cgroup_set_idle = (void *)groups_cgroup_set_idle,
	.exit = (void *)groups_exit,
	.name = "groups",
);
