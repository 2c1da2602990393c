/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * entitlement: shares by feedback from usage, after Peter Williams' entitlement-based scheduler
 * (EBS, 2004) and the Share scheduler of J. Kay and P. Lauder (1988), both as described in the
 * scalability lecture by Peter Chubb.
 *
 * 1. Usage. A task's usage u is the fraction of a CPU that it has had lately: an average over its
 *    whole past in which CPU time counts half after one half-life. While the task runs, 1 - u is
 *    halved in each half-life; while it does not run, u is.
 *
 * 2. Entitlement. A task has shares: 20 - nice for nice values from 0 on, and 20 + nice^2 below, so
 *    420 to 1. The task with the least usage per share runs next. So in the long run usages are
 *    proportional to shares. No heuristics are needed: a task that sleeps often has little usage
 *    and responds fast.
 *
 * 3. One key is enough. The usages of all waiting tasks are halved together, so their order does
 *    not change: log2(u / shares) of each falls by 1 in each half-life h. So the key
 *
 * 	now + h * log2(u / shares)
 *
 * computed when a task stops stays valid while it waits, and orders the queue. No timer needs to
 * age waiting tasks.
 *
 * 4. A slice is 100 ms, in Share one tick of 10 ms. The task whose slice ends competes with its
 *    usage up to then.
 *
 * 5. A waking or new task preempts the running task with the latest key, if that is later than its
 *    own. The keys of running tasks grow, and are updated at each tick.
 *
 * 6. A child starts with its parent's usage, so forking gains nothing.
 *
 * 7. The averaging has a consequence that the lecture shows: a new task without a past has the CPU
 *    alone until its usage reaches that of the others. Beside n equal old tasks, that takes h *
 *    log2((n + 1) / n).
 *
 * 8. Share looks at the usage of users, which are cgroups here, and forgets it slowly; its three
 *    loops are in "share.bpf.h". There a task has a priority, which it accumulates while it runs.
 *    The priority goes to a limit that depends on the usage of the task's user, as usage goes to 1,
 *    and decays in the same way. So 3 holds for it, too, without shares. Where half-lives differ,
 *    by nice value, keys are those of nice 0, and the keys of other tasks are updated every second.
 *
 * 9. Caps. The usage of a group of tasks, which is a cgroup, can be capped. Tasks above a soft cap
 *    are late: they run when no other task wants the CPU. Tasks above a hard cap do not run.
 *    "caps.bpf.h" implements this with two more DSQs, and a timer that checks which groups have
 *    fallen below their caps. A late task counts as later than all tasks that are not late.
 *
 * 10. A task that has waited for 10 s gets a short slice before all others, at the usual cost
 *     (<weir/overdue.bpf.h>). By 3, a task of 1 share that had the CPU alone waits for h *
 *     log2(420), 44 s, beside a new one of 420.
 *
 * Where this departs from EBS, and why:
 * - EBS maps the ratio of usage per share to the highest one on a CPU, its yardstick, to 100
 *   priorities, and moves lists of waiting tasks up as they age. The order is that of 3 without the
 *   rounding.
 * - Caps belong to groups. In EBS they belong to tasks, and are set by a system call.
 * - A usage below 2^-20 counts as 2^-20, because the usage of a new task has no logarithm
 *   otherwise.
 *
 * And from Share:
 * - CPU time is charged as it is used, not in whole ticks, and nothing else is charged. Priorities
 *   decay continuously.
 * - Users count if they have a runnable task, or had one lately. In Share, users count if they are
 *   logged in. It then gives back what idle users take from others of their group, by reducing the
 *   charges of a group that gets too little. Neither is needed here.
 * - No user is kept from using more than twice its due share.
 * - Per-CPU kthreads run at once.
 */
#include <weir/client.bpf.h>
#include <weir/jobs.bpf.h>
#include <weir/log2.bpf.h>
#include "share.bpf.h"

LICENSE("GPL");

#define QUEUE_DSQ 0
#define LATE_DSQ 1	/* 9 */
#define PARK_DSQ 2
#define OVERDUE_DSQ 3	/* 10 */

/* 9: added to the key of a late task; larger than any key. */
#define LATE_BY (1ULL << 62)

#define MAX_CPUS 4096
#define MAX_CPU_MASK (MAX_CPUS - 1)

/* Set by the presets. */
RODATA u32 nr_cpus = 1;
RODATA u32 half_life_ms = 5000;
RODATA u32 slice_us = 100000;
RODATA bool share = false;		/* 8 */
RODATA u32 user_half_life_ms = 120000;

