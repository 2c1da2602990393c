/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * visitor: a scheduler in the style of scx, to test that Weir loads objects that it did not build. It has one queue
 * ordered by weighted run time, and needs the usual user-space setup: constants, calls of `syscall` programs before
 * attach, an exit record with a dump of the requested length. Its init fails unless a call has registered every online
 * CPU, each CPU knows its number, and two queues exist.
 */
#include "user_exit.bpf.h"

LICENSE("GPL");

#define SHARED_DSQ 7
#define MAX_CPUS 1024
#define EINVAL 22
#define BPF_MAP_TYPE_ARRAY_OF_MAPS 12
#define BPF_MAP_TYPE_QUEUE 22

static long (*const bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static void *(*const bpf_map_lookup_percpu_elem)(void *map, const void *key, u32 cpu) = (void *)195;
static void *(*const bpf_task_storage_delete)(void *map, struct task_struct *p) = (void *)157;

/* ---- Constants set by user space ---- */

const volatile u64 slice_ns = 20000000;
const volatile u64 period_ns = 100000000;
const volatile u32 nr_cpus;
const volatile bool fifo;

struct register_args {
	s32 cpu;
	u32 weight;
};

struct start_args {
	u64 first_ns;
};

/* ---- State ---- */

struct task {
	u64 vtime;
	u64 began;
};

TASK_STORAGE(tasks, struct task);

struct beat {
	struct bpf_timer timer;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct beat);
} beats SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 2);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} stats SEC(".maps");

struct place {
	u32 cpu;
	u32 near[64];
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct place);
} places SEC(".maps");

struct queue {
	MAP_NUMBER(type, BPF_MAP_TYPE_QUEUE);
	MAP_NUMBER(max_entries, 4);
	MAP_TYPE(value, u32);
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	MAP_NUMBER(max_entries, 3);
	MAP_TYPE(key, u32);
	struct queue *values[];
} queues SEC(".maps");

/* Two groups of CPUs, filled by user space. */
struct group {
	u32 id;
	u32 members[2];
} groups[2];

u32 registered[MAX_CPUS];
u64 nr_registered, weights, nr_beats, vtime_now;

static void count(u32 what)
{
	u64 *counter = bpf_map_lookup_elem(&stats, &what);

	if (counter)
		(*counter)++;
}

/* ---- Programs called by user space ---- */

SEC("syscall")
int register_cpu(struct register_args *args)
{
	u32 *place = BOUNDED_AT(registered, args->cpu);

	if (!place || args->cpu >= nr_cpus || *place)
		return -EINVAL;
	*place = args->weight;
	weights += args->weight;
	nr_registered++;
	return 0;
}

static int beat(void *map, u32 *key, struct beat *b)
{
	nr_beats++;
	bpf_timer_start(&b->timer, period_ns, 0);
	return 0;
}

SEC("syscall")
int start_beat(struct start_args *args)
{
	u32 zero = 0;
	struct beat *b = bpf_map_lookup_elem(&beats, &zero);

	if (!b || bpf_timer_init(&b->timer, &beats, CLOCK_MONOTONIC) || bpf_timer_set_callback(&b->timer, beat))
		return -EINVAL;
	return bpf_timer_start(&b->timer, args->first_ns, 0);
}

/* ---- Ops ---- */

SLEEPABLE_OP2(s32, visitor_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -12; /* ENOMEM */
	t->vtime = vtime_now;
	return 0;
}

OP2(void, visitor_exit_task, struct task_struct *, p, struct scx_exit_task_args *, args)
{
	bpf_task_storage_delete(&tasks, p);
}

OP3(s32, visitor_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle) {
		count(0);
		dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	}
	return cpu;
}

OP2(void, visitor_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, 0);

	count(1);
	if (fifo || !t) {
		dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);
		return;
	}
	if ((s64)(t->vtime - (vtime_now - slice_ns)) < 0)
		t->vtime = vtime_now - slice_ns;
	dsq_insert_by_key(p, SHARED_DSQ, slice_ns, t->vtime, enq_flags);
}

OP2(void, visitor_dispatch, s32, cpu, struct task_struct *, prev)
{
	dsq_move_to_local(SHARED_DSQ);
}

OP1(void, visitor_running, struct task_struct *, p)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, 0);

	if (!t)
		return;
	t->began = now_ns();
	if ((s64)(t->vtime - vtime_now) > 0)
		vtime_now = t->vtime;
}

OP2(void, visitor_stopping, struct task_struct *, p, bool, runnable)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, 0);

	if (t)
		t->vtime += now_ns() - t->began;
}

/* Whether user space has set each CPU's number, two of three queues, and both groups. */
static bool is_prepared(void)
{
	u32 zero = 0, queued = 0;

	for (u32 cpu = 0; cpu < MAX_CPUS && cpu < nr_cpus; cpu++) {
		struct place *place = bpf_map_lookup_percpu_elem(&places, &zero, cpu);

		if (!place || place->cpu != cpu || (registered[cpu] && place->near[0] != cpu))
			return false;
	}
	for (u32 i = 0; i < 3; i++) {
		/* A copy, because the verifier forgets the value of a variable whose address was passed to a helper. */
		u32 slot = i;
		void *queue = bpf_map_lookup_elem(&queues, &slot);

		if (queue && !bpf_map_push_elem(queue, &slot, 0))
			queued |= 1 << slot;
	}
	return queued == 3 && groups[0].id == 5 && groups[1].id == 6 && groups[1].members[1] == 9;
}

SLEEPABLE_OP0(s32, visitor_init)
{
	if (!nr_registered || weights != nr_registered * 100) {
		scx_error("%d of %d CPUs are registered", nr_registered, nr_cpus);
		return -EINVAL;
	}
	if (!is_prepared()) {
		scx_error("user space has not prepared the maps");
		return -EINVAL;
	}
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

SLEEPABLE_OP1(void, visitor_exit, struct scx_exit_info *, info)
{
	keep_exit(info);
}

SCHEDULER(visitor_ops,
	.init_task = (void *)visitor_init_task,
	.exit_task = (void *)visitor_exit_task,
	.select_cpu = (void *)visitor_select_cpu,
	.enqueue = (void *)visitor_enqueue,
	.dispatch = (void *)visitor_dispatch,
	.running = (void *)visitor_running,
	.stopping = (void *)visitor_stopping,
	.init = (void *)visitor_init,
	.exit = (void *)visitor_exit,
	.timeout_ms = 5000,
	.name = "visitor",
);
