/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sets: CPUs that belong to a job, permanently or for a time: the processor sets of Tru64 UNIX, and
 * the reservations of SGI's Miser.
 *
 * 1. Each CPU belongs to one set, at first to the default set. A job is a cgroup. A job that
 *    reserves CPUs has a set of its own, which its child cgroups without a reservation share. CPUs
 *    move between sets while tasks run.
 *
 * 2. A reservation has a number of CPUs, a start relative to the job's first task, and a duration,
 *    which may be unlimited. It begins once the default set has more CPUs than it reserves. So the
 *    default set is never empty, nor is any other set for which a task waits. From then on its end
 *    is fixed. Before and afterwards the job shares CPU time with all others.
 *
 * 3. The CPUs of a job are of one node, if some node has enough free ones, so that they are near to
 *    the memory of its tasks. A set that grows looks first in nodes where it has CPUs. Of several
 *    nodes, the one with the fewest free CPUs that suffice is taken.
 *
 * 4. The tasks of a set run round robin with slices of 10 ms.
 *
 * 5. Lending. A CPU whose set has no waiting task takes tasks of other sets: first those of the
 *    default set, then those of reserving jobs. It returns to its own set when a task of that set
 *    wakes. Without lending (`lend=false`) the CPUs of a sleeping job are idle.
 *
 * 6. A task that may not run on any CPU of its set waits with the set of the first CPU on which it
 *    may run.
 *
 * 7. Reservations begin and end in a timer that runs every 10 ms. Then all CPUs that change sets
 *    pick again, and waiting tasks whose set has changed move to the queue of the new one.
 *
 * Where this departs from the originals, and why:
 * - On Tru64 a user moves CPUs with a command. Here reservations are in the profile, and a program
 *   of the object, `assign`, moves CPUs while the scheduler runs.
 * - Miser's user space plans ahead, rejects reservations that do not fit, and kills a job at the
 *   end of its time. Here a reservation that does not fit waits, and a job continues after its
 *   reservation.
 * - Per-CPU kthreads run at once.
 */
#include <weir/client.bpf.h>
#include <weir/jobs.bpf.h>
#include <weir/group-name.bpf.h>
#include <weir/topology.bpf.h>

LICENSE("GPL");

/* Set by the presets. */
RODATA u32 turn_us = 10000;
RODATA bool lend = true;

#define UPDATE_NS 10000000ULL
#define MS_NS 1000000ULL
#define DEFAULT_SET ROOT_JOB
#define MOST_RESERVATIONS 64

/* Reservations, by cgroup name. User space fills the map. */
struct reservation {
	u32 cpus;
	u32 from_ms;
	u32 ms;		/* 0: unlimited */
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, MOST_RESERVATIONS);
	MAP_TYPE(key, struct name);
	MAP_TYPE(value, struct reservation);
} reservations SEC(".maps");

/* The set of a job. It has the number that the job has in <weir/jobs.bpf.h>, and so has its DSQ. */
struct set {
	struct name name;
	struct reservation reserves;
	u64 from;	/* start of the reservation; 0: no task of the job has run yet */
	u64 to;		/* its end; 0: it has not begun, or is unlimited */
	u32 cpus;	/* CPUs in the set now */
};

struct set sets[JOBS];

struct task {
	u32 job;
};

TASK_STORAGE(tasks, struct task);

/* 1, 5: set of each CPU, and whether it runs a task of another set. */
struct cpu {
	u32 owner;
	bool guest;
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

/* CPUs that are not in the default set. */
u32 nr_reserved;

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline struct set *set_at(u32 number)
{
	return &sets[number % JOBS];
}

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & MAX_CPU_MASK];
}

static __always_inline u32 owner_of(s32 cpu)
{
	return READ_ONCE(cpu_of(cpu)->owner);
}

static __always_inline u64 turn_ns(void)
{
	return turn_us * 1000ULL;
}

/* ---- 1, 6: set of a task ---- */

/*
 * Functions that read masks and DSQs are not VERIFIED_ONCE in this file, because they would be
 * verified for init as well, which is sleepable.
 */
