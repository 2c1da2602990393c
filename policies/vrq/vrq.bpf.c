/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vrq: BFS with tasks that are handed over and tasks that are cached, after Alfred Chen's VRQ 0.4 to 4.3 (2015).
 *
 * 1. Queue, turns, levels, ticks, forks: as in bfs, of 0.46x. Tasks that wait stand in one queue in the order of virtual
 *    deadlines (<weir/deadline.bpf.h>); slices are 6 ms and do not grow with the CPUs.
 *
 * 2. Idle CPU: the nearest one, whatever its siblings do: the last CPU, its sibling, its cache, its node, any other.
 *
 * 3. Hand-over. Each CPU has a slot for one task. A task that wakes while nothing idles looks for a victim, a CPU whose
 *    task has a later deadline, and goes into its slot: no other CPU sees it, and the victim takes it before it looks
 *    into the queue. A CPU with a task in its slot is nobody's victim. So a wakeup does not touch the queue's lock.
 *
 * 4. Victim. Up to 4.3.1 the CPU with the latest deadline of all. In 4.3_0466_4 the first one whose deadline is later:
 *    looking for the best was found to cost more than it gains.
 *
 * 5. Cached tasks. A task is cached at the CPU where it ran last, as long as its data may still be there. Other CPUs see
 *    its deadline shifted by the distance, so they take it only if nothing nearer waits. What ends that:
 *    - in 0.4 the number of switches that its CPU has made since;
 *    - in 4.3_0466_4 time: 6 ms for normal tasks, 1 s for SCHED_BATCH and SCHED_IDLE, and 1 s for all with
 *      `preempt_none`, as in a kernel that does not preempt itself.
 *    Up to 4.3_0463 only a task that stopped while it could go on is cached, in 4.3_0466_4 every one, and a new task at
 *    its parent's CPU.
 *
 * 6. The clock of deadlines is one for all CPUs. VRQ 0.3 had one for each, and they drifted apart by seconds: tasks of a
 *    CPU whose clock was behind always came first.
 *
 * Where this departs from VRQ, and why:
 * - Idle CPUs are claimed, SCHED_IDLE tasks are promoted, threads of the kernel that belong to one CPU have a queue of
 *   their own: as in bfs, for the reasons given there.
 * - A victim is claimed too: of two wakers one gets it, and the other looks on. In VRQ the better one of two tasks stays in
 *   the slot and the other goes to the queue.
 * - What a switch counts for in 0.4 is not known, nor which tasks had 4 instead of 14: here every switch counts, and all
 *   have 14.
 * - The locks of VRQ (a task belongs to its CPU, to the queue, or to whoever wakes it) are those of the kernel here.
 */
#include <weir/deadline.bpf.h>
#include <weir/hotplug.bpf.h>

LICENSE("GPL");

#define QUEUE_DSQ 0
#define IDLE_DSQ 1			/* SCHED_IDLE */
#define SLOT_DSQ 0x10000		/* + CPU: 3 */
#define PINNED_DSQ 0x20000		/* + CPU: the kernel's threads of that CPU */
#define VICTIM_ATTEMPTS 3
#define LONG_NS 1000000000ULL		/* 5: as good as for ever */

/* Set by the preset. */
RODATA bool victim_first = true;
RODATA bool cache_all = true;		/* 5: every task that stopped, and new ones */
RODATA bool preempt_none = false;
RODATA u32 cache_switches = 0;		/* 5: so many, or 0: by time */

/* What vrq knows of a task. */
struct task {
	struct turn turn;
	u64 key;	/* deadline and level */
	u64 stopped_at;
	u32 switches;	/* of its CPU when it stopped */
	s32 counted_at;	/* the CPU that the kernel counted it at when it was last queued, or ran */
	bool cached;	/* was when it stopped */
	bool searched;	/* no CPU was idle a moment ago */
	bool sync;	/* woken by a task that is about to sleep */
	bool displaced;	/* stopped while it could go on */
	bool child;	/* forked, and has not run */
	bool promoted;	/* of SCHED_IDLE, and runs before others */
};

TASK_STORAGE(tasks, struct task);

/* What other CPUs may know of a CPU. A cache line each: they are written at every switch. */
struct cpu {
	u64 key;	/* of the task that runs; 0 if the CPU is no victim */
	u64 last_tick;
	u32 switches;
	bool early;	/* its task began in the first half of a tick period */
	bool taken;	/* by a higher class */
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

u32 taken_cpus;

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & MAX_CPU_MASK];
}

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* The kernel goes on to call a CPU idle that has left. */
#define IDLE_REFUSED(p, cpu) is_leaving(cpu)
#include <weir/idle.bpf.h>

/* ---- 1: turns and levels ---- */

