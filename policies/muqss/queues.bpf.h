/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues of MuQSS: which CPUs share one, in which order a CPU looks into them, and which task
 * it takes.
 *
 * 1. CPUs that share a queue are adjacent in the table of places (<weir/topology.bpf.h>), so queues
 *    are ordered, too: by node, cache and core. Each queue publishes its best key.
 * 2. Near before far: the CPU's own core, the CPUs below its cache, its node, the rest. Each of
 *    these is a range of places or queues around the one before, so the n-th nearest is computed
 *    without a table. Within a range, CPUs of the lower half of the machine count upwards and the
 *    others downwards, both with wraparound.
 * 3. A CPU looks into its own queue first. Of another queue it reads the best key, and looks into
 *    the queue only if that key is better than the best task found so far. Among equal keys the
 *    nearer queue wins. Without `interactive`, a queue must also be longer than that of the best
 *    task so far, its search ends at the first task that may not run here, and other nodes are
 *    searched only while no task is found.
 * 4. A CPU that was kicked for a certain task stops its search as soon as that task is the best so
 *    far.
 * 5. The task found is taken in a second step. If another CPU was faster, the search restarts, at
 *    most twice.
 * 6. Best keys are hints: two CPUs that update one at the same moment may leave it wrong until the
 *    next update. So a CPU that found no task does not trust them, and checks the length of every
 *    queue: it is never idle beside a waiting task.
 *
 * Before including this, a policy defines struct cpu with `hint`, and what <weir/one-queue.bpf.h>
 * requires.
 */
#ifndef MUQSS_QUEUES_BPF_H
#define MUQSS_QUEUES_BPF_H

#include <weir/topology.bpf.h>

#define SHARED_DSQ 0x10000	/* + queue number */

/*
 * Values of MuQSS's boot option `rqshare`. There is no value for packages; the packages of a node
 * count as one.
 */
enum share { SHARE_NONE, SHARE_SMT, SHARE_MC, SHARE_LLC, SHARE_SMP, SHARE_ALL };

RODATA u32 rqshare = SHARE_MC;
RODATA bool interactive = true;

/* 1: on a cache line of its own. */
struct queue {
	u64 best;
} __attribute__((aligned(64)));

struct queue queues[MAX_CPUS];
u32 nr_queues;
u16 queue_of_place[MAX_CPUS];

/* 2: ranges around a CPU, each containing the one before. */
enum ring { RING_SELF, RING_CORE, RING_CACHE, RING_NODE, RING_ALL };

/* First place and end of a core, by CPU. */
u16 core_begin[MAX_CPUS];
u16 core_end[MAX_CPUS];

