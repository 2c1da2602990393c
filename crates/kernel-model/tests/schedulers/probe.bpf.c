/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * probe: logs every operation with its arguments, and executes in each the code that the test
 * supplies.
 *
 * A test compiles it with -DOP_ENQUEUE and the like for the ops that the scheduler has, and with
 * the code of each: -DON_SELECT='return cpu_arg;', -DON_ENQUEUE='dsq_insert(p, SHARED,
 * SCX_SLICE_DFL, enq_flags);', ...
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED 7
#define ORDERED 8
#define LOCAL_ON(cpu) (0xC000000000000000ULL | (cpu))
#define GLOBAL 0x8000000000000001ULL
#define LOG_SIZE 4096

extern u32 scx_bpf_dispatch_nr_slots(void) __ksym;
extern void scx_bpf_dispatch_cancel(void) __ksym;
extern void scx_bpf_destroy_dsq(u64 dsq_id) __ksym;
extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *mask, u64 flags) __ksym;
extern s32 scx_bpf_pick_any_cpu(const struct cpumask *mask, u64 flags) __ksym;
extern void scx_bpf_exit_bstr(s64 code, char *format, u64 *data, u32 data__sz) __ksym __weak;
extern void scx_bpf_dump_bstr(char *format, u64 *data, u32 data__sz) __ksym __weak;
extern bool scx_bpf_dsq_move___v1(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 flags) __ksym __weak;
extern s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev, u64 wake_flags, const struct cpumask *and, u64 flags) __ksym
	__weak;
extern void scx_bpf_cpuperf_set(s32 cpu, u32 perf) __ksym;
extern s32 scx_bpf_pick_idle_cpu_node(const struct cpumask *mask, s32 node, u64 flags) __ksym __weak;
extern const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
extern void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags) __ksym __weak;
extern struct task_struct *scx_bpf_tid_to_task(u64 tid) __ksym __weak;
extern struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;
extern void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
extern void scx_bpf_put_cpumask(const struct cpumask *mask) __ksym;
extern u32 bpf_cpumask_weight(const struct cpumask *mask) __ksym;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

struct entry {
	u64 a;
	u64 b;
	u32 op;
	s32 cpu;
	s32 pid;
	u32 unused;
};

struct entry entries[LOG_SIZE];
u32 logged;

/* Free for use by tests. */
u64 counter;
s32 held[64];
u32 held_count;

/* Further fields of the exit information. */
s32 exit_cpu;
u64 exit_flags;

struct scx_exit_info___72 {
	s32 exit_cpu;
	u64 flags;
} __attribute__((preserve_access_index));

struct sched_ext_entity___72 {
	bool disallow;
	u64 tid;
} __attribute__((preserve_access_index));

struct task_struct___72 {
	struct sched_ext_entity___72 scx;
} __attribute__((preserve_access_index));

#define TID(p) (((struct task_struct___72 *)(p))->scx.tid)
#define DISALLOW(p) (((struct task_struct___72 *)(p))->scx.disallow)

const volatile s32 cpu_arg;
const volatile s32 pid_arg;

enum {
	SELECT_CPU = 1, ENQUEUE, DEQUEUE, DISPATCH, TICK, RUNNABLE, RUNNING, STOPPING, QUIESCENT, YIELD,
	SET_WEIGHT = 12, SET_CPUMASK, UPDATE_IDLE, CPU_ACQUIRE, CPU_RELEASE, INIT_TASK, EXIT_TASK, ENABLE, DISABLE,
	DUMP, DUMP_CPU, DUMP_TASK, CPU_ONLINE = 32, CPU_OFFLINE, INIT, EXIT,
};

static __always_inline void note(u32 op, struct task_struct *p, u64 a, u64 b)
{
	u32 at = logged;

	if (at < LOG_SIZE) {
		struct entry *e = &entries[at];

		e->op = op;
		e->cpu = bpf_get_smp_processor_id();
		e->pid = p ? p->pid : -1;
		e->a = a;
		e->b = b;
		logged = at + 1;
	}
}

