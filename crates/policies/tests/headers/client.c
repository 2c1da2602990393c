/* SPDX-License-Identifier: GPL-2.0-only */
#include <weir/host.h>

/* Kernel interface that <weir/scx.bpf.h> declares. */
#define WEIR_SCX_BPF_H
#define SCX_DSQ_LOCAL 7
#define SCX_ENQ_WAKEUP 1
#define SCX_ENQ_PREEMPT 2
#define SCX_ENQ_REENQ 4
#define SCX_ENQ_IMMED 8

static struct {
	u64 dsq_id, slice_ns, flags;
	u32 count;
} inserted;

static void dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice_ns, u64 enq_flags)
{
	(void)p;
	inserted.dsq_id = dsq_id;
	inserted.slice_ns = slice_ns;
	inserted.flags = enq_flags;
	inserted.count++;
}

/* Flags of the last scx_bpf_pick_idle_cpu(). */
static u64 asked = ~0ULL;

/* Returns the first idle CPU of the mask and clears its idle state. */
static s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags)
{
	asked = flags;
	for (s32 cpu = 0; cpu < 4096; cpu++)
		if (bpf_cpumask_test_cpu(cpu, allowed) && scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	return -1;
}

static s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, wake_flags);

	*is_idle = cpu >= 0;
	return *is_idle ? cpu : prev_cpu;
}

#include <weir/client.bpf.h>
#include "machine.h"

static struct cpumask all;
static struct task_struct p = { .cpus_ptr = &all, .nr_cpus_allowed = 4096 };

/* Makes `idle` CPUs idle, from CPU 3 on, and returns the number of kicked ones. */
static u32 kicked_of(u32 idle, u64 flags, bool expected)
{
	host_idle = (struct cpumask){};
	host_kicks = 0;
	for (u32 cpu = 3; cpu < 3 + idle; cpu++)
		host_idle.bits[cpu / 64] |= 1ULL << cpu % 64;
	CHECK(kick_idle_cpu(&p, flags) == expected, "%u idle", idle);
	if (host_kicks)
		CHECK(host_kicked[0] == (3 << 8 | SCX_KICK_IDLE), "%#llx", (unsigned long long)host_kicked[0]);
	return host_kicks;
}

int main(void)
{
	for (u32 word = 0; word < 64; word++)
		all.bits[word] = ~0ULL;
	/* Point 1 of client.bpf.h: per-CPU kthreads are not clients. */
	CHECK(is_client(&p), "a task");
	p.nr_cpus_allowed = 1;
	CHECK(is_client(&p), "a pinned task");
	p.flags = PF_KTHREAD;
	CHECK(is_client(&p), "an unbound kthread");
	host_per_cpu_flag = true;
	CHECK(!is_client(&p), "a per-CPU kthread");
	for (p.nr_cpus_allowed = 0; p.nr_cpus_allowed < 4; p.nr_cpus_allowed += 2)
		CHECK(is_client(&p), "a kthread with %u CPUs", p.nr_cpus_allowed);
	run_at_once(&p, 5, SCX_ENQ_WAKEUP);
	CHECK(inserted.dsq_id == SCX_DSQ_LOCAL && inserted.slice_ns == 5, "%llu", (unsigned long long)inserted.dsq_id);
	CHECK(inserted.flags == (SCX_ENQ_WAKEUP | SCX_ENQ_PREEMPT), "%#llx", (unsigned long long)inserted.flags);
	/*
	 * Points 2, 3 of client.bpf.h: one CPU is kicked, or with SCX_ENQ_REENQ all idle ones up to
	 * 64.
	 */
	CHECK(kicked_of(0, SCX_ENQ_WAKEUP, false) == 0 && kicked_of(0, SCX_ENQ_REENQ, false) == 0, "%u", host_kicks);
	CHECK(kicked_of(1, SCX_ENQ_REENQ, true) == 1, "%u", host_kicks);
	CHECK(kicked_of(1, 0, true) == 1 && kicked_of(5, SCX_ENQ_WAKEUP, true) == 1, "%u", host_kicks);
	CHECK(kicked_of(5, SCX_ENQ_REENQ | SCX_ENQ_WAKEUP, true) == 5, "%u", host_kicks);
	CHECK(kicked_of(64, SCX_ENQ_REENQ, true) == 64 && kicked_of(100, SCX_ENQ_REENQ, true) == 64, "%u", host_kicks);
	/* Point 3 of client.bpf.h */
	CHECK(go_to_idle_cpu(&p, 2, 0, 9) == 67 && inserted.count == 2, "%u", inserted.count);
	CHECK(inserted.dsq_id == SCX_DSQ_LOCAL && inserted.slice_ns == 9 && inserted.flags == SCX_ENQ_IMMED,
	      "inserted on the idle CPU");
	host_idle = (struct cpumask){};
	CHECK(go_to_idle_cpu(&p, 2, 0, 9) == 2 && inserted.count == 2, "no CPU is idle");
	host_idle = (struct cpumask){ .bits = { 1 } };
	host_kicks = 0;
	CHECK(kick_idle_cpu(&p, 0) && host_kicks == 1 && host_kicked[0] == SCX_KICK_IDLE, "the first CPU");
	CHECK(asked == 0, "any idle CPU, beside a busy sibling or not");
	return 0;
}
