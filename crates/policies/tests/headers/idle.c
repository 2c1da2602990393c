/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compares the idle search with a naive one that checks every CPU, for each ranking that a preset
 * of bfs uses.
 */
#include <weir/idle.bpf.h>
#include "machine.h"

struct order {
	u8 by_distance[DISTANCES], cache_busy, thread_busy, enough;
	bool last_first, last_task;
};

static const struct order orders[] = {
	{ { 0, 0, 0, 2, 8 }, 1, 4, 1, false, true },	/* 0.357 */
	{ { 0, 1, 2, 8, 32 }, 4, 16, 0, false, false },	/* 0.360 */
	{ { 0, 1, 2, 8, 64 }, 4, 16, 0, true, false },	/* 0.467 */
	{ { 0, 1, 2, 8, 64 }, 0, 0, 0, true, false },	/* gc */
};

static const u32 shapes[][4] = {
	{ 1, 1, 1, 1 }, { 1, 1, 4, 1 }, { 1, 1, 2, 2 }, { 1, 2, 2, 2 }, { 2, 1, 3, 2 }, { 2, 3, 2, 2 }, { 4, 2, 4, 1 },
	{ 1, 1, 3, 4 },
};

static void use(const struct order *order)
{
	for (u32 i = 0; i < DISTANCES; i++)
		rank_by_distance[i] = order->by_distance[i];
	rank_cache_busy = order->cache_busy;
	rank_thread_busy = order->thread_busy;
	rank_enough = order->enough;
	last_idle_first = order->last_first;
	last_task_counts = order->last_task;
}

static bool idles(u32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, &host_idle);
}

/* Points 1 and 4 of idle.bpf.h, written literally. */
static u32 naive_rank(const struct order *order, const struct task_struct *p, u32 last, u32 cpu)
{
	bool cache_busy = false, thread_busy = false, own = order->last_task && last_task[cpu] == p->pid;
	u32 rank;

	for (u32 other = 0; other < nr_cpus; other++) {
		cache_busy |= distance(other, cpu) <= SAME_CACHE && !idles(other);
		thread_busy |= distance(other, cpu) <= SAME_CORE && !idles(other);
	}
	rank = (own ? 0 : order->by_distance[distance(last, cpu)]) + (cache_busy ? order->cache_busy : 0) +
	       (thread_busy ? order->thread_busy : 0);
	return rank < order->enough ? order->enough : rank;
}

static s32 naive_search(const struct order *order, const struct task_struct *p, u32 last)
{
	u32 best_rank = ~0U;
	s32 best = -1;

	if (order->last_first && idles(last) && bpf_cpumask_test_cpu(last, p->cpus_ptr))
		return last;
	for (u32 step = 0; step < nr_cpus; step++) {
		u32 cpu = (last + step) % nr_cpus;

		if (!idles(cpu) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (naive_rank(order, p, last, cpu) < best_rank) {
			best_rank = naive_rank(order, p, last, cpu);
			best = cpu;
		}
	}
	return best;
}

static void draw_case(struct cpumask *allowed, u32 *nr_allowed)
{
	u32 busy = draw(5), all = draw(2);

	*nr_allowed = 0;
	host_idle = host_whole = *allowed = (struct cpumask){};
	for (u32 cpu = 0; cpu < nr_cpus; cpu++) {
		host_idle.bits[cpu / 64] |= (u64)(draw(4) >= busy) << cpu % 64;
		allowed->bits[cpu / 64] |= (u64)(all || draw(4) > 0) << cpu % 64;
		*nr_allowed += bpf_cpumask_test_cpu(cpu, allowed);
		last_task[cpu] = draw(3);
	}
	for (u32 cpu = 0; cpu < nr_cpus; cpu++) {
		bool whole = true;

		for (u32 other = 0; other < nr_cpus; other++)
			whole &= distance(other, cpu) > SAME_CORE || idles(other);
		host_whole.bits[cpu / 64] |= (u64)whole << cpu % 64;
	}
}

int main(void)
{
	struct cpumask allowed;
	struct task_struct p = { .pid = 1, .cpus_ptr = &allowed };
	u32 found = 0;

	for (u32 i = 0; i < 40000; i++) {
		const u32 *shape = shapes[i % 8];
		const struct order *order = &orders[i / 8 % 4];
		u32 last;
		s32 expected, cpu;

		adjacent = i / 32 % 2;
		make_machine(shape[0], shape[1], shape[2], shape[3]);
		use(order);
		draw_case(&allowed, &p.nr_cpus_allowed);
		last = draw(nr_cpus);
		expected = naive_search(order, &p, last);
		cpu = claim_idle_cpu(&p, last);
		CHECK(cpu == expected, "case %u, last %u: %d, expected %d", i, last, cpu, expected);
		CHECK(cpu < 0 || !idles(cpu), "CPU %d is claimed", cpu);
		CHECK(host_masks == 0, "%d masks are not released", host_masks);
		found += cpu >= 0;
	}
	CHECK(found > 20000, "%u", found);

	/*
	 * Point 1 of idle.bpf.h: the search goes upwards from the last CPU, on the largest machine
	 * as well: 3500 is 500 CPUs away, 100 is 1196.
	 */
	make_machine(1, 1, 4096, 1);
	use(&orders[1]);
	host_idle = host_whole = allowed = (struct cpumask){};
	allowed.bits[100 / 64] = 1ULL << 100 % 64;
	allowed.bits[3500 / 64] = 1ULL << 3500 % 64;
	host_idle = host_whole = allowed;
	p.nr_cpus_allowed = 2;
	CHECK(claim_idle_cpu(&p, 3000) == 3500, "3500 comes before 100");

	/*
	 * Point 5 of idle.bpf.h: three claims are lost to other CPUs, so the fourth best CPU is
	 * taken; after four lost claims the search gives up.
	 */
	make_machine(1, 1, 6, 1);
	use(&orders[1]);
	allowed.bits[0] = host_idle.bits[0] = host_whole.bits[0] = 63;
	host_lost_claims = 3;
	CHECK(claim_idle_cpu(&p, 1) == 4, "1, 2 and 3 are lost");
	/* CPU 0 is claimed like any other. */
	allowed.bits[0] = host_idle.bits[0] = host_whole.bits[0] = 3;
	host_lost_claims = 1;
	CHECK(claim_idle_cpu(&p, 1) == 0 && !idles(0), "CPU 0 is claimed when 1 is lost");
	allowed.bits[0] = host_idle.bits[0] = host_whole.bits[0] = 63;
	host_lost_claims = 4;
	CHECK(claim_idle_cpu(&p, 1) == -1, "no more attempts");
	return 0;
}
