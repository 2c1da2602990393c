/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cfs: the kernel's fair scheduler of 2007 to 2023, as it was in Linux 2.6.36, 4.1 and 6.1.
 *
 * 1. Weights ("weight.bpf.h"). A task's share of its CPU is proportional to a weight, which depends
 *    on its nice value.
 *
 * 2. Virtual time ("queue.bpf.h"). Each CPU has a queue of its own. A task's virtual time is its
 *    CPU time divided by its weight, and the task with the least virtual time runs next. So at any
 *    moment all tasks have had the same virtual time, as nearly as slices allow. All tasks together
 *    should run once per latency period (6 ms on one CPU); slices are no shorter than 0.75 ms.
 *
 * 3. Sleep. A waking task starts at most half a latency period before the others; a new task starts
 *    one slice behind them.
 *
 * 4. Pick, preemption, yield ("pick.bpf.h"). A waking task preempts if it is behind by more than 1
 *    ms, scaled by its weight. Slices end at ticks. Buddies pass the first task in the order: a
 *    task that woke and preempted, and a task that was preempted.
 *
 * 5. CPU selection ("wake.bpf.h"). A task wakes on its last CPU or on that of its waker, and looks
 *    for an idle CPU below that cache. A new task goes to the CPU with the least load.
 *
 * 6. Balance ("balance.bpf.h"). CPUs that run out of tasks, and periodically all CPUs, pull tasks
 *    from the busiest CPU of their core, cache, node and machine.
 *
 * Where this departs from the kernels, and why:
 * - Interrupt time is charged to the interrupted task. The kernels have a per-CPU clock that
 *   excludes it, which a sched_ext scheduler cannot read.
 * - A kernel with sched_ext ejects a scheduler that lets a task wait for 30 s. CFS has no such
 *   bound: beside two tasks of nice -20, a task of nice 19 waits for 50 s. So a task that has
 *   waited for 16 s runs next, for at least one tick.
 * - A task that a higher class preempts returns to the queue. In the kernels it stays where it is.
 * - Groups are left out: cgroups and sessions (autogroups, since 2.6.38). All tasks are compared
 *   one by one.
 */
#include "pick.bpf.h"
#include "wake.bpf.h"
#include "balance.bpf.h"

LICENSE("GPL");

#define OVERDUE_NS (16 * SECOND_NS)
#define OVERDUE_SCAN_NS (SECOND_NS / 2)

/* ---- Lifecycle of a task, in order ---- */

SLEEPABLE_OP2(s32, cfs_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	s32 cpu = args->fork ? (s32)bpf_get_smp_processor_id() : scx_bpf_task_cpu(p);

	if (!t)
		return -12; /* ENOMEM */
	t->weight = weight_of(p);
	t->home = t->recent_cpu = t->counted_at = cpu;
	if (args->fork)
		place_child(t, cpu_of(cpu), now_ns());
	else
		t->vruntime = cpu_of(cpu)->min_vruntime;
	return 0;
}

/*
 * A task that leaves the class keeps the difference between its virtual time and that of its CPU.
 */
OP1(void, cfs_disable, struct task_struct *, p)
{
	struct task *t = task_of(p);

	if (!t || t->detached)
		return;
	t->vruntime -= cpu_of(t->home)->min_vruntime;
	t->detached = true;
}

OP1(void, cfs_enable, struct task_struct *, p)
{
	struct task *t = task_of(p);

	if (!t || !t->detached)
		return;
	t->home = scx_bpf_task_cpu(p);
	t->vruntime += cpu_of(t->home)->min_vruntime;
	t->detached = false;
}

OP3(s32, cfs_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	const struct cpumask *idle;
	struct task *t = task_of(p);
	s32 cpu;

	if (!t)
		return prev_cpu;
	idle = scx_bpf_get_idle_cpumask();
	if (wake_flags & SCX_WAKE_FORK)
		cpu = cpu_for_child(p, idle, prev_cpu);
	else
		cpu = cpu_for_wakee(p, t, idle, prev_cpu, wake_flags & SCX_WAKE_SYNC);
	scx_bpf_put_idle_cpumask(idle);
	return cpu;
}

OP2(void, cfs_runnable, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);

	if (!t)
		return;
	update_current(cpu, now_ns());
	move_home(t, p->pid, cpu);
	count(t);
}

