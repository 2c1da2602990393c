/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * muqss: several queues in virtual-deadline order, after Con Kolivas' MuQSS 0.31 (for Linux 7.2, August 2026).
 *
 * 1. Queues ("queues.bpf.h"). CPUs share a queue by `rqshare`: each has its own, or those of a core, a package, a cache, a
 *    node, or all of them. A task waits in the queue of the CPU where it was put; one that runs is in none. With one queue
 *    for all this is BFS.
 *
 * 2. Slice and deadline (<weir/deadline.bpf.h>), as in BFS: 6 ms of 2^20 ns for every nice level, and a deadline by nice.
 *    Both are kept until the slice is used up, also across sleep. 6 ms are never scaled.
 *
 * 3. A timer for each CPU ends slices, to the microsecond; ticks only come to its help. So nothing is rounded to ticks,
 *    and the halves and thirds that BFS shares CPUs in come out exactly.
 *
 * 4. Pick. A CPU takes the earliest deadline of all queues, near queues first among equals. It reads the best key of each
 *    queue and looks only into those that are better than what it has. The task that ran competes too, behind its
 *    equals. With `interactive` off only longer queues count.
 *
 * 5. Levels (<weir/idle-level.bpf.h>). SCHED_IDLE tasks run if no other task wants the CPU. SCHED_BATCH tasks get a new
 *    deadline whenever they stop, and preempt nobody of their level.
 *
 * 6. Placement. A task that wakes goes to its last CPU if that idles. Else to the idle CPU with the lowest rank: 1 if its
 *    core has no second thread, 2 the sibling of the last CPU, 4 another core below its cache, 8 another cache of the node,
 *    16 if others below that cache are busy, 64 if its sibling is, 128 another node. So an idle core below a cache that
 *    idles as a whole (8) is better than one beside the last CPU (4 + 16). Of equals the one that began to idle last, which is
 *    still clocked up. If nothing idles, to the CPU that counts the fewest tasks, the nearest of those.
 *
 * 7. Preemption. From that CPU on, near before far, the first CPU whose task has a later deadline is told to pick again, and
 *    which task it is for. (BFS looks for the latest of all.) With `interactive` off other CPUs are only told if they count
 *    more tasks. A waker that is about to sleep is not preempted on its own CPU.
 *
 * 8. Fork. The child waits on its parent's CPU and gets half of its slice, and its deadline. If no CPU idles for it, it
 *    goes before its parent, unless it is a thread: that preempts by its deadline. If less than 200 us are left, the parent
 *    has to stop.
 *
 * 9. sched_yield, by `yield_type`: 0 does nothing, 1 lets the deadlines decide again, 2 has a new turn begin first.
 *
 * 10. A new nice value moves the deadline by the difference, whether the task waits or runs. Who becomes worse picks again.
 *
 * 11. SMT-nice (<weir/smt-nice.bpf.h>): a task does not run beside a sibling whose task has more weight, three times out
 *     of four. What it weighs itself is told by its nice value alone, what its sibling weighs counts down with each slice.
 *
 * Where this departs from MuQSS 0.31, and why:
 * - SCHED_IDLE tasks of all CPUs wait in one queue, and the first of them runs for 2 ms before others, so often that each has
 *   its turn within 16 s or so. In MuQSS they may wait for ever; a kernel ejects a scheduler of sched_ext after 30 s.
 * - An idle CPU that is found is given the task, and counts as busy from then on. MuQSS only wakes it, and two tasks may
 *   choose the same one. For the same reason a CPU that was told to pick again counts as running the task it was told of.
 * - Other queues are never skipped because somebody has their lock.
 * - Threads of the kernel that belong to one CPU wait in a queue of that CPU.
 * - The timer of a CPU that begins to idle is not taken back: it fires once, for nobody.
 * - A package is a node. Yielding to a task does nothing. There is no isochronous class, and no charge for I/O.
 * - A sync wakeup of a task that may use one CPU preempts: the kernel tells of it only where a CPU is chosen.
 *
 * What is wrong in its source, and not so here:
 * - Deadlines are computed in 32 bits, and wrap for nice 19 from an rr_interval of 52 ms on, for nice 0 from 314.
 * - When a heavy task begins, it compares each sibling's task with that sibling itself, so no light one has to stop at once.
 * - With a CPU offline it looks only at as many CPUs as are online, and so not at the farthest ones.
 */
#include <weir/smt-nice.bpf.h>

LICENSE("GPL");

/* 9 */
enum yield_type { YIELD_NOTHING, YIELD_PICK, YIELD_RENEW };

RODATA u32 yield_type = YIELD_PICK;

/* What muqss knows of a task. */
struct task {
	struct turn turn;
	u64 key;	/* deadline and level */
	s32 counted_at;	/* the CPU that the kernel counted it at when it was last queued, or ran */
	s32 load_at;	/* 6: the CPU that counts it, + 1; 0 while it sleeps */
	u32 weight;	/* 11 */
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
	u64 stopped_at;	/* 6: when somebody last stopped here, in ticks */
	u32 load;	/* 6: tasks that wait or run and were put here last */
	s32 hint;	/* 7: for whom it was told to pick again */
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

/* 6: who began to idle last is the first, and then the lowest number. */
static __always_inline u64 idle_order(u32 cpu)
{
	u64 ago = bpf_jiffies64() - READ_ONCE(cpu_of(cpu)->stopped_at);

	return (ago < 255 ? ago : 255) << 12 | (cpu & MAX_CPU_MASK);
}

/* ---- 3: the timer ---- */

#define TIMER_PINNED 2	/* BPF_F_TIMER_CPU_PIN */
#define TIMER_SAME_NS 5000	/* one that is so near is left alone */

struct slice_timer {
	struct bpf_timer timer;
	u64 ends_at;	/* 0: it is not armed */
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, MAX_CPUS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct slice_timer);
} slice_timers SEC(".maps");

