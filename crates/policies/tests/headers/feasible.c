/* SPDX-License-Identifier: GPL-2.0-only */
#include <weir/feasible.bpf.h>
#include "machine.h"

#define MOST_TASKS 12

/*
 * Points 1, 2 of feasible.bpf.h in the simplest form, one task at a time: while the heaviest task
 * is due more than one CPU, it leaves with a CPU.
 */
static double naive_cap(const u32 *tickets, u32 tasks, u32 cpus)
{
	bool heavy[MOST_TASKS] = {};
	u32 left = cpus;
	double sum = 0;

	for (u32 i = 0; i < tasks; i++)
		sum += tickets[i];
	for (;;) {
		u32 most = MOST_TASKS;

		for (u32 i = 0; i < tasks; i++)
			if (!heavy[i] && (most == MOST_TASKS || tickets[i] > tickets[most]))
				most = i;
		if (most == MOST_TASKS || (double)tickets[most] * left <= sum)
			return left == cpus ? 1e18 : sum / left;
		heavy[most] = true;
		sum -= tickets[most];
		left--;
	}
}

static void check(const u32 *tickets, u32 tasks, u32 cpus)
{
	struct feasible f = feasible_on(cpus);
	double cap = tasks > cpus ? naive_cap(tickets, tasks, cpus) : 0, sum = 0;

	for (u32 i = 0; i < tasks; i++) {
		double due = tickets[i] < cap ? tickets[i] : cap;
		u64 found = feasible_tickets(&f, tickets[i]);

		/*
		 * Point 3 of feasible.bpf.h: with no more tasks than CPUs, all count alike and at
		 * least one ticket.
		 */
		if (tasks <= cpus)
			due = feasible_tickets(&f, tickets[0]);
		else if (due < 1)
			due = 1;
		CHECK(found <= due && found > due - 1, "%u of %u on %u: %llu, expected %f", i, tasks, cpus,
		      (unsigned long long)found, due);
		CHECK(found > 0, "tickets are at least one");
		sum += found;
	}
	/*
	 * A task due more than one CPU counts as one CPU of the others; the cap is rounded once for
	 * each CPU.
	 */
	CHECK(f.sum <= sum + cpus && f.sum + cpus >= sum, "%u on %u: %llu, expected %f", tasks, cpus,
	      (unsigned long long)f.sum, sum);
}

int main(void)
{
	u32 tickets[MOST_TASKS];
	struct feasible none = feasible_on(4);

	CHECK(none.sum == 1 && feasible_tickets(&none, 7) == 1, "no tasks");
	CHECK(MAX_TICKETS == 0xffffff, "%u", MAX_TICKETS);
	for (u32 turn = 0; turn < 200000; turn++) {
		u32 tasks = 1 + draw(MOST_TASKS), cpus = 1 + draw(8);

		/*
		 * Point 4 of feasible.bpf.h: tasks share a class only if they have equal tickets,
		 * so class-wise and task-wise results agree.
		 */
		for (u32 i = 0; i < tasks; i++) {
			tickets[i] = 8 << draw(turn % 2 ? 18 : 4);
			count_tickets(tickets[i], 1);
		}
		check(tickets, tasks, cpus);
		for (u32 i = 0; i < tasks; i++)
			count_tickets(tickets[i], -1);
	}
	/* The largest possible numbers. */
	for (u32 i = 0; i < 9; i++)
		count_tickets(tickets[i] = MAX_TICKETS, 1);
	check(tickets, 9, 8);
	count_tickets(MAX_TICKETS, -9);
	CHECK(!all_tickets.sum && !all_tickets.count, "%llu", (unsigned long long)all_tickets.sum);
	for (u32 i = 0; i < FEASIBLE_CLASSES; i++)
		CHECK(!ticket_classes[i].sum && !ticket_classes[i].count, "class %u", i);
	/*
	 * Point 4 of feasible.bpf.h: 100 and 150 are in different classes: on two CPUs, 150 beside
	 * 100 and a light task is infeasible.
	 */
	count_tickets(150, 1);
	count_tickets(100, 1);
	count_tickets(1, 1);
	none = feasible_on(2);
	CHECK(feasible_tickets(&none, 150) == 101 && feasible_tickets(&none, 100) == 100, "%llu",
	      (unsigned long long)none.cap);
	CHECK(feasible_tickets(&none, 1) == 1, "%llu", (unsigned long long)none.least);
	return 0;
}