static __noinline bool may_run_in(struct task_struct *p, u32 set)
{
	int cpu;

	for_range(cpu, 0, nr_cpus) {
		if (has_place(cpu) && owner_of(cpu) == set && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return true;
	}
	return false;
}

/* Set of the job, or of its nearest ancestor that has CPUs. */
VERIFIED_ONCE u32 set_of_job(u32 job)
{
	int level;

	for_range(level, 0, JOB_DEPTH) {
		if (job == ROOT_JOB || READ_ONCE(set_at(job)->cpus))
			break;
		job = job_at(job)->parent;
	}
	return job % JOBS;
}

static __noinline u32 set_of(struct task_struct *p)
{
	struct task *t = task_of(p);
	u32 set = DEFAULT_SET;

	if (!t || !READ_ONCE(nr_reserved))
		return set;
	set = set_of_job(t->job) % JOBS;
	if (p->nr_cpus_allowed >= nr_online || may_run_in(p, set))
		return set;
	return owner_of(bpf_cpumask_first(p->cpus_ptr)) % JOBS;
}

/* ---- 3: choice of the CPUs that move ---- */

static __always_inline s32 cpu_in(u32 place)
{
	return cpu_at[place & MAX_CPU_MASK];
}

/* Number of places from `begin` to `end` whose CPUs are in this set. */
VERIFIED_ONCE u32 count_between(u32 begin, u32 end, u32 set)
{
	u32 found = 0;
	int place;

	for_range(place, begin, end)
		found += owner_of(cpu_in(place)) == set;
	return found;
}

/*
 * 3: first place, at or after `place`, of the best node for `more` more CPUs; `nr_online` if no
 * node has enough.
 */
VERIFIED_ONCE u32 find_node(u32 place, u32 set, u32 more)
{
	u32 found = nr_online, least = ~0U;
	int steps;

	for_range(steps, 0, nr_online) {
		u32 end = node_end[cpu_in(place) & MAX_CPU_MASK], free;

		if (place >= nr_online)
			break;
		free = count_between(place, end, DEFAULT_SET);
		if (free >= more && count_between(place, end, set))
			return place;
		if (free >= more && free < least) {
			least = free;
			found = place;
		}
		place = end;
	}
	return found;
}

static __always_inline void move_cpu(s32 cpu, u32 from, u32 to)
{
	WRITE_ONCE(cpu_of(cpu)->owner, to);
	set_at(from)->cpus--;
	set_at(to)->cpus++;
	nr_reserved += from == DEFAULT_SET ? 1 : -1;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * Moves up to `more` CPUs from one set to another, the last ones between these places. Returns how
 * many were missing.
 */
VERIFIED_ONCE u32 move_between(u32 begin, u32 end, u32 from, u32 to, u32 more)
{
	int steps;

	for_range(steps, begin, end) {
		s32 cpu = cpu_in(end - 1 - (steps - begin));

		if (!more)
			break;
		if (owner_of(cpu) != from)
			continue;
		move_cpu(cpu, from, to);
		more--;
	}
	return more;
}

/*
 * 2: adds `more` CPUs or none, and leaves at least one in the default set. Returns whether there
 * were enough.
 */
VERIFIED_ONCE u32 grow(u32 set, u32 more)
{
	u32 place;

	if (set_at(DEFAULT_SET)->cpus <= more)
		return false;
	place = find_node(0, set, more);
	if (place < nr_online)
		move_between(place, node_end[cpu_in(place) & MAX_CPU_MASK], DEFAULT_SET, set, more);
	else
		move_between(0, nr_online, DEFAULT_SET, set, more);
	return true;
}

/* ---- 2, 7: begin and end of reservations ---- */

struct clock {
	struct bpf_timer timer;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct clock);
} clocks SEC(".maps");

/* Number of CPUs that a job should have now. */
static __noinline u32 cpus_due(struct set *s, u64 now)
{
	if (!s->reserves.cpus || !s->from || now < s->from)
		return 0;
	if (s->to && now >= s->to)
		s->reserves.cpus = 0;
	return s->reserves.cpus;
}

/* Returns whether CPUs moved. */
VERIFIED_ONCE u32 update_set(u32 number, u64 now)
{
	struct set *s = set_at(number);
	u32 due = cpus_due(s, now), had = s->cpus;

	if (due > had)
		grow(number, due - had);
	else if (due < had)
		move_between(0, nr_online, number, DEFAULT_SET, had - due);
	if (!had && s->cpus && s->reserves.ms)
		s->to = now + s->reserves.ms * MS_NS;
	return s->cpus != had;
}

static __noinline void sort_dsq(u32 queue)
{
	struct task_struct *p;

	for_each_queued(p, queue) {
		u32 set = set_of(p);

		if (set != queue)
			dsq_move(&p_it, p, set);
	}
}

static int update_sets(void *map, u32 *key, struct clock *clock)
{
	u64 now = bpf_ktime_get_ns();
	bool moved = false;
	int number;

	for_range(number, 1, last_job + 1)
		moved |= update_set(number, now) != 0;
	if (moved) {
		bpf_rcu_read_lock();	/* 6.12 takes a callback that sleepable init sets for sleepable */
		for_range(number, 0, last_job + 1)
			sort_dsq(number);
		bpf_rcu_read_unlock();
	}
	bpf_timer_start(&clock->timer, UPDATE_NS, 0);
	return 0;
}

/* 1: changes a set by hand. */
struct assignment {
	char group[sizeof(struct name)] __attribute__((aligned(8)));	/* name of the cgroup */
	u32 cpus;	/* reserved from now on without limit; 0: none */
};

SEC("syscall") int assign(struct assignment *to)
{
	int number;

	if (!to->group[0])
		return -2; /* ENOENT */
	for_range(number, 1, last_job + 1) {
		struct set *s = set_at(number);
		const u64 *name = (const u64 *)s->name.text, *wanted = (const u64 *)to->group;

		if (name[0] != wanted[0] || name[1] != wanted[1] || name[2] != wanted[2] || name[3] != wanted[3])
			continue;
		s->reserves.ms = 0;
		s->to = 0;
		s->from = 1;
		WRITE_ONCE(s->reserves.cpus, to->cpus);
		return 0;
	}
	return -2; /* ENOENT */
}

/* ---- 5: wakeup of idle CPUs ---- */

/* Claims an idle CPU of the set; -1 if there is none. */
VERIFIED_ONCE s32 idle_cpu_of(struct task_struct *p TRUSTED, u32 set)
{
	int cpu;

	for_range(cpu, 0, nr_cpus) {
		if (owner_of(cpu) == set && has_place(cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
		    scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return -1;
}

static __always_inline s32 idle_cpu_for(struct task_struct *p, u32 set)
{
	s32 cpu = READ_ONCE(nr_reserved) ? idle_cpu_of(p, set) : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	return cpu < 0 && lend && READ_ONCE(nr_reserved) ? scx_bpf_pick_idle_cpu(p->cpus_ptr, 0) : cpu;
}

/*
 * Preempts a CPU of the set that runs a task of another set, and returns whether there was one. The
 * CPU no longer counts as such, so that it is preempted once.
 */
VERIFIED_ONCE u32 preempt_guest(struct task_struct *p TRUSTED, u32 set)
{
	int cpu;

	for_range(cpu, 0, nr_cpus) {
		if (owner_of(cpu) != set || !READ_ONCE(cpu_of(cpu)->guest) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		WRITE_ONCE(cpu_of(cpu)->guest, false);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return true;
	}
	return false;
}

/* ---- 4, 5: dispatch ---- */

static __always_inline bool take_from(u32 set)
{
	return scx_bpf_dsq_nr_queued(set) && dsq_move_to_local_as(set, SCX_ENQ_IMMED);
}

VERIFIED_ONCE u32 take_from_others(u32 own)
{
	int set;

	for_range(set, 0, last_job + 1) {
		if ((u32)set != own && take_from(set))
			return true;
	}
	return false;
}

/* ---- Lifecycle of a task, in order ---- */

SLEEPABLE_OP2(s32, sets_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -12; /* ENOMEM */
	t->job = first_job(args);
	return 0;
}

OP3(s32, sets_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	struct task *t = task_of(p);
	s32 cpu;

	if (!t || !READ_ONCE(nr_reserved))
		return go_to_idle_cpu(p, prev_cpu, wake_flags, turn_ns());
	cpu = idle_cpu_for(p, set_of(p));
	if (cpu < 0)
		return prev_cpu;
	dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), SCX_ENQ_IMMED);
	return cpu;
}

/* 2: the first task starts the job's clock. */
OP2(void, sets_runnable, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);
	struct set *s = t ? set_at(t->job) : NULL;

	if (s && s->reserves.cpus && !READ_ONCE(s->from))
		WRITE_ONCE(s->from, now_ns() + s->reserves.from_ms * MS_NS + 1);	/* not 0 */
}

OP2(void, sets_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);
	u32 set;
	s32 cpu;

	if (!t || !is_client(p)) {
		run_at_once(p, turn_ns(), enq_flags);
		return;
	}
	set = set_of(p);
	dsq_insert(p, set, turn_ns(), enq_flags);
	cpu = idle_cpu_for(p, set);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	if (enq_flags & SCX_ENQ_REENQ)
		kick_idle_cpu(p, enq_flags);
	if (READ_ONCE(nr_reserved) && (cpu < 0 || owner_of(cpu) != set))
		preempt_guest(p, set);
}

/*
 * 4: the running task continues if no task of this CPU's set waits; a task of another set only if
 * no task of any set waits.
 */
OP2(void, sets_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	u32 own = owner_of(cpu) % JOBS;
	bool guest = t && set_of(prev) != own;

	if (take_from(own))
		return;
	if ((!t || guest) && (lend || !nr_reserved) && take_from_others(own))
		return;
	if (t && (!guest || lend))
		task_set_slice(prev, turn_ns());
}

OP1(void, sets_running, struct task_struct *, p)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);

	WRITE_ONCE(cpu_of(cpu)->guest, t && is_client(p) && set_of(p) != owner_of(cpu) % JOBS);
}

