/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * trace: logs every op with its arguments (`log.bpf.h`), and does in each what the scenario
 * specifies.
 *
 * Each role has its own settings: read-only data that is set before the object is loaded. Before
 * the director's first mark and after its last one, all tasks are treated like foreign tasks.
 */
#include "log.bpf.h"

LICENSE("GPL");

SCX_CONSTANT(DSQ_GLOBAL);
SCX_CONSTANT(KICK_WAIT);
SCX_CONSTANT(ENQ_HEAD);
SCX_CONSTANT(ENQ_PREEMPT);
SCX_CONSTANT(ENQ_IMMED);
SCX_CONSTANT(ENQ_REENQ);

extern u32 scx_bpf_dispatch_nr_slots(void) __ksym;
extern void scx_bpf_dispatch_cancel(void) __ksym;
extern void scx_bpf_destroy_dsq(u64 dsq_id) __ksym;
extern void scx_bpf_exit_bstr(s64 code, char *format, u64 *data, u32 data__sz) __ksym;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *p) __ksym __weak;

struct sched_ext_entity___disallow {
	bool disallow;
} __attribute__((preserve_access_index));

struct task_struct___disallow {
	struct sched_ext_entity___disallow scx;
} __attribute__((preserve_access_index));

#define HELD_SIZE 64
/* DSQs of this scheduler, and one that does not exist. */
#define FIFO_QUEUE 7
#define VTIME_QUEUE 8
#define NO_QUEUE 0x3039
/* One task more than the default dispatch_max_batch. */
#define TOO_MANY 33

/* Destination of a task. The numbers are those of `src/settings.rs`. */
enum place {
	NOWHERE, LOCAL, GLOBAL, FIFO, VTIME, LOCAL_ON, UNKNOWN, TWICE, VTIME_LOCAL, VTIME_GLOBAL, NO_CPU, BOTH_QUEUES, HOLD,
	RAISE_ERROR, RAISE_EXIT,
};

/* CPU that select_cpu returns. */
enum choice { PREVIOUS, DEFAULT_SEARCH, TARGET, IMPOSSIBLE };

/* Action of dispatch. */
enum giving { GIVE_NOTHING, GIVE_QUEUES, GIVE_HELD, GIVE_HELD_TWICE, GIVE_CANCELLED, GIVE_TOO_MANY, GIVE_UNKNOWN,
	CANCEL_NOTHING, GIVE_HELD_TO_TARGET, GIVE_HELD_TO_FIFO };

/* Action of cpu_release on the local DSQ, by either version of the kfunc. */
enum releasing { RELEASE_NOTHING, RELEASE_AT_ONCE, RELEASE_AFTERWARDS };

enum kick { NO_KICK, KICK, KICK_IDLE, KICK_PREEMPT, KICK_WAIT, KICK_IDLE_PREEMPT,
	KICK_PREEMPT_WAIT };

const volatile u32 select_choice[ROLES];
const volatile u32 select_place[ROLES];
const volatile bool select_only_if_idle[ROLES];
const volatile u32 enqueue_place[ROLES];
/* Destination of a reenqueued task; NOWHERE: the same as the first time. */
const volatile u32 reenqueue_place[ROLES];
const volatile u64 slice_ns[ROLES];
const volatile bool at_head[ROLES];
const volatile bool preempting[ROLES];
const volatile bool immediate[ROLES];
const volatile u32 enqueue_kick[ROLES];
const volatile u32 dispatch_giving;
const volatile s32 target_cpu;
const volatile s32 kick_cpu;
const volatile bool yield_answer;
const volatile bool tick_ends_slice;
const volatile u32 release_does;
const volatile s32 init_result;
const volatile s32 init_task_result[ROLES];
const volatile bool init_task_disallows[ROLES];

/* Pids of held tasks, oldest first. */
s32 held[HELD_SIZE];
u32 held_first, held_end;

/* Role that decides about a task: before the begin and after the end, all tasks have the same. */
static __always_inline u32 acting_role_of(struct task_struct *p)
{
	u32 role = READ_ONCE(acting) ? role_of(p) : FOREIGN;

	asm volatile("" : "+r"(role));
	return role & (ROLES - 1);
}

static __always_inline void raise_error(void)
{
	scx_error("asked to fail by the scenario, number %d", 42);
}

