/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bfs: one queue in virtual-deadline order, after Con Kolivas' BFS 0.360 (January 2011).
 *
 * 1. One queue. All tasks that wait stand in a single queue for the whole machine; a task that runs is not in it.
 *    Every CPU sees every task, so latency depends on the load per CPU and on nothing else.
 *
 * 2. Slice and deadline. A task gets a slice of `rr_interval` and, together with it, a virtual deadline:
 *
 *	deadline = now + ratio(nice) * rr_interval * 8192 ns	(1 ms counts as 2^20 ns, so 8192 is 2^20 / 128)
 *
 *    ratio is 128 for nice -20 and grows by 11/10 with every step. Nice levels share one slice; only the deadline
 *    tells them apart. With rr_interval = 6 ms the deadline of nice 0 is 41 ms away, that of nice 19 is 250 ms away.
 *    Both are carried unchanged, also across sleep, until less than 100 us of the slice are left; then both are
 *    renewed. So there is no credit for sleep and nothing to guess: a task that sleeps much simply comes back with the
 *    early deadline that it has not used up. In the 0.360 family rr_interval grows with the CPUs, from 6 ms to 24 ms.
 *
 * 3. Pick: the earliest deadline among the tasks that may run here. The task that ran competes too, behind its equals.
 *
 * 4. Levels. SCHED_IDLE tasks stand behind all others, and SCHED_BATCH tasks get a new deadline whenever they stop.
 *    (Real-time tasks run above sched_ext. The isochronous level has no counterpart in today's kernels.)
 *
 * 5. Tick. A running task ends when less than 100 us of its slice are left. As ticks are coarse, half of the tasks,
 *    those which began in the first half of a tick period, end already when less than half a period is left.
 *
 * 6. Idle CPU. A task that wakes prefers an idle CPU in this order: a whole idle core before one whose sibling works;
 *    then near before far, where its last CPU is nearest, then the sibling, then the other CPUs below the same cache,
 *    then other caches of the node, those with no busy CPU first. A far node comes after all of these.
 *
 * 7. Preemption. If nothing is idle, the running task with the latest deadline of all is looked for among the CPUs that
 *    the woken task may use; if its deadline is later than that of the woken task, its CPU is told to pick again. Only
 *    one CPU is told, and the task stays in the queue: any CPU that comes first may take it. SCHED_IDLE tasks do not
 *    preempt, and a waker that says it is about to sleep is not preempted.
 *
 * 8. Fork. Parent and child share the parent's slice in halves and its deadline: forking gains nothing. The child of a
 *    fork goes first; the new thread of a process does not.
 *
 * 9. A new nice value moves the deadline by the difference. sched_yield only lets the deadlines decide again.
 *
 * Where this departs from BFS, and why:
 * - A task for which an idle CPU is found is given to that CPU, which counts as busy from then on. In BFS the CPU is
 *   only woken and the task stays in the queue. There two tasks that wake within one interrupt's time can choose the
 *   same CPU, or a third task can take it, and the one for which it woke waits while other CPUs idle.
 * - For the same reason a CPU that has been told to pick again counts as running the task for which it was told.
 * - SCHED_IDLE is not a level of its own but 8.6 s behind: a kernel that runs sched_ext ejects a scheduler that leaves
 *   any task waiting for 30 s.
 * - Threads of the kernel that belong to one CPU wait in that CPU's own queue: all other CPUs would only skip them.
 * - BFS 0.360 adds to deadlines of tasks from far CPUs a bias that its unit mistake keeps below 2 us. It is left out.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define MAX_CPUS 4096
#define MAX_CPU_MASK (MAX_CPUS - 1)
#define QUEUE_DSQ 0
#define NOBODY (~0ULL)

#define SLICE_EMPTY_NS 100000		/* 2: less is nothing */
#define FORK_SPLIT_NS 200000		/* 8: less is not worth sharing */
#define IDLE_LEVEL_NS (1ULL << 33)	/* 4: 8.6 s, more than any deadline is away */

/* 6: what is wrong with an idle CPU; the smallest sum is the best CPU. */
#define DIFF_THREAD 1	/* another thread of the last core */
#define DIFF_CORE 2	/* another core below the same cache */
#define CACHE_BUSY 4	/* some CPU below its cache is busy */
#define DIFF_CACHE 8	/* another cache of the same node */
#define THREAD_BUSY 16	/* its sibling is busy */
#define DIFF_NODE 32	/* another node */
#define UNUSABLE 64

/* Set by the launch profile. */
const volatile u32 nr_cpus = 1;	/* highest number + 1 */
const volatile u32 nr_online = 1;
const volatile u32 hz = 250;
const volatile u32 rr_interval_ms = 6;
const volatile bool rr_scaled = true;

/*
 * The machine. cpu_at lists the online CPUs by node, cache and core, so that those below one cache, and those of one
 * node, are neighbours in it; place_of is its inverse, and the others say where in it a CPU's cache and node begin and
 * end. A CPU that was offline when these were made has the place of another.
 */
const volatile u16 cpu_at[MAX_CPUS];
const volatile u16 place_of[MAX_CPUS];
const volatile u16 core_of[MAX_CPUS];
const volatile u16 cache_begin[MAX_CPUS];
const volatile u16 cache_end[MAX_CPUS];
const volatile u16 node_begin[MAX_CPUS];
const volatile u16 node_end[MAX_CPUS];

/* 2: deadline ratios by nice + 20, in 1/128: each is the one before * 11 / 10, rounded down. */
static const u16 ratios[40] = {
	128, 140, 154, 169, 185, 203, 223, 245, 269, 295, 324, 356, 391, 430, 473, 520, 572, 629, 691, 760,
	836, 919, 1010, 1111, 1222, 1344, 1478, 1625, 1787, 1965,
	2161, 2377, 2614, 2875, 3162, 3478, 3825, 4207, 4627, 5089,
};

/* What bfs knows of a task. */
struct task {
	u64 slice_ns;	/* left when it last stopped, or began; scx.slice is not to be trusted: kicks clear it */
	u64 deadline;
	u64 key;	/* deadline and level: its place in the queue */
	u64 since;	/* began to run, or was last charged */
	u32 ratio;
	s32 counted_at;	/* the CPU that the kernel counted it at when it was last queued, or ran */
	bool searched;	/* no CPU was idle a moment ago */
	bool sync;	/* woken by a task that is about to sleep */
	bool displaced;	/* stopped while it could go on */
	bool child;	/* forked, and has not run */
};

TASK_STORAGE(tasks, struct task);

/* What other CPUs may know of a CPU. A cache line each: they are written at every switch. */
struct cpu {
	u64 key;	/* of the task that runs; 0 if nobody runs who could be preempted */
	u64 last_tick;
	bool dither;	/* 5: that task began in the first half of a tick period */
	bool leaving;	/* on its way offline, or there */
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

/* Computed at init. */
u64 rr_slice_ns;	/* rr_interval, of which 1 ms counts as 1024 us in slices */
u64 deadline_unit_ns;	/* rr_interval * 8192 */
u64 half_tick_ns;

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & MAX_CPU_MASK];
}

