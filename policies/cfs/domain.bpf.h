/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Domains: sets of CPUs within which load is compared, one within the other.
 *
 * 1. A CPU is in a core, below a last-level cache, in a node, in the machine. Each is a domain, and its groups are the
 *    domains one level below: the caches of a node, say. A domain of one group is none.
 * 2. All are ranges of places (<weir/topology.bpf.h>).
 * 3. The load of a CPU is the sum of the weights of its tasks, of those that wait and of the one that runs.
 */
#ifndef CFS_DOMAIN_BPF_H
#define CFS_DOMAIN_BPF_H

#include "queue.bpf.h"

enum level { A_CPU, A_CORE, A_CACHE, A_NODE, THE_MACHINE, LEVELS };

/* The places of each domain, by level and CPU: the first, and that behind the last. Tables, as the verifier follows every way
 * through a program, and a switch has five. */
u16 begins[LEVELS][MAX_CPUS];
u16 ends[LEVELS][MAX_CPUS];

/*
 * The first barrier as in `index_of`. Without the second the compiler makes one test of this and of others of the same number,
 * on a copy from which it has subtracted something. A verifier that does not follow that then knows no bounds of the number.
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

/* 1: whether it has several groups. */
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

/* The least that holds both. */
static __always_inline enum level common_level(s32 a, s32 b)
{
	if (is_within(A_CORE, a, b))
		return A_CORE;
	if (is_within(A_CACHE, a, b))
		return A_CACHE;
	return is_within(A_NODE, a, b) ? A_NODE : THE_MACHINE;
}

/* By how much more load counts as an imbalance, in percent. */
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

/* No task is there, and no higher class. The kernel goes on to call a CPU idle that has left. */
static __always_inline bool is_idle(const struct cpumask *idle, s32 cpu)
{
	return READ_ONCE(cpu_of(cpu)->nr) == 0 && bpf_cpumask_test_cpu(cpu, idle) && !is_leaving(cpu);
}

#endif