static __always_inline void raise_exit(void)
{
	static char format[] = "asked to leave by the scenario, number %d";

	u64 data[] = { 42 };

	scx_bpf_exit_bstr(0x1234, format, data, sizeof(data));
}

static __always_inline u64 enq_flags_of(u32 role, u64 enq_flags)
{
	if (at_head[role])
		enq_flags |= __SCX_ENQ_HEAD;
	if (preempting[role])
		enq_flags |= __SCX_ENQ_PREEMPT;
	/*
	 * A task that is reenqueued because its CPU was busy is inserted without IMMED, where it
	 * can wait.
	 */
	if (immediate[role] && !(enq_flags & __SCX_ENQ_REENQ))
		enq_flags |= __SCX_ENQ_IMMED;
	return enq_flags;
}

/* Inserts a task for select_cpu and enqueue. Returns the DSQ. */
static __always_inline __attribute__((unused)) u64 put(struct task_struct *p, u32 role, u32 place, u64 enq_flags)
{
	u64 slice = slice_ns[role];
	u64 queue = 0;

	enq_flags = enq_flags_of(role, enq_flags);
	switch (place) {
	case LOCAL:
		queue = SCX_DSQ_LOCAL;
		break;
	case GLOBAL:
		queue = __SCX_DSQ_GLOBAL;
		break;
	case FIFO:
	case TWICE:
		queue = FIFO_QUEUE;
		break;
	case LOCAL_ON:
		queue = SCX_DSQ_LOCAL_ON | (u32)target_cpu;
		break;
	case NO_CPU:
		queue = SCX_DSQ_LOCAL_ON | 5000;
		break;
	case UNKNOWN:
		queue = NO_QUEUE;
		break;
	}
	if (queue) {
		dsq_insert(p, queue, slice, enq_flags);
		if (place == TWICE)
			dsq_insert(p, queue, slice, enq_flags);
		return queue;
	}
	switch (place) {
	case VTIME:
		queue = VTIME_QUEUE;
		break;
	case BOTH_QUEUES:
		queue = FIFO_QUEUE;
		break;
	case VTIME_LOCAL:
		queue = SCX_DSQ_LOCAL;
		break;
	case VTIME_GLOBAL:
		queue = __SCX_DSQ_GLOBAL;
		break;
	}
	if (queue) {
		/* The key is the last letter of the task's name. */
		u64 key = COMM(p)[2];

		dsq_insert_by_key(p, queue, slice, 1000 - key, enq_flags);
		return queue;
	}
	if (place == HOLD)
		held[__sync_fetch_and_add(&held_end, 1) & (HELD_SIZE - 1)] = p->pid;
	else if (place == RAISE_ERROR)
		raise_error();
	else if (place == RAISE_EXIT)
		raise_exit();
	return 0;
}

#ifndef WITHOUT_SELECT_CPU
OP3(s32, trace_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	struct entry *e = note(SELECT_CPU, p, prev_cpu, wake_flags);
	u32 role = acting_role_of(p);
	bool is_idle = false;
	s32 cpu = prev_cpu;

	switch (select_choice[role]) {
	case DEFAULT_SEARCH:
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
		break;
	case TARGET:
		cpu = target_cpu;
		break;
	case IMPOSSIBLE:
		cpu = 5000;
		break;
	}
	if (is_idle || !select_only_if_idle[role])
		e->verdict = put(p, role, select_place[role], 0);
	e->result = cpu;
	return cpu;
}
#endif

#ifndef WITHOUT_ENQUEUE
OP2(void, trace_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct entry *e = note(ENQUEUE, p, enq_flags, 0);
	u32 role = acting_role_of(p);
	u32 place = enqueue_place[role];

	if (enq_flags & __SCX_ENQ_REENQ && reenqueue_place[role] != NOWHERE)
		place = reenqueue_place[role];
	e->task_cpu = scx_bpf_task_cpu(p);
	e->verdict = put(p, role, place, enq_flags);
	switch (enqueue_kick[role]) {
	case KICK:
		scx_bpf_kick_cpu(kick_cpu, 0);
		break;
	case KICK_IDLE:
		scx_bpf_kick_cpu(kick_cpu, SCX_KICK_IDLE);
		break;
	case KICK_PREEMPT:
		scx_bpf_kick_cpu(kick_cpu, SCX_KICK_PREEMPT);
		break;
	case KICK_WAIT:
		scx_bpf_kick_cpu(kick_cpu, __SCX_KICK_WAIT);
		break;
	case KICK_IDLE_PREEMPT:
		scx_bpf_kick_cpu(kick_cpu, SCX_KICK_IDLE | SCX_KICK_PREEMPT);
		break;
	case KICK_PREEMPT_WAIT:
		scx_bpf_kick_cpu(kick_cpu, SCX_KICK_PREEMPT | __SCX_KICK_WAIT);
		break;
	}
}
#endif

