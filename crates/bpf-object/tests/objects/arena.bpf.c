// SPDX-License-Identifier: GPL-2.0-only
/* Variables in an arena, which clang places in address space 1. */
#include "test.bpf.h"

#define __arena __attribute__((address_space(1)))

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, MAP_ARENA);
	__uint(map_flags, 1024);
	__uint(max_entries, 1048576);
	__ulong(map_extra, 0x100000000000);
} arena SEC(".maps");

u64 __arena first = 5;
u64 __arena table[4];

SEC("syscall")
int touch(void *ctx)
{
	void *keep = &arena;

	table[3] = first;
	return keep != NULL;
}
