/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Load balancing between CPUs.
 *
 * 1. A CPU that runs out of tasks pulls one from the busiest CPU that has at least two, domain by
 *    domain from its core upwards (new-idle balancing). Before 6.1 it does not do so if its average
 *    idle time was recently below 0.5 ms.
 * 2. Each CPU balances each of its domains periodically. The interval is 1 ms per CPU of the
 *    domain, and 32 times as long for a busy CPU (16 times in 6.1). In 2.6.36 it is 1 ms (8 ms in a
 *    node, 64 ms in the machine), and 64 times as long for a busy CPU (32, 128). The interval
 *    doubles while there is nothing to do, up to twice the shortest (2.6.36: 2, 4, 4 or 1 times).
 *    Only the first idle CPU of a group balances for the group, or its first CPU if none is idle.
 * 3. A busy CPU checks this at its tick, and goes through dispatch without a pick. An idle CPU has
 *    no ticks: at its tick, a busy CPU with two tasks wakes an idle CPU (no-HZ balancing), which
 *    then balances for itself.
 * 4. The busiest group has the highest load per CPU, among the groups with more tasks than CPUs.
 *    Nothing moves if the local group has more than the average of the domain, or if the busiest
 *    group does not exceed it by the imbalance percentage. The amount to move is the smaller of the
 *    busiest group's excess over the average and the local group's deficit, and at least one task
 *    if that reduces the imbalance. In 6.1, a group with idle CPUs evens out the number of tasks
 *    instead, by half the difference. Before 6.1, loads are biased against migration (LB_BIAS):
 *    periodic balancing uses the larger of a load and its average over ticks for the local group,
 *    and the smaller for others. So a CPU that lost a task does not pull it back one tick later.
 * 5. Tasks are pulled from the busiest CPU of that group if they weigh at most twice the amount to
 *    move. In 6.1 the limit is the amount itself, doubled with each failed attempt.
 * 6. A task that ran less than 0.5 ms ago (cache-hot) or is a buddy stays, until balancing has
 *    failed more often than the domain's limit. In 6.1, SCHED_IDLE tasks and moves between siblings
 *    of a core are exempt.
 * 7. After 3 more failures, the running task of the busiest CPU is pushed (active balancing).
 *    Before 6.1, the next one is pushed after two more failures.
 */
#ifndef CFS_BALANCE_BPF_H
#define CFS_BALANCE_BPF_H

#include "pick.bpf.h"
#include "wake.bpf.h"

RODATA u32 migration_cost_us = 500;
RODATA bool balances_load = true;
RODATA u32 hz = 250;

#define MS 1000000ULL
#define MAX_SCANNED 32
#define AVERAGES 3
#define FORGOTTEN_TICKS 64

/* State of a balancing CPU: it has just become idle, is idle, or is busy. */
enum state { NEWLY_IDLE, IDLING, BUSY };

/* State of a CPU in each of its domains. */
struct balance {
	u64 next[LEVELS];
	u32 interval_ms[LEVELS];
	u32 failed[LEVELS];
	u64 idle_since;		/* 0 while it is not idle */
	u64 idles_ns;		/* 1: average length of recent idle periods */
	bool due;		/* 3: the next dispatch balances */
	bool woken;		/* 3: was idle and was woken to balance */
	u64 averages[AVERAGES];	/* 4: load at the last tick, and averaged over two and four ticks */
	u64 averaged_at;
	s32 push_to;		/* 7: 1 + the CPU that gets the running task */
	s32 pushed;		/* 7: pid of the task that goes there when it stops */
} __attribute__((aligned(64)));

struct balance balances[MAX_CPUS];

/* Result of a scan of a domain. One for each balancing CPU. */
struct survey {
	/* The scanned group. */
	u64 load;
	u32 nr, idle;
	s32 heaviest, first_idle;
	u64 heaviest_load, weight;
	/* The local group, the busiest other group, and all. Loads are biased, weights are not. */
	u64 own_load, busiest_load, total_load, busiest_weight;
	u32 own_nr, own_cpus, own_idle, busiest_nr, busiest_cpus, busiest_idle;
	s32 busiest;		/* CPU, -1 if there is none */
	s32 own_first_idle;
	u64 amount;		/* to move: weight or number of tasks */
	bool by_number;
	u32 moved, scanned;
	bool bound;		/* no task of the busiest CPU may run here */
} __attribute__((aligned(64)));

