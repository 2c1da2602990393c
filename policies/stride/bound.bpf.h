/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that are bound to one CPU, where there are several.
 *
 * 1. They share that CPU, by their tickets, and can use no more than it, however many they are. So all that are bound to one
 *    CPU count as one task with the sum of their tickets, which may be too heavy as any other (<weir/feasible.bpf.h>). What
 *    it counts for is theirs by tickets. It changes whenever somebody elsewhere falls asleep, which must not matter among
 *    them: whoever ran at a good moment would have paid less. So it is followed slowly, in 10 s, and whoever stops has its
 *    distance to the others told anew.
 * 2. Nobody else may be as far as they are: one CPU may have much to do and another little. So in place of the global pass
 *    they have that of their CPU, which grows as all of them together would while one of them runs.
 * 3. While nobody was bound to it, a CPU may have been idle for long. That earns nothing: the first one that comes is not
 *    before the global pass.
 * 4. What is of one CPU changes under the lock of its run queue.
 */
#ifndef STRIDE_BOUND_BPF_H
#define STRIDE_BOUND_BPF_H

#include <weir/feasible.bpf.h>

#define MAX_CPUS 4096
#define MAX_CPU_MASK (MAX_CPUS - 1)

struct cpu {
	u64 pass;	/* 2: the global one of its own */
	u64 tickets;	/* 1: of those that are bound to it and run or wait, */
	u64 tasks;	/* and how many they are */
	u64 scale;	/* 1: their tickets by what these count for, followed until `scaled_at` */
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

/* 1: one more of them with so many tickets, or, if `tasks` is -1, one less. */
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

/* 1 */
static __noinline u64 scale_at(struct cpu *c, const struct feasible *f, u64 now)
{
	u64 sum = tickets_together(c), ns = now > c->scaled_at ? now - c->scaled_at : 0;
	u64 scale = (sum << SCALE_BITS) / feasible_tickets(f, sum);

	scale = scale < SCALE_LEAST ? SCALE_LEAST : scale < SCALE_MOST ? scale : SCALE_MOST;
	if (c->scale && ns < FOLLOWS_NS) {
		s64 parts = ns >> 20, change = scale - c->scale;

		/* Signed division is not for all kernels. */
		change = change < 0 ? -(s64)((u64)-change * parts / (FOLLOWS_NS >> 20)) :
				      (u64)change * parts / (FOLLOWS_NS >> 20);
		scale = c->scale + change;
	}
	c->scale = scale;
	c->scaled_at = ns < FOLLOWS_NS && c->scaled_at ? c->scaled_at + (ns >> 20 << 20) : now;
	return scale;
}

/* 1: what CPU time costs one of them with so many tickets. */
static __always_inline u64 cost_on(const struct cpu *c, u64 ns, u64 tickets)
{
	return (ns * c->scale >> (SCALE_BITS - PASS_BITS)) / (tickets ? tickets : 1);
}

/* 3: of the first one. */
static __always_inline void begin_on(struct cpu *c, const struct feasible *f, u64 global, u64 now)
{
	if (!c->scale)
		scale_at(c, f, now);
	if (c->tasks == 1 && c->pass < global)
		c->pass = global;
}

/* A distance that was told by one scale, by another. */
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
