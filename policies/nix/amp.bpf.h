/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The AMP scheduler: CPU 0 runs no tasks and assigns tasks to all other CPUs.
 *
 * 1. There is one queue, which only CPU 0 scans. Every other CPU has a slot, its local DSQ, and is
 *    idle while that is empty.
 * 2. Pick: the first task, from the highest priority down. After its first assignment, CPU 0
 *    prefers tasks that never ran or whose last CPU is free, until it finds none. So affinity
 *    counts only among tasks that wait while several CPUs are free, and a task that was preempted
 *    by 4 does not get its CPU back before the task that preempted it.
 * 3. Core: the first free CPU, node by node in the order of distance from the node where the task
 *    last ran.
 * 4. If no CPU is free for the task, one is preempted. First pass, in the order of 3: the first CPU
 *    whose task has a lower priority. Second pass: the first CPU whose task has the same priority
 *    and has run for 100 ms, or whose task has run for 1 s. That CPU stops its task at the next
 *    tick, if a task waits then.
 * 5. On machines with up to 5 CPUs, and while no more than 5 are online, the scheduler behaves as
 *    with one queue, and CPU 0 is like the others.
 *
 * Where this departs from NIX, and why:
 * - In NIX CPU 0 polls. Here it sleeps, and is notified of each waiting task, of each CPU that
 *   becomes free while a task waits, and once per tick period while a task waits, for the times in
 *   4.
 * - Tasks that Linux pins to CPU 0, mainly its per-CPU kthreads, run there between two scans.
 * - A task that may use only few CPUs is skipped while none of these is free, and 4 applies to it,
 *   too. In NIX a task wired to a core waits until the core's task sleeps, or is preempted for
 *   another task.
 * - While a higher class has CPU 0, or CPU 0 is offline, all CPUs scan the queue, as with one
 *   queue. The kernel does not report that a higher class takes an idle CPU, which CPU 0 usually
 *   is. So CPU 0 also counts as taken if it was notified and has not scanned for two tick periods.
 *   This is checked at ticks, and once a second if no CPU has ticks.
 */
#ifndef NIX_AMP_BPF_H
#define NIX_AMP_BPF_H

#define CENTRAL 0
#define SMP_AT_MOST 5
#define MAX_NODES 256
#define CENTRAL_DSQ 0x10000	/* tasks pinned to CPU 0 */

RODATA bool amp = false;
RODATA u8 nearest_nodes[MAX_NODES][MAX_NODES];

/* 3: first place and end of each node. */
u16 places_begin[MAX_NODES];
u16 places_end[MAX_NODES];

u32 gone_cpus;
bool central_away;
u64 notified_at;	/* time since which CPU 0 is notified and has not scanned; or 0 */

static __always_inline bool is_amp_machine(void)
{
	return amp && nr_online - READ_ONCE(gone_cpus) > SMP_AT_MOST;
}

static __always_inline bool is_amp(void)
{
	return is_amp_machine() && !READ_ONCE(central_away);
}

static __always_inline bool is_central(s32 cpu)
{
	return cpu == CENTRAL && is_amp_machine();
}

static __always_inline s32 amp_init(void)
{
	int at;

	for_range(at, 0, nr_online) {
		u32 cpu = cpu_at[at & MAX_CPU_MASK], node = node_of[cpu & MAX_CPU_MASK] % MAX_NODES;

		if (node_begin[cpu & MAX_CPU_MASK] == at)
			places_begin[node] = at;
		places_end[node] = at + 1;
	}
	return scx_bpf_create_dsq(CENTRAL_DSQ, -1);
}

static __always_inline void notify_central(void)
{
	if (!READ_ONCE(notified_at))
		WRITE_ONCE(notified_at, now_ns());
	kick(CENTRAL, SCX_KICK_PREEMPT);
}

/* ---- 3: choice of a core ---- */

static __always_inline bool is_free(s32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	return cpu != CENTRAL && !READ_ONCE(c->busy) && !READ_ONCE(c->taken) && !is_leaving(cpu) &&
	       scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) == 0;
}