/* Usages are in units of 2^-32. */
#define USAGE_ONE (1ULL << 32)
#define USAGE_LEAST (USAGE_ONE >> 20)

static bool is_refused(struct task_struct *p);

#define PICK_REFUSED(p, cpu) is_refused(p)
#define PICK_BIASED false
#define PICK_SEEN(p, key, cpu) (key)
#define PICK_FLAGS SCX_ENQ_IMMED
#include <weir/pick.bpf.h>

struct task {
	u64 usage;	/* at time `at`; 8: the priority */
	u64 limit;	/* of the usage, which goes to it */
	u64 at;
	u64 key;
	u64 half_life_ns;
	u64 since;	/* time up to which its user is charged */
	u64 waits_since;	/* 10 */
	u32 log_shares;
	u32 job;
	bool overdue;
	bool counted;	/* in its user's number of runnable tasks */
};

TASK_STORAGE(tasks, struct task);

/* 5: key of the task that runs on each CPU, as of the last tick; 0 if there is none to preempt. */
struct cpu {
	u64 key;
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

#include <weir/overdue.bpf.h>

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & MAX_CPU_MASK];
}

static __always_inline u64 half_life_ns(void)
{
	return half_life_ms * 1000000ULL;
}

static __always_inline u64 slice_ns(void)
{
	return slice_us * 1000ULL;
}

/* ---- 1: usage ---- */

static __always_inline u64 part(u64 x, u64 of_32_bits)
{
	return (x >> 32) * of_32_bits + ((x & 0xffffffff) * of_32_bits >> 32);
}

/*
 * Functions of their own: inlined into a loop over a DSQ, the verifier would follow every path
 * through their bits for each task.
 */
VERIFIED_ONCE u64 left_after(u64 times)
{
	return half_to(times);
}

VERIFIED_ONCE u64 log_of(u64 usage)
{
	return log2_of(usage ? usage : 1);
}

#define LONG_AGO (32 * LOG2_ONE)

/*
 * 1: updates the usage. Time is measured in 2^-16 of a half-life; a shorter rest is kept for the
 * next update.
 */
static __noinline void update(struct task *t, u64 now)
{
	u64 h = t->half_life_ns, ns = now > t->at ? now - t->at : 0;
	u64 times = ns < 32 * h ? (ns << LOG2_BITS) / h : LONG_AGO, still = left_after(times);

	if (t->usage < t->limit)
		t->usage = t->limit - part(t->limit - t->usage, still);
	else
		t->usage = t->limit + part(t->usage - t->limit, still);
	t->at = times < LONG_AGO ? t->at + (times * h >> LOG2_BITS) : now;
}

/* ---- 2, 3: entitlement ---- */

static __always_inline u32 shares_of(struct task_struct *p)
{
	s32 nice = p->static_prio - 120;

	return nice < 0 ? 20 + nice * nice : 20 - nice;
}

/*
 * 3: the key is shifted by 48 half-lives, so that it is always positive: usage is in units of 2^-32,
 * which gives 32 of them.
 */
static __noinline void set_key(struct task *t)
{
	u64 usage = t->usage > USAGE_LEAST ? t->usage : USAGE_LEAST;
	u64 halvings = 16 * LOG2_ONE + log_of(usage) - t->log_shares;

	/* In two steps, because the product has more than 64 bits. */
	t->key = t->at + (half_life_ns() >> 8) * halvings / (LOG2_ONE >> 8);
}

static __always_inline void set_shares(struct task_struct *p, struct task *t)
{
	t->half_life_ns = share ? half_life_at(p->static_prio - 120, half_life_ns()) : half_life_ns();
	t->log_shares = share ? 0 : log2_of(shares_of(p));
}

/* ---- 9: caps ---- */

/* Timers: each second for Share, and checks of caps. */
enum { SECONDS, CAP_CHECKS, LOOPS };

struct loop {
	struct bpf_timer timer;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, LOOPS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct loop);
} loops SEC(".maps");

static void preempt_latest(struct task_struct *p, struct task *t);

#include "caps.bpf.h"

static __always_inline bool is_refused(struct task_struct *p)
{
	struct task *t = READ_ONCE(above_hard) ? task_of(p) : NULL;

	return t && is_parked(t->job);
}

static __always_inline u64 seen_key(struct task *t)
{
	return t->key + (is_late(t->job) ? LATE_BY : 0);
}

/* ---- 8: users ---- */

/*
 * Charges the time until now, and sets the limit of the usage until the task stops or its user's
 * usage is updated.
 */