/* On the CPU whose slice ends. Who ran when it was armed may have left: who came then has armed it anew, or nobody came. */
static int end_slice(void *map, u32 *cpu, struct slice_timer *s)
{
	s->ends_at = 0;
	if (READ_ONCE(cpu_of(*cpu)->key))
		kick(*cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* For the task that runs on this CPU, `cpu`. */
static void arm_timer(u32 cpu, const struct turn *turn, u64 now)
{
	struct slice_timer *s = bpf_map_lookup_elem(&slice_timers, &cpu);
	u64 ends_at = now + turn->slice_ns;

	if (!s || (ends_at < s->ends_at + TIMER_SAME_NS && s->ends_at < ends_at + TIMER_SAME_NS))
		return;
	s->ends_at = ends_at;
	bpf_timer_start(&s->timer, turn->slice_ns, TIMER_PINNED);
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

/* ---- 6: where a task is counted ---- */

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

/* The CPU that counts the fewest tasks, the nearest of those. Nobody idles, so one is as few as there can be. */
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

/* The CPU picks again, and counts as running the task for which it was told. */
static void tell_victim(s32 cpu, u64 key)
{
	WRITE_ONCE(cpu_of(cpu)->key, key);
	kick(cpu, SCX_KICK_PREEMPT);
}

/* The first CPU, counted from `target`, whose task is later than `key`. SCHED_BATCH is earlier than SCHED_IDLE only. */
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

/* 7, 8: nothing idles, so who shall make way for a task that has just been put into the queue of `target`? */
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
	tell_victim(victim, t->key);
}

/* ---- The life of a task, in order ---- */

/* 8: the child takes half of what its parent has left, or, if that is too little, the parent has to stop. */
static void split(struct task *t, struct task_struct *parent, u64 now)
{
	struct task *from = task_of(parent);

	if (from && !share(&t->turn, &from->turn, now))
		kick(scx_bpf_task_cpu(parent), SCX_KICK_PREEMPT);
}

SLEEPABLE_OP2(s32, muqss_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
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

/* 6, 8 */
OP3(s32, muqss_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	struct task *t = task_of(p);
	s32 cpu = select_idle_cpu(p, prev_cpu, wake_flags);

	return t && t->searched && !t->child ? find_least_loaded(p, prev_cpu) : cpu;
}

/* The slice of a parent has become shorter: its timer shall know. */
static __always_inline void rearm_parent(u64 now)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task *from = task_of(parent);
	u32 cpu = bpf_get_smp_processor_id();

	if (!from || !READ_ONCE(cpu_of(cpu)->key))
		return;
	charge(&from->turn, now);
	arm_timer(cpu, &from->turn, now);
}

/*
 * The second search comes after the insert: a CPU that began to idle in between has found the queue empty. A CPU that
 * has been claimed is kicked in any case: if its task is taken away before it comes, nothing else would wake it.
 */
static void enqueue_shared(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 target = scx_bpf_task_cpu(p), cpu = t->searched ? -1 : claim_idle_cpu(p, target);
	u32 queue = queue_of(target);

	if (t->child)
		rearm_parent(now_ns());
	if (cpu >= 0) {
		dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, t->turn.slice_ns, enq_flags);
	} else {
		insert_by_level(p, SHARED_DSQ + queue, &t->turn, enq_flags);
		if (!is_idle_level(p))
			note_key(queue, t->turn.deadline);
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
	begin_turn(t, cpu, now);
	arm_timer(cpu, &t->turn, now);
	smt_runs(p, t->weight, cpu);
}

/* 4: `prev` competes if it can go on and SMT-nice lets it. */
OP2(void, muqss_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	u64 now = now_ns(), limit = NO_LIMIT, idle_limit = NO_LIMIT;

	if (t) {
		settle(prev, t, now);
		if (is_refused(prev, cpu))
			t = NULL;
		else if (is_idle_level(prev))
			idle_limit = t->turn.deadline;
		else
			limit = t->turn.deadline, idle_limit = 0;
	}
	if (take_by_level(cpu, limit, idle_limit, now))
		return;
	if (t) {
		begin(prev, t, cpu, now);
		task_set_slice(prev, t->turn.slice_ns);
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
		t->turn.slice_ns = IDLE_TURN_NS;
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

/* 9: the kernel asks for a pick in any case, which keeps a task that has some of its slice left. */
OP2(bool, muqss_yield, struct task_struct *, from, struct task_struct *, to)
{
	struct task *t = task_of(from);

	if (to || yield_type == YIELD_NOTHING || !t)
		return false;
	if (yield_type == YIELD_RENEW) {
		renew(&t->turn, now_ns());
		t->turn.since = now_ns();
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

/* ---- The machine ---- */

OP2(void, muqss_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	put_local_back();
}

/* Without these two the kernel ejects the scheduler when a CPU comes or goes. */
SLEEPABLE_OP1(void, muqss_cpu_online, s32, cpu)
{
	cpu_of(cpu)->key = 0;
	if (!cpu_comes(cpu))
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

/* Without the flag a CPU cannot idle beside a task that SMT-nice keeps from it. */
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
