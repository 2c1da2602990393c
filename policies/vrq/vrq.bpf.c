/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vrq: BFS with tasks that are handed over and tasks that are cached, after Alfred Chen's VRQ 0.3 to 4.3 (2015).
 *
 * 1. Queue, turns, levels, ticks, forks: as in bfs, of 0.46x. Tasks that wait stand in one queue in the order of virtual
 *    deadlines (<weir/deadline.bpf.h>); slices are 6 ms and do not grow with the CPUs.
 *
 * 2. Idle CPU: the nearest one, whatever its siblings do: the last CPU, its sibling, its cache, its node, any other.
 *
 * 3. Hand-over (since 0.4). Each CPU has a slot for one task. A task that wakes while nothing idles looks for a victim, a
 *    CPU whose task has a later deadline, and goes into its slot: no other CPU sees it, and the victim takes it before it
 *    looks into the queue. A CPU with a task in its slot is nobody's victim. So a wakeup does not touch the queue's lock.
 *    In 0.3 the task goes to the queue, and its victim is told to pick again.
 *
 * 4. Victim. Up to 4.3.1 the CPU with the latest deadline of all. In 4.3_0466_4 the first one whose deadline is later:
 *    looking for the best was found to cost more than it gains.
 *
 * 5. Cached tasks. A task is cached at the CPU where it ran last, as long as its data may still be there. Other CPUs see
 *    its deadline shifted by the distance, so they take it only if nothing nearer waits. What ends that:
 *    - in 0.3 another task that stops while it could go on: the one sticky task of each CPU, as in BFS;
 *    - in 0.4 the number of switches that its CPU has made since;
 *    - in 4.2 what these switches cost: a task that was not cached counts 4 times, and one that is no thread of the kernel
 *      twice. The limit is 3 for every 512 KB of the last-level cache; in 32 bits, where data are smaller, 2 for 256 KB;
 *    - in 4.3_0466_4 time: 6 ms for normal tasks, 1 s for SCHED_BATCH and SCHED_IDLE, and 1 s for all with
 *      `preempt_none`, as in a kernel that does not preempt itself.
 *    Up to 4.3_0463 only a task that stopped while it could go on is cached, in 4.3_0466_4 every one, and a new task at
 *    its parent's CPU.
 *
 * 6. The clock of deadlines is one for all CPUs (<weir/clock.bpf.h>). VRQ 0.3 had one for each, and they drifted apart by
 *    seconds: tasks of a CPU whose clock was behind always came first, so that it took no others.
 *
 * Where this departs from VRQ, and why:
 * - Idle CPUs are claimed, SCHED_IDLE tasks are promoted, threads of the kernel that belong to one CPU have a queue of
 *   their own: as in bfs, for the reasons given there.
 * - A victim is claimed too: of two wakers one gets it, and the other looks on. In VRQ the better one of two tasks stays in
 *   the slot and the other goes to the queue.
 * - What a switch counts for in 0.4 is not known, nor which tasks had 4 instead of 14: here every switch counts, and all
 *   have 14.
 * - Why the clocks of 0.3 drifted is not known: here they are those of the CPUs, which drift where the machine's do.
 * - The locks of VRQ (a task belongs to its CPU, to the queue, or to whoever wakes it) are those of the kernel here.
 */
#include <weir/clock.bpf.h>
#include <weir/hotplug.bpf.h>

LICENSE("GPL");

#define SLOT_DSQ 0x10000		/* + CPU: 3 */
#define VICTIM_ATTEMPTS 3
#define LONG_NS 1000000000ULL		/* 5: as good as for ever */

/* 5: what a task is cached by. */
#define CACHED_FOR_TIME 0
#define CACHED_FOR_SWITCHES 1	/* its CPU's */
#define CACHED_FOR_COST 2	/* of its CPU's switches */
#define CACHED_WHILE_STICKY 3	/* until another task of its CPU is */

/* Set by the preset. */
RODATA bool hand_over = true;
RODATA bool victim_first = true;
RODATA u32 cached_by = CACHED_FOR_TIME;
RODATA bool cache_all = true;		/* every task that stopped, and new ones */
RODATA bool preempt_none = false;
RODATA bool clock_of_cpu = false;	/* 6 */
RODATA u32 cache_count = 14;		/* switches */
RODATA u32 scost_threshold = 0;		/* costs; 0: by the size of the cache */
RODATA u32 llc_kb = 0;
RODATA bool scost_32bit = false;

/* Computed at init: the switches or costs after which a task is not cached any more. */
u32 cache_limit;

