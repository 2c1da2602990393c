/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slice and virtual deadline of the BFS family.
 *
 * 1. A task gets a slice of `rr_interval` and, at the same time, a virtual deadline:
 *
 * 	deadline = now + ratio(nice) * rr_interval * 8192 ns	(8192 is 2^20 / 128)
 *
 *    The ratio is 128 for nice -20 and grows by 11/10 with each nice level, rounded down. The slice
 *    is the same for all nice levels.
 * 2. Units are binary, for slices and for deadlines: 1 ms is 2^20 ns and 1 us is 2^10 ns. So a
 *    slice of 6 ms is 6.291 ms. Each charge is rounded down to a full us.
 * 3. A task keeps both, also while it sleeps, until less than 100 us of the slice are left. Then
 *    both are renewed together.
 * 4. A tick ends a slice of which less than 100 us are left. Ticks are coarse, so for a task that
 *    started in the first half of a tick period, a tick ends the slice already if less than half a
 *    tick period is left: half of the tasks stop a little early, the others a little late.
 * 5. At fork, the parent's remaining slice is split in halves between parent and child, and the
 *    child gets the parent's deadline. If less than 200 us are left, the parent's slice ends, and
 *    the child starts with a slice of its own.
 * 6. In BFS up to the 0.360 family, rr_interval grows with the number n of CPUs, from 6 ms to just
 *    below 24 ms: 6 * (4n + 4) / (n + 6) ms.
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
#define FORK_SPLIT_NS (200 * US_NS)	/* 5: a shorter slice is not split */
#define RR_INTERVAL_MS 6
#define NICE_LEVELS 40

RODATA u32 hz = 250;
RODATA u32 rr_interval_ms = 0;	/* 0: BFS's own value, see rr_scaled */
RODATA bool rr_scaled = true;	/* 6: grows with the CPUs; otherwise 6 ms */

/* Computed at init. */
u64 rr_ms;
u64 rr_slice_ns;
u64 deadline_unit_ns;	/* distance of a deadline for a ratio of 1 */
u64 half_tick_ns;

/* 1: ratio by nice + 20. */
static const u16 ratios[NICE_LEVELS] = {
	128, 140, 154, 169, 185, 203, 223, 245, 269, 295, 324, 356, 391, 430, 473, 520, 572, 629, 691, 760,
	836, 919, 1010, 1111, 1222, 1344, 1478, 1625, 1787, 1965,
	2161, 2377, 2614, 2875, 3162, 3478, 3825, 4207, 4627, 5089,
};

/* What a task has left of its slice, and its deadline. */
struct budget {
	u64 slice_ns;	/* kept here because kicks and yields clear scx.slice */
	u64 deadline;
	u64 since;	/* time of the last charge, or of the start if there was none */
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

/* Ratio of a task's static priority; 100 is nice -20. */
static __always_inline u32 ratio_of(s32 static_prio)
{
	u32 level = static_prio - 100;

	return level < NICE_LEVELS ? ratios[level] : ratios[20];
}

/* 3: gives the task a full slice and a new deadline. */
static __always_inline void renew(struct budget *t, u64 now)
{
	t->slice_ns = rr_slice_ns;
	t->deadline = now + t->ratio * deadline_unit_ns;
}

/* 2: charges the time since the last charge to the slice. */
static __always_inline void charge(struct budget *t, u64 now)
{
	u64 used = now > t->since ? (now - t->since) & ~(US_NS - 1) : 0;

	t->slice_ns -= used < t->slice_ns ? used : t->slice_ns;
	t->since = now;
}

/*
 * 4: returns whether this tick ends the slice. `early`: the task started in the first half of a
 * tick period.
 */
static __always_inline bool tick_ends(const struct budget *t, bool early)
{
	return t->slice_ns < (early ? half_tick_ns : SLICE_EMPTY_NS);
}

/*
 * 5: splits the parent's remaining slice and returns true, or ends it and returns false. In the
 * latter case the child keeps the slice and deadline that it has.
 */
static __always_inline bool share(struct budget *child, struct budget *parent, u64 now)
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