/*
 * A kick travels through an interrupt that this CPU sends to itself. One that is on its way offline no longer receives
 * it, and the kernel (up to 7.2 at least) then waits for it for ever: no later kick from that CPU would arrive either,
 * and the scheduler could not even be unloaded.
 */
static void kick(s32 cpu, u64 flags)
{
	if (!cpu_of(bpf_get_smp_processor_id())->leaving)
		scx_bpf_kick_cpu(cpu, flags);
}

/*
 * The task is counted at `cpu` from now on. A CPU on its way offline sleeps until no task is counted at it, and looks
 * for that only when it picks a task. One that waits in the queue is counted where it was queued. Another CPU takes it,
 * and must say so, or the first one sleeps for ever (seen in 6.16 to 6.19).
 */
static void count_at(struct task *t, s32 cpu)
{
	s32 before = t->counted_at;

	t->counted_at = cpu;
	if (before != cpu && cpu_of(before)->leaving)
		kick(before, SCX_KICK_IDLE);
}

/* ---- 2: slice and deadline ---- */

static u32 ratio_of(struct task_struct *p)
{
	u32 index = p->static_prio - 100;

	return index < 40 ? ratios[index] : ratios[20];
}

static void renew(struct task *t, u64 now)
{
	t->slice_ns = rr_slice_ns;
	t->deadline = now + t->ratio * deadline_unit_ns;
}

/* 4: the level is a distance that no deadline bridges. It counts from now, or a long sleeper would cross it. */
static u64 key_of(struct task_struct *p, struct task *t, u64 now)
{
	if (p->policy != SCHED_IDLE)
		return t->deadline;
	return (t->deadline > now ? t->deadline : now) + IDLE_LEVEL_NS;
}

