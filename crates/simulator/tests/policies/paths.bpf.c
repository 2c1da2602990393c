/* SPDX-License-Identifier: GPL-2.0-only */
/* One queue, which tasks enter and leave by one of the dispatch paths of sched_ext. */
#include <weir/scx.bpf.h>

LICENSE("GPL");

SCX_CONSTANT(DSQ_GLOBAL);
SCX_CONSTANT(DSQ_LOCAL_ON);

extern bool scx_bpf_dsq_move___compat(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags) __ksym;

#define SHARED 7

enum way { DIRECT, FIFO, ORDERED, GLOBAL, MOVED };

const volatile u32 way = DIRECT;

u64 turn;

OP3(s32, paths_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle && way == DIRECT)
		dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	return cpu;
}

OP2(void, paths_enqueue, struct task_struct *, p, u64, enq_flags)
{
	if (way == GLOBAL)
		dsq_insert(p, __SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
	else if (way == ORDERED)
		dsq_insert_by_key(p, SHARED, SCX_SLICE_DFL, turn++ ^ 1, enq_flags);
	else
		dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
}

OP2(void, paths_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task_struct *p;

	if (way != MOVED) {
		dsq_move_to_local(SHARED);
		return;
	}
	for_each_queued(p, SHARED) {
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (scx_bpf_dsq_move___compat(&p_it, p, __SCX_DSQ_LOCAL_ON | cpu, 0))
			break;
	}
}

SLEEPABLE_OP0(s32, paths_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SCHEDULER(paths_ops,
	.select_cpu = (void *)paths_select_cpu,
	.enqueue = (void *)paths_enqueue,
	.dispatch = (void *)paths_dispatch,
	.init = (void *)paths_init,
	.name = "paths",
);