OP2(void, cfs_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);
	u64 now = now_ns();
	s32 to;

	if (!t) {
		scx_error("task %d has no storage", p->pid);
		return;
	}
	count_at(&t->counted_at, cpu);
	if (!t->preempted)
		update_current(cpu, now);
	to = destination(p, cpu);
	move_home(t, p->pid, to);
	if (enq_flags & SCX_ENQ_WAKEUP)
		place_sleeper(t, c);
	t->queued_at = now;
	if (is_leaving(cpu)) {
		dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags);
		return;
	}
	dsq_insert_by_key(p, to, SLICE_NS, t->vruntime, enq_flags);
	if (to != cpu) {
		t->preempted = false;
		kick(to, SCX_KICK_IDLE);
		return;
	}
	if (!c->waits || before(t->vruntime, c->first)) {
		c->first = t->vruntime;
		c->waits = true;
	}
	if (!t->preempted)
		check_preemption(p, t, c, cpu);
	/* Only a waking or a new task wakes the CPU to which it goes. */
	if (!t->preempted && !c->current && !(enq_flags & SCX_ENQ_WAKEUP))
		kick(cpu, SCX_KICK_IDLE);
	t->preempted = false;
}

/* The running task continues. */
static __always_inline void keep_running(struct task_struct *prev, struct cpu *c)
{
	if (version == V2_6_36)
		c->ran_ns = 0;
	if (version < V6_1)
		forget_buddy(c, prev->pid);
	task_set_slice(prev, SLICE_NS);
}

/*
 * Moves the best task to the CPU and returns whether there was one. With `stays`, the running task
 * competes; if it is the best, the result is 0.
 */
VERIFIED_ONCE u32 take_best(s32 cpu, u32 stays)
{
	struct cpu *c = cpu_of(cpu);
	s32 best = c->overdue;

	c->overdue = 0;
	if (best && take_numbered(cpu, best))
		return 1;
	see_queue(cpu, stays);
	best = choose(cpu, stays);
	if (!best || (stays && best == c->current))
		return 0;
	if (best != c->seen.first && take_numbered(cpu, best))
		return 1;
	/* Takes the first task, or the one that has become the first meanwhile. */
	return dsq_move_to_local(cpu);
}

/* Balances all domains that are due. Returns whether a pulled task preempts the running one. */
static __always_inline bool balance_due(struct cpu *c, s32 cpu, u64 now)
{
	u32 before = c->nr;

	if (!balance_of(cpu)->due)
		return false;
	balance_of(cpu)->due = false;
	balance_domains(cpu, BUSY, now);
	if (c->nr == before)
		return false;
	update_current(cpu, now);
	return c->waits && (s64)(c->vruntime - c->first) > (s64)wakeup_granularity_ns;
}

/* The CPU has no task: tries to pull one, otherwise it becomes idle. */
static __always_inline void fill_idle_cpu(s32 cpu, u64 now)
{
	struct balance *b = balance_of(cpu);

	if (!balances_load || is_leaving(cpu))
		return;
	if (b->woken)
		balance_domains(cpu, IDLING, now);
	else if (balance_newly_idle(cpu, now))
		return;
	if (scx_bpf_dsq_nr_queued(cpu) == 0 || !take_best(cpu, false))
		note_idle(cpu, true, now);
}

/* A task that stopped only to balance or to be pushed continues without a pick. */
OP2(void, cfs_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct cpu *c = cpu_of(cpu);
	struct balance *b = balance_of(cpu);
	bool stays = prev && (prev->scx.flags & SCX_TASK_QUEUED) && c->current == prev->pid;
	bool must_pick = c->need_resched || c->overdue || !(b->due || b->push_to);
	u64 now = now_ns();

	c->need_resched = false;
	update_current(cpu, now);
	if (stays) {
		must_pick |= balance_due(c, cpu, now);
		if (is_pushed(prev, c, cpu))
			stays = false;
		else if (!must_pick) {
			task_set_slice(prev, SLICE_NS);
			return;
		}
	}
	if (take_best(cpu, stays))
		return;
	if (stays)
		keep_running(prev, c);
	else if (!b->pushed)
		fill_idle_cpu(cpu, now);
}

OP1(void, cfs_running, struct task_struct *, p)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);
	u64 now = now_ns();

	if (!t)
		return;
	count_at(&t->counted_at, cpu);
	move_home(t, p->pid, cpu);
	note_idle(cpu, false, now);
	forget_buddy(c, p->pid);
	c->vruntime = t->vruntime;
	c->since = now;
	c->ran_ns = 0;
	c->weight = t->weight;
	c->current_idle = is_idle_weight(t->weight);
	c->current_bound = p->nr_cpus_allowed == 1;
	c->need_resched = false;
	t->preempted = false;
	c->current = p->pid;
	see_first(cpu);
}

