/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code shared by the schedulers that keep waiting tasks in one queue in virtual-deadline order.
 *
 * 1. Queues: one for the machine; a second one for SCHED_IDLE, which is tried last; and one per CPU
 *    for the kthreads that are pinned to it, which all other CPUs would only skip. A CPU takes the
 *    earlier of the first tasks of the machine's queue and of its own kthread queue.
 * 2. A task that stops is charged. Slice and deadline are renewed if the slice is empty, and always
 *    for SCHED_BATCH.
 * 3. A tick ends slices by the rule of <weir/deadline.bpf.h>.
 * 4. A new nice value moves the deadline of a waiting task by the difference. A running task keeps
 *    its deadline, but its CPU picks again if the new nice value is higher.
 *
 * Before including this, a policy defines:
 * - struct task with the members used here, in the task storage `tasks`, and struct cpu likewise,
 *   in the array `cpus`;
 * - POLICY_NOW(), its clock, and ON_RENEWAL(p, t), called when slice and deadline were renewed;
 * - enqueue_shared(), for tasks of the machine's queue;
 * - kick_victim(cpu, key), which makes a CPU pick again whose task is later than `key`;
 * - what <weir/idle.bpf.h> and <weir/pick.bpf.h> require.
 *
 * It may define:
 * - SEVERAL_QUEUES: it has several queues of its own instead of the machine's one, and provides the
 *   four functions for them;
 * - TICKS_DITHER: whether half of the slices end up to half a tick early, as in 3;
 * - NICE_MOVES_RUNNING: whether a new nice value also moves the deadline of a running task.
 */
#ifndef WEIR_ONE_QUEUE_BPF_H
#define WEIR_ONE_QUEUE_BPF_H

#include "deadline.bpf.h"
#include "hotplug.bpf.h"
#include "idle.bpf.h"
#include "pick.bpf.h"

#define QUEUE_DSQ 0
#define IDLE_DSQ 1			/* SCHED_IDLE */
#define PINNED_DSQ 0x20000		/* + CPU: kthreads pinned to it */

#ifndef TICKS_DITHER
#define TICKS_DITHER true
#endif
#ifndef NICE_MOVES_RUNNING
#define NICE_MOVES_RUNNING false
#endif

static void enqueue_shared(struct task_struct *p, struct task *t, u64 enq_flags);
static void kick_victim(s32 cpu, u64 key);

#ifdef SEVERAL_QUEUES
static s32 make_shared(void);
static bool shared_waits(s32 cpu);
static bool take_shared(s32 cpu, u64 limit);
static void leave_shared(s32 cpu);
#else
static __always_inline s32 make_shared(void)
{
	return scx_bpf_create_dsq(QUEUE_DSQ, -1);
}

static __always_inline bool shared_waits(s32 cpu)
{
	return scx_bpf_dsq_nr_queued(QUEUE_DSQ);
}

static __always_inline bool take_shared(s32 cpu, u64 limit)
{
	return take(QUEUE_DSQ, cpu, limit);
}

static __always_inline void leave_shared(s32 cpu)
{
	give_away(cpu, QUEUE_DSQ);
}
#endif

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & MAX_CPU_MASK];
}

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline void note_promotion(struct task_struct *p)
{
	struct task *t = task_of(p);

	if (t)
		t->promoted = true;
}

#define ON_PROMOTION(p) note_promotion(p)
#include "idle-level.bpf.h"

static void set_key(struct task_struct *p, struct task *t)
{
	t->key = with_level(p, t->budget.deadline);
}

/* 2: called when the task stops or is about to. A promoted task has used up its slice. */
static void settle(struct task_struct *p, struct task *t, u64 now)
{
	charge(&t->budget, now);
	if (t->budget.slice_ns < SLICE_EMPTY_NS || p->policy == SCHED_BATCH || t->promoted) {
		renew(&t->budget, now);
		ON_RENEWAL(p, t);
	}
	t->promoted = false;
	set_key(p, t);
}

/* Implements ops.select_cpu: inserts the task on an idle CPU at once, if there is one. */
static s32 select_idle_cpu(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task *t = task_of(p);
	s32 cpu;

	if (!t)
		return prev_cpu;
	cpu = claim_idle_cpu(p, prev_cpu);
	t->searched = cpu < 0;
	t->sync = wake_flags & SCX_WAKE_SYNC;
	if (cpu < 0)
		return prev_cpu;
	set_key(p, t);
	dsq_insert(p, SCX_DSQ_LOCAL, t->budget.slice_ns, SCX_ENQ_IMMED);
	return cpu;
}

