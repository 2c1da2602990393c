/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scheduling groups: one queue for the CPUs of each node.
 *
 * 1. A task waits in the queue of the CPU where it last ran, and a new task in that of its parent.
 *    From the 17th node on, nodes share the queues of the first 16. With one queue for all CPUs
 *    there is one group.
 * 2. Steal. A CPU whose own queue has nothing for it visits all groups, starting with the one that
 *    the last thief visited, and takes the first task that is not pinned, from the highest priority
 *    down.
 * 3. Donate. A new process goes to the first CPU of another group whose queue is no longer than
 *    that of its parent's group. The search starts behind the CPU that got the last one.
 * 4. The program `switch_groups` switches both on and off while the scheduler runs.
 *
 * Where this departs from NIX of December 2011, and why:
 * - There a CPU steals only from a group with more waiting tasks than CPUs, and no task with a
 *   kernel process's priority (`steal_from_overloaded`). So up to 4 tasks of a group of 4 CPUs wait
 *   while all other CPUs are idle.
 * - There a process is donated when it calls exec, which sched_ext does not report. Here it is
 *   donated at its first wakeup.
 * - There the CPU behind which the next search should start is stored but never read: every search
 *   starts at CPU 0, and the first group gets nearly all processes (`donate_from_first`).
 * - There every idle CPU scans at each of its ticks. Here idle CPUs sleep, and one is notified of
 *   each task.
 */
#ifndef NIX_GROUPS_BPF_H
#define NIX_GROUPS_BPF_H

#define MAX_GROUPS 16

RODATA bool by_node = false;
RODATA bool steal_from_overloaded = false;
RODATA bool donate_from_first = false;
RODATA u32 nr_nodes = 1;
RODATA u16 node_of[MAX_CPUS];

/* 4: variables, not constants, as they can be switched. */
bool steal SEC(".data.groups") = true;
bool donate SEC(".data.groups") = false;

u32 nr_groups;
u32 group_cpus[MAX_GROUPS];
u32 steal_from;		/* 2: group that the last thief visited */
u32 donate_behind;	/* 3: CPU number at which the next search starts */

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

/* Number of waiting tasks in all groups. */
static __always_inline u32 count_waiting(void)
{
	u32 count = 0;
	int i;

	for_range(i, 0, nr_groups)
		count += scx_bpf_dsq_nr_queued(QUEUE_DSQ + i);
	return count;
}

/* ---- 2: steal ---- */

/* Returns whether a group with this many waiting tasks may be robbed. */
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
		taken = dsq_move(&p_it, p, SCX_DSQ_LOCAL) && task_arrived(p, cpu);
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

/* CPU on which the child of the task on `here` starts. */
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

/* 3: processes are donated, not threads, and no pinned task. */
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

/* Idle CPUs that may steal from now on are woken. */
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

/* A CPU that the kernel picks leaves its idle mask, even if it is one that went offline. */
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
 * Claims an idle CPU; -1 if there is none. In this order: the task's last CPU, one of its group,
 * one that would steal it. `waiting` is the length of its queue, this task included.
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
