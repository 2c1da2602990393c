/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPU selection for waking and new tasks.
 *
 * 1. A waking task goes to its last CPU or to that of its waker, by their loads (affine wakeup).
 *    From there it looks for an idle CPU below the same cache. If there is none it stays there,
 *    whatever the state of other caches.
 * 2. The waker's CPU is chosen if it has no load, or if its load including the task does not exceed
 *    the load of the last CPU by more than half the imbalance percentage of their domain. A waker
 *    that is about to sleep does not count. In 2.6.36, the waker's CPU is also chosen if its load
 *    is not larger, and the sum of both loads is not larger than the mean load of its tasks.
 * 3. In 6.1 idle CPUs come first. If the waker's CPU is idle and shares the cache: the last CPU if
 *    that is idle, otherwise the waker's. Then the waker's CPU, if the waker is about to sleep and
 *    is alone there. Then the last CPU if it is idle.
 * 4. A wakeup is not affine if waker and wakee each wake many different tasks (since 4.1). Each
 *    task counts changes of its wakee, halved after each second.
 * 5. The search depends on the version. 2.6.36: the domains of the target upwards, the idle CPU
 *    with the lowest number, up to the domain that contains both CPUs. 4.1: the target, the last
 *    CPU, the first fully idle core of the cache, the target's own core. 6.1: the target, the last
 *    CPU, the CPU before that, a fully idle core, a sibling of the last CPU, any idle CPU after the
 *    target; a CPU with only SCHED_IDLE tasks counts as idle.
 * 6. An idle CPU is not claimed: two wakers can choose the same one at the same moment.
 * 7. A new task descends through the domains, from the machine on. At each level it goes to the
 *    group with the least load, if the local group has more by half the imbalance percentage, and
 *    to the idlest CPU there. In 6.1, groups with idle CPUs are compared by the number of these.
 */
#ifndef CFS_WAKE_BPF_H
#define CFS_WAKE_BPF_H

#include "domain.bpf.h"

#define SECOND_NS 1000000000ULL

/*
 * State of a search. In memory, because the verifier would track numbers on the stack through all
 * iterations.
 */
struct search {
	u64 load;		/* of the scanned group; divided by its CPUs at its end */
	u64 local_load, best_load;
	u32 idle, local_idle, best_idle;
	s32 best;		/* CPU, or a CPU of the best group; -1 if there is none */
	u64 best_since;
	bool allowed;		/* the task may run on some CPU of the scanned group */
} __attribute__((aligned(64)));

/* One for each searching CPU. */
struct search searches[MAX_CPUS];

/* ---- 4: wakers of many tasks ---- */

static __always_inline void note_wakee(struct task *waker, s32 wakee, u64 now)
{
	if (now > waker->flips_since + SECOND_NS) {
		waker->flips /= 2;
		waker->flips_since = now;
	}
	if (waker->last_wakee != wakee) {
		waker->last_wakee = wakee;
		waker->flips++;
	}
}

static __always_inline bool is_wide(const struct task *waker, const struct task *wakee, s32 here)
{
	u32 master = waker ? waker->flips : 0, slave = wakee->flips, cpus = cpus_in(A_CACHE, here), swap;

	if (version == V4_1)
		return slave > cpus && master > cpus * slave;
	if (master < slave) {
		swap = master;
		master = slave;
		slave = swap;
	}
	return slave >= cpus && master >= slave * cpus;
}

/* ---- 2, 3: last CPU or waker's CPU ---- */

/* 2 */
static __noinline bool is_affine_by_load(const struct task *waker, const struct task *t, s32 here, s32 prev, bool sync)
{
	u64 load = READ_ONCE(cpu_of(prev)->load), own = READ_ONCE(cpu_of(here)->load);
	u64 percent = 100 + (imbalance_percent(common_level(here, prev)) - 100) / 2;
	u32 nr = READ_ONCE(cpu_of(here)->nr);

	if (sync && waker)
		own -= waker->counted < own ? waker->counted : own;
	if (version == V6_1)
		return 100 * (own + t->weight) < percent * load + sync;
	if (!own || 100 * (own + t->weight) <= percent * load)
		return true;
	return version == V2_6_36 && own <= load && own + load <= (nr ? cpu_of(here)->load / nr : 0);
}

/* 2, 3: CPU at which the search starts. */
static __always_inline s32 affine_target(const struct cpumask *idle, const struct task *waker, const struct task *t,
					 s32 here, s32 prev, bool sync)
{
	if (here == prev)
		return prev;
	if (version == V6_1) {
		if (is_idle(idle, here) && shares_cache(here, prev))
			return is_idle(idle, prev) ? prev : here;
		if (sync && READ_ONCE(cpu_of(here)->nr) == 1)
			return here;
		if (is_idle(idle, prev))
			return prev;
	}
	return is_affine_by_load(waker, t, here, prev, sync) ? here : prev;
}

