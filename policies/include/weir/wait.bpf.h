/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An experiment: a task that wakes while its last CPU works waits for that one for a moment, though others idle.
 *
 * 1. It stands in the queue, and only its last CPU takes it, for `wait_us`.
 * 2. A timer ends this: the best idle CPU for it is told, if there is one. Each CPU has one timer, for whoever waits for it
 *    longest; it begins anew for the others. It must not begin anew for each that comes: then nobody's wait would ever end.
 *
 * The author of BFS tried this before 0.360, found "a pitiful improvement in throughput" for much complexity, and left it.
 *
 * A policy includes <weir/one-queue.bpf.h> before this and defines IDLE_IN_SLEEPABLE, as timers are made in a program that may
 * sleep; it has `wait_us`, and its struct task `waits` and `waits_until`.
 */
#ifndef WEIR_WAIT_BPF_H
#define WEIR_WAIT_BPF_H

struct waiting {
	struct bpf_timer timer;	/* for tasks that wait for this CPU */
	u32 armed;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, MAX_CPUS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct waiting);
} waiting SEC(".maps");

static __always_inline struct waiting *waiting_for(u32 cpu)
{
	return bpf_map_lookup_elem(&waiting, &cpu);
}

/* 1: whether the task waits for a CPU that is not this one. */
static __always_inline bool waits_for_another(struct task_struct *p, s32 cpu)
{
	struct task *t;

	if (!wait_us || scx_bpf_task_cpu(p) == cpu || !(t = task_of(p)))
		return false;
	return now_ns() < t->waits_until;
}

/* Whether a task that wakes is to wait for its last CPU. */
static __always_inline bool has_to_wait(struct task_struct *p, s32 last)
{
	return wait_us && !is_idle_level(p) && !is_leaving(last) && bpf_cpumask_test_cpu(last, p->cpus_ptr);
}

/* It is in the queue. Its CPU may have begun to idle just before that. */
static __always_inline void begin_to_wait(struct task_struct *p, struct task *t)
{
	s32 last = scx_bpf_task_cpu(p);
	struct waiting *w = waiting_for(last);

	t->waits_until = now_ns() + wait_us * 1000ULL;
	if (scx_bpf_test_and_clear_cpu_idle(last))
		kick(last, SCX_KICK_IDLE);
	if (w && !__sync_fetch_and_or(&w->armed, 1))
		bpf_timer_start(&w->timer, wait_us * 1000ULL, 0);
}

/*
 * 2: whoever waited long enough looks for an idle CPU; for whoever did not, the timer begins anew. Who comes while this goes
 * through the queue is either met there or finds the timer unarmed.
 */
static int end_waiting(void *map, u32 *cpu, struct waiting *w)
{
	u64 now = now_ns(), next = 0;
	struct task_struct *p;

	__sync_fetch_and_and(&w->armed, 0);
	bpf_rcu_read_lock();
	for_each_queued(p, QUEUE_DSQ) {
		struct task *t = task_of(p);
		s32 idle;

		if (!t || !t->waits_until || scx_bpf_task_cpu(p) != (s32)*cpu)
			continue;
		if (t->waits_until > now) {
			if (!next || t->waits_until - now < next)
				next = t->waits_until - now;
			continue;
		}
		t->waits_until = 0;
		idle = claim_idle_cpu(p, *cpu);
		if (idle >= 0)
			kick(idle, SCX_KICK_IDLE);
	}
	bpf_rcu_read_unlock();
	if (next && !__sync_fetch_and_or(&w->armed, 1))
		bpf_timer_start(&w->timer, next, 0);
	return 0;
}

/* At init. */
static __always_inline void wait_init(void)
{
	int cpu;

	if (!wait_us)
		return;
	for_range(cpu, 0, nr_cpus) {
		struct waiting *w = waiting_for(cpu);

		if (!w)
			continue;
		bpf_timer_init(&w->timer, &waiting, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&w->timer, end_waiting);
	}
}

#endif
