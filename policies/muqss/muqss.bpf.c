/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * muqss: several queues in virtual-deadline order, after Con Kolivas' MuQSS 0.31 (for Linux 7.2,
 * August 2026).
 *
 * 1. Queues ("queues.bpf.h"). `rqshare` sets which CPUs share a queue: none, those of a core, a
 *    package, a cache, a node, or all. A task waits in the queue of the CPU on which it was
 *    enqueued; a running task is in no queue. With one queue for all CPUs this is BFS.
 *
 * 2. Slice and deadline (<weir/deadline.bpf.h>) are those of BFS: a slice of 6 ms of 2^20 ns at all
 *    nice levels, and a deadline by nice. Both are kept until the slice is used up, also across
 *    sleep. The slice does not grow with the number of CPUs.
 *
 * 3. A timer per CPU ends slices to the microsecond; ticks only back it up. So nothing is rounded
 *    to ticks, and tasks get exactly the halves and thirds of a CPU that BFS only approximates.
 *
 * 4. Pick. A CPU takes the earliest deadline of all queues, and among equal deadlines that of the
 *    nearest queue. It reads the best key of each queue, and looks only into queues whose best key
 *    is better than the best task found so far. The task that was running competes too, and loses
 *    against a task with the same deadline. With `interactive` off, only queues that are longer
 *    count.
 *
 * 5. Levels (<weir/idle-level.bpf.h>). SCHED_IDLE tasks run if no other task wants the CPU.
 *    SCHED_BATCH tasks get a new deadline whenever they stop, and preempt only SCHED_IDLE tasks.
 *
 * 6. Placement. A waking task goes to its last CPU if that is idle, otherwise to the idle CPU with
 *    the lowest rank. The rank is the sum of: 1 if the core has no second thread; 2 for the sibling
 *    of the last CPU, 4 for another core below its cache, 8 for another cache of the node, 128 for
 *    another node; 16 if another CPU below the same cache is busy; 64 if the sibling is busy. So a
 *    core below a fully idle cache (8) is better than an idle core below the last CPU's busy cache
 *    (4 + 16). Among equals, the CPU that became idle last wins, because its frequency is still
 *    high. If no CPU is idle, the task goes to the CPU with the fewest tasks, the nearest one among
 *    equals.
 *
 * 7. Preemption. Starting from that CPU, near CPUs first, the first CPU whose running task has a
 *    later deadline is kicked to pick again, with a hint which task to pick. (BFS looks for the
 *    latest deadline of all.) With `interactive` off, a CPU other than the first is kicked only if
 *    it has more tasks. A sync wakeup (the waker is about to sleep) does not preempt on the waker's
 *    CPU.
 *
 * 8. Fork. The child waits on its parent's CPU with half of the parent's remaining slice, and the
 *    parent's deadline. If no CPU is idle, the child runs before its parent, unless it is a thread,
 *    which preempts only by its deadline. If less than 200 us of the slice are left, the parent
 *    must stop.
 *
 * 9. sched_yield depends on `yield_type`: 0 does nothing, 1 makes the CPU pick again, 2 renews
 *    slice and deadline first.
 *
 * 10. A new nice value moves the deadline by the difference, for waiting and running tasks. If the
 *     nice value of a running task increases, its CPU picks again.
 *
 * 11. SMT-nice (<weir/smt-nice.bpf.h>): in three of four slices, a task does not run beside a
 *     sibling whose task has a larger weight. Its own weight depends only on its nice value; that
 *     of the sibling's task counts down with each slice.
 *
 * Where this departs from MuQSS 0.31, and why:
 * - The SCHED_IDLE tasks of all CPUs wait in one queue. The first of them runs for 2 ms before
 *   others, often enough that each runs within about 16 s. In MuQSS they may wait forever, but a
 *   kernel ejects a sched_ext scheduler that lets a task wait for 30 s.
 * - A task for which an idle CPU is found is inserted on that CPU, which counts as busy from then
 *   on. MuQSS only wakes the CPU, and two tasks may choose the same one. For the same reason, a CPU
 *   that was kicked to pick again counts as running the task of its hint.
 * - A queue is never skipped because its lock is held.
 * - Kthreads that are pinned to one CPU wait in a queue of that CPU.
 * - The timer of a CPU that becomes idle is not cancelled: it fires once, without effect.
 * - A package is a node. Directed yield does nothing. There is no SCHED_ISO, and I/O is not
 *   charged.
 * - A sync wakeup of a pinned task preempts: the kernel passes the sync flag only to
 *   ops.select_cpu, which it does not call for such a task.
 *
 * Bugs of MuQSS 0.31 that this does not have:
 * - Deadlines are computed in 32 bits. They wrap for nice 19 from an rr_interval of 52 ms on, and
 *   for nice 0 from 314 ms on.
 * - When a task with a large weight starts to run, each sibling's task is compared with that
 *   sibling itself, so no task with a smaller weight has to stop.
 * - With a CPU offline, a scan visits only as many CPUs as are online, and so misses the farthest
 *   ones.
 */
