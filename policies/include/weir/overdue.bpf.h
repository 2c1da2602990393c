/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Overdue tasks: no task starves, however small its share.
 *
 * 1. The kernel ejects a scheduler that lets a task wait for 30 s. By shares alone, a task of
 *    weight 1 beside one of weight 10,000 waits for minutes.
 * 2. A timer scans all DSQs once a second. A task that has waited for 10 s moves to a FIFO that
 *    every CPU tries before the other DSQs. So a task waits for 11 s at most, plus the time until a
 *    CPU picks.
 * 3. Such a slice is not the task's share, only early, so it is as short as ticks allow: 1 ms. A
 *    hundred tasks that run only by this rule cost the others a hundredth of a CPU.
 * 4. Afterward the rules of the policy apply again; they also define what the slice costs.
 *
 * Before including this, a policy defines OVERDUE_DSQ (an id that none of its DSQs has), task_of(),
 * and `waits_since` and `overdue` in its struct task. It implements scan_for_overdue(), which calls
 * move_overdue() for each of its DSQs, and calls waits_from() in runnable and stopping,
 * take_overdue() first in dispatch, and overdue_init() in init.
 */
#ifndef WEIR_OVERDUE_BPF_H
#define WEIR_OVERDUE_BPF_H

#include "client.bpf.h"

#define OVERDUE_SCAN_NS 1000000000ULL
#define OVERDUE_AFTER_NS (10 * 1000000000ULL)
#define OVERDUE_SLICE_NS 1000000ULL

struct overdue_scan {
	struct bpf_timer timer;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct overdue_scan);
} overdue_scans SEC(".maps");

static void scan_for_overdue(u64 now);

/* `t` starts to wait. */
static __always_inline void waits_from(struct task *t, u64 now)
{
	t->waits_since = now;
	t->overdue = false;
}

/* 2: from a DSQ of the policy. A CPU that found nothing a moment ago may be idle by now. */
static __noinline void move_overdue(u64 dsq_id, u64 now)
{
	struct task_struct *p;

	if (!scx_bpf_dsq_nr_queued(dsq_id))
		return;
	for_each_queued(p, dsq_id) {
		struct task *t = task_of(p);

		if (t && now - t->waits_since >= OVERDUE_AFTER_NS && dsq_move(&p_it, p, OVERDUE_DSQ))
			kick_idle_cpu(p, 0);
	}
}

static int overdue_timer_fn(void *map, u32 *key, struct overdue_scan *look)
{
	/*
	 * The verifier of 6.12 requires the RCU read lock to iterate over a DSQ in a timer
	 * callback.
	 */
	bpf_rcu_read_lock();
	scan_for_overdue(now_ns());
	bpf_rcu_read_unlock();
	bpf_timer_start(&look->timer, OVERDUE_SCAN_NS, 0);
	return 0;
}

/* 3: returns whether a task was taken for this CPU. */
static __noinline bool take_overdue(s32 cpu)
{
	struct task_struct *p;

	if (!scx_bpf_dsq_nr_queued(OVERDUE_DSQ))
		return false;
	for_each_queued(p, OVERDUE_DSQ) {
		struct task *t = task_of(p);

		if (!t || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || !dsq_move_as(&p_it, p, SCX_DSQ_LOCAL, SCX_ENQ_IMMED))
			continue;
		t->overdue = true;
		task_set_slice(p, OVERDUE_SLICE_NS);
		return true;
	}
	return false;
}

/* Creates the DSQ and starts the timer. */
static __always_inline s32 overdue_init(void)
{
	u32 key = 0;
	struct overdue_scan *look = bpf_map_lookup_elem(&overdue_scans, &key);

	if (!look)
		return -2; /* ENOENT */
	bpf_timer_init(&look->timer, &overdue_scans, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&look->timer, overdue_timer_fn);
	bpf_timer_start(&look->timer, OVERDUE_SCAN_NS, 0);
	return scx_bpf_create_dsq(OVERDUE_DSQ, -1);
}

#endif