/* ---- 5: idle CPUs that share the cache ---- */

static __always_inline bool may_run(const struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !is_leaving(cpu);
}

/* Returns whether the CPU is idle or, in 6.1, has only SCHED_IDLE tasks. */
static __always_inline bool is_available(const struct cpumask *idle, s32 cpu)
{
	const struct cpu *c = cpu_of(cpu);

	if (is_idle(idle, cpu))
		return true;
	return version == V6_1 && READ_ONCE(c->nr) && READ_ONCE(c->nr) == READ_ONCE(c->nr_idle);
}

/* Idle CPU with the lowest number between two places; -1 if there is none. */
static __noinline s32 lowest_idle(struct task_struct *p, const struct cpumask *idle, u32 begin, u32 end)
{
	struct search *s = &searches[index_of(bpf_get_smp_processor_id())];
	u32 place;

	s->best = -1;
	for_range(place, begin, end) {
		s32 cpu = cpu_at_place(place);

		if (is_idle(idle, cpu) && may_run(p, cpu) && (s->best < 0 || cpu < s->best))
			s->best = cpu;
	}
	return s->best;
}

static s32 search_upwards(struct task_struct *p, const struct cpumask *idle, s32 target, s32 prev, s32 here)
{
	s32 core, cache;

	if ((target == here || target == prev) && is_idle(idle, target))
		return target;
	core = lowest_idle(p, idle, begin_of(A_CORE, target), end_of(A_CORE, target));
	if (is_within(A_CORE, target, here) && is_within(A_CORE, target, prev))
		return core < 0 ? target : core;
	cache = lowest_idle(p, idle, begin_of(A_CACHE, target), end_of(A_CACHE, target));
	return cache >= 0 ? cache : core >= 0 ? core : target;
}

/*
 * First CPU of a fully idle core, starting with the core of `target` and wrapping around its cache;
 * -1 if there is none.
 */
static __noinline s32 whole_idle_core(struct task_struct *p, const struct cpumask *idle, s32 target)
{
	struct search *s = &searches[index_of(bpf_get_smp_processor_id())];
	u32 begin = begin_of(A_CACHE, target), count = cpus_in(A_CACHE, target);
	u32 first = begin_of(A_CORE, target) - begin, step;

	s->idle = 0;
	s->best = -1;
	for_range(step, 0, count) {
		u32 at = first + step, place = begin + (at >= count ? at - count : at);
		s32 cpu = cpu_at_place(place);

		if (place == begin_of(A_CORE, cpu)) {
			s->idle = 0;
			s->best = -1;
		}
		if (cpu != target && is_idle(idle, cpu))
			s->idle++;
		if (s->best < 0 && may_run(p, cpu))
			s->best = cpu;
		if (s->best >= 0 && s->idle == cpus_in(A_CORE, cpu))
			return s->best;
	}
	return -1;
}

/* First idle CPU after the target, wrapping around its domain; -1 if there is none. */
static __noinline s32 next_idle(struct task_struct *p, const struct cpumask *idle, s32 target, enum level level)
{
	u32 begin = begin_of(level, target), count = cpus_in(level, target);
	u32 first = place_of[index_of(target)] - begin, step;

	for_range(step, 1, count) {
		u32 at = first + step;
		s32 cpu = cpu_at_place(begin + (at >= count ? at - count : at));

		if (is_available(idle, cpu) && may_run(p, cpu))
			return cpu;
	}
	return -1;
}

static s32 search_cores(struct task_struct *p, const struct cpumask *idle, s32 target, s32 prev)
{
	s32 cpu;

	if (is_idle(idle, target))
		return target;
	if (prev != target && shares_cache(prev, target) && is_idle(idle, prev))
		return prev;
	cpu = whole_idle_core(p, idle, target);
	if (cpu < 0 && max_threads > 1)
		cpu = next_idle(p, idle, target, A_CORE);
	return cpu < 0 ? target : cpu;
}

static s32 search_cache(struct task_struct *p, struct task *t, const struct cpumask *idle, s32 target, s32 prev)
{
	s32 recent = t->recent_cpu, cpu = -1;

	if (is_available(idle, target))
		return target;
	if (prev != target && shares_cache(prev, target) && is_available(idle, prev))
		return prev;
	t->recent_cpu = prev;
	if (recent != prev && recent != target && shares_cache(recent, target) && is_available(idle, recent) &&
	    may_run(p, recent))
		return recent;
	if (max_threads > 1) {
		cpu = whole_idle_core(p, idle, target);
		if (cpu < 0 && shares_cache(prev, target))
			cpu = next_idle(p, idle, prev, A_CORE);
	}
	if (cpu < 0)
		cpu = next_idle(p, idle, target, A_CACHE);
	return cpu < 0 ? target : cpu;
}

