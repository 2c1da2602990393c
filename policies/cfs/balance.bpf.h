/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How load gets from one CPU to another.
 *
 * 1. A CPU that runs out of tasks takes one from the busiest CPU, domain by domain from its core upwards (new-idle
 *    balance) that has two. Before 6.1 it does not if it idled for less than 0.5 ms at a time lately.
 * 2. Every CPU looks at each of its domains once in an interval: as many ms as the domain has CPUs, and 32 times as long
 *    if it is busy (16 times in 6.1). In 2.6.36 the intervals are 1 ms (8 in a node, 64 in the machine), 64 times as long
 *    (32, 128). It doubles while there is nothing to do, up to twice (2.6.36: 2, 4, 4 or 1 times) the shortest. Only the first
 *    idle CPU of a group does it for its group, or the first one.
 * 3. A busy CPU notices that at a tick, and goes through dispatch without a pick. An idle one has no ticks: a busy CPU with two
 *    tasks wakes one that idles at its tick (no-HZ balance), and that looks for itself.
 * 4. The busiest group has the highest load for each CPU, among those with more tasks than CPUs. Nothing is done if the own
 *    group has more than the domain on average, or if the other has not the percentage of imbalance more. What moves is the
 *    smaller of what the busiest is above the average and what the own group is below, and one task at least if that
 *    makes both more even. In 6.1 a group that has idle CPUs evens the number of tasks instead, by half of the difference.
 *    Before 6.1 loads are biased against moving (LB_BIAS): periodic looks take the larger of a load and its average over
 *    ticks for the own group, and the smaller for others. So whoever lost a task does not take it back a tick later.
 * 5. From the busiest CPU of that group tasks are taken that weigh no more than twice of what shall move. In 6.1 they weigh
 *    no more than that, but twice as much is allowed with each failure.
 * 6. A task that ran less than 0.5 ms ago, and a buddy, stays, unless balancing has failed so often as the domain tries. In
 *    6.1 SCHED_IDLE and siblings of the same core never mind.
 * 7. If it fails 3 times more than that, the running task of the busiest CPU is pushed (active balance). Before 6.1 the next
 *    one is pushed after two failures more.
 */
#ifndef CFS_BALANCE_BPF_H
#define CFS_BALANCE_BPF_H

#include "pick.bpf.h"
#include "wake.bpf.h"

RODATA u32 migration_cost_us = 500;
RODATA bool balances_load = true;
RODATA u32 hz = 250;

#define MS 1000000ULL
#define LOOK_AT_MOST 32
#define AVERAGES 3
#define FORGOTTEN_TICKS 64

/* How a CPU looks: it has become idle, idles, or is busy. */
enum state { NEWLY_IDLE, IDLING, BUSY };

/* A CPU's balance in each of its domains. */
struct balance {
	u64 next[LEVELS];
	u32 interval_ms[LEVELS];
	u32 failed[LEVELS];
	u64 idle_since;		/* 0 while it is not idle */
	u64 idles_ns;		/* for so long at a time, lately */
	bool due;		/* 3: the next dispatch balances */
	bool woken;		/* 3: from its idle sleep, to balance */
	u64 averages[AVERAGES];	/* 4: of the load: of the last tick, over two ticks, over four */
	u64 averaged_at;
	s32 push_to;		/* 7: CPU + 1 */
	s32 pushed;		/* the task that goes there when it stops */
} __attribute__((aligned(64)));

struct balance balances[MAX_CPUS];

/* What a look at a domain has found. One for each CPU that looks. */
struct survey {
	/* The group at hand. */
	u64 load;
	u32 nr, idle;
	s32 heaviest, first_idle;
	u64 heaviest_load, weight;
	/* The own group, the busiest other, and all. Loads are biased, weights are sums of what is there. */
	u64 own_load, busiest_load, total_load, busiest_weight;
	u32 own_nr, own_cpus, own_idle, busiest_nr, busiest_cpus, busiest_idle;
	s32 busiest;		/* CPU, -1 if there is none */
	s32 own_first_idle;
	u64 amount;		/* weight that shall move, or tasks */
	bool by_number;
	u32 moved, looked;
	bool bound;		/* no task of the busiest CPU may run here */
} __attribute__((aligned(64)));