/* Takes the time since the last charge from the slice. */
static void charge(struct task *t, u64 now)
{
	u64 used = now > t->since ? now - t->since : 0;

	t->slice_ns -= used < t->slice_ns ? used : t->slice_ns;
	t->since = now;
}

/* The task stops, or would: it is charged, and renewed if its slice is empty. */
static void settle(struct task_struct *p, struct task *t, u64 now)
{
	charge(t, now);
	if (t->slice_ns < SLICE_EMPTY_NS || p->policy == SCHED_BATCH)
		renew(t, now);
	t->key = key_of(p, t, now);
}

/* ---- 6: the idle CPU ---- */

/* The masks that the search reads, and what it has found. */
struct search {
	const struct cpumask *allowed;
	const struct cpumask *idle;	/* CPUs that idle */
	const struct cpumask *free;	/* CPUs of cores that idle as a whole */
	s32 best;
	u32 rank;
};

static __always_inline void consider(struct search *s, s32 cpu, u32 rank)
{
	if (cpu >= 0 && rank < s->rank) {
		s->best = cpu;
		s->rank = rank;
	}
}

/*
 * CPUs below the cache of `last`, beginning with `last`. That cache is not rated: whether it is busy is the same for
 * all of them, and other caches are worse anyhow.
 */
static __always_inline void search_own_cache(struct search *s, s32 last)
{
	u32 end = cache_end[last], count = end - cache_begin[last];
	u32 floor = bpf_cpumask_test_cpu(last, s->allowed) ? DIFF_CORE : DIFF_THREAD;
	int i;

	for_range(i, 0, count) {
		u32 at = place_of[last] + i;
		s32 cpu = cpu_at[(at < end ? at : at - count) & MAX_CPU_MASK];
		u32 rank = cpu == last ? 0 : core_of[cpu & MAX_CPU_MASK] == core_of[last] ? DIFF_THREAD : DIFF_CORE;

		if (!bpf_cpumask_test_cpu(cpu, s->idle) || !bpf_cpumask_test_cpu(cpu, s->allowed))
			continue;
		if (!bpf_cpumask_test_cpu(cpu, s->free))
			rank |= THREAD_BUSY;
		consider(s, cpu, rank);
		if (s->rank <= floor)
			break;
	}
}

/* CPUs at the places `begin` to `end` except those below the cache of `last`, cache by cache; `far` says how far. */
static __always_inline void search_caches(struct search *s, s32 last, u32 begin, u32 end, u32 far)
{
	s32 whole = -1, half = -1;
	u32 busy = 0;
	int at;

	for_range(at, begin, end) {
		u32 cpu = cpu_at[at & MAX_CPU_MASK] & MAX_CPU_MASK;

		if (cache_begin[cpu] == cache_begin[last])
			continue;
		if (!bpf_cpumask_test_cpu(cpu, s->idle))
			busy = CACHE_BUSY;
		else if (!bpf_cpumask_test_cpu(cpu, s->allowed))
			;
		else if (bpf_cpumask_test_cpu(cpu, s->free))
			whole = whole < 0 ? cpu : whole;
		else
			half = half < 0 ? cpu : half;
		if (at + 1 < cache_end[cpu])
			continue;
		consider(s, whole, far | busy);
		consider(s, half, far | CACHE_BUSY | THREAD_BUSY);
		if (s->rank <= far)
			break;
		whole = half = -1;
		busy = 0;
	}
}

/* The best idle CPU for `p`, now claimed; -1 if there is none. */
static __noinline s32 claim_idle_cpu(struct task_struct *p, s32 last)
{
	struct search s = { .allowed = p->cpus_ptr, .best = -1, .rank = UNUSABLE };

	last &= MAX_CPU_MASK;
	s.idle = scx_bpf_get_idle_cpumask();
	s.free = scx_bpf_get_idle_smtmask();
	if (bpf_cpumask_test_cpu(last, s.free) && bpf_cpumask_test_cpu(last, s.allowed)) {
		s.best = last;
	} else if (bpf_cpumask_intersects(s.idle, s.allowed)) {
		search_own_cache(&s, last);
		if (s.rank > DIFF_CACHE)
			search_caches(&s, last, node_begin[last], node_end[last], DIFF_CACHE);
		if (s.rank > DIFF_NODE) {
			search_caches(&s, last, 0, node_begin[last], DIFF_NODE);
			search_caches(&s, last, node_end[last], nr_online, DIFF_NODE);
		}
	}
	scx_bpf_put_idle_cpumask(s.free);
	scx_bpf_put_idle_cpumask(s.idle);
	return s.best >= 0 && scx_bpf_test_and_clear_cpu_idle(s.best) ? s.best : -1;
}

