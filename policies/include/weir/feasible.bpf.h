/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Feasible shares: how many of its tickets a task can use on several CPUs.
 *
 * 1. A task runs on one CPU at a time. On m CPUs, a task with more than 1/m of all tickets cannot
 *    use the excess, however long it waits (A. Chandra, M. Adler, P. Goyal, P. Shenoy, "Surplus
 *    fair scheduling", OSDI 2000).
 * 2. So each such task counts as one CPU, and the others share the remaining CPUs by their tickets.
 *    A heavy task counts for the cap: the tickets of the others divided by the remaining CPUs. The
 *    search goes from the heaviest class down, removes a class that is too heavy together with its
 *    CPUs, and stops at the first that is not.
 * 3. With no more tasks than CPUs, each task has a CPU and all count the same.
 * 4. Tasks are counted by class of tickets, four classes per octave. Sums are exact. The tasks of
 *    one class (up to 19 % apart) are either all too heavy or none of them is.
 * 5. No lock is taken: a CPU that reads during an update sees a slightly old cap.
 */
#ifndef WEIR_FEASIBLE_BPF_H
#define WEIR_FEASIBLE_BPF_H

#include "log2.bpf.h"

#define FEASIBLE_PER_OCTAVE 4
#define FEASIBLE_CLASSES 96
#define MAX_TICKETS ((1U << FEASIBLE_CLASSES / FEASIBLE_PER_OCTAVE) - 1)

struct tickets {
	u64 sum;
	u64 count;
};

/* Runnable tasks: all of them, and by class. */
struct tickets all_tickets, ticket_classes[FEASIBLE_CLASSES];

/* Adds `tasks` tasks with `tickets` tickets each; a negative number removes them. */
static __noinline void count_tickets(u32 tickets, s32 tasks)
{
	u32 number = log2_of(tickets ? tickets : 1) * FEASIBLE_PER_OCTAVE >> LOG2_BITS;
	struct tickets *class = &ticket_classes[number < FEASIBLE_CLASSES ? number : FEASIBLE_CLASSES - 1];
	s64 more = (s64)tickets * tasks;

	__sync_fetch_and_add(&class->sum, more);
	__sync_fetch_and_add(&class->count, (s64)tasks);
	__sync_fetch_and_add(&all_tickets.sum, more);
	__sync_fetch_and_add(&all_tickets.count, (s64)tasks);
}

/* Bounds on what a task's tickets count for. */
struct feasible {
	u64 least;	/* 3: nobody counts for less, */
	u64 cap;	/* 2: and nobody for more */
	u64 sum;	/* of all that counts */
};

/* 2: from counters that may change during the scan. */
static __always_inline struct feasible feasible_on(u32 cpus)
{
	u64 sum = READ_ONCE(all_tickets.sum), tasks = READ_ONCE(all_tickets.count);
	u32 left = cpus;
	int i;

	if (tasks <= cpus) {
		u64 mean = tasks && sum > tasks ? sum / tasks : 1;

		return (struct feasible){ mean, mean, tasks ? mean * tasks : 1 };
	}
	for_range(i, 1, FEASIBLE_CLASSES + 1) {
		/* The 6.12 verifier derives no bounds from a remainder. */
		u32 number = FEASIBLE_CLASSES - i;
		struct tickets *class = &ticket_classes[number < FEASIBLE_CLASSES ? number : 0];
		u64 count = READ_ONCE(class->count), of_class = READ_ONCE(class->sum);

		if (!count)
			continue;
		if (count >= left || of_class > sum || of_class * left <= sum * count)
			break;
		left -= count;
		sum -= of_class;
	}
	if (left == cpus)
		return (struct feasible){ 1, MAX_TICKETS, sum ? sum : 1 };
	sum = sum > left ? sum / left : 1;
	return (struct feasible){ 1, sum, sum * cpus };
}

/* Tickets of a task, clamped to the feasible range. */
static __always_inline u64 feasible_tickets(const struct feasible *f, u64 tickets)
{
	if (tickets < f->least)
		return f->least;
	return tickets < f->cap ? tickets : f->cap;
}

#endif