/* Returns the number of online CPUs. */
static __always_inline __attribute__((unused)) u32 online_cpus(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 count = bpf_cpumask_weight(online);

	scx_bpf_put_cpumask(online);
	return count;
}

/* Returns the last task held by hold(), or NULL; the caller must release it. */
static __always_inline __attribute__((unused)) struct task_struct *held_task(void)
{
	s32 pid;

	if (!held_count)
		return NULL;
	held_count--;
	pid = held[held_count & 63];
	return bpf_task_from_pid(pid);
}

static __always_inline __attribute__((unused)) void hold(struct task_struct *p)
{
	held[held_count & 63] = p->pid;
	held_count++;
}

#ifndef ON_SELECT
#define ON_SELECT return prev_cpu;
#endif
#ifndef ON_ENQUEUE
#define ON_ENQUEUE dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
#endif
#ifndef ON_DISPATCH
#define ON_DISPATCH dsq_move_to_local(SHARED);
#endif
#ifndef ON_INIT
#define ON_INIT
#endif
#ifndef ON_INIT_TASK
#define ON_INIT_TASK
#endif
#ifndef ON_DEQUEUE
#define ON_DEQUEUE
#endif
#ifndef ON_SET_WEIGHT
#define ON_SET_WEIGHT
#endif
#ifndef ON_TICK
#define ON_TICK
#endif
#ifndef ON_RUNNING
#define ON_RUNNING
#endif
#ifndef ON_STOPPING
#define ON_STOPPING
#endif
#ifndef ON_YIELD
#define ON_YIELD return false;
#endif
#ifndef ON_RELEASE
#define ON_RELEASE
#endif
#ifndef ON_DUMP
#define ON_DUMP
#endif
#ifndef FLAGS
#define FLAGS 0
#endif
#ifndef TIMEOUT_MS
#define TIMEOUT_MS 0
#endif
#ifndef BATCH
#define BATCH 0
#endif

OP3(s32, probe_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	bool idle __attribute__((unused)) = false;

	note(SELECT_CPU, p, prev_cpu, wake_flags);
	ON_SELECT
}

OP2(void, probe_enqueue, struct task_struct *, p, u64, enq_flags)
{
	note(ENQUEUE, p, enq_flags, 0);
	ON_ENQUEUE
}

/* A sleepable program for enqueue, which must not sleep. */
SEC("struct_ops.s/sleepy_enqueue") void sleepy_enqueue(u64 *ctx)
{
}

OP2(void, probe_dequeue, struct task_struct *, p, u64, deq_flags)
{
	note(DEQUEUE, p, deq_flags, 0);
	ON_DEQUEUE
}

OP2(void, probe_dispatch, s32, cpu, struct task_struct *, prev)
{
	note(DISPATCH, prev, cpu, 0);
	ON_DISPATCH
}

OP1(void, probe_tick, struct task_struct *, p)
{
	note(TICK, p, 0, 0);
	ON_TICK
}

OP2(void, probe_runnable, struct task_struct *, p, u64, enq_flags)
{
	note(RUNNABLE, p, enq_flags, 0);
}

OP1(void, probe_running, struct task_struct *, p)
{
	note(RUNNING, p, 0, 0);
	ON_RUNNING
}

OP2(void, probe_stopping, struct task_struct *, p, bool, runnable)
{
	note(STOPPING, p, runnable, 0);
	ON_STOPPING
}

OP2(void, probe_quiescent, struct task_struct *, p, u64, deq_flags)
{
	note(QUIESCENT, p, deq_flags, 0);
}

OP2(bool, probe_yield, struct task_struct *, from, struct task_struct *, to)
{
	note(YIELD, from, to ? to->pid : -1, 0);
	ON_YIELD
}

OP2(void, probe_set_weight, struct task_struct *, p, u32, weight)
{
	note(SET_WEIGHT, p, weight, 0);
	ON_SET_WEIGHT
}

OP2(void, probe_set_cpumask, struct task_struct *, p, const struct cpumask *, mask)
{
	note(SET_CPUMASK, p, mask->bits[0], 0);
}

OP2(void, probe_update_idle, s32, cpu, bool, idle)
{
	note(UPDATE_IDLE, NULL, cpu, idle);
}

