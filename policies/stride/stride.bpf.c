/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stride: deterministic proportional shares by tickets, after C. A. Waldspurger and W. E. Weihl,
 * "Stride scheduling: deterministic proportional-share resource management" (MIT/LCS/TM-528, 1995).
 *
 * 1. Stride and pass. A task's stride is the inverse of its tickets: the more tickets, the shorter
 *    its stride. Its pass is its progress. The task with the smallest pass runs next for one
 *    quantum, and its pass grows by one stride. So with 3 : 2 : 1 tickets the order is always the
 *    same, and after any number of quanta no task is more than one quantum away from its due share
 *    relative to any other task. The tickets of a task are the weight of its nice value, 100 for
 *    nice 0, times the weight of its cgroup divided by 100.
 *
 * 2. A fraction of a quantum costs that fraction of a stride. No task is preempted before its
 *    quantum ends. The task whose quantum ends competes with the others; among equal passes a
 *    waiting task goes first.
 *
 * 3. The global pass is the pass of a task that would own all tickets in play. It grows with time,
 *    by m / T on m CPUs with T tickets. A task that goes to sleep keeps its distance to the global
 *    pass, and has the same distance when it wakes: sleep earns nothing and costs nothing. A new
 *    task starts one quantum behind.
 *
 * 4. A task whose tickets change while it waits keeps its distance in quanta. The distance is
 *    measured in strides, so it is scaled.
 *
 * 5. Several CPUs. A task runs on one CPU at a time, so a task with more than 1/m of all tickets
 *    falls behind without limit. That alone harms no other task, but the others run ahead of the
 *    global pass meanwhile. A new task would run before them until they are level, which may take
 *    minutes. So tickets count only as far as they can be used (<weir/feasible.bpf.h>).
 *    `clamp=false` is the method of the paper, without this point and the next.
 *
 * 6. Tasks that are pinned to one of several CPUs share that CPU, and count as one task with the
 *    sum of their tickets. Their CPU has a global pass of its own ("bound.bpf.h").
 *
 * 7. A waking task goes to an idle CPU if there is one.
 *
 * 8. Preset `hierarchical`: with many tasks, passes are compared in pairs in a tree ("tree.bpf.h").
 *    A heavy task beside many light ones then always stays close to its due share. The tree does
 *    not implement 3, 5 and 6. Tasks that do not fit into the tree get every second quantum.
 *
 * 9. A task that has waited for 10 s gets a short slice before all others (<weir/overdue.bpf.h>),
 *    at the usual cost.
 *
 * Where this departs from the paper, and why:
 * - Per-CPU kthreads are not clients: they run at once. Otherwise the kernel itself would wait for
 *   quanta of 100 ms.
 * - The paper assumes one CPU. Points 3, 5 and 6 extend its rules to several.
 */
#include <weir/client.bpf.h>
#include <weir/feasible.bpf.h>
#include <weir/jobs.bpf.h>

LICENSE("GPL");

#define QUEUE_DSQ 0
#define OTHERS_DSQ 1	/* 8: tasks that do not fit into the tree */
#define OVERDUE_DSQ 2	/* 9 */

/* Set by the presets. */
RODATA u32 nr_cpus = 1;
RODATA u32 quantum_us = 100000;
RODATA bool clamp = true;
RODATA bool by_tree = false;	/* 8 */

#define PICK_REFUSED(p, cpu) false
#define PICK_BIASED false
#define PICK_SEEN(p, key, cpu) (key)
#define PICK_FLAGS SCX_ENQ_IMMED
#include <weir/pick.bpf.h>

/* Passes are in ns per ticket, in units of 2^-10. */
#define PASS_BITS 10
#include "tree.bpf.h"
#include "bound.bpf.h"

struct task {
	u64 pass;
	s64 ahead;	/* 3: distance to the global pass when it left */
	u64 since;	/* time up to which it is charged */
	u64 paid_ns;	/* 8: charged in advance */
	u64 waits_since;
	u32 tickets;
	u32 slot;	/* 8 */
	u32 job;	/* number of its cgroup */
	u64 scale;	/* 6: scale of its pass */
	u32 bound;	/* 6: 1 + the CPU to which it is pinned, otherwise 0 */
	bool counted;	/* its tickets are in play */
	bool picked;	/* 8: was picked from the tree */
	bool overdue;
};