/* What vrq knows of a task. */
struct task {
	struct turn turn;
	u64 key;	/* deadline and level */
	u64 stopped_at;
	u32 spent;	/* by its CPU when it stopped */
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
	u32 spent;	/* switches, or what they cost */
	s32 sticky;	/* the task's number */
	bool early;	/* its task began in the first half of a tick period */
	bool taken;	/* by a higher class */
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

u32 taken_cpus;

static u64 seen_from(struct task_struct *p, u64 deadline, s32 cpu);

/* 6 */
static __always_inline u64 vrq_now(void)
{
	return clock_of_cpu ? bpf_ktime_get_ns() : common_now();
}

/* The kernel goes on to call a CPU idle that has left. */
#define IDLE_REFUSED(p, cpu) is_leaving(cpu)
#define PICK_REFUSED(p, cpu) false
#define PICK_BIASED true
#define PICK_SEEN(p, deadline, cpu) seen_from(p, deadline, cpu)
#define POLICY_NOW() vrq_now()
#define ON_RENEWAL(p, t) ((void)0)
#include <weir/one-queue.bpf.h>

/* ---- 5: cached tasks ---- */

/* Every 512 KB of the last-level cache are worth 3; in 32 bits every 256 KB are worth 2. At least one such piece. */
static __always_inline u32 threshold_by_cache(void)
{
	u32 pieces = llc_kb / (scost_32bit ? 256 : 512);

	return (scost_32bit ? 2 : 3) * (pieces ? pieces : 1);
}

static __always_inline void cache_init(void)
{
	if (cached_by == CACHED_FOR_COST)
		cache_limit = scost_threshold ? scost_threshold : threshold_by_cache();
	else
		cache_limit = cache_count;
}

static __always_inline void cache(struct task_struct *p, struct task *t, s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);

	t->cached = true;
	t->stopped_at = now;
	t->spent = READ_ONCE(c->spent);
	c->sticky = p->pid;
}

/* How long a task is cached. */
static __always_inline u64 cache_ns(struct task_struct *p)
{
	if (preempt_none || p->policy == SCHED_BATCH || p->policy == SCHED_IDLE)
		return LONG_NS;
	return rr_slice_ns;
}

/* Whether `cpu`, where the task ran last, may still have its data. */
static __always_inline bool is_cached(struct task_struct *p, struct task *t, s32 cpu, u64 now)
{
	const struct cpu *c = cpu_of(cpu);

	if (!t->cached)
		return false;
	if (cached_by == CACHED_WHILE_STICKY)
		return READ_ONCE(c->sticky) == p->pid;
	if (cached_by != CACHED_FOR_TIME)
		return READ_ONCE(c->spent) - t->spent <= cache_limit;
	return now - t->stopped_at < cache_ns(p);
}

/* What it costs the data of others that `cpu` switches to this task: 1 to 8. */
static __always_inline u32 switch_cost(struct task_struct *p, struct task *t, s32 cpu, u64 now)
{
	bool warm = t->counted_at == cpu && is_cached(p, t, cpu, now);

	if (cached_by != CACHED_FOR_COST)
		return 1;
	return (warm ? 1 : 4) * (p->flags & PF_KTHREAD ? 1 : 2);
}

/* A deadline as `cpu` sees it. */
static __noinline u64 seen_from(struct task_struct *p, u64 deadline, s32 cpu)
{
	s32 last = scx_bpf_task_cpu(p);
	struct task *t = task_of(p);

	if (last == cpu || !t || !is_cached(p, t, last, vrq_now()))
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

static void tell_victim(s32 cpu, u64 key)
{
	kick(cpu, SCX_KICK_PREEMPT);
}

/* ---- The life of a task, in order ---- */

SLEEPABLE_OP2(s32, vrq_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE), *from;
	struct task_struct *parent = bpf_get_current_task_btf();
	u64 now = vrq_now();

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
			cache(p, t, scx_bpf_task_cpu(p), now);
	}
	set_key(p, t);
	return 0;
}

/* 2: to the idle CPU at once, if there is one. */
OP3(s32, vrq_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	return select_idle_cpu(p, prev_cpu, wake_flags);
}

static __always_inline bool may_preempt(struct task_struct *p, struct task *t)
{
	return !t->displaced && !t->sync && !is_idle_level(p);
}

