/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Caps: limits on the CPU usage of groups of tasks, after P. Williams' caps of tasks (2004).
 *
 * 1. A cap is in percent of one CPU. The usage of a group is defined like that of a task, for all
 *    its tasks together: it sums over the CPUs on which they run, and CPU time counts half after
 *    one half-life h. A group whose usage is constant uses CPUs at the rate of its usage. So a
 *    group that does not run while its usage is above its cap gets its cap in the long run. A group
 *    that used less before may use more for a while: u rises from 0 to a cap c on one CPU in h *
 *    log2(1 / (1 - c)).
 *
 * 2. Soft caps. While the group is above its cap, its tasks are late: they run when no other task
 *    wants the CPU, in the usual order among themselves. Any usage is above a soft cap of 0:
 *    background tasks.
 *
 * 3. Hard caps. While the group is above its cap, its tasks are parked: no CPU takes them, even if
 *    it is idle.
 *
 * 4. A timer decays usage in checks every 10 ms; in between, running tasks are charged at ticks. So
 *    a group is found above its cap too early by up to the decay of one check interval, and below
 *    it too late by up to one check interval: 10 ms * ln 2 / h of the cap, 1/700 for the half-life
 *    of 5 s. A check moves each task to the DSQ where it belongs. When a group reaches its hard
 *    cap, its waiting tasks are parked without waiting for a check, because they would look like
 *    tasks that want a CPU. There are no checks before there is a cap, and CPU time from before a
 *    group had a cap does not count.
 *
 * 5. Child groups count for their parent, and its cap applies to them: a bit mask says which groups
 *    are above their caps, and a job knows its ancestors.
 *
 * 6. No task is late or parked for longer than the watchdog permits: an overdue task gets its short
 *    slice (<weir/overdue.bpf.h>).
 *
 * Hard caps are `cpu.max` of a cgroup, as quota divided by period. The kernel reports it from 6.17
 * on, and enforces it itself only for its own fair class. Cgroups have no soft caps: user space
 * passes these, and hard caps for older kernels, by cgroup name.
 */
#ifndef CAPS_BPF_H
#define CAPS_BPF_H

#include <weir/group-name.bpf.h>

#define CHECK_NS 10000000ULL
#define NO_CAP (~0ULL)
#define NO_QUOTA (~0ULL)
#define MOST_CAPPED 1000	/* named groups */
#define ONE_BY_LN_2 94548ULL	/* 1.442695, in units of 2^-16 */

/* Limits of period and quota in us. The quota limit exceeds what the largest machine can use. */
#define MOST_PERIOD_US 1000000ULL
#define MOST_QUOTA_US (MAX_CPUS * MOST_PERIOD_US)

struct told_cap {
	u32 percent;
	u32 hard;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, MOST_CAPPED);
	MAP_TYPE(key, struct name);
	MAP_TYPE(value, struct told_cap);
} told_caps SEC(".maps");

/*
 * 1: state of a job with the same number in <weir/jobs.bpf.h>. Usage is in ns of CPU time: it is h
 * / ln 2 for a group that has used one CPU forever.
 */
struct cap {
	u64 soft;	/* limit of the usage */
	u64 hard;
	u64 usage;	/* as of the last check */
	u64 charged;	/* since the last check */
};

struct cap caps[JOBS];

/* 5: jobs above their caps, as bit masks. */
u64 above_soft, above_hard;

/* The same at the last check, and the bits that changed there. */
u64 checked_soft, checked_hard, checked_change;

/* 4 */
u32 nr_caps;
u32 checks_active;
u64 checked_at;
u64 next_check;

static __always_inline struct cap *cap_at(u32 job)
{
	return &caps[job % JOBS];
}

static __always_inline bool has_cap(const struct cap *c)
{
	return c->soft != NO_CAP || c->hard != NO_CAP;
}

/* ---- 2, 3, 5 ---- */

static __always_inline bool is_parked(u32 job)
{
	return READ_ONCE(above_hard) & job_at(job)->path;
}

static __always_inline bool is_late(u32 job)
{
	return READ_ONCE(above_soft) & job_at(job)->path;
}

/* ---- 1 ---- */

/*
 * 4: a group has reached its hard cap. Tasks cannot be moved between DSQs here, only in the
 * callback of a timer.
 */