struct survey surveys[MAX_CPUS];

static __always_inline struct balance *balance_of(s32 cpu)
{
	return &balances[index_of(cpu)];
}

/* ---- 2: when ---- */

static __always_inline u32 least_interval_ms(enum level level, s32 cpu)
{
	if (version != V2_6_36)
		return cpus_in(level, cpu);
	return level == THE_MACHINE ? 64 : level == A_NODE ? 8 : 1;
}

static __always_inline u32 most_interval_ms(enum level level, s32 cpu)
{
	if (version != V2_6_36)
		return 2 * cpus_in(level, cpu);
	return level == THE_MACHINE ? 64 * nr_online : level == A_NODE ? 32 : level == A_CACHE ? 4 : 2;
}

static __always_inline u32 busy_factor(enum level level)
{
	if (version == V6_1)
		return 16;
	if (version == V4_1)
		return 32;
	return level == THE_MACHINE ? 128 : level == A_NODE ? 32 : 64;
}

static __always_inline u32 tries(enum level level)
{
	if (level == A_CORE)
		return 0;
	return level == THE_MACHINE && version != V2_6_36 ? 2 : level == A_NODE && version == V2_6_36 ? 2 : 1;
}

/* No longer than a tenth of a second for each CPU. In 6.1 busy CPUs look a tick earlier, so that not all look at once. */
static __always_inline u64 interval_ns(const struct balance *b, enum level level, s32 cpu, enum state state)
{
	u64 ns = (b->interval_ms[level] ? b->interval_ms[level] : least_interval_ms(level, cpu)) * MS;
	u64 tick_ns = 1000000000 / hz, most = nr_online * 100 * MS;

	if (state == BUSY)
		ns *= busy_factor(level);
	if (state == BUSY && version == V6_1 && ns > tick_ns)
		ns -= tick_ns;
	return ns < tick_ns ? tick_ns : ns < most ? ns : most;
}

static __always_inline void lengthen_interval(struct balance *b, u32 level, s32 cpu)
{
	u32 least = least_interval_ms(level, cpu), most = most_interval_ms(level, cpu);
	u32 twice = 2 * (b->interval_ms[level] ? b->interval_ms[level] : least);

	b->interval_ms[level] = twice < most ? twice : most;
}

/* ---- 4: what ---- */

/* As `index_of`. */
static __always_inline u32 average_index(u32 average)
{
	asm volatile("" : "+r"(average));
	return average < AVERAGES ? average : 0;
}

/* The CPU had this load at its last tick, or until now while it idled: ticks that it missed then count. */
static __always_inline void average_load(s32 cpu, u64 load, u64 now)
{
	struct balance *b = balance_of(cpu);
	u64 tick_ns = 1000000000 / hz;
	u32 ticks = (now - b->averaged_at + tick_ns / 2) / tick_ns, shift, tick;

	if (!ticks)
		return;
	b->averaged_at = now;
	b->averages[0] = load;
	for_range(shift, 1, AVERAGES) {
		u64 old = b->averages[average_index(shift)];

		for_range(tick, 1, ticks < FORGOTTEN_TICKS ? ticks : FORGOTTEN_TICKS)
			old -= old >> shift;
		/* Rounded towards the load, so that it comes there. */
		if (load > old)
			old += (load - old + (1 << shift) - 1) >> shift;
		else
			old -= (old - load + (1 << shift) - 1) >> shift;
		b->averages[average_index(shift)] = old;
	}
}

/* Which average a look takes, counted from 1; 0: none, the load itself. */
static __always_inline u32 average_of(enum level level, enum state state)
{
	if (version == V6_1 || state == NEWLY_IDLE || level == A_CORE)
		return 0;
	if (state == BUSY)
		return level == A_CACHE || (level == A_NODE && version == V4_1) ? 2 : 3;
	if (level == A_CACHE)
		return 0;
	return version == V4_1 ? level - A_CACHE : level - A_CACHE + 1;
}

