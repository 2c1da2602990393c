/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Window constraints: how urgently a stream's next request must be served in time, after R. West
 * and K. Schwan.
 *
 * 1. Of every y requests, x may be late. The current values x' and y' are the late requests still
 *    allowed and the requests left in this window. A request served in time lowers y', or both
 *    values if all remaining requests may be late. A late request lowers both. At zero the window
 *    restarts.
 * 2. A late request at x' = 0 violates the window. Then y' grows, which makes the stream more
 *    urgent until it is served; its window then restarts.
 * 3. Order: the earlier deadline; with equal deadlines the lower x'/y'; among those with x' = 0 the
 *    higher y', otherwise the lower x'; then FIFO. The order of 1999 compares x'/y' first and the
 *    deadline second.
 * 4. One key encodes this order; the lower key runs first. Two fractions with denominators up to
 *    255 differ by at least 1/(255 * 254), so 16 bits distinguish them. Deadlines count in units of
 *    2^17 ns (0.13 ms).
 */
#ifndef WEIR_WINDOW_BPF_H
#define WEIR_WINDOW_BPF_H

#ifdef __bpf__
#include "bpf.bpf.h"
#else
#include "host.h"
#endif

#define WINDOW_MOST 255
#define RATIO_BITS 16
#define DEADLINE_BITS 38
#define DEADLINE_SHIFT 17

struct window {
	u32 x, y;
	u32 now_x, now_y;	/* 1: what remains */
	bool violated;		/* 2: and not served since */
};

static __always_inline void window_begin(struct window *w)
{
	w->now_x = w->x;
	w->now_y = w->y;
	w->violated = false;
}

/* 1 */
static __always_inline void window_served(struct window *w)
{
	if (w->now_y > w->now_x) {
		w->now_y--;
	} else if (w->now_x) {
		w->now_x--;
		w->now_y--;
	}
	if (w->violated || !w->now_y)
		window_begin(w);
}

/* 1, 2: returns whether this violates the window. */
static __always_inline bool window_missed(struct window *w)
{
	u32 more = w->x ? (w->y - 1) / w->x : w->y;	/* (y - x) / x, rounded up */

	if (w->now_x) {
		w->now_x--;
		w->now_y--;
		if (!w->now_y)
			window_begin(w);
		return false;
	}
	w->now_y = w->now_y + more < WINDOW_MOST ? w->now_y + more : WINDOW_MOST;
	w->violated = true;
	return true;
}

static __always_inline u64 window_ratio(const struct window *w)
{
	return w->now_x ? ((u64)w->now_x << RATIO_BITS) / (w->now_y ? w->now_y : 1) : 0;
}

static __always_inline u64 window_deadline(u64 deadline_ns)
{
	return deadline_ns >> DEADLINE_SHIFT & ((1ULL << DEADLINE_BITS) - 1);
}

/* 3: order among requests with equal deadline and fraction. */
static __always_inline u64 window_last(const struct window *w)
{
	return w->now_x ? w->now_x : WINDOW_MOST - w->now_y;
}

/* 4 */
static __always_inline u64 window_key(const struct window *w, u64 deadline_ns, bool window_first)
{
	u64 deadline = window_deadline(deadline_ns), ratio = w->now_x ? window_ratio(w) + 1 : 0;

	if (window_first)
		return ratio << (DEADLINE_BITS + 8) | deadline << 8 | window_last(w);
	return deadline << (64 - DEADLINE_BITS - 1) | ratio << 8 | window_last(w);
}

#endif
