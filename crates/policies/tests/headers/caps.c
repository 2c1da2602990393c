/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests of the arithmetic of caps (policies/entitlement/caps.bpf.h), without a kernel's cgroups,
 * queues and timers.
 */
#include <weir/host.h>
#include <weir/log2.bpf.h>

#define SEC(name)
#define BPF_MAP_TYPE_HASH 1
#define MAP_NUMBER(name, value) int (*name)[value]
#define MAP_TYPE(name, type) __typeof__(type) *name

#define JOBS 64
#define JOB_DEPTH 4
#define ROOT_JOB 0
#define MAX_CPUS 4096

static struct job {
	u64 path;
	u32 parent;
} jobs[JOBS];

static u32 last_job;

static struct job *job_at(u32 number)
{
	return &jobs[number % JOBS];
}

/* Cgroup callbacks are not tested here: jobs are set up directly. */
#define KERNEL_HAS_FIELD(field) true

struct kernfs_node {
	const char *name;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct scx_cgroup_init_args {
	u64 bw_period_us, bw_quota_us;
};

static u32 number_of(struct cgroup *cgrp)
{
	(void)cgrp;
	return ROOT_JOB;
}

static bool is_own(struct cgroup *cgrp, u32 number)
{
	return cgrp && number;
}

static void bpf_probe_read_kernel_str(void *to, u32 size, const char *from)
{
	(void)from;
	((char *)to)[size - 1] = 0;
}

/* No tasks are queued here: a queue is just a number. */
enum { QUEUE_DSQ, LATE_DSQ, PARK_DSQ };

struct task {
	u64 key;
	u32 job;
};

#define for_each_queued(p, dsq_id) for (int p_it = 0; (p = NULL, p_it + 0 * dsq_id);)
#define scx_bpf_dsq_nr_queued(dsq_id) (0 * dsq_id)
#define scx_bpf_create_dsq(dsq_id, node) (0 * (dsq_id) + 0 * (node))
#define dsq_move_by_key(it, p, to, key) ((it) && (p) && (to) && (key))
#define task_of(p) ((struct task *)(p))
#define kick_idle_cpu(p, flags) ((p) && (flags))
#define preempt_latest(p, t) ((void)(p), (void)(t))

struct bpf_timer {
	u64 ns;
	u32 started;
};

enum { CAP_CHECKS = 1 };

struct loop {
	struct bpf_timer timer;
};

static struct loop loops;

#define CLOCK_MONOTONIC 1
#define bpf_map_lookup_elem(map, key) ((void)(key), (void *)(map))
#define bpf_timer_init(timer, map, clock) ((void)(timer))
#define bpf_timer_set_callback(timer, callback) ((void)(callback))

static void bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags)
{
	(void)flags;
	timer->ns = ns;
	timer->started++;
}

static u32 half_life_ms = 1000;

static u64 half_life_ns(void)
{
	return half_life_ms * 1000000ULL;
}

static u64 now_ns(void)
{
	return host_ns;
}

static u64 part(u64 x, u64 of_32_bits)
{
	return (x >> 32) * of_32_bits + ((x & 0xffffffff) * of_32_bits >> 32);
}

static u64 left_after(u64 times)
{
	return half_to(times);
}

/* The timer callback has unused parameters. */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wunused-parameter"
#include <../entitlement/caps.bpf.h>
#pragma clang diagnostic pop
#include <math.h>
#include "machine.h"

#define N(number) ((unsigned long long)(number))
#define H (half_life_ms * 1000000ULL)

/* Sets up a job below `parent` with these caps and this usage. */
static struct cap *make(u32 number, u32 parent, u64 soft, u64 hard, u64 usage)
{
	jobs[number] = (struct job){ (parent ? jobs[parent].path : 1) | 1ULL << number, parent };
	caps[number] = (struct cap){ soft, hard, usage, 0 };
	last_job = number > last_job ? number : last_job;
	return &caps[number];
}

static void begin(void)
{
	last_job = 0;
	above_soft = above_hard = 0;
	jobs[ROOT_JOB] = (struct job){ 1, 0 };
	caps_init();
}

/*
 * Point 1 of caps.bpf.h: a job that has always used q of a CPU has a usage of q * h / ln 2.
 * Tolerance: 1e-5, plus the rounding of the last 8 bits.
 */
static void caps_are_usages(void)
{
	static const struct {
		u64 quota, period;
	} all[] = { { 50000, 100000 }, { 100000, 100000 }, { 7, 100 }, { 33, 100 }, { 4096000000, 1000000 },
		    { 5000, 1000000 } };
	static const u32 half_lives[] = { 1000, 1970, 5000, 100000 };

	for (u32 h = 0; h < 4; h++) {
		half_life_ms = half_lives[h];
		for (u32 i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
			double due = H / log(2) * all[i].quota / all[i].period;
			u64 found = usage_at(all[i].quota, all[i].period);

			CHECK(fabs(found - due) <= 1e-5 * due + 400, "%u ms, %u: %llu, expected %.0f",
			      half_lives[h], i, N(found), due);
		}
	}
	half_life_ms = 1000;
	CHECK(usage_at(0, 100) == 0, "no quota");
	CHECK(usage_at(MOST_QUOTA_US + 1, MOST_PERIOD_US) == NO_CAP, "more than the largest machine");
	CHECK(usage_at(100, 0) == NO_CAP, "no period");
}

/*
 * Point 1 of caps.bpf.h: usage halves in each half-life; time too short to count is kept for the
 * next scan.
 */