TASK_STORAGE(tasks, struct task);

/* 3: the global pass, and the time up to which it is computed. */
u64 global_pass, global_at;

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

#include <weir/overdue.bpf.h>

/* 9 */
static void scan_for_overdue(u64 now)
{
	move_overdue(QUEUE_DSQ, now);
	move_overdue(OTHERS_DSQ, now);
}

static __always_inline u64 quantum_ns(void)
{
	return quantum_us * 1000ULL;
}

/* ---- 3: the global pass ---- */

static __always_inline struct feasible in_play(void)
{
	u64 sum = READ_ONCE(all_tickets.sum);

	if (clamp)
		return feasible_on(nr_cpus);
	return (struct feasible){ 1, MAX_TICKETS, sum ? sum : 1 };
}

/* 3: the CPU that advances `global_at` adds the progress since then. */
static __noinline u64 global_pass_at(u64 now)
{
	u64 from = READ_ONCE(global_at), tasks = READ_ONCE(all_tickets.count);
	struct feasible f = in_play();

	if (now > from && __sync_val_compare_and_swap(&global_at, from, now) == from)
		__sync_fetch_and_add(&global_pass, ((now - from) << PASS_BITS) * (tasks < nr_cpus ? tasks : nr_cpus) / f.sum);
	return READ_ONCE(global_pass);
}

/* Adds the tickets of `t` to those in play, or removes them if `tasks` is -1. */
static __noinline void count(struct task *t, s32 tasks)
{
	if (t->bound)
		count_bound(t->bound - 1, t->tickets, tasks);
	else
		count_tickets(t->tickets, tasks);
	t->counted = tasks > 0;
}

/* 3, 6 */
static __noinline void join(struct task *t, u64 now)
{
	u64 global = global_pass_at(now);
	struct cpu *c = cpu_of(t->bound - 1);
	struct feasible f;

	count(t, 1);
	f = in_play();
	if (by_tree) {
		join_tree(t->slot, t->tickets, t->ahead);
	} else if (t->bound) {
		begin_on(c, &f, global, now);
		t->pass = c->pass + rescaled(t->ahead, SCALE_ONE, c->scale);
		t->scale = c->scale;
	} else {
		t->pass = global + t->ahead;
	}
}

static __noinline void leave(struct task *t, u64 now)
{
	u64 global = global_pass_at(now);
	struct cpu *c = cpu_of(t->bound - 1);

	if (by_tree)
		t->ahead = leave_tree(t->slot, t->tickets);
	else
		t->ahead = t->bound ? rescaled(t->pass - c->pass, t->scale, SCALE_ONE) : (s64)(t->pass - global);
	count(t, -1);
}

/* ---- 1, 2: strides ---- */

/* Pass of a task that has run until now. */
static __noinline u64 pass_at(struct task *t, u64 now)
{
	struct feasible f = in_play();
	struct cpu *c = cpu_of(t->bound - 1);
	u64 ns = now - t->since;

	if (!t->bound)
		return t->pass + (ns << PASS_BITS) / feasible_tickets(&f, t->tickets);
	scale_at(c, &f, now);
	return c->pass + rescaled(t->pass - c->pass, t->scale, c->scale) + cost_on(c, ns, t->tickets);
}

static __always_inline void charge(struct task *t, u64 now)
{
	struct cpu *c = cpu_of(t->bound - 1);

	t->pass = pass_at(t, now);
	if (t->bound) {
		t->scale = c->scale;
		c->pass += cost_on(c, now - t->since, tickets_together(c));
	}
	t->since = now;
}

/* ---- 1: tickets ---- */

static __always_inline u32 tickets_of(struct task_struct *p, struct task *t)
{
	u64 tickets = (u64)p->scx.weight * job_at(t->job)->weight / DEFAULT_WEIGHT;

	return tickets < 1 ? 1 : tickets < MAX_TICKETS ? tickets : MAX_TICKETS;
}

