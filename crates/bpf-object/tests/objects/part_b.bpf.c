// SPDX-License-Identifier: GPL-2.0-only
/* Second of two files that are linked statically. */
#include "test.bpf.h"

u64 padding = 1;
u64 shared = 42;

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, u32);
} map_b SEC(".maps");

static volatile u64 counter = 22;

static __noinline u64 bump(u64 by)
{
	counter -= by;
	return counter;
}

__noinline u64 choose(void)
{
	return 2;
}

__hidden __noinline u64 from_b(u64 x)
{
	u64 *hit = bpf_map_lookup_elem(&map_b, &x);
	struct task_struct *p = (void *)x;

	return bump(x + p->scx.slice) + (hit ? *hit : 0);
}
