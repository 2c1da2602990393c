/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gang: all tasks of a job run at the same time, after J. K. Ousterhout, "Scheduling techniques for
 * concurrent systems" (1982).
 *
 * 1. A job is a cgroup below the root, or, by a preset, an address space, which is a process of
 *    several threads ("spaces.bpf.h"). Its tasks may spin while they wait for each other. If one of
 *    them does not run, the others wait in vain. So all run together, or none does.
 *
 * 2. The matrix. Its columns are the CPUs and its rows are time slots. Each task of a job has a
 *    cell, and all cells of a job are in one row: the first row with at least as many free columns
 *    as the job has tasks. A job that outgrows the free columns of its row moves to another row,
 *    each task when it is next enqueued; until then, the columns reserved for them are not free for
 *    other jobs. A job with more tasks than CPUs has several tasks in each of its cells, spread
 *    evenly. The paper does not consider such jobs. If some tasks must alternate, it is best that
 *    no cell has more of them than another.
 *
 * 3. Rows alternate in slots of 100 ms. At the end of a slot, every CPU is kicked, and takes its
 *    cell of the next row.
 *
 * 4. Alternates. If a CPU's cell of this row is empty or its task sleeps, the CPU runs its cell of
 *    another row meanwhile: of the next row in order with a task in that cell. All CPUs search the
 *    rows in this order, so the alternates belong to one job as far as possible. When the task of
 *    this row wakes, the alternate is preempted at once.
 *
 * 5. Tasks that belong to no job are in a common queue, which counts as one more row. In its slot,
 *    CPUs take tasks from this queue first. CPUs without a runnable task in their column take from
 *    it at any time.
 *
 * 6. Near CPUs: columns are in the order of places (<weir/topology.bpf.h>), and a job looks for
 *    cells from the first column on. So the CPUs of a job are near each other as far as these are
 *    free.
 *
 * 7. Tasks that share a cell alternate with slices of 20 ms, or, by a preset, run in FIFO order: a
 *    task that has started continues in each slot of its row until it sleeps. Then the next one
 *    could wait forever. So a task that has waited for 10 s gets a slice of 1 ms before all others,
 *    and then goes to the tail (<weir/overdue.bpf.h>).
 *
 * 8. When a job leaves cells, a job of a later row that fits moves up ("pack.bpf.h").
 *
 * Where this departs from the paper, and why:
 * - Ousterhout places a task force as a whole when it is created. Here jobs grow task by task, as a
 *   kernel creates tasks.
 * - There are at most 4096 cells, so 64 rows on 64 CPUs and one row on 4096 CPUs. A task that finds
 *   no cell is treated like one without a job.
 * - Per-CPU kthreads run at once.
 */
#include <weir/client.bpf.h>
#include <weir/jobs.bpf.h>
#include <weir/topology.bpf.h>

LICENSE("GPL");

/* Set by the presets. */
RODATA u32 row_ms = 100;
RODATA u32 turn_us = 20000;
RODATA bool spaces = false;	/* 1 */
RODATA bool fifo = false;	/* 7 */

#define CELLS 4096
#define NO_CELL CELLS
#define MOST_ROWS 64
#define COMMON_DSQ CELLS	/* the DSQ of a cell has the number of the cell */
#define OVERDUE_DSQ (CELLS + 1)	/* 7 */

struct task {
	u64 waits_since;	/* 7 */
	u32 cell;
	u32 job;
	u32 moves;	/* 2: `moves` of its job when it got the cell */
	bool overdue;
	bool has_begun;	/* 7: has run since it last woke */
};

TASK_STORAGE(tasks, struct task);

struct cell {
	u32 job;	/* 1 + number of the job; 0 if the cell is free */
	u32 tasks;
};

struct cell cells[CELLS];

/* Placement of a job. It has the number that the job has in <weir/jobs.bpf.h>. */
struct gang {
	u32 row;
	u32 tasks;
	u32 placed;	/* tasks with a cell, in this row or an earlier row of the job */
	u32 moves;	/* number of times the job changed its row */
	bool is_bound;	/* the mask of some task lacks a CPU */
};

