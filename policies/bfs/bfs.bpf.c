/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bfs: one queue in virtual-deadline order, after Con Kolivas' BFS 0.357 (2010) to 0.467 (2015).
 *
 * 1. One queue (<weir/one-queue.bpf.h>). All waiting tasks of the machine are in a single queue; a
 *    running task is not. Every CPU can take every task, so latency depends only on the number of
 *    runnable tasks per CPU.
 *
 * 2. Slice and deadline (<weir/deadline.bpf.h>). A task gets a slice and a virtual deadline
 *    together, and keeps both until the slice is used up. The slice is 6 ms at all nice levels.
 *    Nice levels differ only in the distance of the deadline: 41 ms for nice 0, 250 ms for nice 19.
 *    Sleep earns no credit, and there is no interactivity estimate: a task that sleeps often simply
 *    returns with an early deadline, because it has not used up its slice.
 *
 * 3. Pick: the earliest deadline among the tasks that may run on this CPU. The task that was
 *    running competes too, and loses against a task with the same deadline.
 *
 * 4. Levels (<weir/idle-level.bpf.h>). SCHED_IDLE tasks run if no other task wants the CPU.
 *    SCHED_BATCH tasks get a new deadline whenever they stop. (Real-time tasks run in a class above
 *    sched_ext. SCHED_ISO has no counterpart in current kernels.)
 *
 * 5. Tick. A tick ends the running task's slice when it is empty, and for half of the tasks up to
 *    half a tick period early.
 *
 * 6. Idle CPU (<weir/idle.bpf.h>). A waking task goes to an idle CPU if there is one. A whole idle
 *    core is preferred to a CPU with a busy sibling; among those, near CPUs are preferred to far
 *    ones; CPUs of other nodes come last. A preempted task also looks for an idle CPU.
 *
 * 7. Preemption. If no CPU is idle, the waking task looks for the CPU whose running task has the
 *    latest deadline, among the CPUs in its mask. If that deadline is later than its own, that CPU
 *    is kicked to pick again. Only one CPU is kicked, and the woken task stays in the queue, where
 *    the first CPU that picks may take it. SCHED_IDLE tasks do not preempt, and a sync wakeup (the
 *    waker is about to sleep) does not preempt.
 *
 * 8. Fork. Parent and child each get half of the parent's remaining slice and share its deadline,
 *    so forking gains nothing. The child runs first. Up to 0.360 it does so only if it has its own
 *    address space, so not for threads and vfork.
 *
 * 9. A new nice value moves the deadline of a waiting task by the difference. A running task keeps
 *    its deadline until it is renewed, but its CPU picks again if the new nice value is higher.
 *    sched_yield only makes the CPU pick again.
 *
 * 10. Locality. The versions differ in how a CPU sees the deadlines of tasks that last ran on
 *     another CPU:
 * - up to 0.360 the deadline counts as later, by as many nanoseconds as the task's deadline
 *   distance has milliseconds, shifted left by the distance of the CPUs. That is at most 3.8 us:
 *   the shift was meant to double and quadruple the deadline distance;
 * - in 0.41x and until 0.465 only the sticky task of each CPU is affected: the task that was last
 *   preempted there. Other CPUs see its deadline later by the longest deadline distance (0.41x), or
 *   shifted left by the distance of the CPUs (0.440);
 * - in 0.466, and in 0.467 if not `interactive`, the deadlines of all tasks are shifted left by the
 *   distance of the CPUs. A deadline is a time since boot, so this orders tasks by distance first,
 *   and by deadline only within one distance;
 * - in 0.467 if `interactive`, the default, deadlines are not changed.
 *
 * 11. SMT-nice (since about 0.460). In three of four slices, a task does not run beside a sibling
 *     whose task has a larger weight by nice.
 *
 * Where this departs from BFS, and why:
 * - A task for which an idle CPU is found is inserted on that CPU, which counts as busy from then
 *   on. In BFS the CPU is only woken, and the task stays in the queue. There, two tasks that wake
 *   within one interrupt latency can choose the same CPU, or a third task can take it, and then the
 *   woken task waits while other CPUs are idle.
 * - For the same reason, a CPU that was kicked to pick again counts as running the task for which
 *   it was kicked.
 * - A kernel with sched_ext ejects a scheduler that lets a task wait for 30 s. So the first waiting
 *   SCHED_IDLE task runs for 2 ms before others, one at a time, and often enough that each waiting
 *   task runs within about 16 s.
 * - Kthreads that are pinned to one CPU wait in a queue of that CPU, in the same order: a pick
 *   compares the first tasks of both queues. All other CPUs would only skip them.
 * - A sync wakeup of a pinned task preempts: the kernel does not call ops.select_cpu for such a
 *   task, and passes the sync flag only there.
 * - Reduced CPU frequencies are ignored, because no governor changes a frequency that a sched_ext
 *   scheduler did not request.
 */
