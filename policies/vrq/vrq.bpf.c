/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vrq: BFS with handover of woken tasks and with cached tasks, after Alfred Chen's VRQ 0.3 to 4.3
 * (2015).
 *
 * 1. Queue, slices, levels, ticks and forks are those of bfs 0.46x. Waiting tasks are in one queue
 *    in virtual-deadline order (<weir/deadline.bpf.h>). Slices are 6 ms and do not grow with the
 *    number of CPUs.
 *
 * 2. Idle CPU: the nearest one, whether its siblings are busy or not: the last CPU, its sibling,
 *    its cache, its node, any other.
 *
 * 3. Handover (since 0.4). Each CPU has a slot for one task. If no CPU is idle, a waking task looks
 *    for a victim, which is a CPU whose running task has a later deadline, and goes into its slot.
 *    No other CPU sees the task there, and the victim takes it before it looks into the queue. A
 *    CPU with a task in its slot is not chosen as a victim. So a wakeup does not take the queue's
 *    lock. In 0.3 the task goes to the queue, and the victim is kicked to pick again.
 *
 * 4. Victim. Up to 4.3.1, the CPU whose running task has the latest deadline. In 4.3_0466_4, the
 *    first CPU found whose running task has a later deadline: the search for the best one was found
 *    to cost more than it gains.
 *
 * 5. Cached tasks. A task is cached on the CPU where it last ran as long as that CPU's caches may
 *    still hold its data. Other CPUs see its deadline shifted left by their distance, so they take
 *    it only if no nearer task waits. A task stops being cached:
 * - in 0.3, when another task is preempted on that CPU: there is one sticky task per CPU, as in
 *   BFS;
 * - in 0.4, after a number of switches on its CPU;
 * - in 4.2, when these switches have cost too much. A switch to an uncached task costs 4 times as
 *   much, and one to a task that is not a kthread twice as much. The limit is 3 per 512 KB of the
 *   last-level cache, and on 32-bit machines, where data are smaller, 2 per 256 KB;
 * - in 4.3_0466_4, after some time: 6 ms for normal tasks, 1 s for SCHED_BATCH and SCHED_IDLE, and
 *   1 s for all tasks with `preempt_none`, as in a kernel without preemption. Up to 4.3_0463 only a
 *   preempted task is cached. In 4.3_0466_4 every task is cached when it stops, and a new task on
 *   its parent's CPU.
 *
 * 6. Deadlines use one clock for all CPUs (<weir/clock.bpf.h>). VRQ 0.3 had one clock per CPU, and
 *    these drifted apart by seconds. The tasks of a CPU whose clock was behind always had the
 *    earliest deadlines, so that this CPU took no other tasks.
 *
 * Where this departs from VRQ, and why:
 * - Idle CPUs are claimed, SCHED_IDLE tasks are promoted, and pinned kthreads have a queue per CPU,
 *   as in bfs and for the reasons given there.
 * - A victim is claimed, too: of two wakers one gets it, and the other continues its search. In VRQ
 *   the task with the earlier deadline stays in the slot and the other one goes to the queue.
 * - It is not known how 0.4 counts a switch, nor which tasks had a limit of 4 in place of 14. Here
 *   each switch counts as 1, and all tasks have 14.
 * - It is not known why the clocks of 0.3 drifted. Here that version uses the CPUs' clocks, which
 *   drift if those of the machine do.
 * - VRQ's own locks (for a task on its CPU, in the queue, or being woken) are replaced by the
 *   kernel's locks.
 */
#include <weir/clock.bpf.h>
#include <weir/hotplug.bpf.h>

LICENSE("GPL");

#define SLOT_DSQ 0x10000		/* + CPU: 3 */
#define VICTIM_ATTEMPTS 3
#define LONG_NS 1000000000ULL		/* 5: practically without limit */

/* 5: when a task stops being cached. */
#define CACHED_FOR_TIME 0
#define CACHED_FOR_SWITCHES 1	/* a number of switches on its CPU */
#define CACHED_FOR_COST 2	/* a total cost of such switches */
#define CACHED_WHILE_STICKY 3	/* until its CPU has another sticky task */