struct gang gangs[JOBS];

/*
 * Number of tasks with a cell in each row; and the row of the current slot, which is `nr_rows` for
 * the common queue.
 */
u32 row_tasks[MOST_ROWS];
u32 nr_rows, active_row;

/* 4: whether each CPU runs a task that is not of the current row. */
struct cpu {
	bool alternate;
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline struct gang *gang_of(u32 job)
{
	return &gangs[job % JOBS];
}

static __always_inline struct cell *cell_at(u32 cell)
{
	return &cells[cell % CELLS];
}

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & MAX_CPU_MASK];
}

static __always_inline u32 row_of(u32 cell)
{
	return cell / (nr_online ? nr_online : 1);
}

static __always_inline s32 cpu_of_cell(u32 cell)
{
	u32 column = cell % (nr_online ? nr_online : 1);

	/*
	 * clang knows that a remainder of a cell is below MAX_CPUS and drops the mask, but the
	 * verifier of 6.12 needs it.
	 */
	asm volatile("" : "+r"(column));
	return cpu_at[column & MAX_CPU_MASK];
}

static __always_inline u64 row_ns(void)
{
	return row_ms * 1000000ULL;
}

static __always_inline u64 turn_ns(void)
{
	return turn_us * 1000ULL;
}

/* 2: number of cells for a job with this many tasks. */
static __always_inline u32 columns_of(u32 tasks)
{
	return tasks < nr_online ? tasks : nr_online;
}

#include <weir/overdue.bpf.h>
#include "pack.bpf.h"
#include "spaces.bpf.h"

/* ---- 2: cells ---- */

static __noinline void leave_cell(struct task *t)
{
	struct cell *cell = cell_at(t->cell);

	if (t->cell >= CELLS)
		return;
	__sync_fetch_and_add(&row_tasks[row_of(t->cell) % MOST_ROWS], -1);
	__sync_fetch_and_add(&gang_of(t->job)->placed, -1);
	if (__sync_fetch_and_add(&cell->tasks, -1) == 1) {
		WRITE_ONCE(cell->job, 0);
		WRITE_ONCE(unpacked, nr_rows + 1);
	}
	t->cell = NO_CELL;
}

static __always_inline void take_cell(struct task *t, u32 cell)
{
	__sync_fetch_and_add(&cell_at(cell)->tasks, 1);
	__sync_fetch_and_add(&row_tasks[row_of(cell) % MOST_ROWS], 1);
	__sync_fetch_and_add(&gang_of(t->job)->placed, 1);
	t->cell = cell;
}

/*
 * Finds a cell of the row for `p`: a free one if `most` is 0, otherwise a cell of its job with
 * fewer than `most` tasks.
 */
static __noinline bool find_cell(struct task_struct *p, struct task *t, u32 row, u32 most)
{
	u32 mine = t->job + 1;
	int column;

	for_range(column, 0, nr_online) {
		u32 number = row * nr_online + column;
		struct cell *cell = cell_at(number);

		if (number >= CELLS || !bpf_cpumask_test_cpu(cpu_of_cell(number), p->cpus_ptr))
			continue;
		if (most ? READ_ONCE(cell->job) == mine && cell->tasks < most :
			   __sync_val_compare_and_swap(&cell->job, 0, mine) == 0) {
			take_cell(t, number);
			return true;
		}
	}
	return false;
}

/*
 * `even` is the job's number of tasks per cell, rounded down. A task that may not use all CPUs may
 * find only a cell with more tasks.
 */
static __noinline bool share_cell(struct task_struct *p, struct task *t, u32 row, u32 even)
{
	return (even && find_cell(p, t, row, even)) || find_cell(p, t, row, even + 1) || find_cell(p, t, row, ~0U);
}

