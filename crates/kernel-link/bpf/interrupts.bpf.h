/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interrupts by source and CPU, for tables.bpf.c, which defines count_loss(). The time of a softirq contains that of the
 * interrupts that came meanwhile.
 */
#ifndef WEIR_INTERRUPTS_BPF_H
#define WEIR_INTERRUPTS_BPF_H

enum source {
	SOURCE_IRQ,
	SOURCE_SOFTIRQ,
	SOURCE_LOCAL_TIMER,
	SOURCE_RESCHEDULE,
	SOURCE_CALL_FUNCTION,
	SOURCE_CALL_FUNCTION_SINGLE,
};

struct source_key {
	__u32 source;
	__u32 number;
	__u32 cpu;
};

struct source_sum {
	__u64 count;
	__u64 total_ns;
	__u64 max_ns;
	__u64 since_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct source_key);
	__type(value, struct source_sum);
	__uint(max_entries, MAX_SOURCES);
} sources SEC(".maps");

static struct source_sum *source_of(enum source source, __u32 number)
{
	struct source_key key = { .source = source, .number = number };
	struct source_sum *sum, fresh = {};

	key.cpu = bpf_get_smp_processor_id();
	sum = bpf_map_lookup_elem(&sources, &key);
	if (sum)
		return sum;
	bpf_map_update_elem(&sources, &key, &fresh, BPF_NOEXIST);
	sum = bpf_map_lookup_elem(&sources, &key);
	if (!sum)
		count_loss();
	return sum;
}

static int interrupt_begins(enum source source, __u32 number)
{
	struct source_sum *sum = source_of(source, number);

	if (sum) {
		sum->count++;
		sum->since_ns = bpf_ktime_get_ns();
	}
	return 0;
}

static int interrupt_ends(enum source source, __u32 number)
{
	struct source_sum *sum = source_of(source, number);
	__u64 took;

	if (!sum || !sum->since_ns)
		return 0;
	took = bpf_ktime_get_ns() - sum->since_ns;
	sum->since_ns = 0;
	sum->total_ns += took;
	if (took > sum->max_ns)
		sum->max_ns = took;
	return 0;
}

SEC("?tp_btf/irq_handler_entry")
int BPF_PROG(on_irq, int irq)
{
	return interrupt_begins(SOURCE_IRQ, irq);
}

SEC("?tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_end, int irq)
{
	return interrupt_ends(SOURCE_IRQ, irq);
}

SEC("?tp_btf/softirq_entry")
int BPF_PROG(on_softirq, unsigned int vector)
{
	return interrupt_begins(SOURCE_SOFTIRQ, vector);
}

SEC("?tp_btf/softirq_exit")
int BPF_PROG(on_softirq_end, unsigned int vector)
{
	return interrupt_ends(SOURCE_SOFTIRQ, vector);
}

SEC("?tp_btf/local_timer_entry")
int BPF_PROG(on_local_timer)
{
	return interrupt_begins(SOURCE_LOCAL_TIMER, 0);
}

SEC("?tp_btf/local_timer_exit")
int BPF_PROG(on_local_timer_end)
{
	return interrupt_ends(SOURCE_LOCAL_TIMER, 0);
}

SEC("?tp_btf/reschedule_entry")
int BPF_PROG(on_reschedule)
{
	return interrupt_begins(SOURCE_RESCHEDULE, 0);
}

SEC("?tp_btf/reschedule_exit")
int BPF_PROG(on_reschedule_end)
{
	return interrupt_ends(SOURCE_RESCHEDULE, 0);
}

SEC("?tp_btf/call_function_entry")
int BPF_PROG(on_call_function)
{
	return interrupt_begins(SOURCE_CALL_FUNCTION, 0);
}

SEC("?tp_btf/call_function_exit")
int BPF_PROG(on_call_function_end)
{
	return interrupt_ends(SOURCE_CALL_FUNCTION, 0);
}

SEC("?tp_btf/call_function_single_entry")
int BPF_PROG(on_call_function_single)
{
	return interrupt_begins(SOURCE_CALL_FUNCTION_SINGLE, 0);
}

SEC("?tp_btf/call_function_single_exit")
int BPF_PROG(on_call_function_single_end)
{
	return interrupt_ends(SOURCE_CALL_FUNCTION_SINGLE, 0);
}

#endif