static __always_inline u64 biased_load(s32 cpu, u32 average, bool own)
{
	u64 load = READ_ONCE(cpu_of(cpu)->load), usual;

	if (!average)
		return load;
	usual = READ_ONCE(balance_of(cpu)->averages[average_index(average - 1)]);
	return own == (usual > load) ? usual : load;
}

/* The group at hand is complete: it is the own one, or perhaps the busiest. */
static __always_inline void end_group(struct survey *s, bool own, u32 cpus)
{
	u64 load = s->load / cpus;

	s->total_load += s->load;
	if (own) {
		s->own_load = load;
		s->own_nr = s->nr;
		s->own_cpus = cpus;
		s->own_idle = s->idle;
		s->own_first_idle = s->first_idle;
	} else if (s->heaviest >= 0 && (s->nr > cpus || version == V6_1) && (s->busiest < 0 || load > s->busiest_load)) {
		s->busiest = s->heaviest;
		s->busiest_load = load;
		s->busiest_weight = s->weight;
		s->busiest_nr = s->nr;
		s->busiest_cpus = cpus;
		s->busiest_idle = s->idle;
	}
}

/* Looks at all CPUs of a domain. */
VERIFIED_ONCE u32 look(s32 cpu, u32 level, u32 state)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	struct survey *s = &surveys[index_of(cpu)];
	u32 average = average_of(level, state), place;

	s->busiest = -1;
	s->total_load = s->own_load = s->busiest_load = 0;
	for_range(place, begin_of(level, cpu), end_of(level, cpu)) {
		s32 other = cpu_at_place(place);
		const struct cpu *c = cpu_of(other);
		bool own = is_within(level - 1, cpu, other);
		u64 load = READ_ONCE(c->load);
		u32 nr = READ_ONCE(c->nr);

		if (place == begin_of(level - 1, other)) {
			s->load = s->weight = s->nr = s->idle = s->heaviest_load = 0;
			s->heaviest = s->first_idle = -1;
		}
		s->load += biased_load(other, average, own);
		s->weight += load;
		s->nr += nr;
		if (is_idle(idle, other)) {
			s->idle++;
			s->first_idle = s->first_idle < 0 ? other : s->first_idle;
		}
		if (nr > 1 && load > s->heaviest_load) {
			s->heaviest = other;
			s->heaviest_load = load;
		}
		if (place + 1 == end_of(level - 1, other))
			end_group(s, own, cpus_in(level - 1, other));
	}
	scx_bpf_put_idle_cpumask(idle);
	return 0;
}

/* How much shall move to the own group; whether anything. */
static __always_inline bool compute_amount(struct survey *s, enum level level, u32 cpus, enum state state)
{
	u64 average = s->total_load / cpus, above, below, task = s->busiest_weight / s->busiest_nr;
	bool room = s->own_nr < s->own_cpus;

	s->by_number = false;
	if (state == BUSY && s->busiest_nr <= s->busiest_cpus)
		return false;
	if (version == V6_1 && room) {
		bool single = s->busiest_cpus == 1;
		u32 high = single ? s->busiest_nr : s->own_idle, low = single ? s->own_nr : s->busiest_idle;

		s->by_number = true;
		s->amount = high > low ? (high - low) / 2 : 0;
		if (!s->amount && state != BUSY && s->busiest_nr > s->busiest_cpus)
			s->amount = 1;
		return s->amount;
	}
	if (version == V4_1 && room && state == NEWLY_IDLE) {
		s->amount = task;
		return true;
	}
	if (s->own_load >= s->busiest_load || s->own_load >= average)
		return false;
	if (100 * s->busiest_load <= imbalance_percent(level) * s->own_load)
		return false;
	above = (s->busiest_load - average) * s->busiest_cpus;
	below = (average - s->own_load) * s->own_cpus;
	s->amount = above < below ? above : below;
	if (version != V6_1 && s->amount < task && s->busiest_load - s->own_load >= task)
		s->amount = task;
	return s->amount;
}