/* 4: scales the distance by the change of the stride. */
static __noinline void set_tickets(struct task *t, u32 tickets)
{
	u64 distance = (t->ahead < 0 ? -t->ahead : t->ahead) * t->tickets / tickets;

	t->ahead = t->ahead < 0 ? -distance : distance;
	t->tickets = tickets;
}

/*
 * A cgroup's weight may change while its tasks are in play. They leave and join again with the new
 * tickets.
 */
static __noinline void update_tickets(struct task_struct *p, struct task *t, u64 now)
{
	u32 tickets = tickets_of(p, t);

	if (tickets == t->tickets || !t->counted)
		return;
	leave(t, now);
	set_tickets(t, tickets);
	join(t, now);
}

/* ---- 8: the tree ---- */

static __always_inline bool is_in_tree(struct task *t)
{
	return by_tree && t->slot != NO_SLOT;
}

/* Charges the difference between the time used and the time charged in advance. */
static __noinline void settle(struct task *t, u64 now)
{
	if (t->picked)
		correct(t->slot, (s64)(now - t->since) - (s64)t->paid_ns);
	t->paid_ns = 0;
	t->since = now;
}

/* Takes the task of a slot. Returns false if it is not in the queue or may not run here. */
static __noinline bool take_slot_of(u32 slot, s32 cpu)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = bpf_task_from_pid(holders[slot % SLOTS]);
	struct task *t;
	u32 taken = false;

	if (!p)
		return false;
	bpf_iter_scx_dsq_new(&it, QUEUE_DSQ, 0);
	t = task_of(p);
	if (t && may_take(p, cpu)) {
		t->picked = true;
		t->paid_ns = quantum_ns();
		taken = dsq_move_as(&it, p, SCX_DSQ_LOCAL, PICK_FLAGS);
	}
	if (t && !taken)
		t->picked = false;
	bpf_iter_scx_dsq_destroy(&it);
	bpf_task_release(p);
	return taken;
}

u32 turns;

/* Returns whether a task was taken. The running task competes as if it waited. */
static __noinline bool take_by_tree(s32 cpu, struct task *ran, u64 now)
{
	u32 slot;

	if (++turns % 2 && take(OTHERS_DSQ, cpu, NO_LIMIT))
		return true;
	if (ran) {
		settle(ran, now);
		set_waiting(ran->slot, true);
	}
	slot = pick_slot(quantum_ns());
	if (ran && slot == ran->slot) {
		ran->picked = true;
		ran->paid_ns = quantum_ns();
		return false;
	}
	if (slot != NO_SLOT) {
		if (take_slot_of(slot, cpu))
			return true;
		correct(slot, -(s64)quantum_ns());
		set_waiting(slot, true);
	}
	if (take(QUEUE_DSQ, cpu, NO_LIMIT) || take(OTHERS_DSQ, cpu, NO_LIMIT))
		return true;
	if (ran) {
		set_waiting(ran->slot, false);
		ran->picked = false;
	}
	return false;
}

/* ---- Lifecycle of a task, in order ---- */

/* 3: a new task starts one quantum behind. */
SLEEPABLE_OP2(s32, stride_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -12; /* ENOMEM */
	t->job = first_job(args);
	t->tickets = tickets_of(p, t);
	t->ahead = (quantum_ns() << PASS_BITS) / t->tickets;
	t->slot = NO_SLOT;
	return 0;
}

/* 7 */
OP3(s32, stride_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	return go_to_idle_cpu(p, prev_cpu, wake_flags, quantum_ns());
}

/* 3: the task comes into play. */
OP2(void, stride_runnable, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);

	if (!t || !is_client(p))
		return;
	waits_from(t, now_ns());
	t->bound = clamp && nr_cpus > 1 && p->nr_cpus_allowed == 1 ? scx_bpf_task_cpu(p) + 1 : 0;
	if (by_tree) {
		t->slot = take_slot(p->pid);
		if (t->slot == NO_SLOT)
			return;
		t->picked = false;
	}
	join(t, now_ns());
}

