/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * witness: a policy whose ops are logged (`log.bpf.h`).
 *
 * 1. POLICY, the policy's source file, is included unchanged. Its ops become functions that the
 *    witness's ops call: POLICY_RUNNING is its `running`, if it has one. POLICY_CPU_ONLINE_OP1 is
 *    SLEEPABLE_OP1 or OP1, as in the policy.
 * 2. Ops that the policy lacks are logged, too, if their presence makes no difference to the
 *    kernel.
 * 3. An insert of a task into a DSQ is an entry of its own, after the entry of the op that makes
 *    it.
 */
#include "log.bpf.h"

#define dsq_insert(p, queue, ...)			\
	({						\
		note(INSERT, p, queue, 0);		\
		dsq_insert(p, queue, __VA_ARGS__);	\
	})

#define dsq_insert_by_key(p, queue, ...)			\
	({							\
		note(INSERT, p, queue, 0);			\
		dsq_insert_by_key(p, queue, __VA_ARGS__);	\
	})

#pragma push_macro("WEIR_OP")
#pragma push_macro("SCHEDULER")
#undef WEIR_OP
#undef SCHEDULER
#define WEIR_OP(section, ret, name, declared, unpacked) static __always_inline ret name declared
#define SCHEDULER(variable, ...) struct sched_ext_ops
#include POLICY
#pragma pop_macro("SCHEDULER")
#pragma pop_macro("WEIR_OP")

#ifdef POLICY_SELECT_CPU
OP3(s32, witness_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	struct entry *e = note(SELECT_CPU, p, prev_cpu, wake_flags);
	s32 cpu = POLICY_SELECT_CPU(p, prev_cpu, wake_flags);

	e->result = cpu;
	return cpu;
}
#endif

#ifdef POLICY_ENQUEUE
OP2(void, witness_enqueue, struct task_struct *, p, u64, enq_flags)
{
	note(ENQUEUE, p, enq_flags, 0)->task_cpu = scx_bpf_task_cpu(p);
	POLICY_ENQUEUE(p, enq_flags);
}
#endif

OP2(void, witness_dequeue, struct task_struct *, p, u64, deq_flags)
{
	note(DEQUEUE, p, deq_flags, 0);
#ifdef POLICY_DEQUEUE
	POLICY_DEQUEUE(p, deq_flags);
#endif
}

#ifdef POLICY_DISPATCH
OP2(void, witness_dispatch, s32, cpu, struct task_struct *, prev)
{
	note_dispatch(cpu, prev);
	POLICY_DISPATCH(cpu, prev);
}
#endif

OP1(void, witness_tick, struct task_struct *, p)
{
	note(TICK, p, 0, 0);
#ifdef POLICY_TICK
	POLICY_TICK(p);
#endif
}

OP2(void, witness_runnable, struct task_struct *, p, u64, enq_flags)
{
	note(RUNNABLE, p, enq_flags, 0)->task_cpu = scx_bpf_task_cpu(p);
#ifdef POLICY_RUNNABLE
	POLICY_RUNNABLE(p, enq_flags);
#endif
}

OP1(void, witness_running, struct task_struct *, p)
{
	note(RUNNING, p, 0, 0)->task_cpu = scx_bpf_task_cpu(p);
#ifdef POLICY_RUNNING
	POLICY_RUNNING(p);
#endif
}

OP2(void, witness_stopping, struct task_struct *, p, bool, runnable)
{
	note(STOPPING, p, runnable, 0)->task_cpu = scx_bpf_task_cpu(p);
#ifdef POLICY_STOPPING
	POLICY_STOPPING(p, runnable);
#endif
}

OP2(void, witness_quiescent, struct task_struct *, p, u64, deq_flags)
{
	note(QUIESCENT, p, deq_flags, 0)->task_cpu = scx_bpf_task_cpu(p);
#ifdef POLICY_QUIESCENT
	POLICY_QUIESCENT(p, deq_flags);
#endif
}

#ifdef POLICY_YIELD
OP2(bool, witness_yield, struct task_struct *, from, struct task_struct *, to)
{
	note(YIELD, from, to != NULL, 0);
	return POLICY_YIELD(from, to);
}
#endif

OP2(void, witness_set_weight, struct task_struct *, p, u32, weight)
{
	note_weight(p, weight);
#ifdef POLICY_SET_WEIGHT
	POLICY_SET_WEIGHT(p, weight);
#endif
}

