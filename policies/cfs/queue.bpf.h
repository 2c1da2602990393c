/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queue of one CPU: its tasks in the order of virtual time.
 *
 * 1. A task's virtual time is its CPU time divided by its weight: 1 ms of CPU time is 1 ms for nice
 *    0, and 68 ms for nice 19. The task with the least virtual time runs next. Waiting tasks are in
 *    their CPU's DSQ in this order; the running task is not.
 * 2. The CPU's `min_vruntime` follows the minimum over all its tasks and never decreases. Virtual
 *    times are meaningful only relative to it: a task that migrates keeps the difference.
 * 3. In a period, each task should run once. The period is the latency (6 ms), or 0.75 ms per task
 *    for more than 8 tasks. A task's slice is its part of the period by weight. Since 6.1 it is
 *    never shorter than 0.75 ms.
 * 4. Latency and granularities are multiplied by 1 + log2(CPUs), with at most 8 CPUs counted.
 * 5. A waking task gets at least min_vruntime minus half the latency, so that a long sleep earns no
 *    more credit than that; without GENTLE_FAIR_SLEEPERS it is the whole latency. In 6.1,
 *    SCHED_IDLE tasks have the minimal granularity in place of the latency.
 * 6. A new task starts at its parent's virtual time, but at least one slice after min_vruntime
 *    (START_DEBIT), so forking gains nothing.
 *
 * The state of a CPU is protected by its runqueue lock, except for its task counters, because other
 * CPUs take tasks from its queue.
 */
#ifndef CFS_QUEUE_BPF_H
#define CFS_QUEUE_BPF_H

#include "weight.bpf.h"

#include <weir/hotplug.bpf.h>

/* Versions, for all differences that are not a number. */
enum { V2_6_36, V4_1, V6_1 };

RODATA u32 version = V6_1;
RODATA u32 latency_us = 6000;
RODATA u32 min_granularity_us = 750;
RODATA u32 wakeup_granularity_us = 1000;
RODATA u32 scaling = 1;			/* 4: 0 none, 1 by the logarithm, 2 linear */
RODATA bool gentle_sleepers = true;
RODATA bool start_debit = true;

/*
 * Practically infinite, because ticks end slices. SCX_SLICE_INF would permit the kernel to stop the
 * tick.
 */
#define SLICE_NS (1000 * 1000000000ULL)

/* Computed at init and at CPU hotplug events. */
u64 latency_ns;
u64 min_granularity_ns;
u64 wakeup_granularity_ns;
u32 fit_in_latency;			/* 3: number of tasks whose minimal slices fill the latency: 8 */
u32 online_cpus;

/* State of a task. */
struct task {
	u64 vruntime;
	u64 ran_at;		/* end of its last run */
	u64 queued_at;
	s32 home;		/* CPU whose queue it is in, and to whose min_vruntime it is relative */
	s32 counted_at;		/* CPU whose runqueue counts it */
	s32 recent_cpu;		/* CPU on which it ran before its last one */
	u32 weight;
	u32 counted;		/* its weight in the load of `home`; 0 while it sleeps */
	s32 last_wakee;
	u32 flips;		/* number of changes of the task that it wakes */
	u64 flips_since;
	bool preempted;
	bool detached;		/* not in this class: vruntime is the difference to min_vruntime */
};

TASK_STORAGE(tasks, struct task);

/* Result of a scan of the queue for a pick. */
struct seen {
	s32 first, second;	/* pids; 0 if there is none */
	u64 first_vruntime, second_vruntime;
	u64 limit;		/* latest virtual time with which a task may pass the first one */
	bool next, last;	/* whether that buddy waits and may pass the first one */
};

struct cpu {
	u64 min_vruntime;
	/* State of the running task. Its struct task gets the virtual time when it stops. */
	u64 vruntime;
	u64 since;		/* time of the last charge */
	u64 ran_ns;		/* since it was picked */
	u64 first;		/* virtual time of the first waiting task, as last seen */
	bool waits;		/* whether there was one */
	s32 current;		/* pid; 0 if no task of this class runs */
	u32 weight;
	bool current_idle;	/* SCHED_IDLE */
	bool current_bound;	/* pinned to this CPU */
	bool need_resched;	/* must pick again */
	/* Over all runnable tasks. */
	u32 nr;
	u32 nr_idle;		/* SCHED_IDLE tasks among them */
	u64 load;		/* sum of weights */
	/* Pids of buddies. */
	s32 next, last, skip;
	s32 overdue;		/* pid of a task that must run next */
	u64 overdue_check;
	struct seen seen;
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

/*
 * Index of a CPU in a table. Without the barrier, the compiler would keep the masked number in a
 * register across the iterations of a loop, where the verifier loses its bounds.
 */
static __always_inline u32 index_of(s32 cpu)
{
	asm volatile("" : "+r"(cpu));
	return cpu & MAX_CPU_MASK;
}

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[index_of(cpu)];
}

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* Returns whether virtual time `a` is before `b`; both may wrap. */
static __always_inline bool before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static __always_inline u64 later(u64 a, u64 b)
{
	return before(a, b) ? b : a;
}

/* ---- 4: scaling ---- */

static __always_inline u32 scale_factor(u32 online)
{
	u32 counted = online < 8 ? online : 8, factor = 1;

	if (scaling == 0)
		return 1;
	if (scaling == 2)
		return counted ? counted : 1;
	if (counted >= 2)
		factor++;
	if (counted >= 4)
		factor++;
	if (counted >= 8)
		factor++;
	return factor;
}

