/* SPDX-License-Identifier: GPL-2.0-only */
#include <weir/topology.bpf.h>
#include "machine.h"

int main(void)
{
	u32 siblings = 0;
	s32 steps, sibling;

	/*
	 * 2 nodes with 2 caches each, 3 cores per cache, 2 hardware threads per core: CPU 1 is on
	 * core 1, its sibling is CPU 13.
	 */
	make_machine(2, 2, 3, 2);
	CHECK(distance(1, 1) == SAME_CPU, "%d", distance(1, 1));
	CHECK(distance(1, 13) == SAME_CORE, "%d", distance(1, 13));
	CHECK(distance(1, 2) == SAME_CACHE, "%d", distance(1, 2));
	CHECK(distance(1, 14) == SAME_CACHE, "%d", distance(1, 14));
	CHECK(distance(1, 3) == SAME_NODE, "%d", distance(1, 3));
	CHECK(distance(1, 6) == OTHER_NODE, "%d", distance(1, 6));
	for (u32 cpu = 0; cpu < nr_cpus; cpu++) {
		for_each_sibling(steps, sibling, cpu) {
			CHECK((u32)sibling == (cpu + 12) % 24, "%d beside %u", sibling, cpu);
			siblings++;
		}
	}
	CHECK(siblings == 24 && max_threads == 2, "%u", siblings);
	for (u32 cpu = 0; cpu < nr_cpus; cpu++)
		CHECK(!is_alone(cpu), "%u has a sibling", cpu);
	CHECK(has_place(23) && !has_place(24), "24 CPUs have a place");
	/* CPU 5 was offline when the tables were made: its entry has the place of CPU 4. */
	place_of[5] = place_of[4];
	CHECK(!has_place(5) && has_place(4), "an entry with another CPU's place");

	make_machine(1, 1, 4, 1);
	CHECK(max_threads == 1, "%u", max_threads);
	for_each_sibling(steps, sibling, 2)
		CHECK(false, "%d beside 2", sibling);
	for (u32 cpu = 0; cpu < nr_cpus; cpu++)
		CHECK(is_alone(cpu), "%u has none", cpu);
	make_machine(1, 1, 1, 2);
	CHECK(max_threads == 2 && !many_caches, "%u threads in the only core", max_threads);
	/* Beyond the last CPU the table is zero, which looks like CPU 0. */
	cpu_at[2] = 0;
	CHECK(sibling_at(1, 1) == -1, "%d beyond the last one", sibling_at(1, 1));
	make_machine(1, 2, 1, 1);
	CHECK(many_caches, "two caches of one CPU each");
	/* The largest machine. */
	make_machine(1, 2, 1024, 2);
	for_each_sibling(steps, sibling, 3)
		CHECK(sibling == 2051, "%d beside 3", sibling);
	CHECK(sibling_at(3, 1) == 2051 && sibling_at(2051, -1) == 3, "%d, %d", sibling_at(3, 1), sibling_at(2051, -1));
	make_machine(1, 1, 2, 8);
	siblings = 0;
	for_each_sibling(steps, sibling, 15)
		siblings |= 1 << sibling;
	CHECK(siblings == 0x2aaa && max_threads == 8, "%#x", siblings);
	return 0;
}
