/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * currency: jobs are paid in CPU time, after the job currency of SGI's IRIX as described in the
 * scalability lecture by Peter Chubb.
 *
 * 1. A job is a cgroup; tasks outside all cgroups together form one job. A job has a weight, 100 by
 *    default.
 *
 * 2. In every interval of 100 ms, the whole CPU time of the machine is paid out to the jobs that
 *    had a runnable task, by weight. Running is charged at the time used. A job with too few tasks
 *    to use its share gets only what it can use, and the rest goes to the others. No job has more
 *    credit or more debt than the machine's CPU time of one interval. So a job that was idle for
 *    long has saved up no more than that.
 *
 * 3. A job with credit is under its entitlement, one without credit is over it. All tasks of jobs
 *    that are under go before all tasks of jobs that are over; within each of these two bands,
 *    tasks run round robin. Nothing is sorted, and an enqueue is a single step, which scales to
 *    hundreds of CPUs.
 *
 * 4. A job that has used up its credit is over from then on. Its waiting tasks stay where they are
 *    and change their band at the next interval, like those of jobs that were paid.
 *
 * 5. A task of a job that is under preempts a task of a job that is over, when it wakes and at each
 *    interval.
 *
 * 6. Topology. Each last-level cache has its own pair of DSQs, and a task waits below the cache
 *    where it ran. A CPU looks into those of its own cache, then of its node, then of all others,
 *    first for one band and then for the other. The lecture criticizes IRIX for the lack of this.
 *
 * 7. A task that has waited for 10 s gets a short slice before all others, whatever the credit of
 *    its job (<weir/overdue.bpf.h>). It is charged like any other.
 *
 * Where this departs from IRIX, and why:
 * - No source with the constants of IRIX was found. The interval and the limits were chosen for
 *   this policy, and are tunable.
 * - Per-CPU kthreads run at once.
 */
#include <weir/client.bpf.h>
#include <weir/jobs.bpf.h>
#include <weir/topology.bpf.h>

LICENSE("GPL");

/* Set by the presets. */
RODATA u32 interval_ms = 100;
RODATA u32 turn_us = 10000;

enum band { UNDER, OVER, BANDS };

/* 6: a cache is identified by its first place. */
#define QUEUE(cache, band) ((u64)(cache) * BANDS + (band))
#define OVERDUE_DSQ QUEUE(MAX_CPUS, UNDER)
#define MOVED_AT_MOST 512

struct task {
	u64 since;	/* time up to which it is charged */
	u64 waits_since;
	u32 job;
	bool counted;	/* in its job's number of runnable tasks */
	bool overdue;
};

TASK_STORAGE(tasks, struct task);

/* Account of a job. It has the number that the job has in <weir/jobs.bpf.h>. */
struct purse {
	s64 credit_ns;
	u64 used_ns;	/* in this interval */
	s64 tasks;	/* runnable tasks */
};

struct purse purses[JOBS];

/* 5: 1 + the job whose task runs on each CPU; 0 if there is none to preempt. */
struct cpu {
	u32 job;
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

#include <weir/overdue.bpf.h>

static __always_inline struct purse *purse_of(u32 job)
{
	return &purses[job % JOBS];
}

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & MAX_CPU_MASK];
}

static __always_inline u64 interval_ns(void)
{
	return interval_ms * 1000000ULL;
}

static __always_inline u64 turn_ns(void)
{
	return turn_us * 1000ULL;
}

/* ---- 3: bands ---- */

static __always_inline enum band band_of(u32 job)
{
	return READ_ONCE(purse_of(job)->credit_ns) > 0 ? UNDER : OVER;
}

static __always_inline void charge(struct task *t, u64 now)
{
	u64 used = now > t->since ? now - t->since : 0;
	struct purse *purse = purse_of(t->job);

	__sync_fetch_and_add(&purse->credit_ns, -(s64)used);
	__sync_fetch_and_add(&purse->used_ns, used);
	t->since = now;
}

/* ---- 6: queues ---- */

static __always_inline bool take_from(u32 cache, enum band band)
{
	return scx_bpf_dsq_nr_queued(QUEUE(cache, band)) && dsq_move_to_local_as(QUEUE(cache, band), SCX_ENQ_IMMED);
}

/* Takes a task from the caches whose first places are from `begin` to `end`, except `own`. */
static __noinline bool take_between(u32 begin, u32 end, u32 own, enum band band)
{
	u32 at = begin;
	int steps;

	for_range(steps, begin, end) {
		if (at >= end)
			break;
		if (at != own && take_from(at, band))
			return true;
		at = cache_end[cpu_at[at & MAX_CPU_MASK] & MAX_CPU_MASK];
	}
	return false;
}

static __noinline bool take_near(s32 cpu, enum band band)
{
	u32 here = cpu & MAX_CPU_MASK, own = cache_begin[here];

	return take_from(own, band) || take_between(node_begin[here], node_end[here], own, band) ||
	       take_between(0, node_begin[here], own, band) || take_between(node_end[here], nr_online, own, band);
}

/* ---- 5: preemption ---- */

