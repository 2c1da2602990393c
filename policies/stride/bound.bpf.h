/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that are pinned to one of several CPUs.
 *
 * 1. These tasks share their CPU by tickets, and together can use no more than that CPU. So all
 *    tasks pinned to one CPU count as one task with the sum of their tickets, which can be too
 *    heavy like any other (<weir/feasible.bpf.h>). The feasible tickets are divided among them by
 *    their tickets. This feasible number changes whenever a task elsewhere falls asleep, which
 *    should not matter among them: a task that ran at a favorable moment would have paid less. So
 *    it is followed slowly, over 10 s, and the distance of a task that stops is rescaled.
 * 2. Their progress cannot be compared with that of other tasks, since one CPU may have much work
 *    and another little. So they have the pass of their CPU in place of the global pass. It grows
 *    as the pass of all of them together, while one of them runs.
 * 3. A CPU may have had no pinned task for long. That earns nothing: the first one that arrives
 *    does not start before the global pass.
 * 4. The data of a CPU are protected by its runqueue lock.
 */
#ifndef STRIDE_BOUND_BPF_H
#define STRIDE_BOUND_BPF_H

#include <weir/feasible.bpf.h>

#define MAX_CPUS 4096
#define MAX_CPU_MASK (MAX_CPUS - 1)

struct cpu {
	u64 pass;	/* 2: used in place of the global pass */
	u64 tickets;	/* 1: sum over its runnable pinned tasks */
	u64 tasks;	/* number of these */
	u64 scale;	/* 1: their tickets divided by the feasible ones, as of `scaled_at` */
	u64 scaled_at;
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & MAX_CPU_MASK];
}

static __always_inline u64 tickets_together(const struct cpu *c)
{
	return c->tickets < MAX_TICKETS ? c->tickets : MAX_TICKETS;
}

/* 1: adds a pinned task, or removes it if `tasks` is -1. */
static __noinline void count_bound(s32 cpu, u32 tickets, s32 tasks)
{
	struct cpu *c = cpu_of(cpu);

	if (c->tasks)
		count_tickets(tickets_together(c), -1);
	c->tickets += (s64)tickets * tasks;
	c->tasks += (s64)tasks;
	if (c->tasks)
		count_tickets(tickets_together(c), 1);
}

#define SCALE_BITS 24
#define SCALE_ONE (1ULL << SCALE_BITS)
#define SCALE_LEAST (SCALE_ONE >> 18)
#define SCALE_MOST (SCALE_ONE << 9)
#define FOLLOWS_NS 10000000000ULL

/* 1: updates the scale. */
static __noinline u64 scale_at(struct cpu *c, const struct feasible *f, u64 now)
{
	u64 sum = tickets_together(c), ns = now > c->scaled_at ? now - c->scaled_at : 0;
	u64 scale = (sum << SCALE_BITS) / feasible_tickets(f, sum);

	scale = scale < SCALE_LEAST ? SCALE_LEAST : scale < SCALE_MOST ? scale : SCALE_MOST;
	if (c->scale && ns < FOLLOWS_NS) {
		s64 parts = ns >> 20, change = scale - c->scale;

		/* Signed division is not available in all kernels. */
		change = change < 0 ? -(s64)((u64)-change * parts / (FOLLOWS_NS >> 20)) :
				      (u64)change * parts / (FOLLOWS_NS >> 20);
		scale = c->scale + change;
	}
	c->scale = scale;
	c->scaled_at = ns < FOLLOWS_NS && c->scaled_at ? c->scaled_at + (ns >> 20 << 20) : now;
	return scale;
}

/* 1: cost of CPU time for one of them. */
static __always_inline u64 cost_on(const struct cpu *c, u64 ns, u64 tickets)
{
	return (ns * c->scale >> (SCALE_BITS - PASS_BITS)) / (tickets ? tickets : 1);
}

/* 3: called for each arriving task. */
static __always_inline void begin_on(struct cpu *c, const struct feasible *f, u64 global, u64 now)
{
	if (!c->scale)
		scale_at(c, f, now);
	if (c->tasks == 1 && c->pass < global)
		c->pass = global;
}

/* Converts a distance from one scale to another. */
static __noinline s64 rescaled(s64 distance, u64 from, u64 to)
{
	u64 size = distance < 0 ? -distance : distance, ratio;

	if (from == to || !from)
		return distance;
	ratio = (to << SCALE_BITS) / from;
	size = (size >> SCALE_BITS / 2) * (ratio >> SCALE_BITS / 2);
	return distance < 0 ? -size : size;
}

#endif
