/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Idle start times of CPUs, to distinguish IPIs to halted CPUs.
 *
 * On a virtual machine, sending an IPI to an idle CPU causes a VM exit. While the hypervisor still polls on behalf of
 * that CPU, that is all; later it has put the virtual CPU to sleep and must wake it, which takes several times as
 * long. KVM polls for 200 us by default (`halt_poll_ns`), and so does a guest that polls itself (`guest_halt_poll_ns`
 * of haltpoll). On bare metal both kinds of IPI cost the same.
 */
#ifndef WEIR_IDLE_BPF_H
#define WEIR_IDLE_BPF_H

#include "probe.bpf.h"

enum {
	HALTED_AFTER_NS = 200000,
};

struct idle_cpu {
	__u64 since; /* 0: busy, or idle since before the recording */
	__u64 padding[7]; /* one cache line per CPU */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct idle_cpu);
} idle_cpus SEC(".maps");

/* This CPU enters or leaves idle. */
static void note_idle(bool idles)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct idle_cpu *own = bpf_map_lookup_elem(&idle_cpus, &cpu);

	if (own)
		*(volatile __u64 *)&own->since = idles ? bpf_ktime_get_ns() : 0;
}

static bool is_halted(__u32 cpu)
{
	struct idle_cpu *other = bpf_map_lookup_elem(&idle_cpus, &cpu);
	__u64 since = other ? *(volatile __u64 *)&other->since : 0;

	return since && bpf_ktime_get_ns() >= since + HALTED_AFTER_NS;
}

#endif