#include <weir/smt-nice.bpf.h>

LICENSE("GPL");

/* 9 */
enum yield_type { YIELD_NOTHING, YIELD_PICK, YIELD_RENEW };

RODATA u32 yield_type = YIELD_PICK;

/* State of a task. */
struct task {
	struct budget budget;
	u64 key;	/* deadline and level */
	s32 counted_at;	/* CPU whose runqueue counted it when it was last queued, or ran */
	s32 load_at;	/* 6: 1 + the CPU in whose `load` it is counted; 0 while it sleeps */
	u32 weight;	/* 11 */
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
	u64 stopped_at;	/* 6: time at which a task last stopped here, in jiffies */
	u32 load;	/* 6: runnable tasks that were last enqueued or run here */
	s32 hint;	/* 7: pid of the task for which it was kicked */
	bool early;
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

static bool is_refused(struct task_struct *p, s32 cpu);
static u64 idle_order(u32 cpu);

#define IDLE_REFUSED(p, cpu) (is_leaving(cpu) || is_refused(p, cpu))
#define IDLE_ORDER(last, cpu) idle_order(cpu)
#define PICK_REFUSED(p, cpu) is_refused(p, cpu)
#define PICK_BIASED false
#define PICK_SEEN(p, deadline, cpu) (deadline)
#define POLICY_NOW() now_ns()
#define ON_RENEWAL(p, t) ((t)->weight = smt_weight_after_slice(p, (t)->weight))
#define SEVERAL_QUEUES
#define TICKS_DITHER false
#define NICE_MOVES_RUNNING true
#include <weir/one-queue.bpf.h>
#include "queues.bpf.h"

/* 11 */
static bool is_refused(struct task_struct *p, s32 cpu)
{
	return smt_nice && is_outweighed(p, smt_weight(p), cpu);
}

/* 6: the CPU that became idle last comes first; then the lowest number. */
static __always_inline u64 idle_order(u32 cpu)
{
	u64 ago = bpf_jiffies64() - READ_ONCE(cpu_of(cpu)->stopped_at);

	return (ago < 255 ? ago : 255) << 12 | (cpu & MAX_CPU_MASK);
}

/* ---- 3: the timer ---- */

#define TIMER_PINNED 2	/* BPF_F_TIMER_CPU_PIN */
#define TIMER_SAME_NS 5000	/* a timer that is off by less than this is not rearmed */

struct slice_timer {
	struct bpf_timer timer;
	u64 ends_at;	/* 0: not armed */
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, MAX_CPUS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct slice_timer);
} slice_timers SEC(".maps");

/*
 * Timer callback, on the CPU whose slice ends. If the task for which it was armed has left, either
 * the next task has rearmed the timer, or no task runs and its key is 0.
 */
