/* SPDX-License-Identifier: GPL-2.0-only */
#include <weir/smt-nice.bpf.h>
#include "machine.h"

static struct task_struct task(s32 nice)
{
	return (struct task_struct){ .static_prio = 120 + nice };
}

int main(void)
{
	struct task_struct heavy = task(-20), light = task(19), idle = task(0), thread = task(0);
	u32 weight, beside = 0;

	{
		struct task_struct below = { .static_prio = 99 }, above = { .static_prio = 140 };

		CHECK(smt_weight(&below) == 1 && smt_weight(&above) == 1, "out of range: the smallest weight");
	}
	idle.policy = SCHED_IDLE;
	thread.flags = PF_KTHREAD;
	/* Point 1 of smt-nice.bpf.h */
	for (s32 nice = -20; nice < 20; nice++) {
		struct task_struct p = task(nice);

		CHECK(smt_weight(&p) == (u32)(20 - nice), "%d: %u", nice, smt_weight(&p));
	}
	CHECK(smt_weight(&idle) == 0 && smt_weight(&thread) == 0, "no weight");
	CHECK(smt_weight_after_slice(&heavy, 40) == 39 && smt_weight_after_slice(&heavy, 1) == 40, "the countdown restarts");

	/*
	 * Point 2 of smt-nice.bpf.h: in 10 of 40 slices in a row a nice-19 task may run beside the
	 * heavy one.
	 */
	make_machine(1, 1, 2, 2);
	smt_nice = true;
	weight = smt_weight(&heavy);
	for (u32 slice = 0; slice < 40; slice++) {
		smt_runs(&heavy, weight, 0);
		beside += !is_outweighed(&light, 1, 2);
		CHECK(!is_outweighed(&light, 1, 1), "another core");
		CHECK(!is_outweighed(&thread, 0, 2), "kthreads run anywhere");
		CHECK(!is_outweighed(&heavy, 40, 2), "not heavier");
		weight = smt_weight_after_slice(&heavy, weight);
	}
	CHECK(beside == 10, "%u", beside);

	/* Point 3 of smt-nice.bpf.h: the SMT sibling of CPU 0 is CPU 2. */
	smt_idles(0);
	host_kicks = 0;
	smt_runs(&light, 1, 2);
	CHECK(host_kicks == 1 && host_kicked[0] == (0 << 8 | SCX_KICK_IDLE), "%#llx", (unsigned long long)host_kicked[0]);
	smt_runs(&heavy, 40, 0);
	CHECK(host_kicks == 2 && host_kicked[1] == (2 << 8 | SCX_KICK_PREEMPT), "the sibling's task is too light now");
	smt_runs(&heavy, 40, 0);
	CHECK(host_kicks == 2, "no change");
	smt_runs(&heavy, 37, 0);
	CHECK(host_kicks == 2, "the light task may run beside 37");
	smt_runs(&thread, 0, 2);
	host_kicks = 0;
	smt_runs(&heavy, 36, 0);
	CHECK(host_kicks == 0, "a kthread is not preempted");
	smt_nice = false;
	smt_runs(&heavy, 40, 0);
	CHECK(host_kicks == 0, "off");
	return 0;
}