static __noinline void charge_and_aim(struct task *t, u64 now)
{
	u64 ns = now - t->since;

	t->since = now;
	if (READ_ONCE(nr_caps))
		charge_caps(t->job, ns);
	if (!share) {
		t->limit = USAGE_ONE;
		return;
	}
	charge(t->job, ns);
	t->limit = rest_of_priority(t->job, t->half_life_ns);
}

static __always_inline void count(struct task *t, bool counted)
{
	if (t->counted != counted)
		count_runnable(t->job, counted ? 1 : -1);
	t->counted = counted;
}

/*
 * 8: updates the keys of tasks with a nice value other than 0, which decay differently than the key
 * assumes.
 */
static __noinline u32 update_keys(u64 now)
{
	struct task_struct *p;
	u32 moved = 0;

	for_each_queued(p, QUEUE_DSQ) {
		struct task *t = task_of(p);

		if (!t || t->half_life_ns == half_life_ns())
			continue;
		update(t, now);
		set_key(t);
		moved += dsq_move_by_key(&p_it, p, QUEUE_DSQ, t->key);
	}
	return moved;
}

static int second(void *map, u32 *key, struct loop *loop)
{
	each_second(half_to((SECONDS_OF_USAGE * 1000ULL << LOG2_BITS) / user_half_life_ms) >> LOG2_BITS);
	/*
	 * The verifier of 6.12 requires the RCU read lock to iterate over a DSQ in a timer
	 * callback.
	 */
	bpf_rcu_read_lock();
	update_keys(now_ns());
	bpf_rcu_read_unlock();
	bpf_timer_start(&loop->timer, SECOND_NS, 0);
	return 0;
}

/* ---- 5: preemption ---- */

/*
 * Preempts the CPU with the latest key. From then on it counts as running the task for which it was
 * kicked.
 */
static void preempt_latest(struct task_struct *p, struct task *t)
{
	u64 own = seen_key(t), latest = own;
	s32 victim = -1;
	int cpu;

	for_range(cpu, 0, nr_cpus) {
		u64 key = READ_ONCE(cpu_of(cpu)->key);

		if (key > latest && bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			latest = key;
			victim = cpu;
		}
	}
	if (victim < 0)
		return;
	WRITE_ONCE(cpu_of(victim)->key, own);
	scx_bpf_kick_cpu(victim, SCX_KICK_PREEMPT);
}

/* ---- 10 ---- */

static void scan_for_overdue(u64 now)
{
	move_overdue(QUEUE_DSQ, now);
	move_overdue(LATE_DSQ, now);
	move_overdue(PARK_DSQ, now);
}

/* ---- Lifecycle of a task, in order ---- */

/* 6 */
SLEEPABLE_OP2(s32, entitlement_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct task *parent;

	if (!t)
		return -12; /* ENOMEM */
	set_shares(p, t);
	t->job = first_job(args);
	t->at = now_ns();
	parent = args->fork ? task_of(bpf_get_current_task_btf()) : NULL;
	if (parent) {
		update(parent, t->at);
		t->usage = parent->usage;
	}
	return 0;
}

OP3(s32, entitlement_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	return is_refused(p) ? prev_cpu : go_to_idle_cpu(p, prev_cpu, wake_flags, slice_ns());
}

OP2(void, entitlement_runnable, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	waits_from(t, now_ns());
	if (is_client(p))
		count(t, true);
}

OP2(void, entitlement_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);
	u64 queue;

	if (!t || !is_client(p)) {
		run_at_once(p, slice_ns(), enq_flags);
		return;
	}
	update(t, now_ns());
	set_key(t);
	queue = queue_of(t->job);
	dsq_insert_by_key(p, queue, slice_ns(), t->key, enq_flags);
	if (queue == PARK_DSQ)
		return;
	if (!kick_idle_cpu(p, enq_flags) && (enq_flags & SCX_ENQ_WAKEUP))
		preempt_latest(p, t);
}

/* The key of a running task becomes later and later. */
static __always_inline void publish_key(struct task_struct *p, struct task *t, u64 now)
{
	update(t, now);
	charge_and_aim(t, now);
	set_key(t);
	if (is_client(p))
		WRITE_ONCE(cpu_of(scx_bpf_task_cpu(p))->key, seen_key(t));
}

/*
 * 4. By 9, a task that is parked does not compete, and a late task competes only with other late
 *    tasks.
 */
OP2(void, entitlement_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	bool late;

	if (take_overdue(cpu))
		return;
	if (t)
		publish_key(prev, t, now_ns());
	if (t && is_client(prev) && is_parked(t->job))
		t = NULL;
	late = t && is_late(t->job);
	if (take(QUEUE_DSQ, cpu, t && !late ? t->key : NO_LIMIT))
		return;
	if ((!t || late) && take(LATE_DSQ, cpu, t ? t->key : NO_LIMIT))
		return;
	if (t)
		task_set_slice(prev, slice_ns());
}

