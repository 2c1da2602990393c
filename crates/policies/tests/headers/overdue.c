/* SPDX-License-Identifier: GPL-2.0-only */
/* Tests of the rules of <weir/overdue.bpf.h> without a kernel: queues are lists. */
#include <weir/host.h>

/* Interface that <weir/client.bpf.h> and <weir/scx.bpf.h> declare. */
#define WEIR_CLIENT_BPF_H
#define SEC(name)
#define MAP_NUMBER(name, value) int (*name)[value]
#define MAP_TYPE(name, type) __typeof__(type) *name
#define BPF_MAP_TYPE_ARRAY 1
#define CLOCK_MONOTONIC 1
#define SCX_DSQ_LOCAL 7
#define SCX_ENQ_IMMED 8

#define OVERDUE_DSQ 3

enum { TASKS = 6 };

struct task {
	u64 waits_since;
	bool overdue;
};

/* State of each task: its queue, allowed CPUs and slice. */
static struct task_struct tasks[TASKS];
static struct task known[TASKS];
static u64 queue_of[TASKS], slice_of[TASKS];
static struct cpumask allowed[TASKS];
static u32 idle_kicks;

static struct task *task_of(struct task_struct *p)
{
	return p->pid ? &known[p - tasks] : NULL;
}

static struct task_struct *next_in(u64 dsq_id, int *at)
{
	while (++*at < TASKS)
		if (queue_of[*at] == dsq_id)
			return &tasks[*at];
	return NULL;
}

#define for_each_queued(p, dsq_id) for (int p_it = -1; (p = next_in(dsq_id, &p_it));)

static u32 scx_bpf_dsq_nr_queued(u64 dsq_id)
{
	u32 count = 0;

	for (u32 i = 0; i < TASKS; i++)
		count += queue_of[i] == dsq_id;
	return count;
}

static bool dsq_move(int *it, struct task_struct *p, u64 to)
{
	(void)it;
	queue_of[p - tasks] = to;
	return true;
}

static bool dsq_move_as(int *it, struct task_struct *p, u64 to, u64 flags)
{
	return flags == SCX_ENQ_IMMED && dsq_move(it, p, to);
}

static void task_set_slice(struct task_struct *p, u64 ns)
{
	slice_of[p - tasks] = ns;
}

static bool kick_idle_cpu(struct task_struct *p, u64 flags)
{
	(void)p;
	(void)flags;
	return ++idle_kicks;
}

static u64 now_ns(void)
{
	return host_ns;
}

/* A single timer and a single queue. */
struct bpf_timer {
	u64 ns, flags;
};

#define bpf_map_lookup_elem(map, key) ((void)(key), (void *)(map))
#define bpf_timer_init(timer, map, clock) ((void)(timer))
#define bpf_timer_set_callback(timer, callback) ((void)(callback))
#define bpf_timer_start(timer, time, how) (*(timer) = (struct bpf_timer){ time, how })
#define scx_bpf_create_dsq(dsq_id, node) ((dsq_id) == OVERDUE_DSQ ? 0 : (node))

/* The timer callback has unused parameters. */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wunused-parameter"
#include <weir/overdue.bpf.h>
#pragma clang diagnostic pop
#include "machine.h"

#define N(number) ((unsigned long long)(number))
#define S 1000000000ULL

enum { OWN_DSQ = 1, OTHER_DSQ = 2 };

static void scan_for_overdue(u64 now)
{
	move_overdue(OWN_DSQ, now);
}

/* Queues task `i`, allowed on one CPU, as waiting since `since`. */
static void wait_in(u32 i, u64 dsq_id, u64 since, u32 cpu)
{
	tasks[i] = (struct task_struct){ .pid = i + 1, .cpus_ptr = &allowed[i] };
	allowed[i] = (struct cpumask){ .bits = { 1ULL << cpu } };
	queue_of[i] = dsq_id;
	waits_from(&known[i], since);
	CHECK(known[i].waits_since == since && !known[i].overdue, "%u", i);
}

/*
 * Point 2 of overdue.bpf.h: a scan moves all tasks of its queue that have waited for 10 s; the next
 * scan is one second later.
 */
static void tasks_waiting_for_10_s_are_moved(void)
{
	struct overdue_scan timer = {};

	wait_in(0, OWN_DSQ, 5 * S, 0);
	wait_in(1, OWN_DSQ, 5 * S + 1, 0);
	wait_in(2, OTHER_DSQ, 0, 0);
	wait_in(3, OWN_DSQ, 4 * S, 1);
	wait_in(4, OWN_DSQ, 15 * S, 1);
	wait_in(5, OWN_DSQ, 0, 1);
	tasks[5].pid = 0;
	host_ns = 15 * S;
	CHECK(overdue_timer_fn(NULL, NULL, &timer) == 0 && timer.timer.ns == S && timer.timer.flags == 0,
	      "the next scan is in a second");
	CHECK(queue_of[0] == OVERDUE_DSQ && queue_of[3] == OVERDUE_DSQ, "waited for 10 s and 11 s");
	CHECK(queue_of[1] == OWN_DSQ && queue_of[4] == OWN_DSQ, "waited for a nanosecond less, and not at all");
	CHECK(queue_of[2] == OTHER_DSQ && queue_of[5] == OWN_DSQ && idle_kicks == 2,
	      "%u; tasks of another queue, or unknown", idle_kicks);
	known[0].overdue = false;
}

/* Points 1, 3 of overdue.bpf.h: a CPU takes the first overdue task allowed there, for 1 ms. */
static void overdue_turn_is_a_millisecond(void)
{
	CHECK(take_overdue(1), "the second overdue task may run there");
	CHECK(queue_of[3] == SCX_DSQ_LOCAL && slice_of[3] == S / 1000 && known[3].overdue, "%llu", N(slice_of[3]));
	CHECK(queue_of[0] == OVERDUE_DSQ && !known[0].overdue, "the first one may not");
	CHECK(!take_overdue(1) && take_overdue(0) && queue_of[0] == SCX_DSQ_LOCAL && known[0].overdue,
	      "each CPU takes its own");
	CHECK(!take_overdue(0), "no overdue task is left");
}

int main(void)
{
	CHECK(overdue_init() == 0, "the queue and its timer");
	tasks_waiting_for_10_s_are_moved();
	overdue_turn_is_a_millisecond();
	return 0;
}