/* Set by the presets. */
RODATA bool hand_over = true;
RODATA bool victim_first = true;
RODATA u32 cached_by = CACHED_FOR_TIME;
RODATA bool cache_all = true;		/* every task that stopped, and new tasks */
RODATA bool preempt_none = false;
RODATA bool clock_of_cpu = false;	/* 6 */
RODATA u32 cache_count = 14;		/* limit for CACHED_FOR_SWITCHES */
RODATA u32 scost_threshold = 0;		/* limit for CACHED_FOR_COST; 0: by the size of the cache */
RODATA u32 llc_kb = 0;
RODATA bool scost_32bit = false;

/* Computed at init: number or cost of switches up to which a task is cached. */
u32 cache_limit;

/* State of a task. */
struct task {
	struct budget budget;
	u64 key;	/* deadline and level */
	u64 stopped_at;
	u32 spent;	/* struct cpu's `spent` when it stopped */
	s32 counted_at;	/* CPU whose runqueue counted it when it was last queued, or ran */
	bool cached;	/* was cached when it stopped */
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
	u64 key;	/* of the running task; 0 if the CPU cannot be a victim */
	u64 last_tick;
	u32 spent;	/* 5: number or cost of all switches so far */
	s32 sticky;	/* pid */
	bool early;	/* its task started in the first half of a tick period */
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

/* The kernel's idle mask can contain a CPU that is going offline. */
#define IDLE_REFUSED(p, cpu) is_leaving(cpu)
#define PICK_REFUSED(p, cpu) false
#define PICK_BIASED true
#define PICK_SEEN(p, deadline, cpu) seen_from(p, deadline, cpu)
#define POLICY_NOW() vrq_now()
#define ON_RENEWAL(p, t) ((void)0)
#include <weir/one-queue.bpf.h>

/* ---- 5: cached tasks ---- */

/*
 * 5: limit of the cost of switches: 3 per 512 KB of the last-level cache, or 2 per 256 KB for 32
 * bits; at least one such piece.
 */
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

/* 5: time for which a task is cached. */
static __always_inline u64 cache_ns(struct task_struct *p)
{
	if (preempt_none || p->policy == SCHED_BATCH || p->policy == SCHED_IDLE)
		return LONG_NS;
	return rr_slice_ns;
}

/* Returns whether `cpu`, where the task last ran, may still have its data. */
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

/* 5: cost of a switch of `cpu` to this task, from 1 to 8. */
static __always_inline u32 switch_cost(struct task_struct *p, struct task *t, s32 cpu, u64 now)
{
	bool warm = t->counted_at == cpu && is_cached(p, t, cpu, now);

	if (cached_by != CACHED_FOR_COST)
		return 1;
	return (warm ? 1 : 4) * (p->flags & PF_KTHREAD ? 1 : 2);
}

/* Deadline of a task as `cpu` sees it. */
static __noinline u64 seen_from(struct task_struct *p, u64 deadline, s32 cpu)
{
	s32 last = scx_bpf_task_cpu(p);
	struct task *t = task_of(p);

	if (last == cpu || !t || !is_cached(p, t, last, vrq_now()))
		return deadline;
	return deadline << distance(last, cpu);
}

/* ---- 3, 4: victims ---- */

/* Victim for a task with `key`, and the key of the task that runs there; -1 if there is none. */
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

/* Finds a victim and claims it: its key becomes 0, so that no other waker chooses it. */
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

static void kick_victim(s32 cpu, u64 key)
{
	kick(cpu, SCX_KICK_PREEMPT);
}

/* ---- Lifecycle of a task, in order ---- */

SLEEPABLE_OP2(s32, vrq_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE), *from;
	struct task_struct *parent = bpf_get_current_task_btf();
	u64 now = vrq_now();

