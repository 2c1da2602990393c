/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues of MuQSS: who shares one, in which order a CPU looks into them, and whom it takes.
 *
 * 1. CPUs that share a queue are neighbours in the table of places (<weir/topology.bpf.h>), so queues have an order too: by
 *    node, cache and core. A queue is its tasks in the order of their keys, and the best of these keys where all can read it.
 * 2. Near before far: the own core, what is below the own cache, the own node, the rest. Each of these is a range of
 *    places, or of queues, around the ranges inside of it, so the one at any distance is found without a table. Within
 *    a range CPUs of the lower half of the machine count upwards and the others downwards, each around the end.
 * 3. A CPU looks into its own queue first. Of the others it reads the best key, and looks into a queue if that key is
 *    better than the best task so far. Equal keys: the nearer queue wins. Without `interactive` a queue must also be
 *    longer than that of the best so far, the first task that may not run here ends it, and other nodes are asked only while
 *    there is nobody at all.
 * 4. Who was told which task to pick is content as soon as that is the best so far.
 * 5. What was found is taken with a second look. If another CPU was faster, the search begins anew, at most twice.
 * 6. Best keys are hints: two CPUs that renew one at the same moment may leave it wrong until somebody renews it again. A
 *    CPU that found nobody does not trust them, and asks every queue for its length: it never idles beside a task.
 *
 * A policy defines before it includes this: struct cpu with `hint`, and what <weir/one-queue.bpf.h> asks for.
 */
#ifndef MUQSS_QUEUES_BPF_H
#define MUQSS_QUEUES_BPF_H

#include <weir/topology.bpf.h>

#define SHARED_DSQ 0x10000	/* + number of the queue */

/* The boot option of that name. Without a word for packages, those of a node are one. */
enum share { SHARE_NONE, SHARE_SMT, SHARE_MC, SHARE_LLC, SHARE_SMP, SHARE_ALL };

RODATA u32 rqshare = SHARE_MC;
RODATA bool interactive = true;

/* 1. A cache line each. */
struct queue {
	u64 best;
} __attribute__((aligned(64)));

struct queue queues[MAX_CPUS];
u32 nr_queues;
u16 queue_of_place[MAX_CPUS];

/* 2: ranges around a CPU, each inside of the next. */
enum ring { RING_SELF, RING_CORE, RING_CACHE, RING_NODE, RING_ALL, RINGS };

struct rings {
	u16 begin[RINGS];
	u16 end[RINGS];
	bool upwards;
};

struct rings cpu_rings[MAX_CPUS];	/* in places */
struct rings queue_rings[MAX_CPUS];	/* in numbers of queues */

/* 3: what a walk has found so far. In memory for the verifier's sake, as in <weir/idle.bpf.h>. */
struct walk {
	u64 limit;	/* the best key */
	s32 queue;	/* whose it is, or -1 */
	s32 pid;
	u32 length;	/* of that queue */
	u32 load;	/* the same for the CPU with the fewest tasks */
	s32 cpu;
} __attribute__((aligned(64)));

struct walk walks[MAX_CPUS];

static __always_inline struct walk *walk_here(void)
{
	return &walks[bpf_get_smp_processor_id() & MAX_CPU_MASK];
}

static __always_inline u32 queue_of(s32 cpu)
{
	return queue_of_place[place_of[cpu & MAX_CPU_MASK] & MAX_CPU_MASK];
}

static __always_inline u32 ring_size(const struct rings *r, enum ring ring)
{
	return r->end[ring] - r->begin[ring];
}

/* 2: what is inside of the ring, and how far beyond. */
static __always_inline u32 beyond(const struct rings *r, enum ring ring, u32 steps)
{
	s32 at;

	steps -= ring_size(r, ring - 1);
	if (r->upwards) {
		at = r->end[ring - 1] + steps;
		return at < r->end[ring] ? at : at - (s32)ring_size(r, ring);
	}
	at = (s32)r->begin[ring - 1] - 1 - (s32)steps;
	return at >= r->begin[ring] ? at : at + (s32)ring_size(r, ring);
}

