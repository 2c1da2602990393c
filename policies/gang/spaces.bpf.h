/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Spaces: jobs that are memory spaces in place of cgroups, as in Peter Chubb's lecture.
 *
 * 1. Threads that share memory are those of a process, and what tells it is its number (`tgid`): its memory can be another one
 *    from one moment to the next (execve(2)), its number stays.
 * 2. A process is a job while it has two threads or more. How many it has is looked at when one of its tasks is put in line or
 *    asks for more time, so the first thread joins a little later than the second one.
 *
 *    Processes of one thread are one job together. Nobody of them has to run with anybody, but they have cells for that: tasks
 *    without one run wherever there is room, so what they leave free is on other CPUs each time, and the alternates there are
 *    never the same part of a job. There are hundreds of them on any machine, too many for a job each.
 * 3. A job has the number of a process until its last task leaves it. Two CPUs can give one process two numbers, if both look
 *    for a free one while a third one becomes free; then it is two jobs. A number that was taken back from somebody who had
 *    just found it belongs to nobody, and is given to nobody before that task has looked again.
 */
#ifndef GANG_SPACES_BPF_H
#define GANG_SPACES_BPF_H

#define SINGLE_JOB (JOBS - 1)	/* 2 */

/* By the number of the job: whose it is; 0: nobody's. */
u32 spaces_of[JOBS];

static __always_inline u32 *space_of(u32 job)
{
	return &spaces_of[job % JOBS];
}

static void join(struct task *t, u32 job);
static void part(struct task *t);

/* 3: SINGLE_JOB if all numbers are taken. */
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

/* 2: whether its job is what it should be. Threads of the kernel have no memory of their own. */
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
	part(t);
	join(t, job);
}

#endif
