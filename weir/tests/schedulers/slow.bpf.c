/* SPDX-License-Identifier: GPL-2.0-only */
/* Schedulers that make tasks wait, each by one decision in one op; one for each macro:
 * KEEPS inserts tasks with an even PID into no queue; DEAF dispatches nothing for CPU 1;
 * PINS inserts every task into the local queue of CPU 0; BLIND does so in select_cpu;
 * STACK dispatches in LIFO order; PREPARED does so too, by a key computed in `stopping`;
 * RANDOM dispatches a random task; GREEDY gives slices of 500 ms;
 * FORGETS never serves a second queue, of tasks with an even PID; UNFAIR drains such a queue first;
 * STUBBORN keeps the running task on the CPU.
 * Without a macro it is a plain FIFO.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define QUEUE 0
#define OTHER_QUEUE 1

#if defined(BLIND)
OP3(s32, slow_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	return 0;
}
#endif

#if defined(PREPARED)
struct kept {
	u64 key;
};

TASK_STORAGE(tasks, struct kept);

OP2(void, slow_stopping, struct task_struct *, p, bool, runnable)
{
	struct kept *kept = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (kept)
		kept->key = -now_ns();
}
#endif

OP2(void, slow_enqueue, struct task_struct *, p, u64, enq_flags)
{
	u64 slice = SCX_SLICE_DFL;

#if defined(KEEPS)
	if (p->pid % 2 == 0)
		return;
#endif
#if defined(PINS)
	dsq_insert(p, SCX_DSQ_LOCAL_ON | 0, slice, enq_flags);
#elif defined(PREPARED)
	struct kept *kept = bpf_task_storage_get(&tasks, p, NULL, 0);

	dsq_insert_by_key(p, QUEUE, slice, kept ? kept->key : -now_ns(), enq_flags);
#elif defined(STACK)
	dsq_insert_by_key(p, QUEUE, slice, -now_ns(), enq_flags);
#else
#if defined(GREEDY)
	slice = 500 * 1000 * 1000;
#endif
#if defined(UNFAIR) || defined(FORGETS)
	if (p->pid % 2 == 0) {
		dsq_insert(p, OTHER_QUEUE, slice, enq_flags);
		return;
	}
#endif
	dsq_insert(p, QUEUE, slice, enq_flags);
#endif
}

OP2(void, slow_dispatch, s32, cpu, struct task_struct *, prev)
{
#if defined(DEAF)
	if (cpu == 1)
		return;
#endif
#if defined(STUBBORN)
	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		prev->scx.slice = SCX_SLICE_DFL;
		return;
	}
#endif
#if defined(UNFAIR)
	if (dsq_move_to_local(OTHER_QUEUE))
		return;
#endif
#if defined(RANDOM)
	struct task_struct *p;
	u32 skip = bpf_get_prandom_u32() % 4;

	for_each_queued(p, QUEUE) {
		if (skip-- == 0 && dsq_move(&p_it, p, SCX_DSQ_LOCAL))
			return;
	}
#endif
	dsq_move_to_local(QUEUE);
}

SLEEPABLE_OP0(s32, slow_init)
{
	s32 error = scx_bpf_create_dsq(OTHER_QUEUE, -1);

	return error ? error : scx_bpf_create_dsq(QUEUE, -1);
}

OP1(void, slow_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(slow_ops,
#if defined(PREPARED)
	.stopping = (void *)slow_stopping,
#endif
#if defined(BLIND)
	.select_cpu = (void *)slow_select_cpu,
#endif
	.enqueue = (void *)slow_enqueue,
	.dispatch = (void *)slow_dispatch,
	.init = (void *)slow_init,
	.exit = (void *)slow_exit,
	.name = "slow",
);