/* ---- 5, 6: which tasks ---- */

static __always_inline bool is_hot(struct task *t, const struct cpu *from, s32 number, enum level level, u64 now)
{
	if (version == V6_1 && (is_idle_weight(t->weight) || level == A_CORE))
		return false;
	if (number == from->next || number == from->last)
		return true;
	return now - t->ran_at < migration_cost_us * 1000ULL;
}

static __always_inline bool fits(const struct survey *s, const struct task *t, u32 failed)
{
	if (s->by_number)
		return true;
	if (version == V6_1)
		return t->weight >> (failed < 31 ? failed : 31) <= s->amount;
	return t->weight / 2 <= s->amount;
}

/* Moves tasks from the busiest CPU to `cpu`: one that has become idle takes one, and runs it at once. */
VERIFIED_ONCE u32 pull(s32 cpu, u32 level, u32 state, u64 now)
{
	struct survey *s = &surveys[index_of(cpu)];
	u32 failed = balance_of(cpu)->failed[level_index(level)];
	s32 from = s->busiest;
	struct task_struct *p;

	s->moved = s->looked = 0;
	s->bound = cpu_of(from)->current_bound;
	for_each_queued(p, from) {
		struct task *t = task_of(p);

		if (s->looked++ >= LOOK_AT_MOST)
			return 0;
		if (!t || !may_run(p, cpu))
			continue;
		s->bound = false;
		if (!fits(s, t, failed))
			continue;
		if (failed <= tries(level) && is_hot(t, cpu_of(from), p->pid, level, now))
			continue;
		if (state == NEWLY_IDLE) {
			if (!dsq_move(&p_it, p, SCX_DSQ_LOCAL))
				continue;
			move_home(t, p->pid, cpu);
			s->moved = 1;
			return 0;
		}
		if (!dsq_move_by_key(&p_it, p, cpu, t->vruntime + cpu_of(cpu)->min_vruntime - cpu_of(from)->min_vruntime))
			continue;
		move_home(t, p->pid, cpu);
		s->moved++;
		if (s->by_number ? s->moved >= s->amount : t->weight >= s->amount)
			return 0;
		if (!s->by_number)
			s->amount -= t->weight;
	}
	return 0;
}

/* ---- 1, 2, 7: a look at one domain ---- */

/* 7: the running task of the busiest CPU shall come here. */
static __always_inline void push_from(s32 busiest, s32 cpu)
{
	struct balance *b = balance_of(busiest);

	if (b->push_to)
		return;
	b->push_to = cpu + 1;
	kick(busiest, SCX_KICK_PREEMPT);
}

/* Whether tasks came. */
VERIFIED_ONCE u32 balance_domain(s32 cpu, u32 level, u32 state, u64 now)
{
	struct survey *s = &surveys[index_of(cpu)];
	struct balance *b = balance_of(cpu);
	u32 at = level_index(level), least = least_interval_ms(level, cpu);
	s32 chosen;

	look(cpu, level, state);
	/* 2: the first idle CPU of the own group, or the first one. */
	chosen = s->own_first_idle >= 0 ? s->own_first_idle : cpu_at_place(begin_of(level - 1, cpu));
	if (state != NEWLY_IDLE && chosen != cpu && !(state == IDLING && b->woken))
		return false;
	s->moved = 0;
	s->bound = s->busiest < 0 || !compute_amount(s, level, cpus_in(level, cpu), state);
	if (!s->bound)
		pull(cpu, level, state, now);
	if (s->bound) {
		b->failed[at] = 0;
		lengthen_interval(b, at, cpu);
		return false;
	}
	if (s->moved) {
		b->failed[at] = 0;
		b->interval_ms[at] = least;
		return true;
	}
	if (state == NEWLY_IDLE)
		return false;
	b->interval_ms[at] = least;
	b->failed[at]++;
	if (b->failed[at] > tries(level) + 2) {
		push_from(s->busiest, cpu);
		b->failed[at] = version == V6_1 ? 0 : tries(level) + 1;
	}
	return false;
}

