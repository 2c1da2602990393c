/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stores a record per task in three kinds of maps, and checks in each callback that the record
 * belongs to the task and is intact.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED 7
#define MAX_TASKS 4096

struct record {
	s32 pid;
	u64 wakes;
};

TASK_STORAGE(records, struct record);

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, MAX_TASKS);
	MAP_TYPE(key, s32);
	MAP_TYPE(value, u64);
} by_pid SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, MAX_TASKS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} by_number SEC(".maps");

static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;

static void check(struct task_struct *p, bool wakes)
{
	struct record *record = bpf_task_storage_get(&records, p, NULL, 0);
	s32 pid = p->pid;
	u32 number = pid;
	u64 *hashed = bpf_map_lookup_elem(&by_pid, &pid);
	u64 *listed = bpf_map_lookup_elem(&by_number, &number);

	if (!record || !hashed || !listed) {
		scx_error("task %d: a map lost its record", pid);
		return;
	}
	if (record->pid != pid || record->wakes != *hashed || record->wakes != *listed) {
		scx_error("task %d: found the record of %d", pid, record->pid);
		return;
	}
	if (wakes) {
		record->wakes++;
		*hashed += 1;
		*listed += 1;
	}
}

OP2(void, storage_runnable, struct task_struct *, p, u64, enq_flags)
{
	check(p, true);
}

OP2(void, storage_enqueue, struct task_struct *, p, u64, enq_flags)
{
	check(p, false);
	dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
}

OP1(void, storage_running, struct task_struct *, p)
{
	check(p, false);
}

OP2(void, storage_dispatch, s32, cpu, struct task_struct *, prev)
{
	if (prev)
		check(prev, false);
	dsq_move_to_local(SHARED);
}

SLEEPABLE_OP2(s32, storage_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct record *record = bpf_task_storage_get(&records, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	s32 pid = p->pid;
	u64 none = 0;

	if (!record)
		return -12;
	record->pid = pid;
	return bpf_map_update_elem(&by_pid, &pid, &none, BPF_ANY);
}

SLEEPABLE_OP0(s32, storage_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SCHEDULER(storage_ops,
	.runnable = (void *)storage_runnable,
	.enqueue = (void *)storage_enqueue,
	.running = (void *)storage_running,
	.dispatch = (void *)storage_dispatch,
	.init_task = (void *)storage_init_task,
	.init = (void *)storage_init,
	.name = "storage",
);