OP2(void, trace_dequeue, struct task_struct *, p, u64, deq_flags)
{
	note(DEQUEUE, p, deq_flags, 0);
}

/* The task that is held longest, or NULL; the caller releases it. */
static __always_inline struct task_struct *take_held(void)
{
	if (held_first == held_end)
		return NULL;
	return bpf_task_from_pid(held[__sync_fetch_and_add(&held_first, 1) & (HELD_SIZE - 1)]);
}

/* Dispatches the task that is held longest. */
static __always_inline u64 give_held(u32 giving)
{
	struct task_struct *p = take_held();
	u64 queue = SCX_DSQ_LOCAL;
	int i __attribute__((unused));

	if (!p)
		return 0;
	if (giving == GIVE_HELD_TO_TARGET)
		queue = SCX_DSQ_LOCAL_ON | (u32)target_cpu;
	else if (giving == GIVE_HELD_TO_FIFO)
		queue = FIFO_QUEUE;
	dsq_insert(p, queue, slice_ns[WORKER], 0);
	if (giving == GIVE_HELD_TWICE)
		dsq_insert(p, queue, slice_ns[WORKER], 0);
	if (giving == GIVE_TOO_MANY)
		for_range(i, 1, TOO_MANY)
			dsq_insert(p, queue, slice_ns[WORKER], 0);
	if (giving == GIVE_CANCELLED) {
		scx_bpf_dispatch_cancel();
		dsq_insert(p, FIFO_QUEUE, slice_ns[WORKER], 0);
	}
	bpf_task_release(p);
	return queue;
}

OP2(void, trace_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct entry *e = note_dispatch(cpu, prev);

	switch (READ_ONCE(acting) ? dispatch_giving : GIVE_QUEUES) {
	case GIVE_QUEUES:
		e->result = dsq_move_to_local(FIFO_QUEUE) || dsq_move_to_local(VTIME_QUEUE);
		break;
	case GIVE_HELD:
	case GIVE_HELD_TWICE:
	case GIVE_TOO_MANY:
	case GIVE_HELD_TO_TARGET:
	case GIVE_HELD_TO_FIFO:
	case GIVE_CANCELLED:
		/* CPU 0 picks whenever the director leaves it; these picks are not compared. */
		if (!cpu)
			break;
		e->verdict = give_held(dispatch_giving);
		if (dispatch_giving == GIVE_HELD_TO_FIFO || dispatch_giving == GIVE_CANCELLED)
			e->result = dsq_move_to_local(FIFO_QUEUE);
		break;
	case GIVE_UNKNOWN:
		e->result = dsq_move_to_local(NO_QUEUE);
		break;
	case CANCEL_NOTHING:
		scx_bpf_dispatch_cancel();
		break;
	}
}

OP1(void, trace_tick, struct task_struct *, p)
{
	note(TICK, p, 0, 0);
	if (tick_ends_slice && acting_role_of(p) == WORKER)
		task_set_slice(p, 0);
}

OP2(void, trace_runnable, struct task_struct *, p, u64, enq_flags)
{
	note(RUNNABLE, p, enq_flags, 0)->task_cpu = scx_bpf_task_cpu(p);
}

OP1(void, trace_running, struct task_struct *, p)
{
	note(RUNNING, p, 0, 0)->task_cpu = scx_bpf_task_cpu(p);
}

OP2(void, trace_stopping, struct task_struct *, p, bool, runnable)
{
	note(STOPPING, p, runnable, 0)->task_cpu = scx_bpf_task_cpu(p);
}

OP2(void, trace_quiescent, struct task_struct *, p, u64, deq_flags)
{
	note(QUIESCENT, p, deq_flags, 0)->task_cpu = scx_bpf_task_cpu(p);
}