/* 2: the place, or queue, that is the `steps`-nearest one; 0 is the own. */
static __always_inline u32 nearby(const struct rings *r, u32 steps)
{
	if (steps == 0)
		return r->begin[RING_SELF];
	if (steps < ring_size(r, RING_CORE))
		return beyond(r, RING_CORE, steps);
	if (steps < ring_size(r, RING_CACHE))
		return beyond(r, RING_CACHE, steps);
	return beyond(r, steps < ring_size(r, RING_NODE) ? RING_NODE : RING_ALL, steps);
}

static __always_inline s32 nearby_cpu(s32 cpu, u32 steps)
{
	return cpu_at[nearby(&cpu_rings[cpu & MAX_CPU_MASK], steps) & MAX_CPU_MASK];
}

static __always_inline u32 nearby_queue(s32 cpu, u32 steps)
{
	return nearby(&queue_rings[cpu & MAX_CPU_MASK], steps) & MAX_CPU_MASK;
}

/* ---- At init ---- */

/* Whether a queue begins at this place. */
static __always_inline bool leads(u32 place, u32 cpu)
{
	switch (rqshare) {
	case SHARE_NONE:
		return true;
	case SHARE_SMT:
		return place == 0 || core_of[cpu] != core_of[cpu_at[(place - 1) & MAX_CPU_MASK] & MAX_CPU_MASK];
	case SHARE_LLC:
		return place == cache_begin[cpu];
	case SHARE_ALL:
		return place == 0;
	default:
		return place == node_begin[cpu];
	}
}

static __always_inline void set_ring(u32 cpu, enum ring ring, u32 begin, u32 end)
{
	struct rings *places = &cpu_rings[cpu & MAX_CPU_MASK], *numbers = &queue_rings[cpu & MAX_CPU_MASK];

	places->begin[ring] = begin;
	places->end[ring] = end;
	numbers->begin[ring] = queue_of_place[begin & MAX_CPU_MASK];
	numbers->end[ring] = queue_of_place[(end - 1) & MAX_CPU_MASK] + 1;
}

static __noinline void set_rings(u32 place)
{
	u32 cpu = cpu_at[place & MAX_CPU_MASK] & MAX_CPU_MASK;
	u32 core = place, core_end = place + 1;
	s32 steps, sibling;

	for_each_sibling(steps, sibling, cpu) {
		u32 other = place_of[sibling & MAX_CPU_MASK];

		core = other < core ? other : core;
		core_end = other >= core_end ? other + 1 : core_end;
	}
	cpu_rings[cpu].upwards = queue_rings[cpu].upwards = place < nr_online / 2;
	set_ring(cpu, RING_SELF, place, place + 1);
	set_ring(cpu, RING_CORE, core, core_end);
	set_ring(cpu, RING_CACHE, cache_begin[cpu], cache_end[cpu]);
	set_ring(cpu, RING_NODE, node_begin[cpu], node_end[cpu]);
	set_ring(cpu, RING_ALL, 0, nr_online);
}

static s32 make_shared(void)
{
	s32 error = 0;
	int at;

	for_range(at, 0, nr_online) {
		u32 cpu = cpu_at[at & MAX_CPU_MASK] & MAX_CPU_MASK;

		if (leads(at, cpu) && !error) {
			queues[nr_queues & MAX_CPU_MASK].best = NO_LIMIT;
			error = scx_bpf_create_dsq(SHARED_DSQ + nr_queues, -1);
			nr_queues++;
		}
		queue_of_place[at & MAX_CPU_MASK] = nr_queues - 1;
	}
	for_range(at, 0, nr_online)
		set_rings(at);
	return error;
}

/* A CPU goes: what is counted at it leaves all queues for the kernel's own. */
static void leave_shared(s32 cpu)
{
	int queue;

	for_range(queue, 0, nr_queues)
		give_away(cpu, SHARED_DSQ + queue);
}