/* Returns whether `p` may run in a column of the row that is free or belongs to the job. */
static __noinline bool has_column_for(struct task_struct *p, u32 row, u32 job)
{
	int column;

	for_range(column, 0, nr_online) {
		u32 number = row * nr_online + column;
		u32 owner = READ_ONCE(cell_at(number)->job);

		if ((!owner || owner == job + 1) && bpf_cpumask_test_cpu(cpu_of_cell(number), p->cpus_ptr))
			return true;
	}
	return false;
}

/*
 * First row in which the job may have `columns` columns, one of them usable for `p`; `nr_rows` if
 * there is none.
 */
static __noinline u32 row_for(struct task_struct *p, u32 job, u32 columns)
{
	int row;

	for_range(row, 0, nr_rows) {
		if (room_in(row, job) >= columns && has_column_for(p, row, job))
			return row;
	}
	return nr_rows;
}

/*
 * Finds a new cell for a task without one, or with one in an earlier row of its job. The job may
 * have to change its row.
 */
VERIFIED_ONCE u32 find_place(struct task_struct *p TRUSTED)
{
	struct task *t = task_of(p);
	struct gang *gang;
	u32 row;

	if (!t)
		return NO_CELL;
	gang = gang_of(t->job);
	leave_cell(t);
	t->moves = READ_ONCE(gang->moves);
	if (p->nr_cpus_allowed < nr_online)
		WRITE_ONCE(gang->is_bound, true);
	if (find_cell(p, t, READ_ONCE(gang->row), 0))
		return t->cell;
	row = row_for(p, t->job, columns_of(gang->tasks));
	if (row < nr_rows && row != gang->row) {
		WRITE_ONCE(gang->row, row);
		__sync_fetch_and_add(&gang->moves, 1);
		t->moves = gang->moves;
	}
	if (!find_cell(p, t, READ_ONCE(gang->row), 0))
		share_cell(p, t, READ_ONCE(gang->row), gang->tasks / (nr_online ? nr_online : 1));
	return t->cell;
}

static __noinline void join_job(struct task *t, u32 job)
{
	t->job = job;
	t->cell = NO_CELL;
	t->moves = ~0U;
	if (job != ROOT_JOB)
		__sync_fetch_and_add(&gang_of(job)->tasks, 1);
}

static __noinline void leave_job(struct task *t)
{
	struct gang *gang = gang_of(t->job);

	leave_cell(t);
	if (t->job == ROOT_JOB || __sync_fetch_and_add(&gang->tasks, -1) != 1)
		return;
	WRITE_ONCE(gang->is_bound, false);
	WRITE_ONCE(*space_of(t->job), 0);
}

/*
 * Returns whether the task has a cell. If its job has changed its row, the task gets a cell there
 * first.
 */
static __always_inline bool has_cell(struct task_struct *p, struct task *t)
{
	if (spaces)
		follow_space(p, t);
	if (t->job != ROOT_JOB && t->moves != READ_ONCE(gang_of(t->job)->moves))
		find_place(p);
	return t->cell < CELLS;
}

/* ---- 3: rotation of rows ---- */

struct rotation {
	struct bpf_timer timer;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct rotation);
} rotations SEC(".maps");

/* The next row that has tasks. The common queue follows the last row. */
static __noinline u32 next_row(u32 row)
{
	int steps;

	for_range(steps, 1, nr_rows + 2) {
		u32 next = (row + steps) % (nr_rows + 1);

		if (next == nr_rows ? scx_bpf_dsq_nr_queued(COMMON_DSQ) != 0 : row_tasks[next % MOST_ROWS] != 0)
			return next;
	}
	return row;
}

static int rotate(void *map, u32 *key, struct rotation *rotation)
{
	u32 row = next_row(active_row);
	int cpu;

	if (row != active_row) {
		pack(active_row);
		WRITE_ONCE(active_row, row);
		for_range(cpu, 0, nr_cpus) {
			if (has_place(cpu))
				scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		}
	}
	bpf_timer_start(&rotation->timer, row_ns(), 0);
	return 0;
}

