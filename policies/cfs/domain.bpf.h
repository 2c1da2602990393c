/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Domains: nested sets of CPUs within which load is balanced.
 *
 * 1. A CPU belongs to a core, a last-level cache, a node, and the machine. Each is a domain; its
 *    groups are the domains one level below, such as the caches of a node. A domain with a single
 *    group is skipped.
 * 2. All domains are ranges of places (<weir/topology.bpf.h>).
 * 3. The load of a CPU is the sum of the weights of its runnable tasks, the running one included.
 */
#ifndef CFS_DOMAIN_BPF_H
#define CFS_DOMAIN_BPF_H

#include "queue.bpf.h"

enum level { A_CPU, A_CORE, A_CACHE, A_NODE, THE_MACHINE, LEVELS };

/*
 * First place and end of each domain, by level and CPU. Tables, because the verifier follows every
 * path through a program, and a switch would have five.
 */
u16 begins[LEVELS][MAX_CPUS];
u16 ends[LEVELS][MAX_CPUS];

/*
 * The first barrier is that of index_of(). Without the second, the compiler merges this test with
 * others of the same number, on a copy from which it has subtracted something. A verifier that does
 * not follow that then knows no bounds of the number.
 */
static __always_inline u32 level_index(u32 level)
{
	asm volatile("" : "+r"(level));
	level = level < LEVELS ? level : 0;
	asm volatile("" : "+r"(level));
	return level;
}

static __always_inline u32 begin_of(enum level level, s32 cpu)
{
	return begins[level_index(level)][index_of(cpu)];
}

static __always_inline u32 end_of(enum level level, s32 cpu)
{
	return ends[level_index(level)][index_of(cpu)];
}

/* At init. */
static __always_inline void domain_init(void)
{
	u32 core = ~0U, begin = 0;
	int number, at, back;

	for_range(number, 0, nr_cpus) {
		u32 cpu = index_of(number);

		begins[A_CPU][cpu] = place_of[cpu];
		ends[A_CPU][cpu] = place_of[cpu] + 1;
		begins[A_CACHE][cpu] = cache_begin[cpu];
		ends[A_CACHE][cpu] = cache_end[cpu];
		begins[A_NODE][cpu] = node_begin[cpu];
		ends[A_NODE][cpu] = node_end[cpu];
		ends[THE_MACHINE][cpu] = nr_online;
	}
	for_range(at, 0, nr_online) {
		u32 cpu = index_of(cpu_at[index_of(at)]);

		if (core_of[cpu] != core) {
			core = core_of[cpu];
			begin = at;
		}
		begins[A_CORE][cpu] = begin;
		for_range(back, begin, at + 1)
			ends[A_CORE][index_of(cpu_at[index_of(back)])] = at + 1;
	}
}

static __always_inline s32 cpu_at_place(u32 place)
{
	return cpu_at[index_of(place)];
}

static __always_inline u32 cpus_in(enum level level, s32 cpu)
{
	return end_of(level, cpu) - begin_of(level, cpu);
}

/* 1: returns whether the domain has several groups. */
static __always_inline bool is_domain(enum level level, s32 cpu)
{
	return level > A_CPU && cpus_in(level, cpu) > cpus_in(level - 1, cpu);
}

static __always_inline bool is_within(enum level level, s32 cpu, s32 other)
{
	u32 place = place_of[index_of(other)];

	return place >= begin_of(level, cpu) && place < end_of(level, cpu);
}

static __always_inline bool shares_cache(s32 a, s32 b)
{
	return is_within(A_CACHE, a, b);
}

/* Lowest level at which one domain contains both CPUs. */
static __always_inline enum level common_level(s32 a, s32 b)
{
	if (is_within(A_CORE, a, b))
		return A_CORE;
	if (is_within(A_CACHE, a, b))
		return A_CACHE;
	return is_within(A_NODE, a, b) ? A_NODE : THE_MACHINE;
}

/* Ratio of loads in percent above which they count as imbalanced. */
static __always_inline u32 imbalance_percent(enum level level)
{
	if (level == A_CORE)
		return 110;
	if (version == V6_1)
		return 117;
	if (version == V4_1)
		return level == A_CACHE ? 117 : 125;
	return level == THE_MACHINE ? 133 : 125;
}

/*
 * Returns whether neither a task of this class nor one of a higher class is there. The kernel's
 * idle mask can contain a CPU that is going offline.
 */
static __always_inline bool is_idle(const struct cpumask *idle, s32 cpu)
{
	return READ_ONCE(cpu_of(cpu)->nr) == 0 && bpf_cpumask_test_cpu(cpu, idle) && !is_leaving(cpu);
}

#endif