struct survey surveys[MAX_CPUS];

static __always_inline struct balance *balance_of(s32 cpu)
{
	return &balances[index_of(cpu)];
}

/* ---- 2: intervals ---- */

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

/*
 * At most 100 ms per CPU of the machine. In 6.1 busy CPUs balance one tick earlier, so that not all
 * do at the same time.
 */
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

/* ---- 4: imbalance ---- */

/* As index_of(). */
static __always_inline u32 average_index(u32 average)
{
	asm volatile("" : "+r"(average));
	return average < AVERAGES ? average : 0;
}

/*
 * Updates the averages with the CPU's load at a tick. An idle CPU without ticks makes up for the
 * ones it missed.
 */
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
		/* Rounded towards the load, so that the average reaches it. */
		if (load > old)
			old += (load - old + (1 << shift) - 1) >> shift;
		else
			old -= (old - load + (1 << shift) - 1) >> shift;
		b->averages[average_index(shift)] = old;
	}
}

/* 4: index of the average that is used, counted from 1; 0 means the load itself. */
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

/* Called at the end of each group, which may be the local one or the busiest so far. */
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

/* Scans all CPUs of a domain. */
VERIFIED_ONCE u32 survey_domain(s32 cpu, u32 level, u32 state)
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

/* 4: computes the amount to move to the local group. Returns whether there is any. */
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

/* ---- 5, 6: choice of tasks ---- */

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

/*
 * Moves tasks from the busiest CPU to `cpu`. A CPU that has just become idle takes one, and runs it
 * at once.
 */
VERIFIED_ONCE u32 pull(s32 cpu, u32 level, u32 state, u64 now)
{
	struct survey *s = &surveys[index_of(cpu)];
	u32 failed = balance_of(cpu)->failed[level_index(level)];
	s32 from = s->busiest;
	struct task_struct *p;

	s->moved = s->scanned = 0;
	s->bound = cpu_of(from)->current_bound;
	for_each_queued(p, from) {
		struct task *t = task_of(p);

		if (s->scanned++ >= MAX_SCANNED)
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

/* ---- 1, 2, 7: balancing of one domain ---- */

/* 7: the running task of the busiest CPU will move to `cpu`. */
static __always_inline void push_from(s32 busiest, s32 cpu)
{
	struct balance *b = balance_of(busiest);

	if (b->push_to)
		return;
	b->push_to = cpu + 1;
	kick(busiest, SCX_KICK_PREEMPT);
}

/* Returns whether tasks moved. */
VERIFIED_ONCE u32 balance_domain(s32 cpu, u32 level, u32 state, u64 now)
{
	struct survey *s = &surveys[index_of(cpu)];
	struct balance *b = balance_of(cpu);
	u32 at = level_index(level), least = least_interval_ms(level, cpu);
	s32 chosen;

	survey_domain(cpu, level, state);
	/* 2: the first idle CPU of the local group, or its first CPU. */
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

/*
 * 7: returns whether the running task must leave. It leaves when it stops, which it does because
 * another task waits.
 */
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

/* 7: CPU to whose queue a task goes: its own CPU, except for the task that is pushed. */
static __always_inline s32 destination(struct task_struct *p, s32 cpu)
{
	struct balance *b = balance_of(cpu);
	s32 to = b->push_to - 1;

	if (b->pushed != p->pid || to < 0)
		return cpu;
	b->pushed = b->push_to = 0;
	return may_run(p, to) ? to : cpu;
}

/* 2: balances all domains that are due. */
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

/* 1: the CPU has no task left. Returns whether it got one. */
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

/* Returns whether this busy CPU must balance some domain. */
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

/* 3: wakes an idle CPU if this one has more than one task. */
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

/*
 * 1: averages the length of idle periods, each limited to twice the threshold. Called when the CPU
 * becomes idle and when it stops being idle.
 */
static __always_inline void note_idle(s32 cpu, bool idle, u64 now)
{
	struct balance *b = balance_of(cpu);
	u64 most = 2 * migration_cost_us * 1000ULL, ns;

	/* An idle CPU that was woken to balance stays idle. */
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

/* At init an idle period is assumed to be long. */
static __always_inline void balance_init(void)
{
	int cpu;

	for_range(cpu, 0, nr_cpus)
		balance_of(cpu)->idles_ns = 2 * migration_cost_us * 1000ULL;
}

#endif
