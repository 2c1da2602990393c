/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A FIFO that needs its user space: a map element must be written before attach, and a program called afterwards. One
 * of its programs (fentry) is not run by the model.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED 0

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 2);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} settings SEC(".maps");

static bool initialized, arrived;

/* Must be called after attach, not before. */
SEC("syscall")
int arrive(void *ctx)
{
	arrived = true;
	return initialized ? 0 : 1;
}

SEC("fentry/schedule")
int watch(void *ctx)
{
	return 0;
}

OP2(void, launched_enqueue, struct task_struct *, p, u64, enq_flags)
{
	if (!arrived)
		scx_error("arrive was not called");
	dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
}

OP2(void, launched_dispatch, s32, cpu, struct task_struct *, prev)
{
	dsq_move_to_local(SHARED);
}

OP1(void, launched_tick, struct task_struct *, p)
{
	scx_error("ticked");
}

SLEEPABLE_OP0(s32, launched_init)
{
	u32 key = 1;
	u64 *setting = bpf_map_lookup_elem(&settings, &key);

	initialized = true;
	if (!setting || *setting != 7)
		return -22;
	return scx_bpf_create_dsq(SHARED, -1);
}

OP1(void, launched_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(launched_ops,
	.enqueue = (void *)launched_enqueue,
	.dispatch = (void *)launched_dispatch,
	.tick = (void *)launched_tick,
	.init = (void *)launched_init,
	.exit = (void *)launched_exit,
	.name = "launched",
);
