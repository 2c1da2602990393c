/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Experiment: a task that wakes while its previous CPU is busy waits for that CPU for a moment,
 * although other CPUs are idle.
 *
 * 1. The task is in the DSQ, and for `wait_us` only its previous CPU takes it.
 * 2. A timer ends this wait and kicks the best idle CPU, if there is one. Each CPU has one timer,
 *    set for the task that has waited longest, and rearms it for the others. A newly arriving task
 *    must not rearm it, or no wait would ever end.
 *
 * The author of BFS tried this before 0.360, found "a pitiful improvement in throughput" for much
 * complexity, and dropped it.
 *
 * Before including this, a policy includes <weir/one-queue.bpf.h> and defines IDLE_IN_SLEEPABLE,
 * because timers are initialized in a sleepable program. It provides `wait_us`, and `waits` and
 * `waits_until` in its struct task.
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

/* 1: returns whether the task waits for a CPU other than `cpu`. */
static __always_inline bool waits_for_another(struct task_struct *p, s32 cpu)
{
	struct task *t;

	if (!wait_us || scx_bpf_task_cpu(p) == cpu || !(t = task_of(p)))
		return false;
	return now_ns() < t->waits_until;
}

/* Returns whether a waking task should wait for its previous CPU. */
static __always_inline bool has_to_wait(struct task_struct *p, s32 last)
{
	return wait_us && !is_idle_level(p) && !is_leaving(last) && bpf_cpumask_test_cpu(last, p->cpus_ptr);
}

/* Called after the insert: the CPU may have become idle just before it. */
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
 * 2: for each task whose wait is over, kicks an idle CPU; rearms the timer for the others. A task
 * that arrives during the scan is either found by it or finds the timer unarmed.
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
