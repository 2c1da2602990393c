/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Idle-CPU selection: which idle CPU is best for a task.
 *
 * 1. The rank of an idle CPU is a sum of penalties: for its distance from the CPU where the task
 *    ran last, for a busy sibling, and for any busy CPU below the same last-level cache. The lowest
 *    rank wins. Among CPUs of equal rank the first one wins, counted upwards by number from the
 *    last CPU and wrapping to CPU 0.
 * 2. The penalties are data. Schedulers differ in their order of preference, not in the search.
 * 3. Some schedulers take the last CPU whenever it is idle, without a search (`last_idle_first`).
 * 4. Some ignore the distance of a CPU on which the task was the last one to run
 *    (`last_task_counts`), and take the first CPU that is good enough: ranks below `rank_enough`
 *    count as `rank_enough`.
 * 5. A CPU that was found is then claimed in the kernel's idle mask. If another CPU claimed it
 *    first, the search restarts.
 *
 * Before including this, a policy may define: IDLE_REFUSED(p, cpu), true for CPUs that the task
 * must not take; IDLE_IN_SLEEPABLE, true if a sleepable program may search, where reading a task's
 * mask needs the RCU read lock; IDLE_ORDER(last, cpu), the order among CPUs of equal rank, lowest
 * first, below 2^MERIT_ORDER_BITS. The default order is that of point 1.
 */
#ifndef WEIR_IDLE_BPF_H
#define WEIR_IDLE_BPF_H

#include "topology.bpf.h"

#ifndef IDLE_REFUSED
#define IDLE_REFUSED(p, cpu) false
#endif

#ifndef IDLE_IN_SLEEPABLE
#define IDLE_IN_SLEEPABLE false
#endif

#ifndef IDLE_ORDER
#define IDLE_ORDER(last, cpu) ((cpu) >= (last) ? (cpu) - (last) : (cpu) + MAX_CPUS - (last))
#endif

#define IDLE_ATTEMPTS 4

RODATA u8 rank_by_distance[DISTANCES] = { 0, 1, 2, 8, 32 };
RODATA u8 rank_cache_busy = 4;
RODATA u8 rank_thread_busy = 16;
RODATA u8 rank_no_sibling = 0;
RODATA u8 rank_enough = 0;
RODATA bool last_idle_first = false;
RODATA bool last_task_counts = false;

/* 4: pid of the last task on each CPU; kept only if last_task_counts is set. */
s32 last_task[MAX_CPUS];

/*
 * A merit is the rank in the high bits and the order among equal ranks in the low bits; the lowest
 * is the best.
 */
#define NO_MERIT (~0U)
#define MERIT_ORDER_BITS 20
#define MERIT(rank, order) ((u32)(rank) << MERIT_ORDER_BITS | (order))
#define RANK(merit) ((merit) >> MERIT_ORDER_BITS)

/*
 * State of a search. Each CPU keeps its own in a global array, which is safe because nothing
 * interrupts a search. The verifier assumes that such memory can hold any value, so the loops below
 * have few states; on the stack it would track every possible rank through every iteration. For the
 * same reason the searches are functions that are verified once. Without these measures the
 * verifiers of 6.12 to 6.14 do not finish.
 */
struct idle_found {
	u32 merit;
	s32 best;
	u32 cache_merit;	/* of the best CPU of the cache being scanned */
	s32 cache_best;
	u32 cache_busy;		/* penalty for busy CPUs of that cache */
} __attribute__((aligned(64)));

struct idle_found idle_found[MAX_CPUS];

static __always_inline struct idle_found *found_here(void)
{
	return &idle_found[bpf_get_smp_processor_id() & MAX_CPU_MASK];
}

static __always_inline void note_last_task(s32 cpu, const struct task_struct *p)
{
	if (last_task_counts)
		last_task[cpu & MAX_CPU_MASK] = p->pid;
}

