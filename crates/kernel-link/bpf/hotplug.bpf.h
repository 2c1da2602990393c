/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that go and come, whoever wants that. The kernel takes a CPU down, and brings it up, in numbered steps
 * (`enum cpuhp_state`), and tells of each when it begins and when it is done. The numbers change with the kernel, so
 * they are taken from its BTF. CPUHP_TEARDOWN_CPU is the step after which a CPU runs nothing any more, and
 * CPUHP_BRINGUP_CPU the one in which it begins to; other CPUs take both. A CPU that does not come was offline all along.
 *
 * A program that includes this defines cpu_changed().
 */
#ifndef WEIR_HOTPLUG_BPF_H
#define WEIR_HOTPLUG_BPF_H

#include "probe.bpf.h"

/* Names alone count here. */
enum cpuhp_state {
	CPUHP_BRINGUP_CPU = 1,
	CPUHP_TEARDOWN_CPU = 2,
};

static void cpu_changed(__u32 cpu, bool online);

SEC("tp_btf/cpuhp_enter")
int BPF_PROG(on_hotplug_begin, unsigned int cpu, int target, int step)
{
	/* On its way down a CPU passes this step too. */
	if (step == bpf_core_enum_value(enum cpuhp_state, CPUHP_BRINGUP_CPU) && target >= step)
		cpu_changed(cpu, true);
	return 0;
}

SEC("tp_btf/cpuhp_exit")
int BPF_PROG(on_hotplug_end, unsigned int cpu, int state, int step, int error)
{
	if (step == bpf_core_enum_value(enum cpuhp_state, CPUHP_TEARDOWN_CPU) && !error)
		cpu_changed(cpu, false);
	if (step == bpf_core_enum_value(enum cpuhp_state, CPUHP_BRINGUP_CPU) && error)
		cpu_changed(cpu, false);
	return 0;
}

#endif