static __always_inline void note_promotion(struct task_struct *p)
{
	struct task *t = task_of(p);

	if (t)
		t->promoted = true;
}

#define ON_PROMOTION(p) note_promotion(p)
#include <weir/idle-level.bpf.h>

static void set_key(struct task_struct *p, struct task *t)
{
	t->key = with_level(p, t->turn.deadline);
}

/* The task stops, or would: it is charged, and renewed if its slice is empty. One that was promoted has had its turn. */
static void settle(struct task_struct *p, struct task *t, u64 now)
{
	charge(&t->turn, now);
	if (t->turn.slice_ns < SLICE_EMPTY_NS || p->policy == SCHED_BATCH || t->promoted)
		renew(&t->turn, now);
	t->promoted = false;
	set_key(p, t);
}

/* ---- 5: cached tasks ---- */

static __always_inline void cache(struct task *t, s32 cpu, u64 now)
{
	t->cached = true;
	t->stopped_at = now;
	t->switches = READ_ONCE(cpu_of(cpu)->switches);
}

/* How long a task is cached. */
static __always_inline u64 cache_ns(struct task_struct *p)
{
	if (preempt_none || p->policy == SCHED_BATCH || p->policy == SCHED_IDLE)
		return LONG_NS;
	return rr_slice_ns;
}

static __always_inline bool is_cached(struct task_struct *p, struct task *t, s32 cpu, u64 now)
{
	if (!t->cached)
		return false;
	if (cache_switches)
		return READ_ONCE(cpu_of(cpu)->switches) - t->switches <= cache_switches;
	return now - t->stopped_at < cache_ns(p);
}

/* A deadline as `cpu` sees it. */
static __noinline u64 seen_from(struct task_struct *p, u64 deadline, s32 cpu)
{
	s32 last = scx_bpf_task_cpu(p);
	struct task *t = task_of(p);

	if (last == cpu || !t || !is_cached(p, t, last, now_ns()))
		return deadline;
	return deadline << distance(last, cpu);
}

/* ---- 3, 4: victims ---- */

/* A CPU whose task is later than `key`, and that key; -1 if there is none. */
static __always_inline s32 find_victim(struct task_struct *p, u64 key, u64 *found)
{
	s32 victim = -1;
	int cpu;

	for_range(cpu, 0, nr_cpus) {
		u64 other = READ_ONCE(cpu_of(cpu)->key);

		if (other <= key || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		key = other;
		victim = cpu;
		if (victim_first)
			break;
	}
	*found = key;
	return victim;
}

/* The same, claimed: its key is 0 from now on, so that it is nobody else's. */
static __noinline s32 claim_victim(struct task_struct *p, u64 key)
{
	int attempt;

	for_range(attempt, 0, VICTIM_ATTEMPTS) {
		u64 found;
		s32 victim = find_victim(p, key, &found);

		if (victim < 0 || __sync_val_compare_and_swap(&cpu_of(victim)->key, found, 0) == found)
			return victim;
	}
	return -1;
}

/* ---- The life of a task, in order ---- */

SLEEPABLE_OP2(s32, vrq_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE), *from;
	struct task_struct *parent = bpf_get_current_task_btf();
	u64 now = now_ns();

	if (!t)
		return -12; /* ENOMEM */
	t->turn.ratio = ratio_of(p->static_prio);
	renew(&t->turn, now);
	if (args->fork) {
		t->child = true;
		from = task_of(parent);
		if (from && !share(&t->turn, &from->turn, now))
			kick(scx_bpf_task_cpu(parent), SCX_KICK_PREEMPT);
		if (cache_all)
			cache(t, scx_bpf_task_cpu(p), now);
	}
	set_key(p, t);
	return 0;
}

/* 2: to the idle CPU at once, if there is one. */
OP3(s32, vrq_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
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
	dsq_insert(p, SCX_DSQ_LOCAL, t->turn.slice_ns, 0);
	return cpu;
}

/* A thread of the kernel that belongs to one CPU. A CPU on its way offline looks into no queue of ours. */
static void enqueue_pinned(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (is_leaving(cpu) || scx_bpf_test_and_clear_cpu_idle(cpu)) {
		dsq_insert(p, SCX_DSQ_LOCAL, t->turn.slice_ns, enq_flags);
		return;
	}
	dsq_insert_by_key(p, PINNED_DSQ + cpu, t->turn.slice_ns, t->turn.deadline, enq_flags);
	if (scx_bpf_test_and_clear_cpu_idle(cpu))
		kick(cpu, SCX_KICK_IDLE);
	else if (!t->displaced && READ_ONCE(cpu_of(cpu)->key) > t->key)
		kick(cpu, SCX_KICK_PREEMPT);
}

