/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Priorities of Plan 9, which NIX kept: the task that has used least of the machine lately goes
 * first.
 *
 * 1. Share: fraction of one CPU that a task has used lately, from 0 to 1. While it runs for n
 *    seconds, the share grows by n/30 of its difference to 1; in n seconds otherwise it loses n/30
 *    of itself.
 * 2. Load: number of runnable tasks, averaged over a second. In each tick period, the first tick of
 *    any CPU samples it.
 * 3. Priority: the fair share, which is CPUs / load, divided by the task's own share and rounded.
 *    It is at most the task's base: 10, or 13 for kthreads. While there is no load, it is the base.
 * 4. The priority is computed when a task becomes runnable, when it starts to run, and once a
 *    second while it waits. A task whose priority changes goes behind those that already have the
 *    new one.
 * 5. A task that has waited for 10 s is promoted above all others until it runs.
 *
 * Where this departs from NIX, and why:
 * - Time is that of the clock, and shares have 30 bits. NIX counts ticks, and shares in
 *   thousandths, rounded down: with tick rates as high as those of Linux, one tick in 30 s would be
 *   lost in the rounding.
 * - The priorities of all waiting tasks are updated every second. NIX does so only for the head of
 *   each list, and only if it last ran on core 0. In its AMP scheduler core 0 runs nothing, so this
 *   never happens there; and there only core 1 counts as running.
 * - Promotion is not in NIX. There, if a task has run alone for a minute and n others start that
 *   never sleep, it waits for 30 s * ln((n + 1) / 2), because its share must decay below twice the
 *   fair share. Linux ejects a scheduler after 30 s.
 * - Plan 9 has no nice values. Here two of them are one step of the base; SCHED_IDLE has the base
 *   0.
 */
#ifndef NIX_SHARE_BPF_H
#define NIX_SHARE_BPF_H

#define ONE (1ULL << 30)
#define WINDOW_US 30000000ULL
#define SECOND_US 1000000ULL
#define SECOND_NS 1000000000ULL

#define BASE_KERNEL 13
#define BASE_MOST 19
#define PROMOTED 20
#define PROMOTED_AFTER_NS (10 * SECOND_NS)

RODATA u32 hz = 100;

/* 2: in units of LOAD_ONE, and the time of the last sample. */
#define LOAD_ONE (1ULL << 20)

u64 load;
u64 load_seen_at;

/* 1: updates the share up to now. */
static __always_inline void settle(struct task *t, bool ran, u64 now)
{
	u64 us, left;

	if (now <= t->settled_at)
		return;
	us = (now - t->settled_at) / 1000;
	t->settled_at += us * 1000;
	left = us < WINDOW_US ? WINDOW_US - us : 0;
	if (ran)
		t->share = ONE - (ONE - t->share) * left / WINDOW_US;
	else
		t->share = t->share * left / WINDOW_US;
}

static __always_inline u32 base_of(const struct task_struct *p)
{
	u32 base = (u32)(140 - p->static_prio) / 2;

	if (p->flags & PF_KTHREAD)
		return BASE_KERNEL;
	if (p->policy == SCHED_IDLE)
		return 0;
	return base < BASE_MOST ? base : BASE_MOST;
}

/* 3 */
static __noinline u32 priority_of(struct task_struct *p, const struct task *t)
{
	u64 own = t->share > ONE / 1000 ? t->share : ONE / 1000, now_load = READ_ONCE(load), fair, times;
	u32 base = base_of(p);

	if (!now_load)
		return base;
	fair = ONE * LOAD_ONE * nr_online / now_load;
	times = (fair + own / 2) / own;
	return times < base ? times : base;
}

/*
 * Order of a queue: by priority, highest first, and FIFO within a priority. The lowest bit is set
 * for a task that never ran.
 */
#define KEY_PRIORITY_SHIFT 56
#define KEY_TIME_MASK (((1ULL << KEY_PRIORITY_SHIFT) - 1) & ~1ULL)

static __always_inline u64 key_of(const struct task *t, u64 now)
{
	return (u64)(PROMOTED - t->priority) << KEY_PRIORITY_SHIFT | (now & KEY_TIME_MASK) | t->fresh;
}

static __always_inline u32 priority_in(u64 key)
{
	return PROMOTED - (key >> KEY_PRIORITY_SHIFT);
}

static __always_inline bool is_promoted(u64 key)
{
	return key >> KEY_PRIORITY_SHIFT == 0;
}

/* 2: samples the load; `count` tasks wait. */
static __noinline void sample_load(u32 count, u64 now)
{
	u64 before = READ_ONCE(load_seen_at), us = (now - before) / 1000;
	int cpu;

	if (__sync_val_compare_and_swap(&load_seen_at, before, now) != before)
		return;
	for_range(cpu, 0, nr_cpus)
		count += READ_ONCE(cpu_of(cpu)->busy);
	us = us < SECOND_US ? us : SECOND_US;
	WRITE_ONCE(load, (READ_ONCE(load) * (SECOND_US - us) + count * LOAD_ONE * us) / SECOND_US);
}

/* 4, 5: updates the priorities of the tasks in a queue. */
static __noinline void update_priorities(u64 dsq_id, u64 now)
{
	struct task_struct *p;

	for_each_queued(p, dsq_id) {
		struct task *t = task_of(p);
		u32 priority;

		if (!t)
			continue;
		settle(t, false, now);
		priority = now - t->ready_at > PROMOTED_AFTER_NS ? PROMOTED : priority_of(p, t);
		if (priority == t->priority)
			continue;
		t->priority = priority;
		dsq_move_by_key(&p_it, p, dsq_id, key_of(t, now));
	}
}

#endif