/*
 * Preempts the first CPU in the mask of `p` (any CPU if NULL) that runs a task of a job that is
 * over. It no longer counts as such, so that it is preempted once.
 */
static __noinline void preempt_over(struct task_struct *p)
{
	int cpu;

	for_range(cpu, 0, nr_cpus) {
		u32 job = READ_ONCE(cpu_of(cpu)->job);

		if (!job || band_of(job - 1) == UNDER || (p && !bpf_cpumask_test_cpu(cpu, p->cpus_ptr)))
			continue;
		WRITE_ONCE(cpu_of(cpu)->job, 0);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		break;
	}
}

/* ---- 2: the interval ---- */

struct payday {
	struct bpf_timer timer;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct payday);
} paydays SEC(".maps");

/* 2: jobs that are still to be paid, the sum of their weights, and the CPU time left for them. */
struct payroll {
	u64 jobs;
	u64 weights;
	u64 ns;
};

struct payroll payroll;

static __always_inline void pay(u32 job, u64 ns)
{
	struct purse *purse = purse_of(job);
	s64 most = interval_ns() * nr_online, credit = purse->credit_ns + (s64)ns;

	credit = credit > most ? most : credit;
	__sync_fetch_and_add(&purse->credit_ns, (credit < -most ? -most : credit) - purse->credit_ns);
	purse->used_ns = 0;
	payroll.jobs &= ~(1ULL << job % JOBS);
	payroll.weights -= job_at(job)->weight;
	payroll.ns -= ns;
}

static __noinline void list_jobs(void)
{
	int job;

	payroll.jobs = payroll.weights = 0;
	payroll.ns = interval_ns() * nr_online;
	for_range(job, 0, last_job + 1) {
		struct purse *purse = purse_of(job);

		if (purse->tasks <= 0 && !purse->used_ns)
			continue;
		payroll.jobs |= 1ULL << (u32)job % JOBS;
		payroll.weights += job_at(job)->weight;
	}
}

/*
 * 2: CPU time that a job can use: one CPU for each runnable task, and at least the time that it
 * used in this interval, for tasks that sleep now.
 */
static __always_inline u64 usable_by(struct purse *purse)
{
	u64 by_tasks = purse->tasks > 0 ? interval_ns() * purse->tasks : 0;

	return by_tasks > purse->used_ns ? by_tasks : purse->used_ns;
}

/* 2: pays the jobs whose share exceeds what they can use; with `all`, pays all jobs. */
static __noinline void pay_jobs(bool all)
{
	u64 ns = payroll.ns, weights = payroll.weights;
	int job;

	for_range(job, 0, last_job + 1) {
		u64 part, usable;

		if (!(payroll.jobs >> job & 1))
			continue;
		usable = usable_by(purse_of(job));
		part = ns * job_at(job)->weight / (weights ? weights : 1);
		if (all || part > usable)
			pay(job, all && part < usable ? part : usable);
	}
}

/*
 * In memory, not in a register, where each value would be another state in each iteration for the
 * verifier.
 */
u32 moved;

/* 4: moves tasks whose job has changed to the other band. */
static __noinline void sort_dsq(u32 cache, enum band band)
{
	struct task_struct *p;

	moved = 0;
	for_each_queued(p, QUEUE(cache, band)) {
		struct task *t = task_of(p);

		if (!t || band_of(t->job) == band)
			continue;
		if (dsq_move(&p_it, p, QUEUE(cache, !band)) && ++moved >= MOVED_AT_MOST)
			break;
	}
}

#define ROUNDS 4

static int payday(void *map, u32 *key, struct payday *day)
{
	u32 at = 0, under = 0;
	int i;

	list_jobs();
	for_range(i, 0, ROUNDS)
		pay_jobs(i == ROUNDS - 1);
	/*
	 * The verifier of 6.12 requires the RCU read lock to iterate over a DSQ in a timer
	 * callback.
	 */
	bpf_rcu_read_lock();
	for_range(i, 0, nr_online) {
		if (at >= nr_online)
			break;
		sort_dsq(at, OVER);
		sort_dsq(at, UNDER);
		under += scx_bpf_dsq_nr_queued(QUEUE(at, UNDER));
		at = cache_end[cpu_at[at & MAX_CPU_MASK] & MAX_CPU_MASK];
	}
	for_range(i, 0, under < nr_online ? under : nr_online)
		preempt_over(NULL);
	bpf_rcu_read_unlock();
	bpf_timer_start(&day->timer, interval_ns(), 0);
	return 0;
}

/* ---- 7 ---- */

static void scan_for_overdue(u64 now)
{
	u32 at = 0;
	int i;

	for_range(i, 0, nr_online) {
		if (at >= nr_online)
			break;
		move_overdue(QUEUE(at, UNDER), now);
		move_overdue(QUEUE(at, OVER), now);
		at = cache_end[cpu_at[at & MAX_CPU_MASK] & MAX_CPU_MASK];
	}
}

/* ---- Lifecycle of a task, in order ---- */

SLEEPABLE_OP2(s32, currency_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -12; /* ENOMEM */
	t->job = first_job(args);
	return 0;
}