/* 7: whether the task that runs has to go. It will when it stops: somebody else waits. */
static __always_inline bool is_pushed(struct task_struct *prev, const struct cpu *c, s32 cpu)
{
	struct balance *b = balance_of(cpu);

	b->pushed = 0;
	if (!b->push_to)
		return false;
	if (c->nr < 2 || !may_run(prev, b->push_to - 1))
		b->push_to = 0;
	else
		b->pushed = prev->pid;
	return b->pushed;
}

/* 7: the CPU to whose queue a task goes: its own, but for the one that is pushed. */
static __always_inline s32 destination(struct task_struct *p, s32 cpu)
{
	struct balance *b = balance_of(cpu);
	s32 to = b->push_to - 1;

	if (b->pushed != p->pid || to < 0)
		return cpu;
	b->pushed = b->push_to = 0;
	return may_run(p, to) ? to : cpu;
}

/* 2: all domains whose time has come. */
VERIFIED_ONCE u32 balance_domains(s32 cpu, u32 state, u64 now)
{
	struct balance *b = balance_of(cpu);
	int level;

	if (state == IDLING)
		average_load(cpu, 0, now);
	for_range(level, A_CORE, LEVELS) {
		u32 at = level_index(level);

		if (!is_domain(at, cpu) || now < b->next[at])
			continue;
		balance_domain(cpu, at, state, now);
		at = level_index(level);
		b->next[at] = now + interval_ns(b, at, cpu, state);
	}
	b->woken = false;
	return 0;
}

/* 1: nobody is left. Whether somebody comes. */
VERIFIED_ONCE u32 balance_newly_idle(s32 cpu, u64 now)
{
	const struct balance *b = balance_of(cpu);
	int level;

	if (version != V6_1 && b->idles_ns < migration_cost_us * 1000ULL)
		return 0;
	for_range(level, A_CORE, LEVELS) {
		if (is_domain(level, cpu) && balance_domain(cpu, level, NEWLY_IDLE, now))
			return 1;
	}
	return 0;
}

/* ---- 3: at ticks ---- */

/* Whether the CPU, which is busy, has to look at some domain. */
VERIFIED_ONCE u32 is_due(s32 cpu, u64 now)
{
	const struct balance *b = balance_of(cpu);
	int level;

	for_range(level, A_CORE, LEVELS) {
		if (is_domain(level, cpu) && now >= b->next[level_index(level)])
			return 1;
	}
	return 0;
}

/* A CPU that idles is woken, if this one has more than one task. */
static __always_inline void wake_balancer(s32 cpu)
{
	const struct cpumask *idle;
	u32 other;

	if (cpu_of(cpu)->nr < 2)
		return;
	idle = scx_bpf_get_idle_cpumask();
	other = bpf_cpumask_first(idle);
	scx_bpf_put_idle_cpumask(idle);
	if (other >= nr_cpus || is_leaving(other))
		return;
	balance_of(other)->woken = true;
	kick(other, SCX_KICK_IDLE);
}

/* 1: how long the CPU idles at a time; at most twice of what counts. Called when it begins and ends to idle. */
static __always_inline void note_idle(s32 cpu, bool idle, u64 now)
{
	struct balance *b = balance_of(cpu);
	u64 most = 2 * migration_cost_us * 1000ULL, ns;

	/* An idle CPU that was woken to balance goes on to idle. */
	if (idle) {
		b->idle_since = b->idle_since ? b->idle_since : now;
		return;
	}
	if (!b->idle_since)
		return;
	average_load(cpu, 0, now);
	ns = now - b->idle_since;
	b->idle_since = 0;
	b->idles_ns = ns > most ? most : (7 * b->idles_ns + ns) / 8;
}

/* At init: a CPU of which nothing is known has time. */
static __always_inline void balance_init(void)
{
	int cpu;

	for_range(cpu, 0, nr_cpus)
		balance_of(cpu)->idles_ns = 2 * migration_cost_us * 1000ULL;
}

#endif