/* 3: whether somebody makes way. A new task is not handed over: it goes to the queue, and the victim is only told. */
static bool hand_over(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 victim;

	if (t->displaced || t->sync || t->child || is_idle_level(p))
		return false;
	victim = claim_victim(p, t->key);
	if (victim < 0)
		return false;
	dsq_insert_by_key(p, SLOT_DSQ + (victim & MAX_CPU_MASK), t->turn.slice_ns, t->turn.deadline, enq_flags);
	kick(victim, SCX_KICK_PREEMPT);
	return true;
}

/*
 * The second search comes after the insert: a CPU that began to idle in between has found the queue empty. A CPU that
 * has been claimed is kicked in any case: if its task is taken away before it comes, nothing else would wake it.
 */
static void enqueue_shared(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 last = scx_bpf_task_cpu(p), cpu = t->searched ? -1 : claim_idle_cpu(p, last);

	if (cpu >= 0) {
		dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, t->turn.slice_ns, enq_flags);
		kick(cpu, SCX_KICK_IDLE);
		return;
	}
	if (hand_over(p, t, enq_flags))
		return;
	insert_by_level(p, QUEUE_DSQ, &t->turn, enq_flags);
	cpu = claim_idle_cpu(p, last);
	if (cpu >= 0)
		kick(cpu, SCX_KICK_IDLE);
	else if (t->child && (cpu = claim_victim(p, t->key)) >= 0)
		kick(cpu, SCX_KICK_PREEMPT);
}

OP2(void, vrq_enqueue, struct task_struct *, p, u64, enq_flags)
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

/* ---- Pick: the slot, the queue, the level of SCHED_IDLE ---- */

#define PICK_REFUSED(p, cpu) false
#define PICK_BIASED true
#define PICK_SEEN(p, deadline, cpu) seen_from(p, deadline, cpu)
#include <weir/pick.bpf.h>

static bool take_slot(s32 cpu)
{
	return scx_bpf_dsq_nr_queued(SLOT_DSQ + cpu) && take_first(SLOT_DSQ + cpu, cpu, NO_LIMIT);
}

/* A victim may be taken by a higher class before it looks into its slot: then any other CPU may. */
static bool take_slots_of_taken_cpus(s32 cpu)
{
	int other;

	if (!READ_ONCE(taken_cpus))
		return false;
	for_range(other, 0, nr_cpus) {
		u64 slot = SLOT_DSQ + (other & MAX_CPU_MASK);

		if (READ_ONCE(cpu_of(other)->taken) && scx_bpf_dsq_nr_queued(slot) && take_first(slot, cpu, NO_LIMIT))
			return true;
	}
	return false;
}

/* The best task that is not later than `limit`, and not of SCHED_IDLE. */
static bool take_normal(s32 cpu, u64 limit)
{
	u64 own = first_deadline(PINNED_DSQ + cpu);

	if (take(QUEUE_DSQ, cpu, own < limit ? own : limit))
		return true;
	return own <= limit && own != NO_LIMIT && take_first(PINNED_DSQ + cpu, cpu, limit);
}

/* The CPU takes somebody else, or nobody. `limit` and `idle_limit` are how late they may be. */
static bool take_somebody(s32 cpu, u64 limit, u64 idle_limit, u64 now)
{
	bool wanted = !idle_limit || scx_bpf_dsq_nr_queued(QUEUE_DSQ);

	if (take_slot(cpu) || take_slots_of_taken_cpus(cpu))
		return true;
	if (wanted && promote(cpu, now))
		return true;
	if (take_normal(cpu, limit))
		return true;
	return idle_limit && take(IDLE_DSQ, cpu, idle_limit);
}

/* The task begins, or goes on with what it has left. */
static __always_inline void begin(struct task *t, s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);

	t->turn.since = now;
	t->displaced = t->child = t->cached = false;
	c->early = now - c->last_tick <= half_tick_ns;
	WRITE_ONCE(c->key, is_leaving(cpu) ? 0 : t->key);
}

OP2(void, vrq_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = NULL;
	u64 now = now_ns(), limit = NO_LIMIT, idle_limit = NO_LIMIT;

	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) && (t = task_of(prev))) {
		settle(prev, t, now);
		limit = is_idle_level(prev) ? NO_LIMIT : t->turn.deadline;
		idle_limit = is_idle_level(prev) ? t->turn.deadline : 0;
	}
	if (take_somebody(cpu, limit, idle_limit, now) || !t)
		return;
	begin(t, cpu, now);
	task_set_slice(prev, t->turn.slice_ns);
}