static int end_slice(void *map, u32 *cpu, struct slice_timer *s)
{
	s->ends_at = 0;
	if (READ_ONCE(cpu_of(*cpu)->key))
		kick(*cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* Arms the timer for the task that runs on `cpu`, the current CPU. */
static void arm_timer(u32 cpu, const struct budget *budget, u64 now)
{
	struct slice_timer *s = bpf_map_lookup_elem(&slice_timers, &cpu);
	u64 ends_at = now + budget->slice_ns;

	if (!s || (ends_at < s->ends_at + TIMER_SAME_NS && s->ends_at < ends_at + TIMER_SAME_NS))
		return;
	s->ends_at = ends_at;
	bpf_timer_start(&s->timer, budget->slice_ns, TIMER_PINNED);
}

static __always_inline void timers_init(void)
{
	int cpu;

	for_range(cpu, 0, nr_cpus) {
		u32 key = cpu;
		struct slice_timer *s = bpf_map_lookup_elem(&slice_timers, &key);

		if (!s)
			continue;
		bpf_timer_init(&s->timer, &slice_timers, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&s->timer, end_slice);
	}
}

/* ---- 6: number of tasks per CPU ---- */

static __always_inline void count_load(struct task *t, s32 cpu)
{
	if (t->load_at == cpu + 1)
		return;
	if (t->load_at)
		__sync_fetch_and_add(&cpu_of(t->load_at - 1)->load, -1);
	t->load_at = cpu + 1;
	if (cpu >= 0)
		__sync_fetch_and_add(&cpu_of(cpu)->load, 1);
}

/*
 * The CPU with the fewest tasks, the nearest one among equals. No CPU is idle, so the scan stops at
 * a CPU with one task.
 */
VERIFIED_ONCE s32 find_least_loaded(struct task_struct *p TRUSTED, s32 last)
{
	struct walk *w = walk_here();
	int steps;

	WRITE_ONCE(w->load, ~0U);
	WRITE_ONCE(w->cpu, last);
	for_range(steps, 0, nr_online) {
		s32 cpu = nearby_cpu(last, steps);
		u32 load = READ_ONCE(cpu_of(cpu)->load);

		if (load >= READ_ONCE(w->load) || is_leaving(cpu) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		WRITE_ONCE(w->load, load);
		WRITE_ONCE(w->cpu, cpu);
		if (load <= 1)
			break;
	}
	return READ_ONCE(w->cpu);
}

/* ---- 7: preemption ---- */

/* The CPU picks again. From now on it counts as running the task for which it was kicked. */
static void kick_victim(s32 cpu, u64 key)
{
	WRITE_ONCE(cpu_of(cpu)->key, key);
	kick(cpu, SCX_KICK_PREEMPT);
}

/*
 * First CPU, counted from `target`, whose task has a later key; -1 if there is none. SCHED_BATCH
 * tasks preempt only SCHED_IDLE tasks.
 */
VERIFIED_ONCE s32 find_victim(struct task_struct *p TRUSTED, s32 target, u64 key)
{
	u32 load = READ_ONCE(cpu_of(target)->load);
	u64 least = p->policy == SCHED_BATCH ? IDLE_LEVEL : key;
	int steps;

	for_range(steps, 0, nr_online) {
		s32 cpu = nearby_cpu(target, steps);

		if (READ_ONCE(cpu_of(cpu)->key) <= least || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (steps && !interactive && READ_ONCE(cpu_of(cpu)->load) <= load)
			continue;
		if (!is_refused(p, cpu))
			return cpu;
	}
	return -1;
}

/*
 * 7, 8: no CPU was idle; finds a task to preempt for `p`, which is already in the queue of
 * `target`.
 */
static void preempt(struct task_struct *p, struct task *t, s32 target)
{
	struct task_struct *current = bpf_get_current_task_btf();
	s32 here = bpf_get_smp_processor_id(), victim;

	if (t->displaced || is_idle_level(p) || (t->sync && target == here))
		return;
	if (t->child && current->tgid != p->tgid) {
		kick(here, SCX_KICK_PREEMPT);
		return;
	}
	victim = find_victim(p, target, t->key);
	if (victim < 0)
		return;
	WRITE_ONCE(cpu_of(victim)->hint, p->pid);
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

	if (from && !share(&t->budget, &from->budget, now))
		kick(scx_bpf_task_cpu(parent), SCX_KICK_PREEMPT);
}

SLEEPABLE_OP2(s32, muqss_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
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

/* 6, 8 */
OP3(s32, muqss_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	struct task *t = task_of(p);
	s32 cpu = select_idle_cpu(p, prev_cpu, wake_flags);

	return t && t->searched && !t->child ? find_least_loaded(p, prev_cpu) : cpu;
}

/* The slice of the parent has become shorter, so its timer must be rearmed. */
static __always_inline void rearm_parent(u64 now)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task *from = task_of(parent);
	u32 cpu = bpf_get_smp_processor_id();

	if (!from || !READ_ONCE(cpu_of(cpu)->key))
		return;
	charge(&from->budget, now);
	arm_timer(cpu, &from->budget, now);
}

/*
 * The second search follows the insert, because a CPU that became idle in between has found the
 * queue empty. A claimed CPU is always kicked: if another CPU takes the task first, nothing else
 * would wake the claimed one.
 */
static void enqueue_shared(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 target = scx_bpf_task_cpu(p), cpu = t->searched ? -1 : claim_idle_cpu(p, target);
	u32 queue = queue_of(target);

	if (t->child)
		rearm_parent(now_ns());
	if (cpu >= 0) {
		dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, t->budget.slice_ns, enq_flags);
	} else {
		insert_by_level(p, SHARED_DSQ + queue, &t->budget, enq_flags);
		if (!is_idle_level(p))
			note_key(queue, t->budget.deadline);
		cpu = claim_idle_cpu(p, target);
	}
	if (cpu >= 0)
		kick(cpu, SCX_KICK_IDLE);
	else
		preempt(p, t, target);
}

OP2(void, muqss_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);

	if (t)
		count_load(t, scx_bpf_task_cpu(p));
	enqueue(p, enq_flags);
}

static __always_inline void begin(struct task_struct *p, struct task *t, s32 cpu, u64 now)
{
	begin_run(t, cpu, now);
	arm_timer(cpu, &t->budget, now);
	smt_runs(p, t->weight, cpu);
}

/* 4: `prev` competes if it can continue and SMT-nice permits it. */
OP2(void, muqss_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	u64 now = now_ns(), limit = NO_LIMIT, idle_limit = NO_LIMIT;

	if (t) {
		settle(prev, t, now);
		if (is_refused(prev, cpu))
			t = NULL;
		else if (is_idle_level(prev))
			idle_limit = t->budget.deadline;
		else
			limit = t->budget.deadline, idle_limit = 0;
	}
	if (take_by_level(cpu, limit, idle_limit, now))
		return;
	if (t) {
		begin(prev, t, cpu, now);
		task_set_slice(prev, t->budget.slice_ns);
	} else {
		smt_idles(cpu);
	}
}

OP1(void, muqss_running, struct task_struct *, p)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);

	if (!t)
		return;
	count_at(&t->counted_at, cpu);
	count_load(t, cpu);
	if (t->promoted)
		t->budget.slice_ns = IDLE_SLICE_NS;
	begin(p, t, cpu, now_ns());
}

