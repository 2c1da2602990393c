/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scheduling groups: a queue for the CPUs of each node.
 *
 * 1. A task waits in the queue of the CPU where it ran last, and a new one in its parent's. Nodes from the 17th on share the
 *    queues of the first 16. With one queue for all there is one group.
 * 2. Steal. A CPU that finds nothing in its own queue goes round the groups, from the one that the last thief looked into,
 *    and takes the first task that is not bound to a CPU, from the highest priority down.
 * 3. Donate. A new process goes to the first CPU of another group in whose queue no more wait than in its parent's, counted
 *    from behind the CPU that got the last one.
 * 4. Both are switched while the scheduler runs, by the program `switch_groups`.
 *
 * Where this departs from NIX of December 2011, and why:
 * - There a CPU steals only from a group in which more wait than the group has CPUs, and nothing of a kernel process's
 *   priority (`steal_from_overloaded`). So up to 4 tasks of a group of 4 wait while all other CPUs idle.
 * - There a process is donated when it calls exec, of which sched_ext is not told. Here it is when it first wakes.
 * - There the CPU behind which the search shall go on is noted, and never looked at: every search begins at CPU 0, and the
 *   first group gets nearly all (`donate_from_first`).
 * - There every idle CPU looks for itself at each of its ticks. Here idle CPUs sleep, and one is told for each task.
 */
#ifndef NIX_GROUPS_BPF_H
#define NIX_GROUPS_BPF_H

#define MAX_GROUPS 16

RODATA bool by_node = false;
RODATA bool steal_from_overloaded = false;
RODATA bool donate_from_first = false;
RODATA u32 nr_nodes = 1;
RODATA u16 node_of[MAX_CPUS];

/* 4: no constants, as they are switched. */
bool steal SEC(".data.groups") = true;
bool donate SEC(".data.groups") = false;

u32 nr_groups;
u32 group_cpus[MAX_GROUPS];
u32 steal_from;		/* 2: the group that was looked into last */
u32 donate_behind;	/* 3: the CPU that got one last */

static __always_inline u32 group_of(s32 cpu)
{
	return by_node ? node_of[cpu & MAX_CPU_MASK] % MAX_GROUPS : 0;
}

static __always_inline u64 queue_of(s32 cpu)
{
	return QUEUE_DSQ + group_of(cpu);
}

static __always_inline s32 make_groups(void)
{
	s32 error = 0;
	int i;

	nr_groups = !by_node ? 1 : nr_nodes < MAX_GROUPS ? nr_nodes : MAX_GROUPS;
	for_range(i, 0, nr_groups) {
		if (!error)
			error = scx_bpf_create_dsq(QUEUE_DSQ + i, -1);
	}
	for_range(i, 0, nr_online)
		group_cpus[group_of(cpu_at[i & MAX_CPU_MASK])]++;
	return error;
}

/* Whether somebody waits anywhere. */
static __always_inline u32 count_waiting(void)
{
	u32 count = 0;
	int i;

	for_range(i, 0, nr_groups)
		count += scx_bpf_dsq_nr_queued(QUEUE_DSQ + i);
	return count;
}

/* ---- 2: steal ---- */

/* If so many wait in its queue. */
static __always_inline bool may_be_stolen_from(u32 group, u32 waiting)
{
	return waiting > (steal_from_overloaded ? group_cpus[group % MAX_GROUPS] : 0);
}

static __noinline bool steal_in(u32 group, s32 cpu)
{
	struct task_struct *p;
	bool taken = false;

	for_each_queued(p, QUEUE_DSQ + group) {
		u32 priority = priority_in(p->scx.dsq_vtime);

		if (p->nr_cpus_allowed == 1 || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (steal_from_overloaded && priority >= BASE_KERNEL && priority < PROMOTED)
			continue;
		taken = dsq_move(&p_it, p, SCX_DSQ_LOCAL) && came(p, cpu);
		if (taken)
			break;
	}
	return taken;
}

static __noinline bool steal_for(s32 cpu)
{
	u32 first = READ_ONCE(steal_from), own = group_of(cpu);
	int i;

	if (!by_node || !READ_ONCE(steal) || !is_open(cpu))
		return false;
	for_range(i, 0, nr_groups) {
		u32 group = (first + i) % nr_groups;

		WRITE_ONCE(steal_from, group);
		if (group == own || !may_be_stolen_from(group, scx_bpf_dsq_nr_queued(QUEUE_DSQ + group)))
			continue;
		if (steal_in(group, cpu))
			return true;
	}
	return false;
}

/* ---- 3: donate ---- */

/* Where the child of whoever runs on `here` shall begin. */
static __noinline s32 donate_to(struct task_struct *p, s32 here)
{
	u32 waiting = scx_bpf_dsq_nr_queued(queue_of(here)), first = donate_from_first ? 0 : READ_ONCE(donate_behind);
	int i;

	for_range(i, 0, nr_cpus) {
		u32 cpu = (first + i) % nr_cpus;

		if (group_of(cpu) == group_of(here) || is_leaving(cpu) || !has_place(cpu))
			continue;
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || scx_bpf_dsq_nr_queued(queue_of(cpu)) > waiting)
			continue;
		WRITE_ONCE(donate_behind, cpu + 1);
		return cpu;
	}
	return here;
}

/* Of processes, not of threads; and a bound one stays. */
static __always_inline bool is_donated(struct task_struct *p, u64 wake_flags)
{
	struct task_struct *parent = bpf_get_current_task_btf();

	return by_node && READ_ONCE(donate) && (wake_flags & SCX_WAKE_FORK) && p->nr_cpus_allowed > 1 &&
	       parent->tgid != p->tgid;
}

/* ---- 4 ---- */

struct groups_switches {
	u32 steal;
	u32 donate;
};

/* Who begins to steal has to wake up. */
SEC("syscall") int switch_groups(struct groups_switches *to)
{
	int cpu;

	WRITE_ONCE(donate, to->donate != 0);
	WRITE_ONCE(steal, to->steal != 0);
	for_range(cpu, 0, nr_cpus)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return 0;
}

/* ---- An idle CPU for a task that waits in the queue of `home` ---- */

/* Whom the kernel picks it no longer calls idle: not even a CPU that went, which it calls so until then. */
static __always_inline s32 claim_any(struct task_struct *p)
{
	int attempt;

	for_range(attempt, 0, nr_cpus) {
		s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (cpu < 0 || is_open(cpu))
			return cpu;
	}
	return -1;
}

static __always_inline bool claim(struct task_struct *p, s32 cpu)
{
	return is_open(cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(cpu);
}

static __always_inline s32 claim_in_group(struct task_struct *p, s32 home)
{
	u32 group = group_of(home);
	int at;

	for_range(at, 0, nr_online) {
		u32 cpu = cpu_at[at & MAX_CPU_MASK];

		if (group_of(cpu) == group && claim(p, cpu))
			return cpu;
	}
	return -1;
}

/*
 * -1 if there is none: the one where it ran last, one of the group, one that would steal it. `waiting` tasks are in its queue,
 * with this one.
 */
static __noinline s32 claim_idle(struct task_struct *p, s32 home, u32 waiting)
{
	s32 cpu = -1;

	if (claim(p, home))
		return home;
	if (nr_groups > 1 && (cpu = claim_in_group(p, home)) >= 0)
		return cpu;
	if (nr_groups == 1 || (READ_ONCE(steal) && p->nr_cpus_allowed > 1 && may_be_stolen_from(group_of(home), waiting)))
		cpu = claim_any(p);
	return cpu;
}

#endif
