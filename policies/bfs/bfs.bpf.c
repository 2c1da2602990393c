/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bfs: one queue in virtual-deadline order, after Con Kolivas' BFS 0.357 (2010) to 0.467 (2015).
 *
 * 1. One queue (<weir/one-queue.bpf.h>). All tasks that wait stand in a single queue for the whole machine; a task that
 *    runs is not in it. Every CPU sees every task, so latency depends on the load per CPU and on nothing else.
 *
 * 2. Slice and deadline (<weir/deadline.bpf.h>). A task gets a slice and a virtual deadline together, and uses both up
 *    together. Nice levels share one slice of 6 ms; only the deadline tells them apart: 41 ms away for nice 0, 250 ms
 *    for nice 19. There is no credit for sleep and nothing to guess: a task that sleeps much simply comes back with the
 *    early deadline that it has not used up.
 *
 * 3. Pick: the earliest deadline among the tasks that may run here. The task that ran competes too, behind its equals.
 *
 * 4. Levels (<weir/idle-level.bpf.h>). SCHED_IDLE tasks run if no other task wants the CPU. SCHED_BATCH tasks get a
 *    new deadline whenever they stop. (Real-time tasks run above sched_ext. The isochronous level has no counterpart in
 *    today's kernels.)
 *
 * 5. Tick. A running task ends when its slice is empty, half of the tasks half a tick period early.
 *
 * 6. Idle CPU (<weir/idle.bpf.h>). A task that wakes prefers an idle CPU: a whole idle core before one whose sibling
 *    works; then near before far; a far node comes after all of these. A task that another displaced looks for one too.
 *
 * 7. Preemption. If nothing is idle, the running task with the latest deadline of all is looked for among the CPUs that
 *    the woken task may use; if its deadline is later than that of the woken task, its CPU is told to pick again. Only
 *    one CPU is told, and the task stays in the queue: any CPU that comes first may take it. SCHED_IDLE tasks do not
 *    preempt, and a waker that says it is about to sleep is not preempted.
 *
 * 8. Fork. Parent and child share the parent's slice in halves and its deadline: forking gains nothing. The child goes
 *    first; up to 0.360 only if it has memory of its own, so neither a thread nor a vfork.
 *
 * 9. A new nice value moves the deadline of a task that waits by the difference. One that runs keeps its deadline until
 *    it is renewed, but picks again if the value is worse. sched_yield only lets the deadlines decide again.
 *
 * 10. Locality. The versions differ in what a CPU thinks of tasks that ran elsewhere last:
 *     - up to 0.360 their deadlines count as later by as many nanoseconds as their whole turn has milliseconds, shifted
 *       by the distance: at most 3.8 us, for the shift was meant to double and quadruple it;
 *     - in 0.41x and until 0.465 this is about the sticky task of each CPU, the last that had to stop while it could go
 *       on. Other CPUs see its deadline later by the longest turn (0.41x), or shifted by the distance (0.440);
 *     - in 0.466, and 0.467 if it is not interactive, the deadlines of all tasks are shifted by the distance. As a
 *       deadline is a time since boot, that is an order: near tasks first, and the deadline only among equals;
 *     - in 0.467, if it is interactive, as it is shipped, deadlines are what they are.
 *
 * 11. SMT-nice (since about 0.460). A task does not run beside a sibling whose task has more weight, by nice; three times
 *     out of four.
 *
 * Where this departs from BFS, and why:
 * - A task for which an idle CPU is found is given to that CPU, which counts as busy from then on. In BFS the CPU is
 *   only woken and the task stays in the queue. There two tasks that wake within one interrupt's time can choose the
 *   same CPU, or a third task can take it, and the one for which it woke waits while other CPUs idle.
 * - For the same reason a CPU that has been told to pick again counts as running the task for which it was told.
 * - A kernel that runs sched_ext ejects a scheduler that leaves any task waiting for 30 s. So the first SCHED_IDLE task
 *   that waits runs for 2 ms before others, one at a time, and so often that each has its turn within 16 s or so.
 * - Threads of the kernel that belong to one CPU wait in a queue of that CPU, in the same order: the pick compares the
 *   heads of both. All other CPUs would only skip them.
 * - A sync wakeup of a task that may use one CPU preempts: the kernel does not ask where such a task shall run, and
 *   tells who wakes it only there.
 * - Nothing tells that a CPU runs slowly: no governor slows it down behind the back of a scheduler of sched_ext.
 */
#include <weir/smt-nice.bpf.h>

LICENSE("GPL");

/* 10: what a CPU thinks of tasks from elsewhere. */
#define BIAS_NONE 0
#define BIAS_TURN 1	/* all tasks: + their turn in ms, as ns, shifted by distance */
#define BIAS_STICKY_ADD 2	/* sticky tasks: + the longest turn */
#define BIAS_STICKY_SHIFT 3	/* sticky tasks: shifted by distance */
#define BIAS_SHIFT 4	/* all tasks: shifted by distance */

/* Set by the preset. */
RODATA u32 bias = BIAS_TURN;
RODATA bool own_counts_as_sibling = false;	/* 0.467 sees its own threads as far as its siblings, by mistake */
RODATA bool child_always_first = false;
RODATA u32 wait_us = 0;	/* <weir/wait.bpf.h> */

/* What bfs knows of a task. */
struct task {
	struct turn turn;
	u64 key;	/* deadline and level */
	s32 counted_at;	/* the CPU that the kernel counted it at when it was last queued, or ran */
	u32 weight;	/* 11 */
	u64 waits_until;
	bool waits;	/* for its last CPU: <weir/wait.bpf.h> */
	bool searched;	/* no CPU was idle a moment ago */
	bool sync;	/* woken by a task that is about to sleep */
	bool displaced;	/* stopped while it could go on */
	bool child;	/* forked, and has not run */
	bool promoted;	/* of SCHED_IDLE, and runs before others */
};

TASK_STORAGE(tasks, struct task);

/* What other CPUs may know of a CPU. A cache line each: they are written at every switch. */
struct cpu {
	u64 key;	/* of the task that runs; 0 if nobody runs who could be preempted */
	u64 last_tick;
	s32 sticky;	/* 10: the task's number */
	bool early;	/* 5: that task began in the first half of a tick period */
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

static bool is_refused(struct task_struct *p, s32 cpu);
static bool waits(struct task_struct *p, s32 cpu);
static u64 effective(struct task_struct *p, u64 deadline, s32 cpu);

/* The kernel goes on to call a CPU idle that has left. */
#define IDLE_REFUSED(p, cpu) (is_leaving(cpu) || is_refused(p, cpu))
#define IDLE_IN_SLEEPABLE (wait_us != 0)
#define PICK_REFUSED(p, cpu) (is_refused(p, cpu) || waits(p, cpu))
/* A turn is added between caches only. */
#define PICK_BIASED (bias == BIAS_TURN ? many_caches : bias != BIAS_NONE)
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

/* A task's turn in ms, as ns. */
static __always_inline u64 turn_ns(struct task_struct *p)
{
	return ratio_of(p->static_prio) * rr_ms / 128;
}

/* What is added to deadlines of tasks that are farther than one cache. */
static __always_inline u64 turn_bias(struct task_struct *p, s32 last, s32 cpu)
{
	last &= MAX_CPU_MASK;
	cpu &= MAX_CPU_MASK;
	if (cache_begin[last] == cache_begin[cpu])
		return 0;
	return turn_ns(p) << (node_begin[last] == node_begin[cpu] ? 1 : 2);
}

/* 0.467 counts each CPU among its own siblings, if it has any. */
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

/* A task's deadline as `cpu` sees it. */
static __noinline u64 effective(struct task_struct *p, u64 deadline, s32 cpu)
{
	s32 last;

	if (bias == BIAS_NONE || (bias == BIAS_TURN && !many_caches))
		return deadline;
	last = scx_bpf_task_cpu(p);
	if (bias == BIAS_TURN)
		return deadline + turn_bias(p, last, cpu);
	if (bias == BIAS_SHIFT)
		return deadline << distance_seen(last, cpu);
	if (last == cpu || READ_ONCE(cpu_of(last)->sticky) != p->pid)
		return deadline;
	if (bias == BIAS_STICKY_ADD)
		return deadline + ratios[NICE_LEVELS - 1] * deadline_unit_ns;
	return deadline << distance(last, cpu);
}

/* ---- 7: preemption ---- */

/* The CPU picks again, and counts as running the task for which it was told. */
static void tell_victim(s32 cpu, u64 key)
{
	WRITE_ONCE(cpu_of(cpu)->key, key);
	kick(cpu, SCX_KICK_PREEMPT);
}

/* The key of the task that runs on `cpu`, with its bias, if `p` could preempt it; 0 if not. */
static __noinline u64 victim_key(struct task_struct *p, s32 cpu, u64 key, u64 latest)
{
	if (bias == BIAS_TURN)
		key -= turn_bias(p, scx_bpf_task_cpu(p), cpu);
	return key > latest && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !is_refused(p, cpu) ? key : 0;
}

/* CPUs at a time: most keys are not later, and that is all there is to a CPU then. There are none behind the last one. */
#define AT_ONCE 4

/* The bias never makes a running task later, so who is not late without it is passed over first. */
static void preempt_latest(struct task_struct *p, struct task *t)
{
	u64 latest = t->key;
	s32 victim = -1;
	int first, i;

	for_range(first, 0, (nr_cpus + AT_ONCE - 1) / AT_ONCE) {
		struct cpu *c = &cpus[first * AT_ONCE & MAX_CPU_MASK & -AT_ONCE];

		/* One address with four offsets, instead of four addresses. */
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
		tell_victim(victim, t->key);
}

/* ---- The life of a task, in order ---- */

/* 8: the child takes half of what its parent has left, or, if that is too little, the parent has to stop. */
static void split(struct task *t, struct task_struct *parent, u64 now)
{
	struct task *from = task_of(parent);

	if (!from)
		return;
	if (!share(&t->turn, &from->turn, now))
		kick(scx_bpf_task_cpu(parent), SCX_KICK_PREEMPT);
}

SLEEPABLE_OP2(s32, bfs_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	u64 now = now_ns();

	if (!t)
		return -12; /* ENOMEM */
	t->turn.ratio = ratio_of(p->static_prio);
	t->weight = smt_weight(p);
	renew(&t->turn, now);
	if (args->fork) {
		t->child = true;
		split(t, bpf_get_current_task_btf(), now);
	}
	set_key(p, t);
	return 0;
}

/* 6: to the idle CPU at once, if there is one. */
OP3(s32, bfs_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	struct task *t = task_of(p);

	if (t && has_to_wait(p, prev_cpu)) {
		t->waits = !scx_bpf_test_and_clear_cpu_idle(prev_cpu);
		if (!t->waits) {
			set_key(p, t);
			dsq_insert(p, SCX_DSQ_LOCAL, t->turn.slice_ns, SCX_ENQ_IMMED);
		}
		return prev_cpu;
	}
	return select_idle_cpu(p, prev_cpu, wake_flags);
}

/* 7, 8: nothing idles, so who shall make way for a task that has just been put into the queue? */
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
 * The second search comes after the insert: a CPU that began to idle in between has found the queue empty. A CPU that
 * has been claimed is kicked in any case: if its task is taken away before it comes, nothing else would wake it.
 */
static void enqueue_shared(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 last = scx_bpf_task_cpu(p), cpu;

	if (t->waits) {
		t->waits = false;
		insert_by_level(p, QUEUE_DSQ, &t->turn, enq_flags);
		return begin_to_wait(p, t);
	}
	cpu = t->searched ? -1 : claim_idle_cpu(p, last);
	if (cpu >= 0) {
		dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, t->turn.slice_ns, enq_flags | SCX_ENQ_IMMED);
	} else {
		insert_by_level(p, QUEUE_DSQ, &t->turn, enq_flags);
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
	begin_turn(t, cpu, now);
	smt_runs(p, t->weight, cpu);
}

/* 3 */
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
		idle_limit = effective(prev, t->turn.deadline, cpu);
	} else if (stays) {
		limit = effective(prev, t->turn.deadline, cpu);
		idle_limit = 0;
	}
	if (take_by_level(cpu, limit, idle_limit, now))
		return;
	if (stays) {
		begin(prev, t, cpu, now);
		task_set_slice(prev, t->turn.slice_ns);
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
		t->turn.slice_ns = IDLE_TURN_NS;
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

/* ---- The machine ---- */

OP2(void, bfs_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	cpu_of(cpu)->sticky = 0;
	put_local_back();
}

/* Without these two the kernel ejects the scheduler when a CPU comes or goes. */
SLEEPABLE_OP1(void, bfs_cpu_online, s32, cpu)
{
	cpu_of(cpu)->key = 0;
	if (!cpu_comes(cpu))
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

/* Without the flag a CPU cannot idle beside a task that SMT-nice keeps from it. */
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
