/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One shared queue by virtual time, with one mistake of these, or none:
 *
 * HOTPLUG	one queue per CPU; the queue of a CPU that goes offline is never drained
 * KICK		wakes no idle CPU
 * STARVES	each fourth task stands behind all others
 * WEIGHTS	charges heavy tasks more
 * OVERFLOW	virtual time has 32 bits
 * STALLS	charges nothing
 * DOUBLE	inserts a task twice
 * AFFINITY	sends tasks to CPUs that they may not use
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED 0
/* 200 ms before 32 bits overflow */
#define START (0x100000000ULL - 200000000ULL)

static u64 now = START;

static u64 queue_of(struct task_struct *p)
{
#ifdef HOTPLUG
	return 1 + scx_bpf_task_cpu(p);
#else
	return SHARED;
#endif
}

OP3(s32, wrong_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	bool is_idle = false;
	s32 cpu;

#if defined(KICK) || defined(AFFINITY)
	return prev_cpu;
#endif
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	if (is_idle)
		dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, SCX_ENQ_IMMED);
	return cpu;
}

OP2(void, wrong_enqueue, struct task_struct *, p, u64, enq_flags)
{
	u64 key = p->scx.dsq_vtime;
	s32 cpu;

#ifdef AFFINITY
	dsq_insert(p, SCX_DSQ_LOCAL_ON | ((u32)p->pid % scx_bpf_nr_cpu_ids()), SCX_SLICE_DFL, enq_flags);
	return;
#endif
#ifdef STARVES
	if (p->pid % 4 == 1)
		key += 1ULL << 50;
#endif
#ifdef OVERFLOW
	key = (u32)key;
#endif
	dsq_insert_by_key(p, queue_of(p), SCX_SLICE_DFL, key, enq_flags);
#ifdef DOUBLE
	dsq_insert_by_key(p, queue_of(p), SCX_SLICE_DFL, key, enq_flags);
#endif
#ifdef HOTPLUG
	scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
	return;
#endif
#ifndef KICK
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
#endif
}

OP2(void, wrong_dispatch, s32, cpu, struct task_struct *, prev)
{
#ifdef HOTPLUG
	dsq_move_to_local(1 + cpu);
#else
	dsq_move_to_local(SHARED);
#endif
}

OP1(void, wrong_running, struct task_struct *, p)
{
	if ((s64)(p->scx.dsq_vtime - now) > 0)
		now = p->scx.dsq_vtime;
}

OP2(void, wrong_stopping, struct task_struct *, p, bool, runnable)
{
	u64 used = SCX_SLICE_DFL - p->scx.slice;

#if defined(WEIGHTS)
	p->scx.dsq_vtime += used * p->scx.weight / 100;
#elif !defined(STALLS)
	p->scx.dsq_vtime += used * 100 / p->scx.weight;
#endif
}

OP1(void, wrong_enable, struct task_struct *, p)
{
	p->scx.dsq_vtime = now;
}

#ifdef HOTPLUG
SLEEPABLE_OP1(void, wrong_cpu_online, s32, cpu)
{
}

SLEEPABLE_OP1(void, wrong_cpu_offline, s32, cpu)
{
}
#endif

SLEEPABLE_OP0(s32, wrong_init)
{
	s32 i, error = scx_bpf_create_dsq(SHARED, -1);

	for_range(i, 0, scx_bpf_nr_cpu_ids()) {
		if (error)
			return error;
		error = scx_bpf_create_dsq(1 + i, -1);
	}
	return error;
}

SCHEDULER(wrong_ops,
	.select_cpu = (void *)wrong_select_cpu,
	.enqueue = (void *)wrong_enqueue,
	.dispatch = (void *)wrong_dispatch,
	.running = (void *)wrong_running,
	.stopping = (void *)wrong_stopping,
	.enable = (void *)wrong_enable,
	.init = (void *)wrong_init,
#ifdef HOTPLUG
	.cpu_online = (void *)wrong_cpu_online,
	.cpu_offline = (void *)wrong_cpu_offline,
#endif
	.name = "wrong",
);