/* 3: whether somebody makes way. A new task is not handed over: it goes to the queue, and the victim is only told. */
static bool is_handed_over(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 victim;

	if (!hand_over || t->child || !may_preempt(p, t))
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
		dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, t->turn.slice_ns, enq_flags | SCX_ENQ_IMMED);
		kick(cpu, SCX_KICK_IDLE);
		return;
	}
	if (is_handed_over(p, t, enq_flags))
		return;
	insert_by_level(p, QUEUE_DSQ, &t->turn, enq_flags);
	cpu = claim_idle_cpu(p, last);
	if (cpu >= 0)
		kick(cpu, SCX_KICK_IDLE);
	else if ((t->child || !hand_over) && may_preempt(p, t) && (cpu = claim_victim(p, t->key)) >= 0)
		kick(cpu, SCX_KICK_PREEMPT);
}

OP2(void, vrq_enqueue, struct task_struct *, p, u64, enq_flags)
{
	enqueue(p, enq_flags);
}

/* ---- Pick: the slot, the queue, the level of SCHED_IDLE ---- */

static bool take_slot(s32 cpu)
{
	return scx_bpf_dsq_nr_queued(SLOT_DSQ + cpu) && dsq_move_to_local(SLOT_DSQ + cpu);
}

/* A victim may be taken by a higher class before it looks into its slot: then any other CPU may. */
static bool take_slots_of_taken_cpus(s32 cpu)
{
	int other;

	if (!READ_ONCE(taken_cpus))
		return false;
	for_range(other, 0, nr_cpus) {
		u64 slot = SLOT_DSQ + (other & MAX_CPU_MASK);

		if (READ_ONCE(cpu_of(other)->taken) && scx_bpf_dsq_nr_queued(slot) && dsq_move_to_local(slot))
			return true;
	}
	return false;
}

static __always_inline void begin(struct task *t, s32 cpu, u64 now)
{
	begin_turn(t, cpu, now);
	t->cached = false;
}

/* Whoever was handed over, or else the best by level. `limit` and `idle_limit` are how late the latter may be. */
static __noinline bool take_somebody(s32 cpu, u64 limit, u64 idle_limit, u64 now)
{
	return take_slot(cpu) || take_slots_of_taken_cpus(cpu) || take_by_level(cpu, limit, idle_limit, now);
}

OP2(void, vrq_dispatch, s32, cpu, struct task_struct *, prev)
{
	bool stays = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	u64 now = vrq_now(), limit = NO_LIMIT, idle_limit = 0;
	struct task *t;

	if (!stays || !(t = task_of(prev))) {
		take_somebody(cpu, NO_LIMIT, NO_LIMIT, now);
		return;
	}
	settle(prev, t, now);
	if (is_idle_level(prev))
		idle_limit = t->turn.deadline;
	else
		limit = t->turn.deadline;
	if (take_somebody(cpu, limit, idle_limit, now))
		return;
	begin(t, cpu, now);
	task_set_slice(prev, t->turn.slice_ns);
}

OP1(void, vrq_running, struct task_struct *, p)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	u64 now = vrq_now();

	if (!t)
		return;
	cpu_of(cpu)->spent += switch_cost(p, t, cpu, now);
	count_at(&t->counted_at, cpu);
	if (t->promoted)
		t->turn.slice_ns = IDLE_TURN_NS;
	begin(t, cpu, now);
}

OP1(void, vrq_tick, struct task_struct *, p)
{
	tick(p);
}

OP2(void, vrq_stopping, struct task_struct *, p, bool, runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task *t = task_of(p);
	u64 now = vrq_now();

	WRITE_ONCE(cpu_of(cpu)->key, 0);
	if (!t)
		return;
	settle(p, t, now);
	t->displaced = runnable;
	if (runnable || cache_all)
		cache(p, t, cpu, now);
}

OP2(void, vrq_set_weight, struct task_struct *, p, u32, weight)
{
	struct task *t = task_of(p);

	if (t)
		change_nice(p, t);
}

/* ---- The machine ---- */

/* Whoever is in the slot of a CPU that a higher class takes needs another one. */
OP2(void, vrq_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	struct task_struct *p;
	s32 other = -1;

	cpu_of(cpu)->taken = true;
	__sync_fetch_and_add(&taken_cpus, 1);
	put_local_back();
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
	leave_queues(cpu);
	give_all_away(SLOT_DSQ + cpu);
}

SLEEPABLE_OP0(s32, vrq_init)
{
	s32 error;
	int cpu;

	clock_init();
	cache_init();
	error = make_queues();
	for_range(cpu, 0, nr_cpus) {
		if (!error)
			error = scx_bpf_create_dsq(SLOT_DSQ + cpu, -1);
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