/* ---- 3: the walk ---- */

/* A task was put into the queue. */
static __always_inline void note_key(u32 queue, u64 key)
{
	struct queue *q = &queues[queue & MAX_CPU_MASK];

	if (nr_queues > 1 && key < READ_ONCE(q->best))
		WRITE_ONCE(q->best, key);
}

static __always_inline bool shared_waits(s32 cpu)
{
	return scx_bpf_dsq_nr_queued(SHARED_DSQ + queue_of(cpu));
}

/* Notes the first task of a queue that may run here, if its key is below `limit`. */
VERIFIED_ONCE u64 look_into(u32 queue, s32 cpu, u64 limit, u32 length, bool deep)
{
	struct walk *w = walk_here();
	struct task_struct *p;

	for_each_queued(p, SHARED_DSQ + queue) {
		if (p->scx.dsq_vtime >= limit)
			break;
		if (may_take(p, cpu)) {
			WRITE_ONCE(w->limit, p->scx.dsq_vtime);
			WRITE_ONCE(w->queue, queue);
			WRITE_ONCE(w->pid, p->pid);
			WRITE_ONCE(w->length, length);
			break;
		}
		if (!deep)
			break;
	}
	return 0;
}

/* 3: whether the walk ends before the queue that is so many steps away. */
static __always_inline bool is_content(const struct walk *w, s32 cpu, u32 steps)
{
	s32 hint = READ_ONCE(cpu_of(cpu)->hint);

	if (hint && READ_ONCE(w->pid) == hint)
		return true;
	return !interactive && READ_ONCE(w->limit) != NO_LIMIT &&
	       steps >= ring_size(&queue_rings[cpu & MAX_CPU_MASK], RING_NODE);
}

static __noinline void look_around(s32 cpu)
{
	struct walk *w = walk_here();
	int steps;

	for_range(steps, 1, nr_queues) {
		u32 queue = nearby_queue(cpu, steps), length;
		u64 limit = READ_ONCE(w->limit);

		if (is_content(w, cpu, steps))
			break;
		if (limit != NO_LIMIT && READ_ONCE(queues[queue].best) >= limit)
			continue;
		length = scx_bpf_dsq_nr_queued(SHARED_DSQ + queue);
		if (length == 0 || (!interactive && length <= READ_ONCE(w->length)))
			continue;
		look_into(queue, cpu, limit, length, interactive);
	}
}

/* The best task of all queues that is not later than `limit`: in the own queue it may be as late, elsewhere it may not. */
static __noinline u32 try_walk(s32 cpu, u64 limit)
{
	struct walk *w = walk_here();
	u32 own = queue_of(cpu), length = scx_bpf_dsq_nr_queued(SHARED_DSQ + own) + (limit != NO_LIMIT);
	bool taken;
	s32 queue;

	WRITE_ONCE(w->limit, limit);
	WRITE_ONCE(w->queue, -1);
	WRITE_ONCE(w->pid, 0);
	WRITE_ONCE(w->length, length);
	look_into(own, cpu, limit == NO_LIMIT ? limit : limit + 1, length, true);
	look_around(cpu);
	queue = READ_ONCE(w->queue);
	if (queue < 0)
		return 0;
	taken = take_first(SHARED_DSQ + queue, cpu, READ_ONCE(w->limit));
	WRITE_ONCE(queues[queue & MAX_CPU_MASK].best, first_deadline(SHARED_DSQ + queue));
	return taken ? TAKEN : LOST;
}

static bool take_shared(s32 cpu, u64 limit)
{
	u32 result = LOST;
	int attempt;

	if (nr_queues == 1)
		return take(SHARED_DSQ, cpu, limit);
	for_range(attempt, 0, PICK_ATTEMPTS) {
		result = try_walk(cpu, limit);
		if (result != LOST)
			break;
	}
	WRITE_ONCE(cpu_of(cpu)->hint, 0);
	return result == TAKEN;
}

#endif
