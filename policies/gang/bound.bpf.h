/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bound tasks: those of no job that may use one CPU only.
 *
 * 1. They need nobody to run with them, but they have cells: in the common row's turn their CPUs would be taken, all others
 *    would have alternates, and a job with two such turns, each with another part of it, would run in parts.
 * 2. A bound task is in the first row where its column is free, or has a bound task already: they share a cell as tasks of a
 *    job do. Whenever a cell becomes free each looks for an earlier one, when it is next put in line. So no row has a free
 *    cell in the column of one that stands in a later row. The last row is for jobs: where it is the only one there is no
 *    other turn than the common one in which they have alternates.
 */
#ifndef GANG_BOUND_BPF_H
#define GANG_BOUND_BPF_H

#define BOUND (ROOT_JOB + 1)	/* whose a cell is */

static void leave_cell(struct task *t);
static void take_cell(struct task *t, u32 cell);

/* 2: the task's cell before the row `end`, or the one that it has. */
static __noinline void find_earlier_cell(struct task *t, u32 column, u32 end)
{
	int row;

	for_range(row, 0, end) {
		u32 number = row * nr_online + column, owner;

		if (number >= CELLS)
			return;
		owner = READ_ONCE(cell_at(number)->job);
		if (owner == BOUND || (!owner && __sync_val_compare_and_swap(&cell_at(number)->job, 0, BOUND) == 0)) {
			leave_cell(t);
			take_cell(t, number);
			return;
		}
	}
}

/* For a task of no job. */
static __noinline void follow_bounds(struct task_struct *p, struct task *t)
{
	bool bound = p->nr_cpus_allowed == 1 && is_client(p);
	u32 cpu = bpf_cpumask_first(p->cpus_ptr), moves = READ_ONCE(gang_of(ROOT_JOB)->moves);

	if (!bound || (t->cell < CELLS && cpu_of_cell(t->cell) != (s32)cpu)) {
		leave_cell(t);
		t->moves = ~0U;
	}
	if (!bound || t->moves == moves || !has_place(cpu))
		return;
	t->moves = moves;
	find_earlier_cell(t, place_of[cpu & MAX_CPU_MASK], t->cell < CELLS ? row_of(t->cell) : nr_rows - 1);
}

#endif