static __noinline void park_soon(void)
{
	u32 key = CAP_CHECKS;
	struct loop *loop = bpf_map_lookup_elem(&loops, &key);

	if (loop)
		bpf_timer_start(&loop->timer, 0, 0);
}

/* 5: charges CPU time to the job and its ancestors. */
static __noinline void charge_caps(u32 job, u64 ns)
{
	int level;

	for_range(level, 0, JOB_DEPTH) {
		struct cap *c = cap_at(job);
		u64 bit = 1ULL << job % JOBS, usage;

		if (job == ROOT_JOB)
			break;
		if (has_cap(c)) {
			usage = READ_ONCE(c->usage) + __sync_fetch_and_add(&c->charged, ns) + ns;
			if (usage >= READ_ONCE(c->hard) && !(__sync_fetch_and_or(&above_hard, bit) & bit))
				park_soon();
			if (usage >= READ_ONCE(c->soft))
				__sync_fetch_and_or(&above_soft, bit);
		}
		job = job_at(job)->parent;
	}
}

/*
 * Number of half-lives since the last check, in units of 2^-16. A shorter rest is kept for the next
 * check.
 */
static __always_inline u64 halvings_since_check(u64 now)
{
	u64 h = half_life_ns(), ns = now - checked_at;
	u64 times = ns < 32 * h ? (ns << LOG2_BITS) / h : 32 * LOG2_ONE;

	checked_at = times < 32 * LOG2_ONE ? checked_at + (times * h >> LOG2_BITS) : now;
	return times;
}

/* 4: updates usages and the bit masks of jobs above their caps. */
static __noinline void update_caps(u64 now)
{
	u64 times = halvings_since_check(now), left = left_after(times), left_of_half = left_after(times / 2);
	u64 soft = 0, hard = 0;
	int job;

	for_range(job, 1, last_job + 1) {
		struct cap *c = cap_at(job);
		u64 usage;

		if (!has_cap(c))
			continue;
		/*
		 * The time charged since the last check has on average half the age of that check.
		 */
		usage = part(c->usage, left) + part(__sync_lock_test_and_set(&c->charged, 0), left_of_half);
		WRITE_ONCE(c->usage, usage);
		if (usage >= c->soft)
			soft |= 1ULL << job;
		if (usage >= c->hard)
			hard |= 1ULL << job;
	}
	WRITE_ONCE(above_soft, soft);
	WRITE_ONCE(above_hard, hard);
}

/* ---- Sources of caps ---- */

/* Usage of a group that always uses its quota in each period. */
static __always_inline u64 usage_at(u64 quota_us, u64 period_us)
{
	u64 h_us = half_life_ms * 1000ULL;

	if (quota_us > MOST_QUOTA_US || !period_us)
		return NO_CAP;
	return (h_us * quota_us / period_us * 1000 >> 8) * ONE_BY_LN_2 >> 8;
}

/* 4: the first cap starts the checks. */
static __always_inline void set_cap(u32 job, u64 soft, u64 hard)
{
	struct cap *c = cap_at(job);
	u32 key = CAP_CHECKS;
	struct loop *loop = bpf_map_lookup_elem(&loops, &key);

	nr_caps += (soft != NO_CAP || hard != NO_CAP) - has_cap(c);
	WRITE_ONCE(c->soft, soft);
	WRITE_ONCE(c->hard, hard);
	if (!nr_caps || !loop || __sync_lock_test_and_set(&checks_active, 1))
		return;
	checked_at = now_ns();
	next_check = checked_at + CHECK_NS;
	bpf_timer_start(&loop->timer, CHECK_NS, 0);
}

/* Implements ops.cgroup_init: caps that user space passed for this name, and `cpu.max`. */
static __always_inline void first_cap(struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	u32 number = number_of(cgrp);
	u64 soft = NO_CAP, hard = NO_CAP;
	struct told_cap *told;
	struct name name;

	if (number == ROOT_JOB || !is_own(cgrp, number))
		return;
	read_name(&name, cgrp);
	told = bpf_map_lookup_elem(&told_caps, &name);
	if (told && told->hard)
		hard = usage_at(told->percent, 100);
	else if (told)
		soft = usage_at(told->percent, 100);
	if (KERNEL_HAS_FIELD(args->bw_quota_us) && args->bw_quota_us != NO_QUOTA)
		hard = usage_at(args->bw_quota_us, args->bw_period_us);
	cap_at(number)->usage = cap_at(number)->charged = 0;
	set_cap(number, soft, hard);
}

