/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waiting tasks are stored in the scheduler's own queue, by PID; dispatch inserts several of them
 * at once.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED 7

const volatile u32 batch = 1;

struct {
	MAP_NUMBER(type, 22 /* BPF_MAP_TYPE_QUEUE */);
	MAP_NUMBER(max_entries, 4096);
	MAP_TYPE(value, s32);
} waiting SEC(".maps");

static long (*const bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static long (*const bpf_map_pop_elem)(void *map, void *value) = (void *)88;

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

OP2(void, batch_enqueue, struct task_struct *, p, u64, enq_flags)
{
	s32 pid = p->pid;

	if (bpf_map_push_elem(&waiting, &pid, 0))
		scx_error("no room for task %d", pid);
}

OP2(void, batch_dispatch, s32, cpu, struct task_struct *, prev)
{
	int i;

	for_range(i, 0, batch) {
		struct task_struct *p;
		s32 pid;

		(void)i;
		if (bpf_map_pop_elem(&waiting, &pid))
			break;
		p = bpf_task_from_pid(pid);
		if (!p)
			continue;
		dsq_insert(p, SHARED, SCX_SLICE_DFL, 0);
		bpf_task_release(p);
	}
	dsq_move_to_local(SHARED);
}

SLEEPABLE_OP0(s32, batch_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SCHEDULER(batch_ops,
	.enqueue = (void *)batch_enqueue,
	.dispatch = (void *)batch_dispatch,
	.init = (void *)batch_init,
	.timeout_ms = 5000,
	.name = "batch",
);