static __always_inline void scale(u32 online)
{
	u32 factor = scale_factor(online);

	latency_ns = latency_us * 1000ULL * factor;
	min_granularity_ns = min_granularity_us * 1000ULL * factor;
	wakeup_granularity_ns = wakeup_granularity_us * 1000ULL * factor;
	fit_in_latency = min_granularity_us ? (latency_us + min_granularity_us - 1) / min_granularity_us : ~0U;
}

/* ---- 2, 1: virtual time ---- */

/* Updates the virtual time of the first waiting task. */
VERIFIED_ONCE u32 see_first(s32 cpu)
{
	struct cpu *c = cpu_of(cpu);
	struct task_struct *p;

	c->waits = false;
	if (scx_bpf_dsq_nr_queued(cpu) == 0)
		return 0;
	for_each_queued(p, cpu) {
		c->first = p->scx.dsq_vtime;
		c->waits = true;
		break;
	}
	return 0;
}

static __always_inline void update_min_vruntime(struct cpu *c, s32 cpu)
{
	u64 least = c->vruntime;

	see_first(cpu);
	if (!c->waits && !c->current)
		return;
	if (c->waits && (!c->current || before(c->first, least)))
		least = c->first;
	c->min_vruntime = later(c->min_vruntime, least);
}

/* Charges the running task. */
static __always_inline void charge_current(struct cpu *c, u64 now)
{
	u64 ran_ns = now - c->since;

	if (!c->current || now <= c->since)
		return;
	c->since = now;
	c->ran_ns += ran_ns;
	c->vruntime += weighed(ran_ns, c->weight);
}

/*
 * Called before virtual times are compared, but not between a pick and the start of the picked
 * task, which is in no queue then.
 */
VERIFIED_ONCE u32 update_current(s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);

	charge_current(c, now);
	update_min_vruntime(c, cpu);
	return 0;
}

/* ---- Task counters ---- */

static __always_inline bool is_idle_weight(u32 weight)
{
	return weight == IDLE_WEIGHT;
}

static __always_inline void count(struct task *t)
{
	struct cpu *c = cpu_of(t->home);

	if (t->counted)
		return;
	t->counted = t->weight;
	__sync_fetch_and_add(&c->nr, 1);
	__sync_fetch_and_add(&c->load, t->counted);
	if (is_idle_weight(t->counted))
		__sync_fetch_and_add(&c->nr_idle, 1);
}

static __always_inline void uncount(struct task *t)
{
	struct cpu *c = cpu_of(t->home);

	if (!t->counted)
		return;
	__sync_fetch_and_add(&c->nr, -1);
	__sync_fetch_and_add(&c->load, -(u64)t->counted);
	if (is_idle_weight(t->counted))
		__sync_fetch_and_add(&c->nr_idle, -1);
	t->counted = 0;
}

static __always_inline void forget_buddy(struct cpu *c, s32 number)
{
	if (c->next == number)
		c->next = 0;
	if (c->last == number)
		c->last = 0;
	if (c->skip == number)
		c->skip = 0;
}

/* 2: moves the task to `cpu`. */
static __noinline void move_home(struct task *t, s32 number, s32 cpu)
{
	s32 old = t->home;
	bool counted = t->counted;

	if (old == cpu)
		return;
	uncount(t);
	forget_buddy(cpu_of(old), number);
	if (!t->detached)
		t->vruntime += cpu_of(cpu)->min_vruntime - READ_ONCE(cpu_of(old)->min_vruntime);
	t->home = cpu;
	if (counted)
		count(t);
}

/* ---- 3: slices ---- */

/* 3: the task's part of a period of `nr` tasks with the total weight `load`. */
static __always_inline u64 slice_ns(const struct cpu *c, u32 weight, u32 nr, u64 load)
{
	u64 period_ns = nr > fit_in_latency ? nr * min_granularity_ns : latency_ns;
	u64 slice = period_ns * weight / (load ? load : 1), least = min_granularity_ns;

	if (version < V6_1)
		return slice;
	/* SCHED_IDLE beside other tasks has the unscaled granularity. */
	if (is_idle_weight(weight) && c->nr > c->nr_idle)
		least = min_granularity_us * 1000ULL;
	return slice > least ? slice : least;
}

/* ---- 5, 6: placement ---- */

static __always_inline void place_sleeper(struct task *t, const struct cpu *c)
{
	u64 credit = version >= V6_1 && is_idle_weight(t->weight) ? min_granularity_ns : latency_ns;

	if (gentle_sleepers)
		credit /= 2;
	t->vruntime = later(t->vruntime, c->min_vruntime - credit);
}

/*
 * 6: runs without the runqueue lock, so the parent is not charged. Its virtual time is computed as
 * if it were.
 */
static __always_inline void place_child(struct task *t, const struct cpu *c, u64 now)
{
	u64 floor = c->min_vruntime, parent = floor, least;

	if (c->current) {
		parent = c->vruntime + (now > c->since ? weighed(now - c->since, c->weight) : 0);
		least = c->waits && before(c->first, parent) ? c->first : parent;
		floor = later(floor, least);
	}
	if (start_debit)
		floor += weighed(slice_ns(c, t->weight, c->nr + 1, c->load + t->weight), t->weight);
	t->vruntime = later(parent, floor);
}

#endif