/*
 * A pinned kthread waits in the DSQ of its CPU, under the same preemption rule. A CPU that is going
 * offline consumes none of the policy's DSQs.
 */
static void enqueue_pinned(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (is_leaving(cpu) || scx_bpf_test_and_clear_cpu_idle(cpu)) {
		dsq_insert(p, SCX_DSQ_LOCAL, t->budget.slice_ns, enq_flags);
		return;
	}
	dsq_insert_by_key(p, PINNED_DSQ + cpu, t->budget.slice_ns, t->budget.deadline, enq_flags);
	if (scx_bpf_test_and_clear_cpu_idle(cpu))
		kick(cpu, SCX_KICK_IDLE);
	else if (!t->displaced && READ_ONCE(cpu_of(cpu)->key) > t->key)
		kick_victim(cpu, t->key);
}

/* Implements ops.enqueue. */
static __always_inline void enqueue(struct task_struct *p, u64 enq_flags)
{
	struct task *t = task_of(p);

	if (!t) {
		scx_error("task %d has no storage", p->pid);
		return;
	}
	count_at(&t->counted_at, scx_bpf_task_cpu(p));
	set_key(p, t);
	if ((p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1)
		enqueue_pinned(p, t, enq_flags);
	else
		enqueue_shared(p, t, enq_flags);
	t->searched = t->sync = t->displaced = t->child = false;
}

/* 1: takes the best task that is not later than `limit` and not SCHED_IDLE. */
static bool take_normal(s32 cpu, u64 limit)
{
	u64 own = first_deadline(PINNED_DSQ + cpu);

	if (take_shared(cpu, own < limit ? own : limit))
		return true;
	return own <= limit && own != NO_LIMIT && dsq_move_to_local(PINNED_DSQ + cpu);
}

/*
 * Takes another task for the CPU, if there is one. `limit` and `idle_limit` are the latest
 * deadlines allowed.
 */
static __noinline bool take_by_level(s32 cpu, u64 limit, u64 idle_limit, u64 now)
{
	bool wanted = !idle_limit || shared_waits(cpu);

	if (wanted && promote(cpu, now))
		return true;
	if (take_normal(cpu, limit))
		return true;
	return idle_limit && take(IDLE_DSQ, cpu, idle_limit);
}

/* The task starts to run, or continues with the rest of its slice. */
static __always_inline void begin_run(struct task *t, s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);

	t->budget.since = now;
	t->displaced = t->child = false;
	c->early = TICKS_DITHER && now - c->last_tick <= half_tick_ns;
	WRITE_ONCE(c->key, is_leaving(cpu) ? 0 : t->key);
}

/* 3: implements ops.tick. The kernel checks the slice after this. */
static __always_inline void tick(struct task_struct *p)
{
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));
	struct task *t = task_of(p);
	u64 now = POLICY_NOW();

	c->last_tick = now;
	if (!t)
		return;
	charge(&t->budget, now);
	if (tick_ends(&t->budget, c->early)) {
		t->budget.slice_ns = 0;
		task_set_slice(p, 0);
	}
}

/* 4: implements ops.set_weight. The kernel reenqueues a waiting task after this. */
static __always_inline void change_nice(struct task_struct *p, struct task *t)
{
	u32 ratio = ratio_of(p->static_prio);
	s64 later = ((s64)ratio - t->budget.ratio) * (s64)deadline_unit_ns;
	bool running = scx_bpf_task_running(p);

	t->budget.ratio = ratio;
	if (NICE_MOVES_RUNNING || !running)
		t->budget.deadline += later;
	if (running && later > 0)
		kick(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
	set_key(p, t);
}

/* A CPU goes offline: it is no preemption victim, and the tasks counted there go to other CPUs. */
static __always_inline void leave_queues(s32 cpu)
{
	mark_offline(cpu);
	cpu_of(cpu)->key = 0;
	leave_shared(cpu);
	give_away(cpu, IDLE_DSQ);
	give_away(cpu, PINNED_DSQ + cpu);
}

/* At init: tables, constants, DSQs. */
static __always_inline s32 make_queues(void)
{
	s32 error;
	int cpu;

	topology_init();
	deadline_init(nr_online);
	error = make_shared();
	if (!error)
		error = scx_bpf_create_dsq(IDLE_DSQ, -1);
	for_range(cpu, 0, nr_cpus) {
		if (!error)
			error = scx_bpf_create_dsq(PINNED_DSQ + cpu, -1);
	}
	return error;
}

#endif