/* ---- 7: preemption ---- */

static void pick_again(s32 cpu, u64 key)
{
	WRITE_ONCE(cpu_of(cpu)->key, key);
	kick(cpu, SCX_KICK_PREEMPT);
}

static void preempt_latest(struct task_struct *p, struct task *t)
{
	u64 latest = t->key;
	s32 victim = -1;
	int cpu;

	for_range(cpu, 0, nr_cpus) {
		u64 key = READ_ONCE(cpu_of(cpu)->key);

		if (key > latest && bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			latest = key;
			victim = cpu;
		}
	}
	if (victim >= 0)
		pick_again(victim, t->key);
}

/* ---- The life of a task, in order ---- */

/* 8: the child takes half of what its parent has left, or, if that is too little, the parent has to stop. */
static void split(struct task *t, struct task_struct *parent, u64 now)
{
	struct task *from = task_of(parent);

	if (!from)
		return;
	charge(from, now);
	if (from->slice_ns >= FORK_SPLIT_NS) {
		t->slice_ns = from->slice_ns /= 2;
		t->deadline = from->deadline;
	} else {
		from->slice_ns = 0;
		kick(scx_bpf_task_cpu(parent), SCX_KICK_PREEMPT);
	}
}

SLEEPABLE_OP2(s32, bfs_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	u64 now = now_ns();

	if (!t)
		return -12; /* ENOMEM */
	t->ratio = ratio_of(p);
	renew(t, now);
	if (args->fork) {
		t->child = true;
		split(t, bpf_get_current_task_btf(), now);
	}
	t->key = key_of(p, t, now);
	return 0;
}

/* 6: to the idle CPU at once, if there is one. */
OP3(s32, bfs_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	struct task *t = task_of(p);
	s32 cpu = claim_idle_cpu(p, prev_cpu);

	if (!t)
		return prev_cpu;
	t->searched = cpu < 0;
	t->sync = wake_flags & SCX_WAKE_SYNC;
	if (cpu < 0)
		return prev_cpu;
	t->key = key_of(p, t, now_ns());
	dsq_insert(p, SCX_DSQ_LOCAL, t->slice_ns, 0);
	return cpu;
}

/* A thread of the kernel that belongs to one CPU: that CPU's own queue, by the same rule of preemption. */
static void enqueue_local(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	dsq_insert(p, SCX_DSQ_LOCAL, t->slice_ns, enq_flags);
	if (READ_ONCE(cpu_of(cpu)->key) > t->key)
		pick_again(cpu, t->key);
}

/* 7, 8: nothing idles, so who shall make way for a task that has just been put into the queue? */
static void preempt(struct task_struct *p, struct task *t)
{
	struct task_struct *parent = bpf_get_current_task_btf();

	if (t->displaced || t->sync || p->policy == SCHED_IDLE)
		return;
	if (t->child && parent->tgid != p->tgid)
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
	s32 last = scx_bpf_task_cpu(p), cpu = t->searched ? -1 : claim_idle_cpu(p, last);

	if (cpu >= 0) {
		dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, t->slice_ns, enq_flags);
	} else {
		dsq_insert_by_key(p, QUEUE_DSQ, t->slice_ns, t->key, enq_flags);
		cpu = claim_idle_cpu(p, last);
	}
	if (cpu >= 0)
		kick(cpu, SCX_KICK_IDLE);
	else
		preempt(p, t);
}

OP2(void, bfs_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);

	if (!t) {
		scx_error("task %d has no storage", p->pid);
		return;
	}
	count_at(t, scx_bpf_task_cpu(p));
	t->key = key_of(p, t, now_ns());
	if ((p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1)
		enqueue_local(p, t, enq_flags);
	else
		enqueue_shared(p, t, enq_flags);
	t->searched = t->sync = t->displaced = t->child = false;
}

/* ---- 3: pick ---- */

/* The earliest key among the tasks in the queue that may run on `cpu`. */
static u64 earliest_key(s32 cpu)
{
	struct task_struct *p;

	if (scx_bpf_dsq_nr_queued(QUEUE_DSQ) == 0)
		return NOBODY;
	for_each_queued(p, QUEUE_DSQ) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return p->scx.dsq_vtime;
	}
	return NOBODY;
}

