/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pick: the best task of a queue in deadline order, for one CPU.
 *
 * 1. Tasks that may not run on the CPU are passed over.
 * 2. Without a bias the first one is the best.
 * 3. With a bias a CPU sees some deadlines as later than they are. None is seen as earlier, so nobody is better once a
 *    bare deadline is as late as the best so far: mostly a few steps are enough.
 * 4. What was seen is what is taken: an iterator may move any task that was queued when it began, so one look into the queue
 *    is enough. If another CPU was faster, the search begins anew.
 * 5. A task must not be later than a limit. It may be as late: then it waited, and who has the limit ran.
 *
 * A policy defines before it includes this: PICK_REFUSED(p, cpu), for tasks that are to be passed over though they may
 * run here; PICK_BIASED, whether there is a bias; and PICK_SEEN(p, deadline, cpu), a deadline with its bias. It may define
 * PICK_FLAGS: how a task is put before the CPU.
 */
#ifndef WEIR_PICK_BPF_H
#define WEIR_PICK_BPF_H

#include "scx.bpf.h"

#ifndef PICK_FLAGS
#define PICK_FLAGS 0
#endif

#define PICK_ATTEMPTS 3
#define NO_LIMIT (~0ULL)

static __always_inline bool may_take(struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !PICK_REFUSED(p, cpu);
}

/* 2: whether a task was taken. */
static __always_inline bool take_first(u64 dsq_id, s32 cpu, u64 limit)
{
	struct task_struct *p;
	u32 taken = false;

	for_each_queued(p, dsq_id) {
		if (!may_take(p, cpu))
			continue;
		if (p->scx.dsq_vtime > limit || (taken = dsq_move_as(&p_it, p, SCX_DSQ_LOCAL, PICK_FLAGS)))
			break;
	}
	return taken;
}

/* The number of the best task that an iterator finds; 0 if there is none. */
static __always_inline s32 find_best(struct bpf_iter_scx_dsq *it, s32 cpu, u64 limit)
{
	struct task_struct *p;
	s32 best = 0;

	while ((p = bpf_iter_scx_dsq_next(it))) {
		u64 seen, bare = p->scx.dsq_vtime;

		if (best ? bare >= limit : bare > limit)
			break;
		if (!may_take(p, cpu))
			continue;
		seen = PICK_SEEN(p, bare, cpu);
		if (best ? seen < limit : seen <= limit) {
			limit = seen;
			best = p->pid;
		}
	}
	return best;
}

#define TAKEN 1
#define LOST 2

/* 3, 4: TAKEN, LOST if another CPU was faster, 0 if there is none. An iterator moves only what was queued when it began. */
static __noinline u32 try_best(u64 dsq_id, s32 cpu, u64 limit)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 result = 0;
	s32 best;

	bpf_iter_scx_dsq_new(&it, dsq_id, 0);
	best = find_best(&it, cpu, limit);
	if (best) {
		result = LOST;
		p = bpf_task_from_pid(best);
		if (p) {
			if (dsq_move_as(&it, p, SCX_DSQ_LOCAL, PICK_FLAGS))
				result = TAKEN;
			bpf_task_release(p);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return result;
}

static __always_inline bool take_best(u64 dsq_id, s32 cpu, u64 limit)
{
	u32 result = LOST;
	int attempt;

	for_range(attempt, 0, PICK_ATTEMPTS) {
		result = try_best(dsq_id, cpu, limit);
		if (result != LOST)
			break;
	}
	return result == TAKEN;
}

static __noinline bool take(u64 dsq_id, s32 cpu, u64 limit)
{
	if (scx_bpf_dsq_nr_queued(dsq_id) == 0)
		return false;
	return PICK_BIASED ? take_best(dsq_id, cpu, limit) : take_first(dsq_id, cpu, limit);
}

/* The deadline of the first task of a queue whose tasks all belong to one CPU. */
static __noinline __attribute__((unused)) u64 first_deadline(u64 dsq_id)
{
	struct task_struct *p;

	if (scx_bpf_dsq_nr_queued(dsq_id) == 0)
		return NO_LIMIT;
	for_each_queued(p, dsq_id)
		return p->scx.dsq_vtime;
	return NO_LIMIT;
}

#endif
