/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Spaces: jobs that are address spaces instead of cgroups, as in Peter Chubb's lecture.
 *
 * 1. Threads that share an address space are those of a process. A process is identified by its
 *    `tgid`, because execve(2) can replace its address space, but not the tgid.
 * 2. A process is a job while it has two or more threads. The number of threads is checked when one
 *    of its tasks is enqueued or gets a new slice, so the first thread joins the job a little later
 *    than the second.
 *
 * All single-threaded processes form one job. These tasks need not run together, but they need
 * cells: tasks without a cell run wherever there is room, so the room they leave changes its CPUs
 * each time, and the alternates there are never the same part of a job. Any machine has hundreds of
 * such processes, too many for a job each.
 * 3. A job number belongs to a process until the last task leaves the job. If two CPUs search for a
 *    free number for the same process while a third one becomes free, the process can get two
 *    numbers; then it is two jobs. If a number is released while another task has just found it,
 *    the number is free but is not reused before that task has searched again.
 */
#ifndef GANG_SPACES_BPF_H
#define GANG_SPACES_BPF_H

#define SINGLE_JOB (JOBS - 1)	/* 2 */

/* Tgid of the process of each job; 0 if there is none. */
u32 spaces_of[JOBS];

static __always_inline u32 *space_of(u32 job)
{
	return &spaces_of[job % JOBS];
}

static void join_job(struct task *t, u32 job);
static void leave_job(struct task *t);

/* 3: job number of a process; SINGLE_JOB if all numbers are taken. */
static __noinline u32 job_of_space(u32 tgid)
{
	int number;

	for_range(number, 1, SINGLE_JOB) {
		if (READ_ONCE(*space_of(number)) == tgid)
			return number;
	}
	for_range(number, 1, SINGLE_JOB) {
		if (READ_ONCE(gang_of(number)->tasks) == 0 &&
		    __sync_val_compare_and_swap(space_of(number), 0, tgid) == 0)
			return number;
	}
	return SINGLE_JOB;
}

/* 2: returns whether the task is in the right job. Kthreads have no address space. */
static __always_inline bool is_in_its_space(struct task_struct *p, struct task *t)
{
	if (!p->mm)
		return t->job == ROOT_JOB;
	if (p->signal->nr_threads <= 1)
		return t->job == SINGLE_JOB;
	return READ_ONCE(*space_of(t->job)) == (u32)p->tgid;
}

static __noinline void follow_space(struct task_struct *p, struct task *t)
{
	u32 job;

	if (is_in_its_space(p, t))
		return;
	job = !p->mm ? ROOT_JOB : p->signal->nr_threads > 1 ? job_of_space(p->tgid) : SINGLE_JOB;
	if (job == t->job)
		return;
	leave_job(t);
	join_job(t, job);
}

#endif
