/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packing: a job moves to an earlier row when that has room for it, so that there are no more rows than there need be.
 *
 * 1. Room comes when the last task leaves a cell: a job ends, becomes smaller, or goes to another row. After that each row is
 *    looked at when its turn ends, until all have been: its first job that fits into an earlier row goes there. One for each
 *    turn: where others would fit is known when that one's tasks are where they belong. What it leaves is room for others.
 * 2. At the end of its turn, since then all tasks of a job that do not sleep run and are put in line now, all at once. At any
 *    other time some would be in the new row and some in the old one for a whole round.
 * 3. A job of which somebody may not use all CPUs stays: nobody knows whether that one's CPU is among those that are free.
 */
#ifndef GANG_PACK_BPF_H
#define GANG_PACK_BPF_H

/* 1: so many turns will pass before all rows have been looked at. */
u32 unpacked;

/* Columns of a row that are not this job's, but of jobs that are there or on their way to it. */
VERIFIED_ONCE u32 claimed_in(u32 row, u32 job)
{
	u32 columns = 0;
	int number;

	for_range(number, 1, JOBS) {
		struct gang *gang = gang_of(number);

		if (number != job && READ_ONCE(gang->row) == row && READ_ONCE(gang->placed))
			columns += columns_of(READ_ONCE(gang->tasks));
	}
	return columns;
}

/* Columns of a row where nobody but this job has a cell. */
VERIFIED_ONCE u32 open_in(u32 row, u32 job)
{
	u32 columns = 0;
	int column;

	for_range(column, 0, nr_online) {
		u32 owner = READ_ONCE(cell_at(row * nr_online + column)->job);

		if (!owner || owner == job + 1)
			columns++;
	}
	return columns;
}

/*
 * Columns of a row that the job may have: those that are open, and are left when all tasks of the row's jobs have theirs. Who
 * sleeps keeps its cell of an earlier row of its job, and whose job has just moved has none in the new row yet.
 *
 * Both are counted by functions of their own, since the verifier must not know the sums: it would go through all rounds of a
 * loop to see how a comparison of its sum ends.
 */
static __noinline u32 room_in(u32 row, u32 job)
{
	u32 open = open_in(row, job), claimed = claimed_in(row, job), left = claimed < nr_online ? nr_online - claimed : 0;

	return open < left ? open : left;
}

/* 1: whether a job of the row whose turn ends went to one that has so much room. */
VERIFIED_ONCE u32 move_up(u32 row, u32 to, u32 room)
{
	int number;

	for_range(number, 1, JOBS) {
		struct gang *gang = gang_of(number);
		u32 tasks = READ_ONCE(gang->tasks);

		if (READ_ONCE(gang->row) != row || !tasks || READ_ONCE(gang->is_bound) || columns_of(tasks) > room)
			continue;
		WRITE_ONCE(gang->row, to);
		__sync_fetch_and_add(&gang->moves, 1);
		return true;
	}
	return false;
}

VERIFIED_ONCE u32 pack(u32 row)
{
	int earlier;

	if (!READ_ONCE(unpacked) || row > nr_rows)
		return 0;
	__sync_fetch_and_add(&unpacked, -1);
	for_range(earlier, 0, row < nr_rows ? row : 0) {
		u32 room = room_in(earlier, ROOT_JOB);

		if (room && move_up(row, earlier, room))
			return 1;
	}
	return 0;
}

#endif
