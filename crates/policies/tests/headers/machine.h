/* SPDX-License-Identifier: GPL-2.0-only */
/* Machine and assertions for header tests. Include the header under test first. */
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition, ...)						\
	do {								\
		if (!(condition)) {					\
			printf("line %d: %s: ", __LINE__, #condition);	\
			printf(__VA_ARGS__);				\
			printf("\n");					\
			exit(1);					\
		}							\
	} while (0)

#ifdef WEIR_TOPOLOGY_BPF_H
/*
 * Sets up a topology of `nodes` with `caches` each, `cores` per cache, and `threads` per core. CPUs
 * are numbered as Linux on x86 does, all first hardware threads before all second ones; or, if
 * `adjacent`, core by core.
 */
static __attribute__((unused)) bool adjacent;

static __attribute__((unused)) void make_machine(u32 nodes, u32 caches, u32 cores, u32 threads)
{
	u32 all_cores = nodes * caches * cores, place = 0;

	nr_cpus = nr_online = all_cores * threads;
	for (u32 core = 0; core < all_cores; core++) {
		u32 cache = core / cores, node = cache / caches;

		for (u32 thread = 0; thread < threads; thread++, place++) {
			u32 cpu = adjacent ? place : core + thread * all_cores;

			cpu_at[place] = cpu;
			place_of[cpu] = place;
			core_of[cpu] = core;
			cache_begin[cpu] = cache * cores * threads;
			cache_end[cpu] = (cache + 1) * cores * threads;
			node_begin[cpu] = node * caches * cores * threads;
			node_end[cpu] = (node + 1) * caches * cores * threads;
		}
	}
	max_threads = 1;
	topology_init();
}
#endif

/* Pseudorandom numbers for test cases, the same in every run. */
static __attribute__((unused)) u32 draw(u32 below)
{
	static u64 state = 88172645463325252ULL;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 32) % below;
}