/*
 * Finds the first task that has waited for OVERDUE_NS; it runs next. The scan visits the whole
 * queue, so it runs only twice a second.
 */
VERIFIED_ONCE u32 scan_for_overdue(s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);
	struct task_struct *p;
	struct task *t;

	if (now < c->overdue_check)
		return 0;
	c->overdue_check = now + OVERDUE_SCAN_NS;
	for_each_queued(p, cpu) {
		if (!(t = task_of(p)) || now < t->queued_at + OVERDUE_NS)
			continue;
		c->overdue = p->pid;
		c->overdue_check = now;
		break;
	}
	return 0;
}

OP1(void, cfs_tick, struct task_struct *, p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);
	u64 now = now_ns();

	update_current(cpu, now);
	if (c->nr > 1 && !c->overdue)
		scan_for_overdue(cpu, now);
	if (c->need_resched || c->overdue || slice_ends(c)) {
		c->need_resched = true;
		task_set_slice(p, 0);
	}
	if (!balances_load)
		return;
	average_load(cpu, c->load, now);
	wake_balancer(cpu);
	if (is_due(cpu, now)) {
		balance_of(cpu)->due = true;
		task_set_slice(p, 0);
	}
}

OP2(bool, cfs_yield, struct task_struct *, from, struct task_struct *, to)
{
	s32 cpu = scx_bpf_task_cpu(from);

	if (to)
		return false;
	yield_current(from, cpu_of(cpu), cpu, now_ns());
	return true;
}

OP2(void, cfs_stopping, struct task_struct *, p, bool, runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);
	struct task *t = task_of(p);
	u64 now = now_ns();

	if (runnable)
		charge_current(c, now);
	else
		update_current(cpu, now);
	if (t && c->current == p->pid) {
		t->vruntime = c->vruntime;
		t->ran_at = now;
		t->preempted = runnable;
	}
	c->current = 0;
}

OP2(void, cfs_quiescent, struct task_struct *, p, u64, deq_flags)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	uncount(t);
	forget_buddy(cpu_of(t->home), p->pid);
}

/*
 * A new nice value or policy. The task is not counted at this moment, and its virtual time stays.
 */
OP2(void, cfs_set_weight, struct task_struct *, p, u32, weight)
{
	struct task *t = task_of(p);
	u32 old;

	if (!t)
		return;
	old = t->weight;
	t->weight = weight_of(p);
	t->preempted = false;
	if (t->weight < old && scx_bpf_task_running(p))
		resched_cpu(cpu_of(scx_bpf_task_cpu(p)), scx_bpf_task_cpu(p));
}

/* ---- CPUs ---- */

/* A task of a higher class takes the CPU, so the tasks of its local DSQ return to the queue. */
OP2(void, cfs_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	reenqueue_local();
}

/* Without these two ops the kernel exits the scheduler at a CPU hotplug event. */
SLEEPABLE_OP1(void, cfs_cpu_online, s32, cpu)
{
	scale(__sync_add_and_fetch(&online_cpus, 1));
	if (!mark_online(cpu))
		scx_restart("CPU %d was offline when cfs was loaded", cpu);
}

OP1(void, cfs_cpu_offline, s32, cpu)
{
	scale(__sync_add_and_fetch(&online_cpus, -1));
	mark_offline(cpu);
	give_all_away(cpu);
}

SLEEPABLE_OP0(s32, cfs_init)
{
	s32 error = 0;
	int cpu;

	topology_init();
	domain_init();
	balance_init();
	online_cpus = nr_online;
	scale(nr_online);
	for_range(cpu, 0, nr_cpus) {
		if (!error)
			error = scx_bpf_create_dsq(cpu, -1);
	}
	return error;
}

OP1(void, cfs_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(cfs_ops,
	.init_task = (void *)cfs_init_task,
	.enable = (void *)cfs_enable,
	.disable = (void *)cfs_disable,
	.select_cpu = (void *)cfs_select_cpu,
	.runnable = (void *)cfs_runnable,
	.enqueue = (void *)cfs_enqueue,
	.dispatch = (void *)cfs_dispatch,
	.running = (void *)cfs_running,
	.tick = (void *)cfs_tick,
	.yield = (void *)cfs_yield,
	.stopping = (void *)cfs_stopping,
	.quiescent = (void *)cfs_quiescent,
	.set_weight = (void *)cfs_set_weight,
	.cpu_release = (void *)cfs_cpu_release,
	.cpu_online = (void *)cfs_cpu_online,
	.cpu_offline = (void *)cfs_cpu_offline,
	.init = (void *)cfs_init,
	.exit = (void *)cfs_exit,
	.name = "cfs",
);
