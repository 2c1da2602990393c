/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The AMP scheduler: CPU 0 runs nothing, and gives tasks to all others.
 *
 * 1. One queue, into which only CPU 0 looks. The others have a slot each, and idle while it is empty.
 * 2. Pick: the first task, from the highest priority down. When it has given one, CPU 0 prefers tasks that never ran, or whose
 *    last CPU is free, until it finds none. So affinity only counts among those that wait while several CPUs are free, and
 *    who was stopped by 4 does not get its CPU back before the one it was stopped for.
 * 3. Core: of the nodes by their distance from the node where the task ran last, the first free CPU.
 * 4. If no CPU is free for the task, one shall be. First round, in the order of 3: the first CPU whose task has a lower
 *    priority. Second round: the first whose task has the same and has run for 100 ms, or any that has run for 1 s. That
 *    CPU stops at its next tick, if somebody waits then.
 * 5. On machines of up to 5 CPUs, and while no more are left, everything is as with one queue and no CPU 0 of this kind.
 *
 * Where this departs from NIX, and why:
 * - There CPU 0 never stops looking. Here it sleeps, and is told of each task that waits, of each CPU that becomes free while
 *   somebody waits, and once in a tick period while somebody waits, for the times of 4.
 * - What Linux binds to CPU 0, its own threads above all, runs there between two looks.
 * - A task that may use few CPUs lets others pass while none of these is free, and 4 is for it too. In NIX one that is wired
 *   to a core waits until that core's task sleeps, or is stopped for somebody else's sake.
 * - While a higher class has CPU 0, or CPU 0 is not there, all CPUs look into the queue, as with one queue. The kernel does
 *   not say that a higher class takes a CPU that idles, as CPU 0 mostly does. So it counts as taken as well when it was told
 *   and has not looked for two tick periods, which is seen at a tick, or once a second where nobody has ticks.
 */
#ifndef NIX_AMP_BPF_H
#define NIX_AMP_BPF_H

#define CENTRAL 0
#define SMP_AT_MOST 5
#define MAX_NODES 256
#define CENTRAL_DSQ 0x10000	/* what is bound to CPU 0 */

RODATA bool amp = false;
RODATA u8 nearest_nodes[MAX_NODES][MAX_NODES];

/* 3: places of each node. */
u16 places_begin[MAX_NODES];
u16 places_end[MAX_NODES];

u32 gone_cpus;
bool central_away;
u64 told_at;	/* CPU 0 was told then, and has not looked since; or 0 */

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

static __always_inline void tell_central(void)
{
	if (!READ_ONCE(told_at))
		WRITE_ONCE(told_at, now_ns());
	kick(CENTRAL, SCX_KICK_PREEMPT);
}

/* ---- 3: which core ---- */

static __always_inline bool is_free(s32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	return cpu != CENTRAL && !READ_ONCE(c->busy) && !READ_ONCE(c->taken) && !is_leaving(cpu) &&
	       scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) == 0;
}

/* What is asked of a CPU: that it is free, or that its task can be stopped, by the round. */
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

/* ---- 2: whom ---- */

/* If no CPU is free for such a task, none is for any other. */
static __always_inline bool may_use_all(const struct task_struct *p)
{
	return (u32)p->nr_cpus_allowed + !bpf_cpumask_test_cpu(CENTRAL, p->cpus_ptr) >= nr_online;
}

/* Gives one task to a core. Whether there was one. */
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

/* What CPU 0 does: one task after another, each time from the beginning. */
static __noinline void serve_all(u64 now)
{
	bool first = true;
	int i;

	WRITE_ONCE(told_at, 0);
	for_range(i, 0, nr_cpus) {
		if (scx_bpf_dsq_nr_queued(QUEUE_DSQ) == 0)
			break;
		if ((first || !serve(false, now)) && !serve(true, now))
			break;
		first = false;
	}
}

/* CPU 0 goes to a higher class, or offline, or too few are left: whoever idles looks for itself. */
static __always_inline void leave_central(void)
{
	int cpu;

	WRITE_ONCE(central_away, true);
	for_range(cpu, 0, nr_cpus)
		kick(cpu, SCX_KICK_IDLE);
}

/* It does not come, though it was told. */
static __always_inline void miss_central(u64 now)
{
	u64 told = READ_ONCE(told_at);

	if (is_amp() && told && now > told + 2 * SECOND_NS / hz)
		leave_central();
}

#endif
