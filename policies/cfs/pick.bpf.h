/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who runs next on one CPU, and when that is asked.
 *
 * 1. The pick is whoever has the least virtual time, the running task included; at a tie somebody who waits.
 * 2. A buddy goes before it, if its virtual time is no more than the wakeup granularity later, weighed by the weight of the
 *    one it passes. Two tasks can be buddies: `next`, who woke and preempted (since 4.1), and `last`, who was preempted
 *    then, if at least 8 tasks are there: its data are still in the cache. In 2.6.36 `last` goes before `next`, and later
 *    `next` goes before `last`.
 * 3. A task that yields becomes the `skip` buddy (since 4.1): the second goes before it on the same terms. In 2.6.36 a
 *    yield is only a pick; SCHED_BATCH, or all with `compat_yield`, go behind all others.
 * 4. A task that wakes preempts if its virtual time is earlier by more than the wakeup granularity, weighed by its own
 *    weight: a light task has to be further behind. SCHED_IDLE is preempted by all others; SCHED_BATCH and SCHED_IDLE never
 *    preempt otherwise.
 * 5. A tick ends a task's turn if it ran for more than its slice, or for the minimal granularity at least while the first
 *    that waits is earlier by more than that slice. It then is nobody's buddy.
 * 6. A task that is picked again goes on with its turn since 4.1, and begins a new one in 2.6.36.
 */
#ifndef CFS_PICK_BPF_H
#define CFS_PICK_BPF_H

#include "queue.bpf.h"

RODATA bool compat_yield = false;

/* ---- 4, 5: whether to pick ---- */

/* Whoever runs on the CPU goes through a pick as soon as possible. A kick may get lost; the next tick repeats it. */
static __always_inline void tell(struct cpu *c, s32 cpu)
{
	c->told = true;
	kick(cpu, SCX_KICK_PREEMPT);
}

static __always_inline u64 wakeup_granularity(u32 weight)
{
	return weighed(wakeup_granularity_ns, weight);
}

/* 2: SCHED_IDLE is nobody's buddy. */
static __always_inline void note_buddies(struct cpu *c, s32 wakee, u32 weight, bool won)
{
	if (won && version >= V4_1 && !is_idle_weight(weight))
		c->next = wakee;
	if (c->nr >= fit_in_latency && !c->current_idle)
		c->last = c->current;
}

/* 4: `p` has just been put into the queue of a CPU whose task is charged. */
static __always_inline void check_preemption(struct task_struct *p, struct task *t, struct cpu *c, s32 cpu)
{
	bool won = false;

	if (!c->current || c->told)
		return;
	if (!c->current_idle || is_idle_weight(t->weight)) {
		s64 ahead = c->vruntime - t->vruntime;

		if (p->policy == SCHED_BATCH || p->policy == SCHED_IDLE)
			return;
		if (ahead <= (s64)wakeup_granularity(t->weight))
			return;
		won = true;
	}
	tell(c, cpu);
	note_buddies(c, p->pid, t->weight, won);
}

/* 5: whether the turn of the task that runs, and is charged, ends at this tick. */
static __always_inline bool turn_ends(struct cpu *c)
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

/* The latest virtual time with which somebody may go before the first one, who may be the running task. */
static __always_inline u64 limit_of(const struct cpu *c, struct task_struct *first, bool stays)
{
	u64 vruntime = first->scx.dsq_vtime;
	struct task *t = task_of(first);

	if (stays && before(c->vruntime, vruntime))
		return c->vruntime + wakeup_granularity(c->weight);
	return vruntime + wakeup_granularity(t ? t->weight : NICE_0_WEIGHT);
}

/* Looks through the queue: at the first, and, if there are buddies, as far as one may stand. */
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

/* 3: who runs instead of the one that yielded: the next in order, if it is not too late. */
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

/* The number of the best task, 0 if there is none. `stays`: the task that runs may go on. */
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

/* 3: what ops.yield does. Alone, a task just goes on. */
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
	c->told = true;
	task_set_slice(p, 0);
}

#endif