/* ---- 4, 5: dispatch ---- */

static __always_inline bool take_from(u64 queue)
{
	return scx_bpf_dsq_nr_queued(queue) && dsq_move_to_local(queue);
}

enum alternate { NONE, TAKEN, CONTINUES };

/*
 * Takes a task of the CPU's cells of the other rows, from the next row on. The running task, of row
 * `own`, continues if no earlier row has a task.
 */
VERIFIED_ONCE u32 take_alternate(u32 column, u32 active, u32 own)
{
	int steps;

	for_range(steps, 1, nr_rows + 1) {
		u32 row = (active + steps) % (nr_rows + 1);

		if (fifo && row == own)
			return CONTINUES;
		if (row < nr_rows && row_tasks[row % MOST_ROWS] && take_from(row * nr_online + column))
			return TAKEN;
		if (row == own)
			return CONTINUES;
	}
	return NONE;
}

/* ---- 7: overdue tasks ---- */

static void scan_for_overdue(u64 now)
{
	int number;

	move_overdue(COMMON_DSQ, now);
	for_range(number, 0, nr_rows * nr_online) {
		if (READ_ONCE(cell_at(number)->tasks) > 1)
			move_overdue(number, now);
	}
}

/* ---- Lifecycle of a task, in order ---- */

SLEEPABLE_OP2(s32, gang_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -12; /* ENOMEM */
	join_job(t, spaces ? ROOT_JOB : first_job(args));
	return 0;
}

OP2(void, gang_exit_task, struct task_struct *, p, struct scx_exit_task_args *, args)
{
	struct task *t = task_of(p);

	if (t)
		leave_job(t);
}

OP3(s32, gang_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	struct task *t = task_of(p);
	bool is_idle = false;
	s32 cpu;

	if (t && has_cell(p, t)) {
		cpu = cpu_of_cell(t->cell);
		is_idle = scx_bpf_test_and_clear_cpu_idle(cpu);
	} else {
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	}
	if (t)
		t->has_begun = false;
	if (is_idle)
		dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), SCX_ENQ_IMMED);
	return cpu;
}

/*
 * 7: a task that stops before it sleeps returns to the head of its DSQ. Other tasks start to wait.
 */
static __always_inline bool continues_first(struct task *t, u64 enq_flags)
{
	if (!fifo)
		return false;
	if (t->has_begun && !(enq_flags & SCX_ENQ_WAKEUP))
		return true;
	t->has_begun = false;
	waits_from(t, now_ns());
	return false;
}

/*
 * 4: if it is the slot of the task's row, an alternate is preempted; otherwise an idle CPU is
 * woken.
 */
static __always_inline void enqueue_in_cell(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 cpu = cpu_of_cell(t->cell);
	bool now = row_of(t->cell) == READ_ONCE(active_row) && READ_ONCE(cpu_of(cpu)->alternate);
	u64 ns = !fifo && cell_at(t->cell)->tasks > 1 ? turn_ns() : row_ns();

	dsq_insert(p, t->cell, ns, enq_flags | (continues_first(t, enq_flags) ? SCX_ENQ_HEAD : 0));
	scx_bpf_kick_cpu(cpu, now ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
}

OP2(void, gang_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);

	if (!t || !is_client(p)) {
		run_at_once(p, turn_ns(), enq_flags);
		return;
	}
	if (has_cell(p, t) && bpf_cpumask_test_cpu(cpu_of_cell(t->cell), p->cpus_ptr)) {
		enqueue_in_cell(p, t, enq_flags);
		return;
	}
	if (fifo)
		waits_from(t, now_ns());
	dsq_insert(p, COMMON_DSQ, turn_ns(), enq_flags);
	kick_idle_cpu(p, enq_flags);
}

/*
 * The running task continues if it is the slot of its row and no task shares its cell, or, by 7, if
 * one does; or if no other task waits. It does not continue if its cell is now in another column:
 * then it is enqueued there.
 */