static void usage_is_halved_in_time(void)
{
	u64 unit = H >> LOG2_BITS, ns;

	checked_at = 5 * H;
	CHECK(halvings_since_check(6 * H) == LOG2_ONE && checked_at == 6 * H, "%llu", N(checked_at));
	CHECK(halvings_since_check(6 * H + unit - 1) == 0 && checked_at == 6 * H, "%llu", N(checked_at));
	CHECK(halvings_since_check(6 * H + unit + 1) == 1, "both remainders together");
	/* All time counts, whatever the intervals are. */
	checked_at = 0;
	for (u64 sum = ns = 0; ns < 3 * H;) {
		ns += 10000000 + draw(5000);
		sum += halvings_since_check(ns);
		CHECK(sum == (ns << LOG2_BITS) / H || sum + 1 == (ns << LOG2_BITS) / H, "%llu at %llu ns", N(sum), N(ns));
	}
	checked_at = H;
	CHECK(halvings_since_check(H + H / 2 * 63) == LOG2_ONE / 2 * 63, "31 and a half");
	/* After a long suspend all usage is forgotten, and time continues from there. */
	checked_at = H;
	CHECK(half_to(halvings_since_check(1000 * H)) == 0 && checked_at == 1000 * H, "%llu", N(checked_at));
}

/*
 * Points 1, 5 of caps.bpf.h: charges count for all enclosing cgroups, to the nanosecond; a cgroup
 * exactly at its cap is above it.
 */
static void cgroup_at_its_cap_is_above_it(void)
{
	begin();
	make(1, ROOT_JOB, NO_CAP, 1000, 400);
	make(2, 1, 800, NO_CAP, 0);
	make(3, 2, NO_CAP, NO_CAP, 7);
	loops.timer.started = 0;
	charge_caps(3, 599);
	CHECK(caps[1].charged == 599 && caps[2].charged == 599 && caps[3].charged == 0, "%llu", N(caps[2].charged));
	CHECK(!above_hard && !above_soft && !loops.timer.started, "a nanosecond below");
	charge_caps(3, 1);
	CHECK(above_hard == 2 && loops.timer.started == 1 && loops.timer.ns == 0, "at its hard cap, and parked at once");
	charge_caps(3, 199);
	CHECK(above_soft == 0 && loops.timer.started == 1, "already parked: the timer is not started again");
	charge_caps(2, 1);
	CHECK(above_soft == 4 && is_late(3) && is_late(2) && !is_late(1), "%#llx", N(above_soft));
	CHECK(is_parked(3) && is_parked(1) && queue_of(3) == PARK_DSQ, "%#llx", N(above_hard));
	charge_caps(ROOT_JOB, 1000000);
	CHECK(above_hard == 2 && above_soft == 4, "the root has no cap");
}

/*
 * Point 4 of caps.bpf.h: after a half-life, half of the usage is left. Time charged in between is
 * half as old on average, so the square root of a half of it is left.
 */
static void scan_releases_cgroups_below_their_caps(void)
{
	struct cap *c;
	u64 root = 3037000500;

	begin();
	c = make(1, ROOT_JOB, NO_CAP, 8, 1ULL << 40);
	make(2, ROOT_JOB, 1ULL << 33, NO_CAP, 1ULL << 34);
	make(3, ROOT_JOB, (1ULL << 33) + 1, NO_CAP, 1ULL << 34);
	make(4, ROOT_JOB, NO_CAP, NO_CAP, 1ULL << 34);
	c->charged = 1ULL << 32;
	checked_at = H;
	above_soft = ~0ULL;
	update_caps(2 * H);
	CHECK(c->usage == (1ULL << 39) + root && c->charged == 0, "%llu", N(c->usage));
	CHECK(above_soft == 1 << 2, "at its cap is above it, a nanosecond below is not: %#llx", N(above_soft));
	CHECK(above_hard == 1 << 1 && caps[4].usage == 1ULL << 34, "%#llx", N(above_hard));
	c->usage = 16;
	update_caps(3 * H);
	CHECK(above_hard == 1 << 1 && c->usage == 8, "%llu", N(c->usage));
	update_caps(4 * H);
	CHECK(above_hard == 0 && c->usage == 4, "%llu", N(c->usage));
}

/* Point 4 of caps.bpf.h: the first cap starts the scan timer; further caps do not restart it. */
static void first_cap_starts_the_scan_timer(void)
{
	begin();
	make(1, ROOT_JOB, NO_CAP, NO_CAP, 0);
	make(2, ROOT_JOB, NO_CAP, NO_CAP, 0);
	loops.timer.started = 0;
	host_ns = 700;
	set_cap(1, NO_CAP, NO_CAP);
	CHECK(nr_caps == 0 && !loops.timer.started, "no cap");
	set_cap(1, 5, NO_CAP);
	CHECK(nr_caps == 1 && loops.timer.started == 1 && loops.timer.ns == CHECK_NS && checked_at == 700, "the first cap");
	host_ns = 800;
	set_cap(2, NO_CAP, 6);
	set_cap(1, NO_CAP, 7);
	CHECK(nr_caps == 2 && loops.timer.started == 1 && checked_at == 700, "%u, %u", nr_caps, loops.timer.started);
	CHECK(next_check == 700 + CHECK_NS && caps[1].hard == 7 && caps[1].soft == NO_CAP, "%llu", N(next_check));
	set_cap(1, NO_CAP, NO_CAP);
	set_cap(2, NO_CAP, NO_CAP);
	CHECK(nr_caps == 0, "%u", nr_caps);
}

int main(void)
{
	caps_are_usages();
	usage_is_halved_in_time();
	cgroup_at_its_cap_is_above_it();
	scan_releases_cgroups_below_their_caps();
	first_cap_starts_the_scan_timer();
	return 0;
}
