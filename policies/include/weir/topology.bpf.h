/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Topology: distances between CPUs. The loader fills the tables from the launch profile.
 *
 * 1. A place is an index into `cpu_at`, which lists the online CPUs by node, last-level cache,
 *    core, and number. So the CPUs of a core, of a cache, and of a node are adjacent.
 * 2. `place_of` is the inverse. The other tables give the first place and the end of each CPU's
 *    cache and node.
 * 3. A CPU that was offline when the tables were made has the place of another CPU; has_place()
 *    tells them apart.
 */
#ifndef WEIR_TOPOLOGY_BPF_H
#define WEIR_TOPOLOGY_BPF_H

#ifdef __bpf__
#include "scx.bpf.h"
#else
#include "host.h"
#endif

#define MAX_CPUS 4096
#define MAX_CPU_MASK (MAX_CPUS - 1)
RODATA u32 nr_cpus = 1;	/* highest number + 1 */
RODATA u32 nr_online = 1;

RODATA u16 cpu_at[MAX_CPUS];
RODATA u16 place_of[MAX_CPUS];
RODATA u16 core_of[MAX_CPUS];
RODATA u16 cache_begin[MAX_CPUS];
RODATA u16 cache_end[MAX_CPUS];
RODATA u16 node_begin[MAX_CPUS];
RODATA u16 node_end[MAX_CPUS];

/* Highest number of threads in a core. */
u32 max_threads = 1;
/* The machine has more than one last-level cache. */
bool many_caches;

/* At init. */
static __always_inline void topology_init(void)
{
	u32 threads = 0, before = ~0U;
	int at;

	for_range(at, 0, nr_online) {
		u32 core = core_of[cpu_at[at & MAX_CPU_MASK] & MAX_CPU_MASK];

		threads = core == before ? threads + 1 : 1;
		before = core;
		if (threads > max_threads)
			max_threads = threads;
	}
	many_caches = cache_end[cpu_at[0] & MAX_CPU_MASK] < nr_online;
}

/* The closest topology level that two CPUs share. */
enum distance { SAME_CPU, SAME_CORE, SAME_CACHE, SAME_NODE, OTHER_NODE, DISTANCES };

static __always_inline enum distance distance(u32 a, u32 b)
{
	a &= MAX_CPU_MASK;
	b &= MAX_CPU_MASK;
	if (a == b)
		return SAME_CPU;
	if (core_of[a] == core_of[b])
		return SAME_CORE;
	if (cache_begin[a] == cache_begin[b])
		return SAME_CACHE;
	return node_begin[a] == node_begin[b] ? SAME_NODE : OTHER_NODE;
}

/* Returns whether the tables contain this CPU. */
static __always_inline bool has_place(u32 cpu)
{
	return cpu < nr_cpus && cpu_at[place_of[cpu & MAX_CPU_MASK] & MAX_CPU_MASK] == cpu;
}

/* Returns the CPU `steps` places after `cpu` if it is a sibling, otherwise -1. */
static __always_inline s32 sibling_at(u32 cpu, s32 steps)
{
	u32 place = place_of[cpu & MAX_CPU_MASK] + steps, other;

	if (place < cache_begin[cpu & MAX_CPU_MASK] || place >= cache_end[cpu & MAX_CPU_MASK])
		return -1;
	other = cpu_at[place & MAX_CPU_MASK];
	return distance(other, cpu) == SAME_CORE ? (s32)other : -1;
}

/* Returns whether `cpu` has no sibling. */
static __always_inline bool is_alone(u32 cpu)
{
	return sibling_at(cpu, -1) < 0 && sibling_at(cpu, 1) < 0;
}

/* Visits each other CPU of the core; `steps` is the loop variable. */
#define for_each_sibling(steps, sibling, cpu)					\
	for_range(steps, 1 - (s32)max_threads, (s32)max_threads)		\
		if (((sibling) = sibling_at(cpu, steps)) >= 0)

#endif