OP1(void, vrq_running, struct task_struct *, p)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);

	if (!t)
		return;
	cpu_of(cpu)->switches++;
	count_at(&t->counted_at, cpu);
	if (t->promoted)
		t->turn.slice_ns = IDLE_TURN_NS;
	begin(t, cpu, now_ns());
}

/* The kernel looks at the slice after this. */
OP1(void, vrq_tick, struct task_struct *, p)
{
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));
	struct task *t = task_of(p);
	u64 now = now_ns();

	c->last_tick = now;
	if (!t)
		return;
	charge(&t->turn, now);
	if (tick_ends(&t->turn, c->early)) {
		t->turn.slice_ns = 0;
		task_set_slice(p, 0);
	}
}

OP2(void, vrq_stopping, struct task_struct *, p, bool, runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task *t = task_of(p);
	u64 now = now_ns();

	WRITE_ONCE(cpu_of(cpu)->key, 0);
	if (!t)
		return;
	settle(p, t, now);
	t->displaced = runnable;
	if (runnable || cache_all)
		cache(t, cpu, now);
}

/* The kernel queues a waiting task anew after this; a running one may have to go. */
OP2(void, vrq_set_weight, struct task_struct *, p, u32, weight)
{
	struct task *t = task_of(p);
	u32 ratio = ratio_of(p->static_prio);
	s64 later;

	if (!t)
		return;
	later = ((s64)ratio - t->turn.ratio) * (s64)deadline_unit_ns;
	t->turn.ratio = ratio;
	if (!scx_bpf_task_running(p))
		t->turn.deadline += later;
	else if (later > 0)
		kick(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
	set_key(p, t);
}

/* ---- The machine ---- */

/*
 * A task of a higher class takes the CPU: what waits for this CPU alone is put back, so that others can take it. Whoever
 * is in its slot needs another CPU.
 */
OP2(void, vrq_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	struct task_struct *p;
	s32 other = -1;

	cpu_of(cpu)->taken = true;
	__sync_fetch_and_add(&taken_cpus, 1);
	if (KERNEL_HAS(scx_bpf_reenqueue_local___v1))
		scx_bpf_reenqueue_local___v1();
	if (scx_bpf_dsq_nr_queued(SLOT_DSQ + cpu)) {
		for_each_queued(p, SLOT_DSQ + cpu) {
			other = claim_idle_cpu(p, cpu);
			break;
		}
	}
	if (other >= 0)
		kick(other, SCX_KICK_IDLE);
}

OP2(void, vrq_cpu_acquire, s32, cpu, struct scx_cpu_acquire_args *, args)
{
	if (cpu_of(cpu)->taken)
		__sync_fetch_and_add(&taken_cpus, -1);
	cpu_of(cpu)->taken = false;
}

/* Without these two the kernel ejects the scheduler when a CPU comes or goes. */
SLEEPABLE_OP1(void, vrq_cpu_online, s32, cpu)
{
	cpu_of(cpu)->key = 0;
	if (!cpu_comes(cpu))
		scx_restart("CPU %d was offline when vrq was loaded", cpu);
}

OP1(void, vrq_cpu_offline, s32, cpu)
{
	cpu_goes(cpu);
	cpu_of(cpu)->key = 0;
	give_away(cpu, QUEUE_DSQ);
	give_away(cpu, IDLE_DSQ);
	give_away(cpu, PINNED_DSQ + cpu);
	give_all_away(SLOT_DSQ + cpu);
}

SLEEPABLE_OP0(s32, vrq_init)
{
	s32 error = scx_bpf_create_dsq(QUEUE_DSQ, -1);
	int cpu;

	topology_init();
	deadline_init(nr_online);
	if (!error)
		error = scx_bpf_create_dsq(IDLE_DSQ, -1);
	for_range(cpu, 0, nr_cpus) {
		if (!error)
			error = scx_bpf_create_dsq(SLOT_DSQ + cpu, -1);
		if (!error)
			error = scx_bpf_create_dsq(PINNED_DSQ + cpu, -1);
	}
	return error;
}

OP1(void, vrq_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(vrq_ops,
	.init_task = (void *)vrq_init_task,
	.select_cpu = (void *)vrq_select_cpu,
	.enqueue = (void *)vrq_enqueue,
	.dispatch = (void *)vrq_dispatch,
	.running = (void *)vrq_running,
	.tick = (void *)vrq_tick,
	.stopping = (void *)vrq_stopping,
	.set_weight = (void *)vrq_set_weight,
	.cpu_release = (void *)vrq_cpu_release,
	.cpu_acquire = (void *)vrq_cpu_acquire,
	.cpu_online = (void *)vrq_cpu_online,
	.cpu_offline = (void *)vrq_cpu_offline,
	.init = (void *)vrq_init,
	.exit = (void *)vrq_exit,
	.name = "vrq",
);