/* ---- Lifecycle of a job ---- */

SLEEPABLE_OP2(s32, sets_cgroup_init, struct cgroup *, cgrp, struct scx_cgroup_init_args *, args)
{
	s32 error = make_job(cgrp, args->weight);
	u32 number = number_of(cgrp);
	struct set *s = set_at(number);
	struct reservation *reservation;
	struct name name;

	if (error || number == ROOT_JOB || !is_own(cgrp, number))
		return error;
	read_name(&name, cgrp);
	reservation = bpf_map_lookup_elem(&reservations, &name);
	s->name = name;
	s->reserves = reservation ? *reservation : (struct reservation){};
	s->from = s->to = 0;
	return 0;
}

/* The cgroup has no tasks. */
SLEEPABLE_OP1(void, sets_cgroup_exit, struct cgroup *, cgrp)
{
	u32 number = number_of(cgrp);
	struct set *s = set_at(number);

	if (number != ROOT_JOB && is_own(cgrp, number)) {
		s->reserves.cpus = 0;
		s->name.text[0] = 0;
		move_between(0, nr_online, number, DEFAULT_SET, s->cpus);
	}
	end_job(cgrp);
}

/* The task is in no DSQ and does not run. */
OP3(void, sets_cgroup_move, struct task_struct *, p, struct cgroup *, from, struct cgroup *, to)
{
	struct task *t = task_of(p);

	if (t)
		t->job = number_of(to);
}