/* Implements ops.cgroup_set_bandwidth. */
static __always_inline void change_cap(struct cgroup *cgrp, u64 period_us, u64 quota_us)
{
	u32 number = number_of(cgrp);

	if (number != ROOT_JOB && is_own(cgrp, number))
		set_cap(number, cap_at(number)->soft, usage_at(quota_us, period_us));
}

/* Implements ops.cgroup_exit, before the job's number is released. */
static __always_inline void end_cap(struct cgroup *cgrp)
{
	u32 number = number_of(cgrp);

	if (number != ROOT_JOB && is_own(cgrp, number))
		set_cap(number, NO_CAP, NO_CAP);
}

/* ---- 4: checks ---- */

static __always_inline u64 queue_of(u32 job)
{
	return is_parked(job) ? PARK_DSQ : is_late(job) ? LATE_DSQ : QUEUE_DSQ;
}

/*
 * Moves tasks of `changed` jobs to the DSQ where they belong. Those that may run now, including
 * those that stay but that no CPU would take before, are treated like waking tasks.
 */
static __noinline u32 sweep(u64 dsq_id, u64 changed)
{
	struct task_struct *p;
	u32 moved = 0;

	if (!scx_bpf_dsq_nr_queued(dsq_id))
		return 0;
	for_each_queued(p, dsq_id) {
		struct task *t = task_of(p);
		u64 to;

		if (!t || !(job_at(t->job)->path & changed))
			continue;
		to = queue_of(t->job);
		if (to != dsq_id)
			moved += dsq_move_by_key(&p_it, p, to, t->key);
		if (to != PARK_DSQ && !kick_idle_cpu(p, 0))
			preempt_latest(p, t);
	}
	return moved;
}

/*
 * A task enqueued during a check may have gone to a DSQ by the old masks. So the next check covers
 * the same jobs again.
 */
static __always_inline void check_caps(u64 now)
{
	u64 soft = READ_ONCE(above_soft), hard = READ_ONCE(above_hard), changed, all;

	update_caps(now);
	changed = (soft ^ above_soft) | (hard ^ above_hard) | (checked_soft ^ above_soft) | (checked_hard ^ above_hard);
	all = changed | checked_change;
	checked_soft = above_soft;
	checked_hard = above_hard;
	checked_change = changed;
	if (all) {
		sweep(PARK_DSQ, all);
		sweep(LATE_DSQ, all);
		sweep(QUEUE_DSQ, all);
	}
}

static int cap_timer_fn(void *map, u32 *key, struct loop *loop)
{
	u64 now = now_ns();

	/*
	 * The verifier of 6.12 requires the RCU read lock to iterate over a DSQ in a timer
	 * callback.
	 */
	bpf_rcu_read_lock();
	if (now < next_check) {
		sweep(QUEUE_DSQ, READ_ONCE(above_hard));
		sweep(LATE_DSQ, READ_ONCE(above_hard));
	} else {
		check_caps(now);
		next_check = now + CHECK_NS;
	}
	bpf_rcu_read_unlock();
	if (READ_ONCE(nr_caps))
		bpf_timer_start(&loop->timer, next_check - now < CHECK_NS ? next_check - now : CHECK_NS, 0);
	else
		WRITE_ONCE(checks_active, 0);
	return 0;
}

/* Creates the DSQs and the timer of the checks. */
static __always_inline s32 caps_init(void)
{
	u32 key = CAP_CHECKS;
	struct loop *loop = bpf_map_lookup_elem(&loops, &key);
	int job;

	if (!loop)
		return -2; /* ENOENT */
	for_range(job, 0, JOBS)
		cap_at(job)->soft = cap_at(job)->hard = NO_CAP;
	bpf_timer_init(&loop->timer, &loops, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&loop->timer, cap_timer_fn);
	return scx_bpf_create_dsq(LATE_DSQ, -1) ?: scx_bpf_create_dsq(PARK_DSQ, -1);
}

#endif