OP1(void, muqss_tick, struct task_struct *, p)
{
	tick(p);
}

OP2(void, muqss_stopping, struct task_struct *, p, bool, runnable)
{
	struct task *t = task_of(p);
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));

	WRITE_ONCE(c->key, 0);
	c->stopped_at = bpf_jiffies64();
	if (!t)
		return;
	settle(p, t, now_ns());
	t->displaced = runnable;
}

OP2(void, muqss_quiescent, struct task_struct *, p, u64, deq_flags)
{
	struct task *t = task_of(p);

	if (t)
		count_load(t, -1);
}

/* 9: the kernel picks again in any case, but keeps a task that has some of its slice left. */
OP2(bool, muqss_yield, struct task_struct *, from, struct task_struct *, to)
{
	struct task *t = task_of(from);

	if (to || yield_type == YIELD_NOTHING || !t)
		return false;
	if (yield_type == YIELD_RENEW) {
		renew(&t->budget, now_ns());
		t->budget.since = now_ns();
	}
	task_set_slice(from, 0);
	return false;
}

/* 10 */
OP2(void, muqss_set_weight, struct task_struct *, p, u32, weight)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	t->weight = smt_weight(p);
	change_nice(p, t);
}

/* ---- CPUs ---- */

OP2(void, muqss_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	reenqueue_local();
}

/* Without these two ops the kernel exits the scheduler at a CPU hotplug event. */
SLEEPABLE_OP1(void, muqss_cpu_online, s32, cpu)
{
	cpu_of(cpu)->key = 0;
	if (!mark_online(cpu))
		scx_restart("CPU %d was offline when muqss was loaded", cpu);
}

OP1(void, muqss_cpu_offline, s32, cpu)
{
	leave_queues(cpu);
	smt_idles(cpu);
}

SLEEPABLE_OP0(s32, muqss_init)
{
	timers_init();
	return make_queues();
}

OP1(void, muqss_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

/* Without SCX_OPS_ENQ_LAST a CPU could not stay idle beside a task that SMT-nice bars from it. */
SCHEDULER(muqss_ops,
	.init_task = (void *)muqss_init_task,
	.select_cpu = (void *)muqss_select_cpu,
	.enqueue = (void *)muqss_enqueue,
	.dispatch = (void *)muqss_dispatch,
	.running = (void *)muqss_running,
	.tick = (void *)muqss_tick,
	.stopping = (void *)muqss_stopping,
	.quiescent = (void *)muqss_quiescent,
	.yield = (void *)muqss_yield,
	.set_weight = (void *)muqss_set_weight,
	.cpu_release = (void *)muqss_cpu_release,
	.cpu_online = (void *)muqss_cpu_online,
	.cpu_offline = (void *)muqss_cpu_offline,
	.init = (void *)muqss_init,
	.exit = (void *)muqss_exit,
	.flags = SCX_OPS_ENQ_LAST,
	.name = "muqss",
);