#include <weir/smt-nice.bpf.h>

LICENSE("GPL");

/* 10: how CPUs see the deadlines of tasks that last ran elsewhere. */
#define BIAS_NONE 0
#define BIAS_ADD 1		/* all tasks: + ms of the deadline distance, as ns, << distance */
#define BIAS_STICKY_ADD 2	/* sticky tasks: + the longest deadline distance */
#define BIAS_STICKY_SHIFT 3	/* sticky tasks: << distance */
#define BIAS_SHIFT 4		/* all tasks: << distance */

/* Set by the presets. */
RODATA u32 bias = BIAS_ADD;
RODATA bool own_counts_as_sibling = false;	/* a bug of 0.467: a CPU is as far from itself as its sibling */
RODATA bool child_always_first = false;
RODATA u32 wait_us = 0;	/* <weir/wait.bpf.h> */

/* State of a task. */
struct task {
	struct budget budget;
	u64 key;	/* deadline and level */
	s32 counted_at;	/* CPU whose runqueue counted it when it was last queued, or ran */
	u32 weight;	/* 11 */
	u64 waits_until;
	bool waits;	/* for its previous CPU: <weir/wait.bpf.h> */
	bool searched;	/* select_cpu has just found no idle CPU */
	bool sync;	/* sync wakeup */
	bool displaced;	/* was preempted */
	bool child;	/* forked, has not run yet */
	bool promoted;	/* SCHED_IDLE task that runs before others */
};

TASK_STORAGE(tasks, struct task);

/*
 * State of a CPU that other CPUs read. Aligned to a cache line, because it is written at every
 * switch.
 */