OP2(void, stride_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);

	if (!t || !is_client(p)) {
		run_at_once(p, quantum_ns(), enq_flags);
		return;
	}
	t->picked = false;
	if (!by_tree) {
		dsq_insert_by_key(p, QUEUE_DSQ, quantum_ns(), t->pass, enq_flags);
	} else if (t->slot == NO_SLOT) {
		dsq_insert(p, OTHERS_DSQ, quantum_ns(), enq_flags);
	} else {
		dsq_insert(p, QUEUE_DSQ, quantum_ns(), enq_flags);
		set_waiting(t->slot, true);
	}
	kick_idle_cpu(p, enq_flags);
}

/* 2: the running task continues if no waiting task has a smaller pass. */
OP2(void, stride_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	u64 now = now_ns(), pass;

	if (take_overdue(cpu))
		return;
	if (by_tree) {
		if (!take_by_tree(cpu, t && t->slot != NO_SLOT ? t : NULL, now) && t)
			task_set_slice(prev, quantum_ns());
		return;
	}
	pass = t ? pass_at(t, now) : NO_LIMIT;
	if (take(QUEUE_DSQ, cpu, pass) || !t)
		return;
	charge(t, now);
	update_tickets(prev, t, now);
	task_set_slice(prev, quantum_ns());
}

OP1(void, stride_running, struct task_struct *, p)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	t->since = now_ns();
	if (is_in_tree(t))
		set_waiting(t->slot, false);
}

OP2(void, stride_stopping, struct task_struct *, p, bool, runnable)
{
	struct task *t = task_of(p);

	u64 now = now_ns();

	if (!t)
		return;
	if (is_in_tree(t))
		settle(t, now);
	else
		charge(t, now);
	waits_from(t, now);
	update_tickets(p, t, now);
}

/* 3: the task leaves. */
OP2(void, stride_quiescent, struct task_struct *, p, u64, deq_flags)
{
	struct task *t = task_of(p);

	if (!t || !t->counted)
		return;
	leave(t, now_ns());
	if (by_tree) {
		release_slot(t->slot);
		t->slot = NO_SLOT;
	}
}

/* 4. The kernel calls these two ops while the task is not in play. */
OP2(void, stride_set_weight, struct task_struct *, p, u32, weight)
{
	struct task *t = task_of(p);

	if (t)
		set_tickets(t, tickets_of(p, t));
}

OP3(void, stride_cgroup_move, struct task_struct *, p, struct cgroup *, from, struct cgroup *, to)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	t->job = number_of(to);
	set_tickets(t, tickets_of(p, t));
}

/* ---- Lifecycle of a cgroup ---- */

SLEEPABLE_OP2(s32, stride_cgroup_init, struct cgroup *, cgrp, struct scx_cgroup_init_args *, args)
{
	return make_job(cgrp, args->weight);
}

SLEEPABLE_OP1(void, stride_cgroup_exit, struct cgroup *, cgrp)
{
	end_job(cgrp);
}

OP2(void, stride_cgroup_set_weight, struct cgroup *, cgrp, u32, weight)
{
	weigh_job(cgrp, weight);
}

SLEEPABLE_OP0(s32, stride_init)
{
	job_at(ROOT_JOB)->weight = DEFAULT_WEIGHT;
	global_at = now_ns();
	global_pass = 1ULL << 50;	/* passes are compared as positive numbers */
	return overdue_init() ?: scx_bpf_create_dsq(QUEUE_DSQ, -1) ?: scx_bpf_create_dsq(OTHERS_DSQ, -1);
}

OP1(void, stride_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(stride_ops,
	.init_task = (void *)stride_init_task,
	.select_cpu = (void *)stride_select_cpu,
	.runnable = (void *)stride_runnable,
	.enqueue = (void *)stride_enqueue,
	.dispatch = (void *)stride_dispatch,
	.running = (void *)stride_running,
	.stopping = (void *)stride_stopping,
	.quiescent = (void *)stride_quiescent,
	.set_weight = (void *)stride_set_weight,
	.cgroup_init = (void *)stride_cgroup_init,
	.cgroup_exit = (void *)stride_cgroup_exit,
	.cgroup_move = (void *)stride_cgroup_move,
	.cgroup_set_weight = (void *)stride_cgroup_set_weight,
	.init = (void *)stride_init,
	.exit = (void *)stride_exit,
	.name = "stride",
);
