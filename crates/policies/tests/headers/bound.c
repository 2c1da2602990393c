/* SPDX-License-Identifier: GPL-2.0-only */
/* Tests of the arithmetic of policies/stride/bound.bpf.h. */
#include <weir/host.h>

#define PASS_BITS 10
#include <../stride/bound.bpf.h>
#include "machine.h"

#define N(number) ((unsigned long long)(number))
#define S 1000000000ULL

/*
 * Point 1 of bound.bpf.h: all tasks pinned to one CPU count as one task with the sum of their
 * tickets.
 */
static void pinned_tasks_count_as_one(void)
{
	static const struct {
		u32 tickets;
		s32 tasks;
		u64 sum, count;
	} all[] = { { 30, 1, 30, 1 }, { 20, 1, 50, 1 }, { 30, -1, 20, 1 }, { 20, -1, 0, 0 } };

	for (u32 i = 0; i < 4; i++) {
		count_bound(3, all[i].tickets, all[i].tasks);
		CHECK(all_tickets.sum == all[i].sum && all_tickets.count == all[i].count, "%u: %llu, %llu", i,
		      N(all_tickets.sum), N(all_tickets.count));
		CHECK(cpus[3].tickets == all[i].sum, "%u: %llu", i, N(cpus[3].tickets));
	}
	count_bound(4, MAX_TICKETS, 1);
	count_bound(4, MAX_TICKETS, 1);
	CHECK(all_tickets.sum == MAX_TICKETS, "%llu: at most the tickets of one task", N(all_tickets.sum));
}

/*
 * Point 1 of bound.bpf.h: the scale follows the feasible tickets, up and down, within 10 s. It
 * changes in units of 2^20 ns; 9536 of them are 10 s.
 */
static void scale_follows_feasible_tickets_in_10_s(void)
{
	static const u64 half = (5 * S >> 20) << 20, parts = 5 * S >> 20;

	for (u32 up = 0; up < 2; up++) {
		u64 begin = up ? 1000 : 4000, end = up ? 4000 : 1000, from = begin / 1000, to = end / 1000;
		u64 way = (up ? to - from : from - to) * SCALE_ONE * parts / 9536;
		struct feasible f = { 1, 1000, 5000 };
		struct cpu c = { .tickets = begin };

		CHECK(scale_at(&c, &f, 7 * S) == from * SCALE_ONE && c.scaled_at == 7 * S, "%llu", N(c.scale));
		c.tickets = end;
		CHECK(scale_at(&c, &f, 7 * S - 1) == from * SCALE_ONE, "%llu: time does not go backwards", N(c.scale));
		CHECK(scale_at(&c, &f, 12 * S) == (up ? from * SCALE_ONE + way : from * SCALE_ONE - way), "%llu",
		      N(c.scale));
		CHECK(c.scaled_at == 7 * S + half, "%llu: the remainder below one unit is kept", N(c.scaled_at));
		CHECK(scale_at(&c, &f, c.scaled_at + 10 * S) == to * SCALE_ONE, "%llu", N(c.scale));
	}
}

static void scales_have_limits(void)
{
	struct feasible cap = { 1, 1, 1 }, least = { 1 << 22, 1 << 22, 1 << 22 };
	struct cpu heavy = { .tickets = MAX_TICKETS }, light = { .tickets = 1 };

	CHECK(SCALE_ONE == 1 << 24, "as many bits as the tickets of a task");
	CHECK(scale_at(&heavy, &cap, S) == 1ULL << 33, "%llu", N(heavy.scale));
	CHECK(scale_at(&light, &least, S) == 1 << 6, "%llu", N(light.scale));
}

static void costs_and_distances_are_scaled(void)
{
	struct cpu c = { .scale = 2 * SCALE_ONE };

	CHECK(cost_on(&c, 1000, 4) == 2 * 1000 * 1024 / 4, "%llu", N(cost_on(&c, 1000, 4)));
	CHECK(rescaled(1 << 20, SCALE_ONE, 2 * SCALE_ONE) == 2 << 20, "doubled");
	CHECK(rescaled(-(1 << 20), 2 * SCALE_ONE, SCALE_ONE) == -(1 << 19), "halved");
	CHECK(rescaled(-5, SCALE_ONE, SCALE_ONE) == -5 && rescaled(-5, 0, SCALE_ONE) == -5, "unchanged");
}

/* Point 3 of bound.bpf.h: the pass of a CPU's first task is not before the global pass. */
static void idle_cpu_earns_no_credit(void)
{
	struct feasible f = { 1, 1000, 1000 };

	for (u32 tasks = 1; tasks < 3; tasks++) {
		struct cpu c = { .pass = 500, .tasks = tasks, .tickets = 100 * tasks };

		begin_on(&c, &f, 900, S);
		CHECK(c.pass == (tasks == 1 ? 900 : 500) && c.scale == SCALE_ONE, "%llu", N(c.pass));
		begin_on(&c, &f, 300, S);
		CHECK(c.pass == (tasks == 1 ? 900 : 500), "%llu: the pass does not go backwards", N(c.pass));
	}
}

int main(void)
{
	pinned_tasks_count_as_one();
	scale_follows_feasible_tickets_in_10_s();
	scales_have_limits();
	costs_and_distances_are_scaled();
	idle_cpu_earns_no_credit();
	return 0;
}