/*
 * Condition on a CPU: it is free (3), or its task can be preempted in the first or second pass (4).
 */
enum wanted { FREE, LOWER, LONG_ENOUGH };

static __always_inline bool is_wanted(s32 cpu, enum wanted wanted, u32 priority, u64 now)
{
	struct cpu *c = cpu_of(cpu);
	u64 ran = now - READ_ONCE(c->since);

	if (wanted == FREE)
		return is_free(cpu);
	if (cpu == CENTRAL || !READ_ONCE(c->busy))
		return false;
	if (wanted == LOWER)
		return READ_ONCE(c->priority) < priority;
	return ran > SECOND_NS || (READ_ONCE(c->priority) == priority && ran > QUANTUM_NS);
}

VERIFIED_ONCE s32 find_core(struct task_struct *p TRUSTED, u32 home, enum wanted wanted, u32 priority, u64 now)
{
	u32 node = node_of[home & MAX_CPU_MASK] % MAX_NODES;
	int i, at;

	for_range(i, 0, nr_nodes) {
		u32 near = nearest_nodes[node][(u32)i % MAX_NODES];

		for_range(at, places_begin[near], places_end[near]) {
			s32 cpu = cpu_at[at & MAX_CPU_MASK];

			if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && is_wanted(cpu, wanted, priority, now))
				return cpu;
		}
	}
	return -1;
}

/* 4 */
static __noinline void preempt_for(struct task_struct *p, u32 home, u64 now)
{
	u32 priority = priority_in(p->scx.dsq_vtime);
	s32 victim = find_core(p, home, LOWER, priority, now);

	if (victim < 0)
		victim = find_core(p, home, LONG_ENOUGH, priority, now);
	if (victim >= 0)
		WRITE_ONCE(cpu_of(victim)->expired, true);
}

/* ---- 2: choice of a task ---- */

/* If no CPU is free for a task with this property, none is for any other task. */
static __always_inline bool may_use_all(const struct task_struct *p)
{
	return (u32)p->nr_cpus_allowed + !bpf_cpumask_test_cpu(CENTRAL, p->cpus_ptr) >= nr_online;
}

/* Assigns one task to a core. Returns whether there was one. */
static __noinline bool serve(bool anybody, u64 now)
{
	struct task_struct *p;

	for_each_queued(p, QUEUE_DSQ) {
		u32 home = scx_bpf_task_cpu(p);
		u64 key = p->scx.dsq_vtime;
		s32 cpu;

		if (!anybody && !is_fresh(key) && !is_promoted(key) && !is_free(home))
			continue;
		cpu = find_core(p, home, FREE, 0, now);
		if (cpu < 0) {
			preempt_for(p, home, now);
			if (may_use_all(p))
				break;
			continue;
		}
		WRITE_ONCE(cpu_of(cpu)->busy, true);
		if (dsq_move(&p_it, p, SCX_DSQ_LOCAL_ON | cpu))
			return true;
		WRITE_ONCE(cpu_of(cpu)->busy, false);
	}
	return false;
}

/* The scan of CPU 0: assigns one task after another, each time from the head of the queue. */
static __noinline void serve_all(u64 now)
{
	bool first = true;
	int i;

	WRITE_ONCE(notified_at, 0);
	for_range(i, 0, nr_cpus) {
		if (scx_bpf_dsq_nr_queued(QUEUE_DSQ) == 0)
			break;
		if ((first || !serve(false, now)) && !serve(true, now))
			break;
		first = false;
	}
}

/*
 * CPU 0 goes to a higher class or offline, or too few CPUs are online: idle CPUs scan the queue
 * themselves.
 */
static __always_inline void leave_central(void)
{
	int cpu;

	WRITE_ONCE(central_away, true);
	for_range(cpu, 0, nr_cpus)
		kick(cpu, SCX_KICK_IDLE);
}

/* CPU 0 does not react to its notification. */
static __always_inline void check_central(u64 now)
{
	u64 told = READ_ONCE(notified_at);

	if (is_amp() && told && now > told + 2 * SECOND_NS / hz)
		leave_central();
}

#endif