OP2(void, gang_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	u32 column = place_of[cpu & MAX_CPU_MASK], active = READ_ONCE(active_row);
	u32 own = NO_CELL, alternate = NONE;
	bool in_turn, taken = false;

	if (t && has_cell(prev, t) && cpu_of_cell(t->cell) != cpu)
		t = NULL;
	if (t)
		own = t->cell < CELLS ? row_of(t->cell) : nr_rows;
	in_turn = own == active;
	if (fifo && take_overdue(cpu))
		return;
	if (active == nr_rows)
		taken = take_from(COMMON_DSQ);
	else if (!fifo || !in_turn)
		taken = take_from(active * nr_online + column);
	if (!taken && !in_turn)
		alternate = take_alternate(column, active, own < nr_rows ? own : NO_CELL);
	if (!taken && !in_turn && alternate == NONE)
		taken = take_from(COMMON_DSQ);
	taken = taken || alternate == TAKEN;
	if (taken || !t)
		return;
	WRITE_ONCE(cpu_of(cpu)->alternate, !in_turn);
	task_set_slice(prev, in_turn ? row_ns() : turn_ns());
}

OP1(void, gang_running, struct task_struct *, p)
{
	struct task *t = task_of(p);
	bool in_turn = t && (t->cell < CELLS ? row_of(t->cell) : nr_rows) == READ_ONCE(active_row);

	WRITE_ONCE(cpu_of(scx_bpf_task_cpu(p))->alternate, !in_turn && is_client(p));
	if (t)
		t->has_begun = !t->overdue;
}

/* ---- Lifecycle of a job ---- */

SLEEPABLE_OP2(s32, gang_cgroup_init, struct cgroup *, cgrp, struct scx_cgroup_init_args *, args)
{
	return make_job(cgrp, args->weight);
}

SLEEPABLE_OP1(void, gang_cgroup_exit, struct cgroup *, cgrp)
{
	end_job(cgrp);
}

/* The task is in no DSQ and does not run. */
OP3(void, gang_cgroup_move, struct task_struct *, p, struct cgroup *, from, struct cgroup *, to)
{
	struct task *t = task_of(p);

	if (!t || spaces)
		return;
	leave_job(t);
	join_job(t, number_of(to));
}

SLEEPABLE_OP0(s32, gang_init)
{
	u32 key = 0, rows = CELLS / (nr_online ? nr_online : 1);
	struct rotation *rotation = bpf_map_lookup_elem(&rotations, &key);
	s32 error = scx_bpf_create_dsq(COMMON_DSQ, -1);
	int number;

	if (!rotation)
		return -2; /* ENOENT */
	nr_rows = rows < MOST_ROWS ? rows : MOST_ROWS;
	active_row = nr_rows;
	for_range(number, 0, nr_rows * nr_online) {
		if (!error)
			error = scx_bpf_create_dsq(number, -1);
	}
	bpf_timer_init(&rotation->timer, &rotations, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&rotation->timer, rotate);
	bpf_timer_start(&rotation->timer, row_ns(), 0);
	if (fifo && !error)
		error = overdue_init();
	return error;
}

OP1(void, gang_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(gang_ops,
	.init_task = (void *)gang_init_task,
	.exit_task = (void *)gang_exit_task,
	.select_cpu = (void *)gang_select_cpu,
	.enqueue = (void *)gang_enqueue,
	.dispatch = (void *)gang_dispatch,
	.running = (void *)gang_running,
	.cgroup_init = (void *)gang_cgroup_init,
	.cgroup_exit = (void *)gang_cgroup_exit,
	.cgroup_move = (void *)gang_cgroup_move,
	.init = (void *)gang_init,
	.exit = (void *)gang_exit,
	/* Who is in the wrong column goes, though nobody else wants the CPU. */
	.flags = SCX_OPS_ENQ_LAST,
	.name = "gang",
);
