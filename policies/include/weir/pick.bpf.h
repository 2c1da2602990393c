/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pick: the best task for one CPU from a DSQ in deadline order.
 *
 * 1. Tasks that may not run on the CPU are skipped.
 * 2. Without a bias the first remaining task is the best.
 * 3. With a bias, a CPU sees some deadlines later than they are, never earlier. So the scan stops
 *    as soon as an unbiased deadline is as late as the best one found; a few steps usually suffice.
 * 4. The task that was chosen is the one that is moved: an iterator may move any task that was
 *    queued when the iterator was created, so one scan of the DSQ suffices. If another CPU takes
 *    that task first, the scan restarts.
 * 5. The task's deadline must not be later than a limit. It may equal the limit: the running task,
 *    whose deadline is the limit, has run, and the other one has waited.
 *
 * Before including this, a policy defines PICK_REFUSED(p, cpu), true for tasks to skip although
 * they may run here; PICK_BIASED, whether there is a bias; and PICK_SEEN(p, deadline, cpu), the
 * biased deadline. It may define PICK_FLAGS, the flags of the insert into the local DSQ.
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

/* 2: returns whether a task was taken. */
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

/* Pid of the best task that the iterator finds; 0 if there is none. */
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

/*
 * 3, 4: TAKEN; LOST if another CPU was faster; 0 if there is no task. An iterator moves only tasks
 * that were queued when it was created.
 */
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

/* Deadline of the first task of a DSQ that belongs to one CPU. */
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