OP3(s32, currency_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	return go_to_idle_cpu(p, prev_cpu, wake_flags, turn_ns());
}

static __always_inline void count(struct task *t, bool counted)
{
	if (t->counted != counted)
		__sync_fetch_and_add(&purse_of(t->job)->tasks, counted ? 1LL : -1LL);
	t->counted = counted;
}

OP2(void, currency_runnable, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	waits_from(t, now_ns());
	if (is_client(p))
		count(t, true);
}

OP2(void, currency_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);
	enum band band;

	if (!t || !is_client(p)) {
		run_at_once(p, turn_ns(), enq_flags);
		return;
	}
	band = band_of(t->job);
	dsq_insert(p, QUEUE(cache_begin[scx_bpf_task_cpu(p) & MAX_CPU_MASK], band), turn_ns(), enq_flags);
	if (!kick_idle_cpu(p, enq_flags) && band == UNDER && (enq_flags & SCX_ENQ_WAKEUP))
		preempt_over(p);
}

/* 5 */
static __always_inline void note_job(s32 cpu, struct task_struct *p, const struct task *t)
{
	WRITE_ONCE(cpu_of(cpu)->job, is_client(p) ? t->job + 1 : 0);
}

/*
 * 3: the running task loses against a task of the same band. If it was preempted for a task that
 * may not run here, it continues.
 */
OP2(void, currency_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;

	if (t)
		charge(t, now_ns());
	if (take_overdue(cpu) || take_near(cpu, UNDER))
		return;
	if ((t && band_of(t->job) == UNDER) || !take_near(cpu, OVER)) {
		if (!t)
			return;
		note_job(cpu, prev, t);
		task_set_slice(prev, turn_ns());
	}
}

OP1(void, currency_running, struct task_struct *, p)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	t->since = now_ns();
	note_job(scx_bpf_task_cpu(p), p, t);
}

OP1(void, currency_tick, struct task_struct *, p)
{
	struct task *t = task_of(p);

	if (t)
		charge(t, now_ns());
}

OP2(void, currency_stopping, struct task_struct *, p, bool, runnable)
{
	struct task *t = task_of(p);

	WRITE_ONCE(cpu_of(scx_bpf_task_cpu(p))->job, 0);
	if (!t)
		return;
	charge(t, now_ns());
	waits_from(t, t->since);
}

OP2(void, currency_quiescent, struct task_struct *, p, u64, deq_flags)
{
	struct task *t = task_of(p);

	if (t)
		count(t, false);
}

/* ---- Lifecycle of a job ---- */

SLEEPABLE_OP2(s32, currency_cgroup_init, struct cgroup *, cgrp, struct scx_cgroup_init_args *, args)
{
	return make_job(cgrp, args->weight);
}

SLEEPABLE_OP1(void, currency_cgroup_exit, struct cgroup *, cgrp)
{
	end_job(cgrp);
}

/* The task is in no DSQ and does not run. */
OP3(void, currency_cgroup_move, struct task_struct *, p, struct cgroup *, from, struct cgroup *, to)
{
	struct task *t = task_of(p);
	bool counted;

	if (!t)
		return;
	counted = t->counted;
	count(t, false);
	t->job = number_of(to);
	count(t, counted);
}

OP2(void, currency_cgroup_set_weight, struct cgroup *, cgrp, u32, weight)
{
	weigh_job(cgrp, weight);
}

SLEEPABLE_OP0(s32, currency_init)
{
	u32 key = 0, at = 0;
	struct payday *day = bpf_map_lookup_elem(&paydays, &key);
	s32 error = overdue_init();
	int i;

	if (!day)
		return -2; /* ENOENT */
	job_at(ROOT_JOB)->weight = DEFAULT_WEIGHT;
	for_range(i, 0, nr_online) {
		if (at >= nr_online || error)
			break;
		error = scx_bpf_create_dsq(QUEUE(at, UNDER), -1);
		if (!error)
			error = scx_bpf_create_dsq(QUEUE(at, OVER), -1);
		at = cache_end[cpu_at[at & MAX_CPU_MASK] & MAX_CPU_MASK];
	}
	bpf_timer_init(&day->timer, &paydays, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&day->timer, payday);
	bpf_timer_start(&day->timer, interval_ns(), 0);
	return error;
}

OP1(void, currency_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(currency_ops,
	.init_task = (void *)currency_init_task,
	.select_cpu = (void *)currency_select_cpu,
	.runnable = (void *)currency_runnable,
	.enqueue = (void *)currency_enqueue,
	.dispatch = (void *)currency_dispatch,
	.running = (void *)currency_running,
	.tick = (void *)currency_tick,
	.stopping = (void *)currency_stopping,
	.quiescent = (void *)currency_quiescent,
	.cgroup_init = (void *)currency_cgroup_init,
	.cgroup_exit = (void *)currency_cgroup_exit,
	.cgroup_move = (void *)currency_cgroup_move,
	.cgroup_set_weight = (void *)currency_cgroup_set_weight,
	.init = (void *)currency_init,
	.exit = (void *)currency_exit,
	.name = "currency",
);