/* `p` begins, or goes on with what it has left. */
static void begin(struct task *t, s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);

	t->since = now;
	t->displaced = t->child = false;
	c->dither = now - c->last_tick <= half_tick_ns;
	WRITE_ONCE(c->key, t->key);
}

OP2(void, bfs_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t;
	u64 now;

	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED) || !(t = task_of(prev))) {
		dsq_move_to_local(QUEUE_DSQ);
		return;
	}
	now = now_ns();
	settle(prev, t, now);
	if (earliest_key(cpu) <= t->key && dsq_move_to_local(QUEUE_DSQ))
		return;
	begin(t, cpu, now);
	task_set_slice(prev, t->slice_ns);
}

OP1(void, bfs_running, struct task_struct *, p)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);

	if (!t)
		return;
	count_at(t, cpu);
	begin(t, cpu, now_ns());
}

/* 5: the kernel looks at the slice after this. */
OP1(void, bfs_tick, struct task_struct *, p)
{
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));
	struct task *t = task_of(p);
	u64 now = now_ns();

	c->last_tick = now;
	if (!t)
		return;
	charge(t, now);
	if (t->slice_ns < (c->dither ? half_tick_ns : SLICE_EMPTY_NS)) {
		t->slice_ns = 0;
		task_set_slice(p, 0);
	}
}

OP2(void, bfs_stopping, struct task_struct *, p, bool, runnable)
{
	struct task *t = task_of(p);

	WRITE_ONCE(cpu_of(scx_bpf_task_cpu(p))->key, 0);
	if (!t)
		return;
	settle(p, t, now_ns());
	t->displaced = runnable;
}

/* 9: the kernel queues a waiting task anew after this; a running one may have to go. */
OP2(void, bfs_set_weight, struct task_struct *, p, u32, weight)
{
	struct task *t = task_of(p);
	u32 ratio = ratio_of(p);
	bool worse;

	if (!t)
		return;
	worse = ratio > t->ratio;
	t->deadline += ((s64)ratio - t->ratio) * (s64)deadline_unit_ns;
	t->ratio = ratio;
	t->key = key_of(p, t, now_ns());
	if (worse && scx_bpf_task_running(p))
		kick(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
}

/* ---- The machine ---- */

/* A task of a higher class takes the CPU: what waits for this CPU alone is put back, so that others can take it. */
OP2(void, bfs_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	if (KERNEL_HAS(scx_bpf_reenqueue_local___v1))
		scx_bpf_reenqueue_local___v1();
}

/*
 * Without these two the kernel ejects the scheduler when a CPU comes or goes. A CPU that comes and that the tables do not
 * know would never be found idle.
 */
SLEEPABLE_OP1(void, bfs_cpu_online, s32, cpu)
{
	if (cpu >= nr_cpus || cpu_at[place_of[cpu & MAX_CPU_MASK] & MAX_CPU_MASK] != cpu)
		scx_restart("CPU %d was offline when bfs was loaded", cpu);
	cpu_of(cpu)->key = 0;
	cpu_of(cpu)->leaving = false;
}

/*
 * A CPU on its way offline must give away the tasks that are counted at it, but kernels without "Fix CPU hotplug hang
 * when a dying CPU's tasks sit in the BPF scheduler" (in 6.12 since 6.12.114) no longer let it look into the queue. No
 * other CPU can take a task that may run on this one alone, so it would never go. It still looks into the kernel's
 * own queue.
 */
OP1(void, bfs_cpu_offline, s32, cpu)
{
	struct task_struct *p;

	cpu_of(cpu)->key = 0;
	cpu_of(cpu)->leaving = true;
	for_each_queued(p, QUEUE_DSQ) {
		if (scx_bpf_task_cpu(p) == cpu)
			dsq_move(&p_it, p, SCX_DSQ_GLOBAL);
	}
}

SLEEPABLE_OP0(s32, bfs_init)
{
	u32 ms = rr_scaled ? rr_interval_ms * (4 * nr_online + 4) / (nr_online + 6) : rr_interval_ms;

	rr_slice_ns = (u64)ms * 1024000;
	deadline_unit_ns = (u64)ms * 8192;
	half_tick_ns = 500000000 / hz;
	return scx_bpf_create_dsq(QUEUE_DSQ, -1);
}

OP1(void, bfs_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

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
	.name = "bfs",
);