/* 1: merit without the penalty for busy CPUs of the cache, which is the same for all its CPUs. */
static __always_inline u32 merit_alone(struct task_struct *p, const struct cpumask *whole, u32 last, u32 cpu)
{
	u32 rank = rank_by_distance[distance(last, cpu)];

	if (last_task_counts && last_task[cpu & MAX_CPU_MASK] == p->pid)
		rank = 0;
	if (!bpf_cpumask_test_cpu(cpu, whole))
		rank += rank_thread_busy;
	if (rank_no_sibling && is_alone(cpu))
		rank += rank_no_sibling;
	return MERIT(rank, IDLE_ORDER(last, cpu));
}

/* Lowest rank that a CPU at this distance can have. */
static __always_inline u32 least_rank(enum distance distance)
{
	return last_task_counts ? 0 : rank_by_distance[distance];
}

static __always_inline void next_cache(struct idle_found *f)
{
	WRITE_ONCE(f->cache_merit, NO_MERIT);
	WRITE_ONCE(f->cache_busy, 0);
}

/*
 * Called after all CPUs of a cache are rated: adds the penalty for busy CPUs to the best one and
 * compares it with the best of other caches.
 */
static __always_inline void consider(struct idle_found *f)
{
	u32 merit = READ_ONCE(f->cache_merit);

	if (merit == NO_MERIT)
		return;
	merit += READ_ONCE(f->cache_busy) << MERIT_ORDER_BITS;
	if (RANK(merit) < rank_enough)
		merit = MERIT(rank_enough, merit & (MERIT(1, 0) - 1));
	if (merit < READ_ONCE(f->merit)) {
		WRITE_ONCE(f->merit, merit);
		WRITE_ONCE(f->best, f->cache_best);
	}
}

static __always_inline void rate(struct task_struct *p, const struct cpumask *idle, const struct cpumask *whole, u32 last,
				 struct idle_found *f, u32 cpu)
{
	u32 merit;

	if (!bpf_cpumask_test_cpu(cpu, idle)) {
		WRITE_ONCE(f->cache_busy, rank_cache_busy);
		return;
	}
	if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || IDLE_REFUSED(p, cpu))
		return;
	merit = merit_alone(p, whole, last, cpu);
	if (merit < READ_ONCE(f->cache_merit)) {
		WRITE_ONCE(f->cache_merit, merit);
		WRITE_ONCE(f->cache_best, cpu);
	}
}

/*
 * Returns whether no CPU can beat a whole idle core below the last CPU's cache: neither the sibling
 * of the last CPU nor a CPU of another cache, nor a CPU of equal rank that is scanned later, which
 * is possible if the task may not use every CPU.
 */
static __always_inline bool is_unbeaten(struct task_struct *p, const struct cpumask *whole, u32 last)
{
	return !last_task_counts && p->nr_cpus_allowed >= nr_online && !bpf_cpumask_test_cpu(last, whole) &&
	       rank_by_distance[SAME_CORE] + rank_thread_busy >= rank_by_distance[SAME_CACHE] &&
	       rank_by_distance[SAME_CACHE] + rank_cache_busy < rank_by_distance[SAME_NODE];
}

/*
 * Scans the CPUs below the last CPU's cache, upwards from its place. The first threads of the cores
 * are numbered in the order of the cores, and so are the second threads. So the first whole idle
 * core that the scan meets also has the first CPU among equal ranks.
 */
VERIFIED_ONCE u32 search_own_cache(struct task_struct *p TRUSTED, const struct cpumask *idle TRUSTED,
				   const struct cpumask *whole TRUSTED, u32 last)
{
	struct idle_found *f = found_here();
	u32 end, count;
	bool unbeaten = is_unbeaten(p, whole, last);
	int i;

	if (IDLE_IN_SLEEPABLE)
		bpf_rcu_read_lock();
	last &= MAX_CPU_MASK;
	end = cache_end[last];
	count = end - cache_begin[last];
	next_cache(f);
	for_range(i, 0, count) {
		u32 at = place_of[last] + i;
		u32 cpu = cpu_at[(at < end ? at : at - count) & MAX_CPU_MASK] & MAX_CPU_MASK;

		if (unbeaten && RANK(READ_ONCE(f->cache_merit)) <= rank_by_distance[SAME_CACHE] &&
		    core_of[cpu] != core_of[f->cache_best & MAX_CPU_MASK])
			break;
		rate(p, idle, whole, last, f, cpu);
	}
	if (IDLE_IN_SLEEPABLE)
		bpf_rcu_read_unlock();
	consider(f);
	return READ_ONCE(f->merit);
}