OP1(void, entitlement_running, struct task_struct *, p)
{
	struct task *t = task_of(p);
	u64 now = now_ns();

	if (!t)
		return;
	t->since = now;
	publish_key(p, t, now);
}

/* 9: the group of the task has used up its cap. By 10, an overdue task keeps its short slice. */
static __always_inline bool must_stop(struct task *t)
{
	return !t->overdue && (is_parked(t->job) || (is_late(t->job) && scx_bpf_dsq_nr_queued(QUEUE_DSQ)));
}

OP1(void, entitlement_tick, struct task_struct *, p)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	publish_key(p, t, now_ns());
	if (is_client(p) && must_stop(t))
		task_set_slice(p, 0);
}

OP2(void, entitlement_stopping, struct task_struct *, p, bool, runnable)
{
	struct task *t = task_of(p);
	u64 now = now_ns();

	WRITE_ONCE(cpu_of(scx_bpf_task_cpu(p))->key, 0);
	if (!t)
		return;
	update(t, now);
	charge_and_aim(t, now);
	t->limit = 0;
	waits_from(t, now);
}

OP2(void, entitlement_quiescent, struct task_struct *, p, u64, deq_flags)
{
	struct task *t = task_of(p);

	if (t)
		count(t, false);
}

/* The kernel reenqueues a waiting task after this. */
OP2(void, entitlement_set_weight, struct task_struct *, p, u32, weight)
{
	struct task *t = task_of(p);

	if (t)
		set_shares(p, t);
}

/* The task is not in play while this is called. */
OP3(void, entitlement_cgroup_move, struct task_struct *, p, struct cgroup *, from, struct cgroup *, to)
{
	struct task *t = task_of(p);

	if (t)
		t->job = number_of(to);
}

/* ---- Lifecycle of a cgroup ---- */

SLEEPABLE_OP2(s32, entitlement_cgroup_init, struct cgroup *, cgrp, struct scx_cgroup_init_args *, args)
{
	s32 error = make_job(cgrp, args->weight);

	if (!error)
		first_cap(cgrp, args);
	return error;
}

SLEEPABLE_OP1(void, entitlement_cgroup_exit, struct cgroup *, cgrp)
{
	end_cap(cgrp);
	end_job(cgrp);
}

OP2(void, entitlement_cgroup_set_weight, struct cgroup *, cgrp, u32, weight)
{
	weigh_job(cgrp, weight);
}

OP4(void, entitlement_cgroup_set_bandwidth, struct cgroup *, cgrp, u64, period_us, u64, quota_us, u64, burst_us)
{
	change_cap(cgrp, period_us, quota_us);
}

SLEEPABLE_OP0(s32, entitlement_init)
{
	u32 key = SECONDS;
	struct loop *loop = bpf_map_lookup_elem(&loops, &key);

	if (!loop)
		return -2; /* ENOENT */
	job_at(ROOT_JOB)->weight = DEFAULT_WEIGHT;
	if (share) {
		bpf_timer_init(&loop->timer, &loops, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&loop->timer, second);
		bpf_timer_start(&loop->timer, SECOND_NS, 0);
	}
	return caps_init() ?: overdue_init() ?: scx_bpf_create_dsq(QUEUE_DSQ, -1);
}

OP1(void, entitlement_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(entitlement_ops,
	.init_task = (void *)entitlement_init_task,
	.select_cpu = (void *)entitlement_select_cpu,
	.runnable = (void *)entitlement_runnable,
	.enqueue = (void *)entitlement_enqueue,
	.dispatch = (void *)entitlement_dispatch,
	.running = (void *)entitlement_running,
	.tick = (void *)entitlement_tick,
	.stopping = (void *)entitlement_stopping,
	.quiescent = (void *)entitlement_quiescent,
	.set_weight = (void *)entitlement_set_weight,
	.cgroup_init = (void *)entitlement_cgroup_init,
	.cgroup_exit = (void *)entitlement_cgroup_exit,
	.cgroup_move = (void *)entitlement_cgroup_move,
	.cgroup_set_weight = (void *)entitlement_cgroup_set_weight,
	.cgroup_set_bandwidth = (void *)entitlement_cgroup_set_bandwidth,
	.init = (void *)entitlement_init,
	.exit = (void *)entitlement_exit,
	.flags = SCX_OPS_ENQ_LAST,
	.name = "entitlement",
);
