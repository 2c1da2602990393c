/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packing: a job moves to an earlier row that has room for it, so that there are no more rows than
 * needed.
 *
 * 1. Room appears when the last task leaves a cell, because a job ends, shrinks, or moves to
 *    another row. After that, each row is checked once at the end of its slot, and its first job
 *    that fits into an earlier row moves there. Only one job moves per slot, since the room for
 *    others is known only when its tasks are in their new cells. The cells that it leaves are room
 *    for others.
 * 2. Jobs move at the end of their slot, because all their tasks that do not sleep are running then
 *    and are enqueued together. At any other time, some would be in the new row and some in the old
 *    one for a whole round.
 * 3. A job with a task that may not use all CPUs does not move: that task's CPU might not be among
 *    the free columns.
 */
#ifndef GANG_PACK_BPF_H
#define GANG_PACK_BPF_H

/* 1: number of slots until all rows have been checked. */
u32 unpacked;

/* Number of columns claimed by other jobs that are in the row or moving to it. */
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

/* Number of columns of a row without a cell of another job. */
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
 * Number of columns of a row that the job may have: columns without cells of other jobs, minus
 * those that the row's jobs still need. A sleeping task keeps its cell in the earlier row of its
 * job, and a task whose job has just moved has no cell in the new row yet.
 *
 * Two separate functions count both, because the verifier must not know the sums: it would follow
 * all iterations of a loop to decide a comparison with its sum.
 */
static __noinline u32 room_in(u32 row, u32 job)
{
	u32 open = open_in(row, job), claimed = claimed_in(row, job), left = claimed < nr_online ? nr_online - claimed : 0;

	return open < left ? open : left;
}

/*
 * 1: moves a job of the row whose slot ends to row `to` with `room` free columns. Returns whether
 * there was one.
 */
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
