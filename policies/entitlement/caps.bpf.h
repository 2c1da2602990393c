/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Caps: groups of tasks that may not have more of the CPUs than this, after P. Williams' caps of tasks (2004).
 *
 * 1. A cap is in percent of one CPU. Usage of a group is that of a task, for all of its tasks together: each CPU that one of
 *    them has counts, and what is one half-life h old counts half. A group at which usage stands still has the CPUs at the
 *    rate of its usage. So a group that is kept from running while its usage is above its cap has its cap in the long run.
 *    Who has had less before may have more for a while: u rises from 0 to a cap c on one CPU in h * log2(1 / (1 - c)).
 *
 * 2. Soft caps. Above it tasks of the group are late: they run when nobody else wants the CPU. Among themselves their order
 *    is that of all. A soft cap of 0 is above all usage: background.
 *
 * 3. Hard caps. Above it tasks of the group are parked: no CPU takes them, though it idles.
 *
 * 4. Usage decays in looks, each 10 ms, and who runs is charged at ticks in between. So a group is found above its cap up to
 *    a look's decay too early, and below it up to a look too late: 10 ms * ln 2 / h of the cap, which is a seven-hundredth for
 *    the half-life of 5 s. A look puts each task where it belongs by then. When a group has come to its hard cap its waiting
 *    tasks are parked before that: they would seem to want a CPU. Nobody looks before there is a cap, and what a group used
 *    before it had one does not count.
 *
 * 5. Groups in a group count for it, and its cap holds for them: bits say which groups are above theirs, and a job knows which
 *    groups it is in.
 *
 * 6. Nobody is late or parked for longer than the watchdog allows: whoever is overdue has its short turn (overdue.bpf.h).
 *
 * Hard caps are `cpu.max` of a cgroup, as a part of its period; the kernel tells of it from 6.17 on, and itself holds nobody to
 * it who is not in its own fair class. Soft caps no cgroup has: these, and hard ones for older kernels, are told by user space,
 * by the names of cgroups.
 */
#ifndef CAPS_BPF_H
#define CAPS_BPF_H

#include <weir/group-name.bpf.h>

#define LOOK_NS 10000000ULL
#define NO_CAP (~0ULL)
#define NO_QUOTA (~0ULL)
#define MOST_CAPPED 1000	/* groups of a workload */
#define ONE_BY_LN_2 94548ULL	/* 1.442695, in units of 2^-16 */

/* The longest period, and more CPU time in it than the largest machine has: both in microseconds. */
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

/* 1: usage is in ns of CPU time: of who has had one CPU for ever it is h / ln 2. Of a job, with the numbers of jobs.bpf.h. */
struct cap {
	u64 soft;	/* most usage */
	u64 hard;
	u64 usage;	/* as of the last look */
	u64 charged;	/* since */
};

struct cap caps[JOBS];

/* 5: which jobs are above their caps, as bits. */
u64 above_soft, above_hard;

/* The same at the last look, and what changed there. */
u64 looked_soft, looked_hard, looked_change;

/* 4 */
u32 nr_caps;
u32 looks;
u64 looked_at;
u64 next_look;

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

/* 4: a group has come to its hard cap. No queue may be changed here, but in the callback of a timer. */
static __noinline void park_soon(void)
{
	u32 key = LOOKS;
	struct loop *loop = bpf_map_lookup_elem(&loops, &key);

	if (loop)
		bpf_timer_start(&loop->timer, 0, 0);
}

/* The job, and those that it is in, have used a CPU. */
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

/* How often usage has been halved since the last look. What is too short to count is kept for the next one. */
static __always_inline u64 halvings_since_look(u64 now)
{
	u64 h = half_life_ns(), ns = now - looked_at;
	u64 times = ns < 32 * h ? (ns << LOG2_BITS) / h : 32 * LOG2_ONE;

	looked_at = times < 32 * LOG2_ONE ? looked_at + (times * h >> LOG2_BITS) : now;
	return times;
}