SLEEPABLE_OP0(s32, sets_init)
{
	u32 key = 0;
	struct clock *clock = bpf_map_lookup_elem(&clocks, &key);
	s32 error = 0;
	int number;

	if (!clock)
		return -2; /* ENOENT */
	set_at(DEFAULT_SET)->cpus = nr_online;
	for_range(number, 0, JOBS) {
		if (!error)
			error = scx_bpf_create_dsq(number, -1);
	}
	bpf_timer_init(&clock->timer, &clocks, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&clock->timer, update_sets);
	bpf_timer_start(&clock->timer, UPDATE_NS, 0);
	return error;
}

OP1(void, sets_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(sets_ops,
	.init_task = (void *)sets_init_task,
	.select_cpu = (void *)sets_select_cpu,
	.runnable = (void *)sets_runnable,
	.enqueue = (void *)sets_enqueue,
	.dispatch = (void *)sets_dispatch,
	.running = (void *)sets_running,
	.cgroup_init = (void *)sets_cgroup_init,
	.cgroup_exit = (void *)sets_cgroup_exit,
	.cgroup_move = (void *)sets_cgroup_move,
	.init = (void *)sets_init,
	.exit = (void *)sets_exit,
	/* 5: without lending, a task must leave a CPU of another set even if no task waits. */
	.flags = SCX_OPS_ENQ_LAST,
	.name = "sets",
);