/* Scans the CPUs at places `begin` to `end`, cache by cache, without the last CPU's cache. */
VERIFIED_ONCE u32 search_places(struct task_struct *p TRUSTED, const struct cpumask *idle TRUSTED,
				const struct cpumask *whole TRUSTED, u32 last, u64 places)
{
	struct idle_found *f = found_here();
	int at;

	if (IDLE_IN_SLEEPABLE)
		bpf_rcu_read_lock();
	last &= MAX_CPU_MASK;
	next_cache(f);
	for_range(at, places >> 32, (u32)places) {
		u32 cpu = cpu_at[at & MAX_CPU_MASK] & MAX_CPU_MASK;

		if (cache_begin[cpu] == cache_begin[last])
			continue;
		rate(p, idle, whole, last, f, cpu);
		if (at + 1 < cache_end[cpu])
			continue;
		consider(f);
		next_cache(f);
	}
	if (IDLE_IN_SLEEPABLE)
		bpf_rcu_read_unlock();
	return READ_ONCE(f->merit);
}

#define PLACES(begin, end) ((u64)(begin) << 32 | (end))

/* Scans near places first, and stops when farther ones cannot be better. */
static __noinline s32 search_machine(struct task_struct *p, u32 last, const struct cpumask *idle, const struct cpumask *whole)
{
	struct idle_found *f = found_here();

	last &= MAX_CPU_MASK;
	WRITE_ONCE(f->merit, NO_MERIT);
	WRITE_ONCE(f->best, -1);
	if (RANK(search_own_cache(p, idle, whole, last)) <= least_rank(SAME_NODE))
		return READ_ONCE(f->best);
	if (RANK(search_places(p, idle, whole, last, PLACES(node_begin[last], node_end[last]))) > least_rank(OTHER_NODE)) {
		search_places(p, idle, whole, last, PLACES(0, node_begin[last]));
		search_places(p, idle, whole, last, PLACES(node_end[last], nr_online));
	}
	return READ_ONCE(f->best);
}

/*
 * Best idle CPU for `p`, whose previous CPU is `last`; -1 if none is idle. On a busy machine -1 is
 * the most frequent result, so that check comes first.
 */
static __noinline s32 find_idle_cpu(struct task_struct *p, u32 last)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask(), *whole;
	bool last_idles = bpf_cpumask_test_cpu(last, idle);
	s32 best = -1;

	if (last_idles || bpf_cpumask_intersects(idle, p->cpus_ptr)) {
		whole = scx_bpf_get_idle_smtmask();
		if (last_idles && (last_idle_first || bpf_cpumask_test_cpu(last, whole)) &&
		    bpf_cpumask_test_cpu(last, p->cpus_ptr) && !IDLE_REFUSED(p, last))
			best = last;
		else
			best = search_machine(p, last, idle, whole);
		scx_bpf_put_idle_cpumask(whole);
	}
	scx_bpf_put_idle_cpumask(idle);
	return best;
}

/* 5: finds and claims the best idle CPU; -1 if there is none. */
static __noinline s32 claim_idle_cpu(struct task_struct *p, s32 last)
{
	s32 cpu;
	int attempt;

	last &= MAX_CPU_MASK;
	cpu = find_idle_cpu(p, last);
	if (cpu < 0 || scx_bpf_test_and_clear_cpu_idle(cpu))
		return cpu;
	for_range(attempt, 1, IDLE_ATTEMPTS) {
		cpu = find_idle_cpu(p, last);
		if (cpu < 0 || scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return -1;
}

#endif