OP2(void, witness_set_cpumask, struct task_struct *, p, const struct cpumask *, mask)
{
	note(SET_CPUMASK, p, mask->bits[0], 0);
#ifdef POLICY_SET_CPUMASK
	POLICY_SET_CPUMASK(p, mask);
#endif
}

/* A policy without this op needs KEEP_BUILTIN_IDLE, which the scenario sets. */
OP2(void, witness_update_idle, s32, cpu, bool, idle)
{
	new_entry(UPDATE_IDLE, cpu, idle);
#ifdef POLICY_UPDATE_IDLE
	POLICY_UPDATE_IDLE(cpu, idle);
#endif
}

OP2(void, witness_cpu_acquire, s32, cpu, struct scx_cpu_acquire_args *, args)
{
	new_entry(CPU_ACQUIRE, cpu, 0);
#ifdef POLICY_CPU_ACQUIRE
	POLICY_CPU_ACQUIRE(cpu, args);
#endif
}

OP2(void, witness_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	new_entry(CPU_RELEASE, cpu, 0);
#ifdef POLICY_CPU_RELEASE
	POLICY_CPU_RELEASE(cpu, args);
#endif
}

#ifdef POLICY_CPU_ONLINE
POLICY_CPU_ONLINE_OP1(void, witness_cpu_online, s32, cpu)
{
	new_entry(CPU_ONLINE, cpu, 0);
	POLICY_CPU_ONLINE(cpu);
}
#endif

#ifdef POLICY_CPU_OFFLINE
POLICY_CPU_OFFLINE_OP1(void, witness_cpu_offline, s32, cpu)
{
	new_entry(CPU_OFFLINE, cpu, 0);
	POLICY_CPU_OFFLINE(cpu);
}
#endif

SLEEPABLE_OP2(s32, witness_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	note(INIT_TASK, p, args->fork, 0);
#ifdef POLICY_INIT_TASK
	return POLICY_INIT_TASK(p, args);
#else
	return 0;
#endif
}

OP2(void, witness_exit_task, struct task_struct *, p, struct scx_exit_task_args *, args)
{
	note(EXIT_TASK, p, args->cancelled, 0);
#ifdef POLICY_EXIT_TASK
	POLICY_EXIT_TASK(p, args);
#endif
}

OP1(void, witness_enable, struct task_struct *, p)
{
	note(ENABLE, p, 0, 0);
#ifdef POLICY_ENABLE
	POLICY_ENABLE(p);
#endif
}

OP1(void, witness_disable, struct task_struct *, p)
{
	note(DISABLE, p, 0, 0);
#ifdef POLICY_DISABLE
	POLICY_DISABLE(p);
#endif
}

SLEEPABLE_OP0(s32, witness_init)
{
	new_entry(INIT, 0, 0);
#ifdef POLICY_INIT
	return POLICY_INIT();
#else
	return 0;
#endif
}

OP1(void, witness_exit, struct scx_exit_info *, info)
{
	new_entry(EXIT, info->kind, info->exit_code);
	POLICY_EXIT(info);
}

SCHEDULER(witness_ops,
#ifdef POLICY_FLAGS
	.flags = POLICY_FLAGS,
#endif
#ifdef POLICY_SELECT_CPU
	.select_cpu = (void *)witness_select_cpu,
#endif
#ifdef POLICY_ENQUEUE
	.enqueue = (void *)witness_enqueue,
#endif
#ifdef POLICY_DISPATCH
	.dispatch = (void *)witness_dispatch,
#endif
#ifdef POLICY_YIELD
	.yield = (void *)witness_yield,
#endif
#ifdef POLICY_CPU_ONLINE
	.cpu_online = (void *)witness_cpu_online,
#endif
#ifdef POLICY_CPU_OFFLINE
	.cpu_offline = (void *)witness_cpu_offline,
#endif
	.dequeue = (void *)witness_dequeue,
	.tick = (void *)witness_tick,
	.runnable = (void *)witness_runnable,
	.running = (void *)witness_running,
	.stopping = (void *)witness_stopping,
	.quiescent = (void *)witness_quiescent,
	.set_weight = (void *)witness_set_weight,
	.set_cpumask = (void *)witness_set_cpumask,
	.update_idle = (void *)witness_update_idle,
	.cpu_acquire = (void *)witness_cpu_acquire,
	.cpu_release = (void *)witness_cpu_release,
	.init_task = (void *)witness_init_task,
	.exit_task = (void *)witness_exit_task,
	.enable = (void *)witness_enable,
	.disable = (void *)witness_disable,
	.init = (void *)witness_init,
	.exit = (void *)witness_exit,
	.name = "witness",
);
