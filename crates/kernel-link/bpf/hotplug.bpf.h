/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPU hotplug, whatever its reason. The kernel takes a CPU down and brings it up in numbered steps (`enum
 * cpuhp_state`), and has tracepoints at the start and end of each. The numbers depend on the kernel, so they are taken
 * from its BTF. After CPUHP_TEARDOWN_CPU a CPU runs nothing any more, and in CPUHP_BRINGUP_CPU it starts to run; both
 * steps execute on other CPUs. If bringing up a CPU fails, it was offline throughout.
 *
 * A program that includes this defines cpu_changed().
 */
#ifndef WEIR_HOTPLUG_BPF_H
#define WEIR_HOTPLUG_BPF_H

#include "probe.bpf.h"

/* Only the names matter; CO-RE takes the values from the kernel. */
enum cpuhp_state {
	CPUHP_BRINGUP_CPU = 1,
	CPUHP_TEARDOWN_CPU = 2,
};

static void cpu_changed(__u32 cpu, bool online);

SEC("tp_btf/cpuhp_enter")
int BPF_PROG(on_hotplug_begin, unsigned int cpu, int target, int step)
{
	/* A CPU that goes down passes this step too. */
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
