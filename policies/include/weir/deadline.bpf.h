/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slice and deadline of the BFS family.
 *
 * 1. A task gets a slice of `rr_interval` and, together with it, a virtual deadline:
 *
 *	deadline = now + ratio(nice) * rr_interval * 8192 ns	(8192 is 2^20 / 128)
 *
 *    ratio is 128 for nice -20 and grows by 11/10 with every step, rounded down. The slice is the same for all.
 * 2. Units are binary: 1 ms is 2^20 ns and 1 us 2^10 ns, in slices as in deadlines. So a slice of 6 ms is 6.291 ms.
 *    What a charge has below 1 us is dropped.
 * 3. Both are kept until less than 100 us of the slice are left, also across sleep; then both are renewed together.
 * 4. A tick ends the slice of which less than 100 us are left. As ticks are coarse, a task that began in the first half
 *    of a tick period ends already when less than half a period is left: half of the tasks stop a little early, the
 *    others a little late.
 * 5. A task that forks shares its slice with its child, in halves, and its deadline. If less than 200 us are left, its turn
 *    is over, and the child begins with one of its own.
 * 6. In the 0.360 family and before, rr_interval grows with the CPUs: 6 * (4n + 4) / (n + 6) ms, from 6 to nearly 24.
 */
#ifndef WEIR_DEADLINE_BPF_H
#define WEIR_DEADLINE_BPF_H

#ifdef __bpf__
#include "scx.bpf.h"
#else
#include "host.h"
#endif

#define MS_NS (1ULL << 20)
#define US_NS (1ULL << 10)
#define SLICE_EMPTY_NS (100 * US_NS)
#define FORK_SPLIT_NS (200 * US_NS)	/* less is not worth sharing */
#define RR_INTERVAL_MS 6
#define NICE_LEVELS 40

RODATA u32 hz = 250;
RODATA u32 rr_interval_ms = 0;	/* 0: the author's own, by 6 */
RODATA bool rr_scaled = true;

/* Computed at init. */
u64 rr_ms;
u64 rr_slice_ns;
u64 deadline_unit_ns;	/* what one of ratio is worth */
u64 half_tick_ns;

/* 1: by nice + 20. */
static const u16 ratios[NICE_LEVELS] = {
	128, 140, 154, 169, 185, 203, 223, 245, 269, 295, 324, 356, 391, 430, 473, 520, 572, 629, 691, 760,
	836, 919, 1010, 1111, 1222, 1344, 1478, 1625, 1787, 1965,
	2161, 2377, 2614, 2875, 3162, 3478, 3825, 4207, 4627, 5089,
};

/* What remains of a task's slice and deadline. */
struct turn {
	u64 slice_ns;	/* scx.slice is not to be trusted: kicks and yields clear it */
	u64 deadline;
	u64 since;	/* began to run, or was last charged */
	u32 ratio;
};

static __always_inline void deadline_init(u32 cpus)
{
	u32 scaled = rr_scaled ? RR_INTERVAL_MS * (4 * cpus + 4) / (cpus + 6) : RR_INTERVAL_MS;

	rr_ms = rr_interval_ms ? rr_interval_ms : scaled;
	rr_slice_ns = rr_ms * MS_NS;
	deadline_unit_ns = rr_ms * (MS_NS / 128);
	half_tick_ns = 500000 / hz * US_NS;
}

/* The ratio of a nice value, given as the kernel's static priority: 100 is nice -20. */
static __always_inline u32 ratio_of(s32 static_prio)
{
	u32 level = static_prio - 100;

	return level < NICE_LEVELS ? ratios[level] : ratios[20];
}

/* 3 */
static __always_inline void renew(struct turn *t, u64 now)
{
	t->slice_ns = rr_slice_ns;
	t->deadline = now + t->ratio * deadline_unit_ns;
}

/* 2: charges the time since the last charge to the slice. */
static __always_inline void charge(struct turn *t, u64 now)
{
	u64 used = now > t->since ? (now - t->since) & ~(US_NS - 1) : 0;

	t->slice_ns -= used < t->slice_ns ? used : t->slice_ns;
	t->since = now;
}

/*
 * 4: returns whether this tick ends the slice. `early`: the task started in the first half of a
 * tick period.
 */
static __always_inline bool tick_ends(const struct turn *t, bool early)
{
	return t->slice_ns < (early ? half_tick_ns : SLICE_EMPTY_NS);
}

/*
 * 5: returns whether the remaining slice was large enough to split. If not, the child gets a full
 * slice.
 */
static __always_inline bool share(struct turn *child, struct turn *parent, u64 now)
{
	charge(parent, now);
	if (parent->slice_ns < FORK_SPLIT_NS) {
		parent->slice_ns = 0;
		return false;
	}
	child->slice_ns = parent->slice_ns /= 2;
	child->deadline = parent->deadline;
	return true;
}

#endif