/* 1 */
static s32 cpu_for_wakee(struct task_struct *p, struct task *t, const struct cpumask *idle, s32 prev, bool sync)
{
	struct task *waker = task_of(bpf_get_current_task_btf());
	s32 here = bpf_get_smp_processor_id(), target = prev;
	bool affine = may_run(p, here) && has_place(here);

	if (waker)
		note_wakee(waker, p->pid, now_ns());
	if (!may_run(p, prev))
		return here;
	if (affine && (version == V2_6_36 || !is_wide(waker, t, here)))
		target = affine_target(idle, waker, t, here, prev, sync);
	else if (version == V2_6_36)
		return prev;
	if (version == V2_6_36)
		return search_upwards(p, idle, target, prev, here);
	if (version == V4_1)
		return search_cores(p, idle, target, prev);
	return search_cache(p, t, idle, target, prev);
}

/* ---- 7: new tasks ---- */

/* Called at the end of each group. */
static __always_inline void compare_group(struct search *s, s32 member, bool local, u32 cpus)
{
	s->load /= cpus;
	if (local) {
		s->local_load = s->load;
		s->local_idle = s->idle;
		return;
	}
	if (!s->allowed)
		return;
	if (version == V6_1 && s->idle < s->best_idle)
		return;
	if (s->best >= 0 && s->load >= s->best_load && (version != V6_1 || s->idle == s->best_idle))
		return;
	s->best = member;
	s->best_load = s->load;
	s->best_idle = s->idle;
}

/* A CPU of the idlest group if that is idler than the group of `cpu` by enough, otherwise `cpu`. */
static __noinline s32 idlest_group(struct task_struct *p, const struct cpumask *idle, s32 cpu, enum level level)
{
	struct search *s = &searches[index_of(bpf_get_smp_processor_id())];
	u32 percent = 100 + (imbalance_percent(level) - 100) / (version == V6_1 ? 1 : 2), place;

	s->local_load = s->local_idle = s->best_idle = 0;
	s->best_load = ~0ULL;
	s->best = -1;
	for_range(place, begin_of(level, cpu), end_of(level, cpu)) {
		s32 other = cpu_at_place(place);

		if (place == begin_of(level - 1, other)) {
			s->load = s->idle = 0;
			s->allowed = false;
		}
		s->load += READ_ONCE(cpu_of(other)->load) * 1024;
		s->idle += is_idle(idle, other);
		s->allowed |= may_run(p, other);
		if (place + 1 == end_of(level - 1, other))
			compare_group(s, other, is_within(level - 1, cpu, other), cpus_in(level - 1, other));
	}
	if (s->best < 0)
		return cpu;
	if (version == V6_1 && (s->local_idle || s->best_idle))
		return s->best_idle > s->local_idle ? s->best : cpu;
	return 100 * s->local_load < percent * s->best_load ? cpu : s->best;
}

/*
 * CPU with the least load in a group. Among idle CPUs, the one that became idle last (since 4.1).
 */
static __noinline s32 idlest_cpu(struct task_struct *p, const struct cpumask *idle, s32 cpu, enum level level)
{
	struct search *s = &searches[index_of(bpf_get_smp_processor_id())];
	u32 place;

	s->best = -1;
	s->best_load = ~0ULL;
	s->best_since = 0;
	for_range(place, begin_of(level, cpu), end_of(level, cpu)) {
		s32 other = cpu_at_place(place);
		const struct cpu *c = cpu_of(other);
		bool idles = version >= V4_1 && is_idle(idle, other);
		u64 load = idles ? 0 : READ_ONCE(c->load), since = idles ? READ_ONCE(c->since) : 0;

		if (!may_run(p, other) || load > s->best_load || (load == s->best_load && since <= s->best_since))
			continue;
		s->best = other;
		s->best_load = load;
		s->best_since = since;
	}
	return s->best < 0 ? cpu : s->best;
}

static s32 cpu_for_child(struct task_struct *p, const struct cpumask *idle, s32 cpu)
{
	int down;

	if (!has_place(cpu))
		return cpu;
	for_range(down, 0, THE_MACHINE) {
		enum level level = THE_MACHINE - down;
		s32 other;

		if (!is_domain(level, cpu))
			continue;
		other = idlest_group(p, idle, cpu, level);
		if (other != cpu)
			cpu = idlest_cpu(p, idle, other, level - 1);
	}
	return may_run(p, cpu) ? cpu : idlest_cpu(p, idle, cpu, THE_MACHINE);
}

#endif