struct cpu {
	u64 key;	/* of the running task; 0 if there is none that can be preempted */
	u64 last_tick;
	s32 sticky;	/* 10: pid */
	bool early;	/* 5: the task started in the first half of a tick period */
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

static bool is_refused(struct task_struct *p, s32 cpu);
static bool waits(struct task_struct *p, s32 cpu);
static u64 effective(struct task_struct *p, u64 deadline, s32 cpu);

/* The kernel's idle mask can contain a CPU that is going offline. */
#define IDLE_REFUSED(p, cpu) (is_leaving(cpu) || is_refused(p, cpu))
#define IDLE_IN_SLEEPABLE (wait_us != 0)
#define PICK_REFUSED(p, cpu) (is_refused(p, cpu) || waits(p, cpu))
/* BIAS_ADD applies only between caches. */
#define PICK_BIASED (bias == BIAS_ADD ? many_caches : bias != BIAS_NONE)
#define PICK_SEEN(p, deadline, cpu) effective(p, deadline, cpu)
#define POLICY_NOW() now_ns()
#define ON_RENEWAL(p, t) ((t)->weight = smt_weight_after_slice(p, (t)->weight))
#include <weir/one-queue.bpf.h>
#include <weir/wait.bpf.h>

static bool is_refused(struct task_struct *p, s32 cpu)
{
	struct task *t;

	return smt_nice && (t = task_of(p)) && is_outweighed(p, t->weight, cpu);
}

static bool waits(struct task_struct *p, s32 cpu)
{
	return waits_for_another(p, cpu);
}

/* ---- 10: locality ---- */

/* Distance of a new deadline in ms, used as ns. */
static __always_inline u64 deadline_ms_as_ns(struct task_struct *p)
{
	return ratio_of(p->static_prio) * rr_ms / 128;
}

/* BIAS_ADD: added to the deadlines of tasks that last ran below another cache. */
static __always_inline u64 deadline_bias(struct task_struct *p, s32 last, s32 cpu)
{
	last &= MAX_CPU_MASK;
	cpu &= MAX_CPU_MASK;
	if (cache_begin[last] == cache_begin[cpu])
		return 0;
	return deadline_ms_as_ns(p) << (node_begin[last] == node_begin[cpu] ? 1 : 2);
}

/* In 0.467 a CPU that has siblings counts as its own sibling. */
static __always_inline enum distance distance_seen(s32 last, s32 cpu)
{
	enum distance far = distance(last, cpu);
	s32 steps, sibling;

	if (far == SAME_CPU && own_counts_as_sibling) {
		for_each_sibling(steps, sibling, cpu)
			far = SAME_CORE;
	}
	return far;
}

/* Deadline of a task as `cpu` sees it. */
static __noinline u64 effective(struct task_struct *p, u64 deadline, s32 cpu)
{
	s32 last;

	if (bias == BIAS_NONE || (bias == BIAS_ADD && !many_caches))
		return deadline;
	last = scx_bpf_task_cpu(p);
	if (bias == BIAS_ADD)
		return deadline + deadline_bias(p, last, cpu);
	if (bias == BIAS_SHIFT)
		return deadline << distance_seen(last, cpu);
	if (last == cpu || READ_ONCE(cpu_of(last)->sticky) != p->pid)
		return deadline;
	if (bias == BIAS_STICKY_ADD)
		return deadline + ratios[NICE_LEVELS - 1] * deadline_unit_ns;
	return deadline << distance(last, cpu);
}

/* ---- 7: preemption ---- */

/* The CPU picks again. From now on it counts as running the task for which it was kicked. */
static void kick_victim(s32 cpu, u64 key)
{
	WRITE_ONCE(cpu_of(cpu)->key, key);
	kick(cpu, SCX_KICK_PREEMPT);
}

/* Key of the task that runs on `cpu`, with the bias, if `p` could preempt it; 0 if not. */
static __noinline u64 victim_key(struct task_struct *p, s32 cpu, u64 key, u64 latest)
{
	if (bias == BIAS_ADD)
		key -= deadline_bias(p, scx_bpf_task_cpu(p), cpu);
	return key > latest && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !is_refused(p, cpu) ? key : 0;
}

/* Number of CPUs that are compared in one unrolled step. Unused entries of `cpus` have key 0. */
#define AT_ONCE 4

/*
 * The bias never makes a running task's key later. So CPUs whose key is not late enough without it
 * are skipped before it is computed.
 */
static void preempt_latest(struct task_struct *p, struct task *t)
{
	u64 latest = t->key;
	s32 victim = -1;
	int first, i;

	for_range(first, 0, (nr_cpus + AT_ONCE - 1) / AT_ONCE) {
		struct cpu *c = &cpus[first * AT_ONCE & MAX_CPU_MASK & -AT_ONCE];

		/* Keeps one base address with four offsets in place of four addresses. */
		asm volatile("" : "+r"(c));
		#pragma unroll
		for (i = 0; i < AT_ONCE; i++) {
			u64 key = READ_ONCE(c[i].key);

			if (key > latest && (key = victim_key(p, first * AT_ONCE + i, key, latest))) {
				latest = key;
				victim = first * AT_ONCE + i;
			}
		}
	}
	if (victim >= 0)
		kick_victim(victim, t->key);
}

/* ---- Lifecycle of a task, in order ---- */

/*
 * 8: the child takes half of its parent's remaining slice. If that is too short, the parent must
 * stop.
 */
static void split(struct task *t, struct task_struct *parent, u64 now)
{
	struct task *from = task_of(parent);

	if (!from)
		return;
	if (!share(&t->budget, &from->budget, now))
		kick(scx_bpf_task_cpu(parent), SCX_KICK_PREEMPT);
}

SLEEPABLE_OP2(s32, bfs_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	u64 now = now_ns();

	if (!t)
		return -12; /* ENOMEM */
	t->budget.ratio = ratio_of(p->static_prio);
	t->weight = smt_weight(p);
	renew(&t->budget, now);
	if (args->fork) {
		t->child = true;
		split(t, bpf_get_current_task_btf(), now);
	}
	set_key(p, t);
	return 0;
}

/* 6: inserts the task on an idle CPU at once, if there is one. */
OP3(s32, bfs_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	struct task *t = task_of(p);

	if (t && has_to_wait(p, prev_cpu)) {
		t->waits = !scx_bpf_test_and_clear_cpu_idle(prev_cpu);
		if (!t->waits) {
			set_key(p, t);
			dsq_insert(p, SCX_DSQ_LOCAL, t->budget.slice_ns, SCX_ENQ_IMMED);
		}
		return prev_cpu;
	}
	return select_idle_cpu(p, prev_cpu, wake_flags);
}

/* 7, 8: no CPU was idle; finds a task to preempt for `p`, which is already in the queue. */
static void preempt(struct task_struct *p, struct task *t)
{
	struct task_struct *parent = bpf_get_current_task_btf();

	if (t->displaced || t->sync || is_idle_level(p))
		return;
	if (t->child && (child_always_first || parent->mm != p->mm))
		kick(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	else
		preempt_latest(p, t);
}

/*
 * The second search follows the insert, because a CPU that became idle in between has found the
 * queue empty. A claimed CPU is always kicked: if another CPU takes the task first, nothing else
 * would wake the claimed one.
 */
static void enqueue_shared(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 last = scx_bpf_task_cpu(p), cpu;

	if (t->waits) {
		t->waits = false;
		insert_by_level(p, QUEUE_DSQ, &t->budget, enq_flags);
		return begin_to_wait(p, t);
	}
	cpu = t->searched ? -1 : claim_idle_cpu(p, last);
	if (cpu >= 0) {
		dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, t->budget.slice_ns, enq_flags | SCX_ENQ_IMMED);
	} else {
		insert_by_level(p, QUEUE_DSQ, &t->budget, enq_flags);
		cpu = claim_idle_cpu(p, last);
	}
	if (cpu >= 0)
		kick(cpu, SCX_KICK_IDLE);
	else
		preempt(p, t);
}

OP2(void, bfs_enqueue, struct task_struct *, p, u64, enq_flags)
{
	enqueue(p, enq_flags);
}

static __always_inline void begin(struct task_struct *p, struct task *t, s32 cpu, u64 now)
{
	begin_run(t, cpu, now);
	smt_runs(p, t->weight, cpu);
}

/* 3: takes the best task, or lets `prev` continue. */
OP2(void, bfs_dispatch, s32, cpu, struct task_struct *, prev)
{
	u64 now = now_ns(), limit = NO_LIMIT, idle_limit = NO_LIMIT;
	bool stays = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	struct task *t;

	if (!stays || !(t = task_of(prev))) {
		if (!take_by_level(cpu, limit, idle_limit, now))
			smt_idles(cpu);
		return;
	}
	settle(prev, t, now);
	stays = !smt_nice || !is_outweighed(prev, t->weight, cpu);
	if (stays && is_idle_level(prev)) {
		idle_limit = effective(prev, t->budget.deadline, cpu);
	} else if (stays) {
		limit = effective(prev, t->budget.deadline, cpu);
		idle_limit = 0;
	}
	if (take_by_level(cpu, limit, idle_limit, now))
		return;
	if (stays) {
		begin(prev, t, cpu, now);
		task_set_slice(prev, t->budget.slice_ns);
	} else {
		smt_idles(cpu);
	}
}

OP1(void, bfs_running, struct task_struct *, p)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);

	if (!t)
		return;
	count_at(&t->counted_at, cpu);
	t->waits_until = 0;
	note_last_task(cpu, p);
	if (c->sticky == p->pid)
		c->sticky = 0;
	if (t->promoted)
		t->budget.slice_ns = IDLE_SLICE_NS;
	begin(p, t, cpu, now_ns());
}

