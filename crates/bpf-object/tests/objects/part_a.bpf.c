// SPDX-License-Identifier: GPL-2.0-only
/*
 * First of two files that are linked statically. Both define a static variable `counter` and a
 * static function `bump`.
 */
#include "test.bpf.h"

char _license[] SEC("license") = "GPL";

extern u64 shared;
extern u64 from_b(u64 x);

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} map_a SEC(".maps");

static volatile u64 counter = 11;

static __noinline u64 bump(u64 by)
{
	counter += by;
	return counter;
}

/*
 * The linker replaces this weak function by the strong one of part_b. Its code remains in the
 * section without a symbol.
 */
__weak __noinline u64 choose(void)
{
	counter += 1000;
	return counter;
}

extern s32 scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;

SEC("struct_ops/link_enqueue")
u64 link_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	scx_bpf_kick_cpu(0, 0);
	return bump(p->scx.weight) + from_b(ctx[1]) + choose() + shared;
}

SEC(".struct_ops")
struct sched_ext_ops link_ops = {
	.enqueue = (void *)link_enqueue,
	.name = "linked",
};
