/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One CPU: its tasks in the order of virtual time.
 *
 * 1. A task's virtual time is the time it ran, divided by its weight: 1 ms of CPU time is 1 ms for nice 0, and 68 ms for nice
 *    19. Whoever has the least runs next. Tasks that wait stand in a queue of their CPU in that order; the one that runs is
 *    not in it.
 * 2. The CPU's `min_vruntime` follows the least of all its tasks and never goes back. Virtual times mean something only
 *    beside it: a task that changes its CPU keeps the difference.
 * 3. In a period all tasks shall run once: the latency (6 ms), or 0.75 ms for each if they are more than 8. A task's slice
 *    is its part of that, by weight. Since 6.1 it is never shorter than 0.75 ms.
 * 4. Latency and granularities are multiplied by 1 + log2(CPUs), where more than 8 CPUs count as 8.
 * 5. A task that wakes gets at least min_vruntime less half of a latency, so that long sleep is not saved up. Without
 *    GENTLE_FAIR_SLEEPERS it is a whole latency. In 6.1 a SCHED_IDLE task has the minimal granularity for a latency.
 * 6. A new task begins where its parent is, but a slice after min_vruntime at least (START_DEBIT): forking gains nothing.
 *
 * All of a CPU's state is changed under the lock of its runqueue, except for what it counts: tasks are taken away from it
 * by other CPUs.
 */
#ifndef CFS_QUEUE_BPF_H
#define CFS_QUEUE_BPF_H

#include "weight.bpf.h"

#include <weir/hotplug.bpf.h>

/* Versions, for all that is not a number. */
enum { V2_6_36, V4_1, V6_1 };

RODATA u32 version = V6_1;
RODATA u32 latency_us = 6000;
RODATA u32 min_granularity_us = 750;
RODATA u32 wakeup_granularity_us = 1000;
RODATA u32 scaling = 1;			/* 4: 0 none, 1 by the logarithm, 2 linear */
RODATA bool gentle_sleepers = true;
RODATA bool start_debit = true;

/* Nobody's slice ends by itself: ticks end it. Not SCX_SLICE_INF, with which a CPU could do without ticks. */
#define SLICE_NS (1000 * 1000000000ULL)

/* Computed at init and when a CPU comes or goes. */
u64 latency_ns;
u64 min_granularity_ns;
u64 wakeup_granularity_ns;
u32 fit_in_latency;			/* 3: so many tasks, 8 */
u32 online_cpus;

/* What cfs knows of a task. */
struct task {
	u64 vruntime;
	u64 ran_at;		/* until when it ran last */
	u64 queued_at;
	s32 home;		/* the CPU beside whose min_vruntime it means something, in whose queue it is */
	s32 counted_at;		/* the CPU at which the kernel counts it */
	s32 recent_cpu;		/* where it ran before that one */
	u32 weight;
	u32 counted;		/* the weight with which `home` counts it; 0 while it sleeps */
	s32 last_wakee;
	u32 flips;		/* how often it woke another one than before */
	u64 flips_since;
	bool preempted;		/* stopped while it could go on */
	bool apart;		/* not of this class: its virtual time is the difference to min_vruntime alone */
};

TASK_STORAGE(tasks, struct task);

/* What a pick has seen. */
struct seen {
	s32 first, second;	/* numbers of tasks; 0 if there is none */
	u64 first_vruntime, second_vruntime;
	u64 limit;		/* nobody with a later virtual time may pass the first one */
	bool next, last;	/* whether that buddy waits and may pass */
};

struct cpu {
	u64 min_vruntime;
	/* The task that runs. Its own record has its virtual time again when it stops. */
	u64 vruntime;
	u64 since;		/* last charged */
	u64 ran_ns;		/* since it was picked */
	u64 first;		/* of those that wait, as last seen */
	bool waits;		/* whether there was one */
	s32 current;		/* its number, 0 if none of ours runs */
	u32 weight;
	bool current_idle;	/* it is SCHED_IDLE */
	bool current_bound;	/* it may run nowhere else */
	bool told;		/* to pick again */
	/* Counted with all that wait. */
	u32 nr;
	u32 nr_idle;		/* of these, SCHED_IDLE */
	u64 load;		/* sum of weights */
	/* Buddies: numbers of tasks. */
	s32 next, last, skip;
	s32 overdue;		/* a task that has to run now */
	u64 overdue_check;
	struct seen seen;
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

/*
 * The index of a CPU in a table. Without the barrier the compiler would keep the masked number through the rounds of a loop,
 * where the verifier forgets that it was masked.
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

/* Whether virtual time `a` is before `b`: they may wrap. */
static __always_inline bool before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static __always_inline u64 later(u64 a, u64 b)
{
	return before(a, b) ? b : a;
}

/* ---- 4: the unit of time ---- */

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

/* The virtual time of the first that waits, if there is one. */
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

/* Whoever runs is charged. */
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
 * Called at all moments at which virtual times are compared; but not between a pick and the moment at which that task runs:
 * it is in the queue no more.
 */
VERIFIED_ONCE u32 update_current(s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);

	charge_current(c, now);
	update_min_vruntime(c, cpu);
	return 0;
}

/* ---- Who is counted where ---- */

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

/* 2: the task is of `cpu` from now on. */
static __noinline void move_home(struct task *t, s32 number, s32 cpu)
{
	s32 old = t->home;
	bool counted = t->counted;

	if (old == cpu)
		return;
	uncount(t);
	forget_buddy(cpu_of(old), number);
	if (!t->apart)
		t->vruntime += cpu_of(cpu)->min_vruntime - READ_ONCE(cpu_of(old)->min_vruntime);
	t->home = cpu;
	if (counted)
		count(t);
}

/* ---- 3: slices ---- */

/* The part of a period of `nr` tasks with the weights `load`. */
static __always_inline u64 slice_ns(const struct cpu *c, u32 weight, u32 nr, u64 load)
{
	u64 period_ns = nr > fit_in_latency ? nr * min_granularity_ns : latency_ns;
	u64 slice = period_ns * weight / (load ? load : 1), least = min_granularity_ns;

	if (version < V6_1)
		return slice;
	/* SCHED_IDLE beside others has the granularity of a machine with one CPU. */
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

/* This runs without the lock of a runqueue, so the parent is not charged here, but seen as if it were. */
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