#ifndef WITHOUT_YIELD
OP2(bool, trace_yield, struct task_struct *, from, struct task_struct *, to)
{
	note(YIELD, from, to != NULL, 0);
	return yield_answer;
}
#endif

OP2(void, trace_set_weight, struct task_struct *, p, u32, weight)
{
	note_weight(p, weight);
}

OP2(void, trace_set_cpumask, struct task_struct *, p, const struct cpumask *, mask)
{
	note(SET_CPUMASK, p, mask->bits[0], 0);
}

OP2(void, trace_update_idle, s32, cpu, bool, idle)
{
	new_entry(UPDATE_IDLE, cpu, idle);
}

OP2(void, trace_cpu_acquire, s32, cpu, struct scx_cpu_acquire_args *, args)
{
	new_entry(CPU_ACQUIRE, cpu, 0);
}

OP2(void, trace_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	new_entry(CPU_RELEASE, cpu, 0);
	if (release_does == RELEASE_AT_ONCE && KERNEL_HAS(scx_bpf_reenqueue_local___v1))
		scx_bpf_reenqueue_local___v1();
	if (release_does == RELEASE_AFTERWARDS && KERNEL_HAS(scx_bpf_reenqueue_local___v2___compat))
		scx_bpf_reenqueue_local___v2___compat();
}

#ifndef WITHOUT_HOTPLUG
SLEEPABLE_OP1(void, trace_cpu_online, s32, cpu)
{
	new_entry(CPU_ONLINE, cpu, 0);
}

SLEEPABLE_OP1(void, trace_cpu_offline, s32, cpu)
{
	new_entry(CPU_OFFLINE, cpu, 0);
}
#endif

SLEEPABLE_OP2(s32, trace_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	u32 role = role_of(p);

	note(INIT_TASK, p, args->fork, 0);
	if (init_task_disallows[role])
		((struct task_struct___disallow *)p)->scx.disallow = true;
	/* The threads of a scenario are always created, whatever the setting. */
	return args->fork && !READ_ONCE(acting) ? 0 : init_task_result[role];
}

OP2(void, trace_exit_task, struct task_struct *, p, struct scx_exit_task_args *, args)
{
	note(EXIT_TASK, p, args->cancelled, 0);
}

OP1(void, trace_enable, struct task_struct *, p)
{
	note(ENABLE, p, 0, 0);
}

OP1(void, trace_disable, struct task_struct *, p)
{
	note(DISABLE, p, 0, 0);
}

SLEEPABLE_OP0(s32, trace_init)
{
	s32 err = init_result;

	new_entry(INIT, 0, 0);
	if (!err)
		err = scx_bpf_create_dsq(FIFO_QUEUE, -1);
	if (!err)
		err = scx_bpf_create_dsq(VTIME_QUEUE, -1);
	return err;
}

OP1(void, trace_exit, struct scx_exit_info *, info)
{
	new_entry(EXIT, info->kind, info->exit_code);
	record_exit(info);
}

SCHEDULER(trace_ops,
#ifndef WITHOUT_SELECT_CPU
	.select_cpu = (void *)trace_select_cpu,
#endif
#ifndef WITHOUT_ENQUEUE
	.enqueue = (void *)trace_enqueue,
#endif
#ifndef WITHOUT_YIELD
	.yield = (void *)trace_yield,
#endif
#ifndef WITHOUT_HOTPLUG
	.cpu_online = (void *)trace_cpu_online,
	.cpu_offline = (void *)trace_cpu_offline,
#endif
	.dequeue = (void *)trace_dequeue,
	.dispatch = (void *)trace_dispatch,
	.tick = (void *)trace_tick,
	.runnable = (void *)trace_runnable,
	.running = (void *)trace_running,
	.stopping = (void *)trace_stopping,
	.quiescent = (void *)trace_quiescent,
	.set_weight = (void *)trace_set_weight,
	.set_cpumask = (void *)trace_set_cpumask,
	.update_idle = (void *)trace_update_idle,
	.cpu_acquire = (void *)trace_cpu_acquire,
	.cpu_release = (void *)trace_cpu_release,
	.init_task = (void *)trace_init_task,
	.exit_task = (void *)trace_exit_task,
	.enable = (void *)trace_enable,
	.disable = (void *)trace_disable,
	.init = (void *)trace_init,
	.exit = (void *)trace_exit,
	.name = "trace",
);