	if (!t)
		return -12; /* ENOMEM */
	t->budget.ratio = ratio_of(p->static_prio);
	renew(&t->budget, now);
	if (args->fork) {
		t->child = true;
		from = task_of(parent);
		if (from && !share(&t->budget, &from->budget, now))
			kick(scx_bpf_task_cpu(parent), SCX_KICK_PREEMPT);
		if (cache_all)
			cache(p, t, scx_bpf_task_cpu(p), now);
	}
	set_key(p, t);
	return 0;
}

/* 2: inserts the task on an idle CPU at once, if there is one. */
OP3(s32, vrq_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	return select_idle_cpu(p, prev_cpu, wake_flags);
}

static __always_inline bool may_preempt(struct task_struct *p, struct task *t)
{
	return !t->displaced && !t->sync && !is_idle_level(p);
}

/*
 * 3: hands `p` over to a victim. Returns whether there was one. A new task is not handed over: it
 * goes to the queue, and the victim is only kicked.
 */
static bool hand_over_to_victim(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 victim;

	if (!hand_over || t->child || !may_preempt(p, t))
		return false;
	victim = claim_victim(p, t->key);
	if (victim < 0)
		return false;
	dsq_insert_by_key(p, SLOT_DSQ + (victim & MAX_CPU_MASK), t->budget.slice_ns, t->budget.deadline, enq_flags);
	kick(victim, SCX_KICK_PREEMPT);
	return true;
}

/*
 * The second search follows the insert, because a CPU that became idle in between has found the
 * queue empty. A claimed CPU is always kicked: if another CPU takes the task first, nothing else
 * would wake the claimed one.
 */
static void enqueue_shared(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 last = scx_bpf_task_cpu(p), cpu = t->searched ? -1 : claim_idle_cpu(p, last);

	if (cpu >= 0) {
		dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, t->budget.slice_ns, enq_flags | SCX_ENQ_IMMED);
		kick(cpu, SCX_KICK_IDLE);
		return;
	}
	if (hand_over_to_victim(p, t, enq_flags))
		return;
	insert_by_level(p, QUEUE_DSQ, &t->budget, enq_flags);
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

/* ---- Pick: the slot, the queue, SCHED_IDLE ---- */

static bool take_slot(s32 cpu)
{
	return scx_bpf_dsq_nr_queued(SLOT_DSQ + cpu) && dsq_move_to_local(SLOT_DSQ + cpu);
}

/*
 * A higher class may take over a victim before it looks into its slot. Then any other CPU may take
 * the task.
 */
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
	begin_run(t, cpu, now);
	t->cached = false;
}

/*
 * Takes the task in the slot, otherwise the best one by level. `limit` and `idle_limit` are the
 * latest deadlines allowed for the latter.
 */
static __noinline bool take_next(s32 cpu, u64 limit, u64 idle_limit, u64 now)
{
	return take_slot(cpu) || take_slots_of_taken_cpus(cpu) || take_by_level(cpu, limit, idle_limit, now);
}

OP2(void, vrq_dispatch, s32, cpu, struct task_struct *, prev)
{
	bool stays = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	u64 now = vrq_now(), limit = NO_LIMIT, idle_limit = 0;
	struct task *t;

	if (!stays || !(t = task_of(prev))) {
		take_next(cpu, NO_LIMIT, NO_LIMIT, now);
		return;
	}
	settle(prev, t, now);
	if (is_idle_level(prev))
		idle_limit = t->budget.deadline;
	else
		limit = t->budget.deadline;
	if (take_next(cpu, limit, idle_limit, now))
		return;
	begin(t, cpu, now);
	task_set_slice(prev, t->budget.slice_ns);
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
		t->budget.slice_ns = IDLE_SLICE_NS;
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

/* ---- CPUs ---- */

/* A task in the slot of a CPU that a higher class takes over needs another CPU. */
OP2(void, vrq_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	struct task_struct *p;
	s32 other = -1;

	cpu_of(cpu)->taken = true;
	__sync_fetch_and_add(&taken_cpus, 1);
	reenqueue_local();
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

/* Without these two ops the kernel exits the scheduler at a CPU hotplug event. */
SLEEPABLE_OP1(void, vrq_cpu_online, s32, cpu)
{
	cpu_of(cpu)->key = 0;
	if (!mark_online(cpu))
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