OP2(void, probe_cpu_acquire, s32, cpu, struct scx_cpu_acquire_args *, args)
{
	note(CPU_ACQUIRE, NULL, cpu, 0);
}

OP2(void, probe_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	note(CPU_RELEASE, args->task, cpu, 0);
	ON_RELEASE
}

SLEEPABLE_OP2(s32, probe_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	note(INIT_TASK, p, args->fork, 0);
	ON_INIT_TASK
	return 0;
}

OP2(void, probe_exit_task, struct task_struct *, p, struct scx_exit_task_args *, args)
{
	note(EXIT_TASK, p, args->cancelled, 0);
}

OP1(void, probe_enable, struct task_struct *, p)
{
	note(ENABLE, p, 0, 0);
}

OP1(void, probe_disable, struct task_struct *, p)
{
	note(DISABLE, p, 0, 0);
}

SLEEPABLE_OP1(void, probe_cpu_online, s32, cpu)
{
	note(CPU_ONLINE, NULL, cpu, 0);
}

SLEEPABLE_OP1(void, probe_cpu_offline, s32, cpu)
{
	note(CPU_OFFLINE, NULL, cpu, 0);
}

OP1(void, probe_dump, struct scx_dump_ctx *, ctx_arg)
{
	note(DUMP, NULL, 0, 0);
	ON_DUMP
}

SLEEPABLE_OP0(s32, probe_init)
{
	s32 err;

	note(INIT, NULL, 0, 0);
	err = scx_bpf_create_dsq(SHARED, -1);
	if (!err)
		err = scx_bpf_create_dsq(ORDERED, -1);
	ON_INIT
	return err;
}

OP1(void, probe_exit, struct scx_exit_info *, info)
{
	struct scx_exit_info___72 *new = (void *)info;

	note(EXIT, NULL, info->kind, info->exit_code);
	exit_cpu = KERNEL_HAS_FIELD(new->exit_cpu) ? new->exit_cpu : -1;
	exit_flags = KERNEL_HAS_FIELD(new->flags) ? new->flags : 0;
	record_exit(info);
}

SCHEDULER(probe_ops,
	.init = (void *)probe_init,
	.exit = (void *)probe_exit,
#ifdef OP_SELECT_CPU
	.select_cpu = (void *)probe_select_cpu,
#endif
#ifdef OP_ENQUEUE
	.enqueue = (void *)probe_enqueue,
#endif
#ifdef OP_SLEEPY
	.enqueue = (void *)sleepy_enqueue,
#endif
#ifdef OP_DEQUEUE
	.dequeue = (void *)probe_dequeue,
#endif
#ifdef OP_DISPATCH
	.dispatch = (void *)probe_dispatch,
#endif
#ifdef OP_TICK
	.tick = (void *)probe_tick,
#endif
#ifdef OP_RUN
	.runnable = (void *)probe_runnable,
	.running = (void *)probe_running,
	.stopping = (void *)probe_stopping,
	.quiescent = (void *)probe_quiescent,
#endif
#ifdef OP_YIELD
	.yield = (void *)probe_yield,
#endif
#ifdef OP_CHANGE
	.set_weight = (void *)probe_set_weight,
	.set_cpumask = (void *)probe_set_cpumask,
#endif
#ifdef OP_UPDATE_IDLE
	.update_idle = (void *)probe_update_idle,
#endif
#ifdef OP_PREEMPT
	.cpu_acquire = (void *)probe_cpu_acquire,
	.cpu_release = (void *)probe_cpu_release,
#endif
#ifdef OP_TASK
	.init_task = (void *)probe_init_task,
	.exit_task = (void *)probe_exit_task,
	.enable = (void *)probe_enable,
	.disable = (void *)probe_disable,
#endif
#ifdef OP_HOTPLUG
	.cpu_online = (void *)probe_cpu_online,
	.cpu_offline = (void *)probe_cpu_offline,
#endif
#ifdef OP_DUMP
	.dump = (void *)probe_dump,
#endif
	.flags = FLAGS,
	.timeout_ms = TIMEOUT_MS,
	.dispatch_max_batch = BATCH,
	.name = "probe",
);