OP1(void, bfs_tick, struct task_struct *, p)
{
	tick(p);
}

OP2(void, bfs_stopping, struct task_struct *, p, bool, runnable)
{
	struct task *t = task_of(p);
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));

	WRITE_ONCE(c->key, 0);
	if (!t)
		return;
	settle(p, t, now_ns());
	t->displaced = runnable;
	if (runnable)
		c->sticky = p->pid;
}

OP2(void, bfs_set_weight, struct task_struct *, p, u32, weight)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	t->weight = smt_weight(p);
	change_nice(p, t);
}

/* ---- CPUs ---- */

OP2(void, bfs_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	cpu_of(cpu)->sticky = 0;
	reenqueue_local();
}

/* Without these two ops the kernel exits the scheduler at a CPU hotplug event. */
SLEEPABLE_OP1(void, bfs_cpu_online, s32, cpu)
{
	cpu_of(cpu)->key = 0;
	if (!mark_online(cpu))
		scx_restart("CPU %d was offline when bfs was loaded", cpu);
}

OP1(void, bfs_cpu_offline, s32, cpu)
{
	leave_queues(cpu);
	smt_idles(cpu);
}

SLEEPABLE_OP0(s32, bfs_init)
{
	wait_init();
	return make_queues();
}

OP1(void, bfs_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

/* Without SCX_OPS_ENQ_LAST a CPU could not stay idle beside a task that SMT-nice bars from it. */
SCHEDULER(bfs_ops,
	.init_task = (void *)bfs_init_task,
	.select_cpu = (void *)bfs_select_cpu,
	.enqueue = (void *)bfs_enqueue,
	.dispatch = (void *)bfs_dispatch,
	.running = (void *)bfs_running,
	.tick = (void *)bfs_tick,
	.stopping = (void *)bfs_stopping,
	.set_weight = (void *)bfs_set_weight,
	.cpu_release = (void *)bfs_cpu_release,
	.cpu_online = (void *)bfs_cpu_online,
	.cpu_offline = (void *)bfs_cpu_offline,
	.init = (void *)bfs_init,
	.exit = (void *)bfs_exit,
	.flags = SCX_OPS_ENQ_LAST,
	.name = "bfs",
);