/* 4: the bits of who is above now. */
static __noinline void reckon_caps(u64 now)
{
	u64 times = halvings_since_look(now), left = left_after(times), left_of_half = left_after(times / 2);
	u64 soft = 0, hard = 0;
	int job;

	for_range(job, 1, last_job + 1) {
		struct cap *c = cap_at(job);
		u64 usage;

		if (!has_cap(c))
			continue;
		/* What was charged is half as old as the last look. */
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

/* ---- Where caps come from ---- */

/* Most usage of who may have so much of each period. */
static __always_inline u64 usage_at(u64 quota_us, u64 period_us)
{
	u64 h_us = half_life_ms * 1000ULL;

	if (quota_us > MOST_QUOTA_US || !period_us)
		return NO_CAP;
	return (h_us * quota_us / period_us * 1000 >> 8) * ONE_BY_LN_2 >> 8;
}

/* 4: the first cap begins the looks. */
static __always_inline void set_cap(u32 job, u64 soft, u64 hard)
{
	struct cap *c = cap_at(job);
	u32 key = LOOKS;
	struct loop *loop = bpf_map_lookup_elem(&loops, &key);

	nr_caps += (soft != NO_CAP || hard != NO_CAP) - has_cap(c);
	WRITE_ONCE(c->soft, soft);
	WRITE_ONCE(c->hard, hard);
	if (!nr_caps || !loop || __sync_lock_test_and_set(&looks, 1))
		return;
	looked_at = now_ns();
	next_look = looked_at + LOOK_NS;
	bpf_timer_start(&loop->timer, LOOK_NS, 0);
}

/* What ops.cgroup_init does: what user space says of this name, and what the kernel says. */
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

/* What ops.cgroup_set_bandwidth does. */
static __always_inline void change_cap(struct cgroup *cgrp, u64 period_us, u64 quota_us)
{
	u32 number = number_of(cgrp);

	if (number != ROOT_JOB && is_own(cgrp, number))
		set_cap(number, cap_at(number)->soft, usage_at(quota_us, period_us));
}

/* What ops.cgroup_exit does, before the job's number is free. */
static __always_inline void end_cap(struct cgroup *cgrp)
{
	u32 number = number_of(cgrp);

	if (number != ROOT_JOB && is_own(cgrp, number))
		set_cap(number, NO_CAP, NO_CAP);
}

/* ---- 4: a look ---- */

static __always_inline u64 queue_of(u32 job)
{
	return is_parked(job) ? PARK_DSQ : is_late(job) ? LATE_DSQ : QUEUE_DSQ;
}

/*
 * Who is elsewhere than it belongs goes there. Who may run from now on is as one that wakes; so are those of `changed` jobs
 * that no CPU would take where they are.
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
		if (to != PARK_DSQ && !tell_idle_cpu(p, 0))
			interrupt_latest(p, t);
	}
	return moved;
}

/* Who is put into a queue meanwhile may have been told before this look: so the next one looks after the same jobs, too. */
static __always_inline void look(u64 now)
{
	u64 soft = READ_ONCE(above_soft), hard = READ_ONCE(above_hard), changed, all;

	reckon_caps(now);
	changed = (soft ^ above_soft) | (hard ^ above_hard) | (looked_soft ^ above_soft) | (looked_hard ^ above_hard);
	all = changed | looked_change;
	looked_soft = above_soft;
	looked_hard = above_hard;
	looked_change = changed;
	if (all) {
		sweep(PARK_DSQ, all);
		sweep(LATE_DSQ, all);
		sweep(QUEUE_DSQ, all);
	}
}

static int each_look(void *map, u32 *key, struct loop *loop)
{
	u64 now = now_ns();

	/* 6.12 lets nobody look through a queue in a timer's callback without it. */
	bpf_rcu_read_lock();
	if (now < next_look) {
		sweep(QUEUE_DSQ, READ_ONCE(above_hard));
		sweep(LATE_DSQ, READ_ONCE(above_hard));
	} else {
		look(now);
		next_look = now + LOOK_NS;
	}
	bpf_rcu_read_unlock();
	if (READ_ONCE(nr_caps))
		bpf_timer_start(&loop->timer, next_look - now < LOOK_NS ? next_look - now : LOOK_NS, 0);
	else
		WRITE_ONCE(looks, 0);
	return 0;
}

/* The queues, and the timer of looks. */
static __always_inline s32 caps_init(void)
{
	u32 key = LOOKS;
	struct loop *loop = bpf_map_lookup_elem(&loops, &key);
	int job;

	if (!loop)
		return -2; /* ENOENT */
	for_range(job, 0, JOBS)
		cap_at(job)->soft = cap_at(job)->hard = NO_CAP;
	bpf_timer_init(&loop->timer, &loops, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&loop->timer, each_look);
	return scx_bpf_create_dsq(LATE_DSQ, -1) ?: scx_bpf_create_dsq(PARK_DSQ, -1);
}

#endif