/* 3: state of a walk through the queues. In memory for the verifier, as in <weir/idle.bpf.h>. */
struct walk {
	u64 limit;	/* best key so far */
	s32 queue;	/* its queue, or -1 */
	s32 pid;	/* its task */
	u32 length;	/* length of that queue */
	u32 load;	/* find_least_loaded: fewest tasks so far */
	s32 cpu;	/* the CPU that has them */
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

/* 2: first place of a ring, or its first queue. */
static __always_inline s32 ring_begin(u32 cpu, enum ring ring, bool in_queues)
{
	u32 place = 0;

	if (ring == RING_SELF)
		place = place_of[cpu];
	else if (ring == RING_CORE)
		place = core_begin[cpu];
	else if (ring == RING_CACHE)
		place = cache_begin[cpu];
	else if (ring == RING_NODE)
		place = node_begin[cpu];
	return in_queues ? queue_of_place[place & MAX_CPU_MASK] : place;
}

/* End of a ring: the place or queue after its last one. */
static __always_inline s32 ring_end(u32 cpu, enum ring ring, bool in_queues)
{
	u32 end = nr_online;

	if (ring == RING_SELF)
		end = place_of[cpu] + 1;
	else if (ring == RING_CORE)
		end = core_end[cpu];
	else if (ring == RING_CACHE)
		end = cache_end[cpu];
	else if (ring == RING_NODE)
		end = node_end[cpu];
	return in_queues ? queue_of_place[(end - 1) & MAX_CPU_MASK] + 1 : end;
}

static __always_inline s32 ring_size(u32 cpu, enum ring ring, bool in_queues)
{
	cpu &= MAX_CPU_MASK;
	return ring_end(cpu, ring, in_queues) - ring_begin(cpu, ring, in_queues);
}

/* 2: place or queue `steps` steps into a ring, without the ring inside it. */
static __always_inline u32 in_ring(u32 cpu, enum ring ring, s32 steps, bool in_queues)
{
	s32 begin = ring_begin(cpu, ring, in_queues), end = ring_end(cpu, ring, in_queues), at;

	steps -= ring_size(cpu, ring - 1, in_queues);
	if (place_of[cpu] < nr_online / 2) {
		at = ring_end(cpu, ring - 1, in_queues) + steps;
		return at < end ? at : at - end + begin;
	}
	at = ring_begin(cpu, ring - 1, in_queues) - 1 - steps;
	return at >= begin ? at : at - begin + end;
}

/* 2: the `steps`-nearest place or queue; 0 is the CPU's own. */
static __always_inline u32 nearby(u32 cpu, s32 steps, bool in_queues)
{
	cpu &= MAX_CPU_MASK;
	if (steps == 0)
		return ring_begin(cpu, RING_SELF, in_queues);
	if (steps < ring_size(cpu, RING_CORE, in_queues))
		return in_ring(cpu, RING_CORE, steps, in_queues);
	if (steps < ring_size(cpu, RING_CACHE, in_queues))
		return in_ring(cpu, RING_CACHE, steps, in_queues);
	if (steps < ring_size(cpu, RING_NODE, in_queues))
		return in_ring(cpu, RING_NODE, steps, in_queues);
	return in_ring(cpu, RING_ALL, steps, in_queues);
}

static __always_inline s32 nearby_cpu(s32 cpu, u32 steps)
{
	return cpu_at[nearby(cpu, steps, false) & MAX_CPU_MASK];
}

static __always_inline u32 nearby_queue(s32 cpu, u32 steps)
{
	return nearby(cpu, steps, true) & MAX_CPU_MASK;
}

/* ---- At init ---- */

/* Returns whether a queue begins at this place. */
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

/* CPU at a place if it is of the same core, otherwise -1. */
static __always_inline s32 neighbour(u32 cpu, s32 place)
{
	u32 other = cpu_at[place & MAX_CPU_MASK] & MAX_CPU_MASK;

	return place >= 0 && place < (s32)nr_online && core_of[other] == core_of[cpu] ? (s32)other : -1;
}

static __always_inline void find_cores(void)
{
	int i;

	for_range(i, 0, nr_online) {
		u32 cpu = cpu_at[i & MAX_CPU_MASK] & MAX_CPU_MASK;
		s32 before = neighbour(cpu, i - 1);

		core_begin[cpu] = before >= 0 ? core_begin[before & MAX_CPU_MASK] : i;
	}
	for_range(i, 0, nr_online) {
		u32 place = nr_online - 1 - i, cpu = cpu_at[place & MAX_CPU_MASK] & MAX_CPU_MASK;
		s32 behind = neighbour(cpu, place + 1);

		core_end[cpu] = behind >= 0 ? core_end[behind & MAX_CPU_MASK] : place + 1;
	}
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
	find_cores();
	return error;
}

/* A CPU goes offline: tasks counted there move from all queues to the kernel's global DSQ. */
static void leave_shared(s32 cpu)
{
	int queue;

	for_range(queue, 0, nr_queues)
		give_away(cpu, SHARED_DSQ + queue);
}

/* ---- 3: the walk through the queues ---- */

/* A task was inserted into the queue. */
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

/* Records the first task of a queue that may run here, if its key is below `limit`. */
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

/* 3, 4: returns whether the walk ends before the queue at distance `steps`. */
static __always_inline bool is_content(const struct walk *w, s32 cpu, u32 steps)
{
	s32 hint = READ_ONCE(cpu_of(cpu)->hint);

	if (hint && READ_ONCE(w->pid) == hint)
		return true;
	return !interactive && READ_ONCE(w->limit) != NO_LIMIT &&
	       (s32)steps >= ring_size(cpu, RING_NODE, true);
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

/*
 * Takes the best task of all queues. In the CPU's own queue its key may equal `limit`, elsewhere it
 * must be earlier.
 */
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
	taken = take(SHARED_DSQ + queue, cpu, READ_ONCE(w->limit));
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
