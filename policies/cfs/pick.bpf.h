/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pick: which task a CPU runs next, and when it picks again.
 *
 * 1. The pick is the task with the least virtual time, the running task included; on a tie, a
 *    waiting task.
 * 2. A buddy passes it if its virtual time is later by no more than the wakeup granularity, scaled
 *    by the weight of the task that it passes. There are two buddies: `next`, a task that woke and
 *    preempted (since 4.1), and `last`, the task that was preempted then, if there are at least 8
 *    tasks: its data are still cached. In 2.6.36 `last` goes before `next`, later `next` before
 *    `last`.
 * 3. A task that yields becomes the `skip` buddy (since 4.1): the second task passes it on the same
 *    terms. In 2.6.36 a yield only picks again; SCHED_BATCH tasks, or all with `compat_yield`, move
 *    behind all others.
 * 4. A waking task preempts if its virtual time is earlier by more than the wakeup granularity,
 *    scaled by its own weight: a task with little weight must be further behind. All others preempt
 *    SCHED_IDLE; SCHED_BATCH and SCHED_IDLE tasks preempt in no other case.
 * 5. A tick ends the running task's slice if the task ran for longer than its slice. It also does
 *    so after the minimal granularity, if the first waiting task is earlier by more than that
 *    slice. In the first case the task stops being a buddy.
 * 6. A task that is picked again continues its slice since 4.1, and starts a new one in 2.6.36.
 */
#ifndef CFS_PICK_BPF_H
#define CFS_PICK_BPF_H

#include "queue.bpf.h"

RODATA bool compat_yield = false;

/* ---- 4, 5: when to pick ---- */

/* The CPU picks again as soon as possible. A kick can get lost; the next tick repeats it. */
static __always_inline void resched_cpu(struct cpu *c, s32 cpu)
{
	c->need_resched = true;
	kick(cpu, SCX_KICK_PREEMPT);
}

static __always_inline u64 wakeup_granularity(u32 weight)
{
	return weighed(wakeup_granularity_ns, weight);
}

/* 2: SCHED_IDLE tasks are never buddies. */
static __always_inline void note_buddies(struct cpu *c, s32 wakee, u32 weight, bool won)
{
	if (won && version >= V4_1 && !is_idle_weight(weight))
		c->next = wakee;
	if (c->nr >= fit_in_latency && !c->current_idle)
		c->last = c->current;
}

/* 4: `p` has just been inserted into the queue of a CPU whose running task is charged. */
static __always_inline void check_preemption(struct task_struct *p, struct task *t, struct cpu *c, s32 cpu)
{
	bool won = false;

	if (!c->current || c->need_resched)
		return;
	if (!c->current_idle || is_idle_weight(t->weight)) {
		s64 ahead = c->vruntime - t->vruntime;

		if (p->policy == SCHED_BATCH || p->policy == SCHED_IDLE)
			return;
		if (ahead <= (s64)wakeup_granularity(t->weight))
			return;
		won = true;
	}
	resched_cpu(c, cpu);
	note_buddies(c, p->pid, t->weight, won);
}

/* 5: returns whether this tick ends the slice of the running task, which is charged. */
static __always_inline bool slice_ends(struct cpu *c)
{
	u64 slice = slice_ns(c, c->weight, c->nr, c->load);

	if (c->nr < 2)
		return false;
	if (c->ran_ns > slice) {
		forget_buddy(c, c->current);
		return true;
	}
	return c->ran_ns >= min_granularity_ns && c->waits && (s64)(c->vruntime - c->first) > (s64)slice;
}

/* ---- 1 to 3: the pick ---- */

/*
 * 2: latest virtual time with which a task may pass the first one, which may be the running task.
 */
static __always_inline u64 limit_of(const struct cpu *c, struct task_struct *first, bool stays)
{
	u64 vruntime = first->scx.dsq_vtime;
	struct task *t = task_of(first);

	if (stays && before(c->vruntime, vruntime))
		return c->vruntime + wakeup_granularity(c->weight);
	return vruntime + wakeup_granularity(t ? t->weight : NICE_0_WEIGHT);
}

/*
 * Scans the queue: only the first task if there are no buddies, otherwise as far as a buddy can be.
 */
VERIFIED_ONCE u32 see_queue(s32 cpu, u32 stays)
{
	struct cpu *c = cpu_of(cpu);
	struct seen *seen = &c->seen;
	struct task_struct *p;

	seen->first = seen->second = 0;
	seen->next = seen->last = false;
	if (scx_bpf_dsq_nr_queued(cpu) == 0)
		return 0;
	for_each_queued(p, cpu) {
		u64 vruntime = p->scx.dsq_vtime;

		if (!seen->first) {
			seen->first = p->pid;
			seen->first_vruntime = vruntime;
			if (!c->next && !c->last && !c->skip)
				return 0;
			seen->limit = limit_of(c, p, stays);
		} else if (!seen->second) {
			seen->second = p->pid;
			seen->second_vruntime = vruntime;
		}
		if (before(seen->limit, vruntime))
			return 0;
		seen->next |= p->pid == c->next;
		seen->last |= p->pid == c->last;
	}
	return 0;
}

/*
 * 3: the task that runs in place of the one that yielded: the next in the order, if it is not too
 * late.
 */
static __always_inline s32 instead_of_skipped(const struct cpu *c, s32 skipped, bool stays)
{
	const struct seen *seen = &c->seen;
	s32 other = skipped == seen->first ? seen->second : seen->first;
	u64 vruntime = skipped == seen->first ? seen->second_vruntime : seen->first_vruntime;

	if (skipped == seen->first && stays && (!other || before(c->vruntime, vruntime))) {
		other = c->current;
		vruntime = c->vruntime;
	}
	return other && !before(seen->limit, vruntime) ? other : skipped;
}

/* Pid of the best task; 0 if there is none. With `stays`, the running task competes. */
VERIFIED_ONCE s32 choose(s32 cpu, u32 stays)
{
	const struct cpu *c = cpu_of(cpu);
	const struct seen *seen = &c->seen;
	bool current_first = stays && (!seen->first || before(c->vruntime, seen->first_vruntime));
	s32 best = current_first ? c->current : seen->first;
	bool next = seen->next, last = seen->last;

	if (!seen->first)
		return best;
	if (stays && !before(seen->limit, c->vruntime)) {
		next |= c->next == c->current;
		last |= c->last == c->current;
	}
	if (c->skip && c->skip == best)
		best = instead_of_skipped(c, best, stays);
	if (version == V2_6_36)
		return last ? c->last : next ? c->next : best;
	return next ? c->next : last ? c->last : best;
}

VERIFIED_ONCE u32 take_numbered(s32 cpu, s32 number)
{
	struct task_struct *p;

	for_each_queued(p, cpu) {
		if (p->pid == number)
			return dsq_move(&p_it, p, SCX_DSQ_LOCAL);
	}
	return 0;
}

/* 3: implements ops.yield. A task that is alone continues. */
static __always_inline void yield_current(struct task_struct *p, struct cpu *c, s32 cpu, u64 now)
{
	struct task_struct *other;

	if (c->nr < 2)
		return;
	update_current(cpu, now);
	forget_buddy(c, p->pid);
	if (version >= V4_1) {
		c->skip = p->pid;
	} else if (compat_yield || p->policy == SCHED_BATCH) {
		for_each_queued(other, cpu)
			c->vruntime = later(c->vruntime, other->scx.dsq_vtime + 1);
	}
	c->need_resched = true;
	task_set_slice(p, 0);
}

#endif
