/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nix: the three schedulers of NIX (2011 and 2012), a Plan 9 for machines with many cores.
 *
 * 1. Priorities are those of Plan 9 ("share.bpf.h"): the less a task used lately, the higher, up to its base. A queue has its
 *    tasks by priority, each first come, first served, and one lock.
 *
 * 2. smp: one queue for all CPUs. A task that becomes ready goes there, and one idle CPU is told, its last one if that idles.
 *    That one takes it, whoever has come meanwhile. If a higher class was faster there, another one is told.
 *
 * 3. A CPU that needs a task looks through the queue twice. First pass: tasks that never ran, or ran here last. Second pass:
 *    any that is not bound to another CPU. So a CPU takes a low task that ran here before a high one that did not. Somebody
 *    who could go on competes in the first pass, behind those of the same priority.
 *
 * 4. At a tick a task stops if somebody of a higher priority waits, or if it has run for 100 ms and anybody waits. A wakeup
 *    interrupts nobody.
 *
 * 5. groups: a queue for the CPUs of each node, and ways from one to another ("groups.bpf.h"). If a task made another one
 *    ready and then stops by itself, that one is next on its CPU, with what is left of the 100 ms.
 *
 * 6. amp: CPU 0 gives tasks to all others, and runs none ("amp.bpf.h").
 *
 * Where this departs from NIX, and why:
 * - An idle core of NIX halts after each pass, and looks again at the next interrupt. Here both passes are one look, and a CPU
 *   that was told of a task does not look for another one, so that nothing waits beside an idle CPU.
 * - There a core also looks for higher priorities at the end of each interrupt of a device. A program of sched_ext is not
 *   told of these.
 * - Stopping is not put off while a task holds locks: what a kernel's spin locks need, Linux does itself.
 * - There are no deadlines (Plan 9's EDF).
 * - A CPU that goes offline still asks for tasks when the kernel lets no task go there any more, some milliseconds before it
 *   says so. What it takes ends up in the kernel's own queue. The first one tells that, and from then on it takes only what is
 *   bound to it.
 */
#include <weir/hotplug.bpf.h>

LICENSE("GPL");

#define QUEUE_DSQ 0		/* + group */
#define TIMER_EVERY_NS 1000000000ULL
#define QUANTUM_NS 100000000ULL
#define SLICE_NS (1ULL << 50)	/* ticks decide, not the kernel */

/* What nix knows of a task. */
struct task {
	u64 settled_at;	/* the share is as of then */
	u64 ready_at;
	u32 share;	/* of ONE */
	u32 priority;
	s32 counted_at;	/* the CPU that the kernel counted it at when it was last queued, or ran */
	s32 asked;	/* the CPU that `select_cpu` answered just now; or -1 */
	bool fresh;	/* never ran */
	bool displaced;	/* stopped while it could go on */
};

TASK_STORAGE(tasks, struct task);

/* What other CPUs may know of a CPU. A cache line each: they are written at every switch. */
struct cpu {
	u64 since;	/* its task began then, or whoever it followed by 5 */
	u32 priority;	/* of its task when it began */
	s32 readied;	/* 5: whom its task made ready last */
	s32 told_of;	/* 2: for whom it was told, while it idled; 0 if it took that one */
	u8 busy;	/* somebody runs, or was sent */
	bool closed;	/* no task may come any more, and nobody has said that it goes offline */
	bool expired;	/* amp: its task shall stop at the next tick */
	bool taken;	/* by a higher class */
	bool follows;	/* 5: the next task goes on with the 100 ms of the last one */
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & MAX_CPU_MASK];
}

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline bool is_fresh(u64 key)
{
	return key & 1;
}

/* The kernel goes on to call a CPU idle that is on its way offline. */
static __always_inline bool is_open(s32 cpu)
{
	return !is_leaving(cpu) && !READ_ONCE(cpu_of(cpu)->closed);
}

/*
 * What waited at a CPU that went is in the kernel's own queue, whose length nobody can ask for. The kernel looks into it when
 * a task stops, before `dispatch`: so for a second all stop at each tick.
 */
u64 look_until;

static bool came(struct task_struct *p, s32 cpu);

#include "share.bpf.h"
#include "groups.bpf.h"
#include "amp.bpf.h"

/* ---- 2: who is told ---- */

static __always_inline void tell(s32 cpu, const struct task_struct *p)
{
	if (cpu < 0)
		return;
	WRITE_ONCE(cpu_of(cpu)->told_of, p->pid);
	kick(cpu, SCX_KICK_IDLE);
}

/* The CPU no longer idles. For whom it was told may wait still: a higher class has it, or a task that the kernel put there. */
static __noinline void tell_another(s32 cpu)
{
	s32 pid = READ_ONCE(cpu_of(cpu)->told_of);
	struct task_struct *p;

	if (!pid || is_amp())
		return;
	WRITE_ONCE(cpu_of(cpu)->told_of, 0);
	p = bpf_task_from_pid(pid);
	if (!p)
		return;
	if ((p->scx.flags & SCX_TASK_QUEUED) && !scx_bpf_task_running(p)) {
		s32 home = scx_bpf_task_cpu(p);

		tell(claim_idle(p, home, scx_bpf_dsq_nr_queued(queue_of(home))), p);
	}
	bpf_task_release(p);
}

/* The CPU takes the task. False if the kernel did not let it come: then it is in a queue that all look into who are told. */
static __noinline bool came(struct task_struct *p, s32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	if (READ_ONCE(c->told_of) == p->pid)
		WRITE_ONCE(c->told_of, 0);
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL))
		return true;
	WRITE_ONCE(c->closed, true);
	WRITE_ONCE(look_until, now_ns() + SECOND_NS);
	tell(claim_any(p), p);
	return false;
}

/* Whether it may take the task at all. */
static __always_inline bool may_come(struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && (p->nr_cpus_allowed == 1 || !READ_ONCE(cpu_of(cpu)->closed));
}

/* ---- The timer ---- */

struct second {
	struct bpf_timer timer;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct second);
} seconds SEC(".maps");

/* Once a second the priorities of all that waits. */
static int each_second(void *map, u32 *key, struct second *s)
{
	u64 now = now_ns();
	int i;

	bpf_rcu_read_lock();
	for_range(i, 0, nr_groups)
		reckon_anew(QUEUE_DSQ + i, now);
	bpf_rcu_read_unlock();
	miss_central(now);
	bpf_timer_start(&s->timer, TIMER_EVERY_NS, 0);
	return 0;
}

static __always_inline void timer_init(void)
{
	u32 key = 0;
	struct second *s = bpf_map_lookup_elem(&seconds, &key);

	if (!s)
		return;
	bpf_timer_init(&s->timer, &seconds, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&s->timer, each_second);
	bpf_timer_start(&s->timer, TIMER_EVERY_NS, 0);
}

/* ---- The life of a task, in order ---- */

SLEEPABLE_OP2(s32, nix_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -12; /* ENOMEM */
	t->settled_at = now_ns();
	t->asked = -1;
	t->fresh = true;
	return 0;
}

/* No CPU is chosen for a task that wakes: one will come for it. */
OP3(s32, nix_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	s32 cpu = is_donated(p, wake_flags) ? donate_to(p, prev_cpu) : prev_cpu;
	struct task *t = task_of(p);

	if (t)
		t->asked = cpu;
	return cpu;
}

/* Where the kernel lets no task go, it takes another CPU than was asked for. */
static __always_inline void note_answer(struct task_struct *p, struct task *t, s32 home)
{
	s32 asked = t->asked;

	t->asked = -1;
	if (asked >= 0 && asked != home && bpf_cpumask_test_cpu(asked, p->cpus_ptr))
		WRITE_ONCE(cpu_of(asked)->closed, true);
}

/* 5: the task that runs here is about to have made somebody ready. */
static __always_inline void note_readied(struct task_struct *p, const struct task *t)
{
	if (by_node && !t->displaced)
		WRITE_ONCE(cpu_of(bpf_get_smp_processor_id())->readied, p->pid);
}

OP2(void, nix_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);
	s32 home = scx_bpf_task_cpu(p);
	u64 now = now_ns();

	if (!t) {
		scx_error("task %d has no storage", p->pid);
		return;
	}
	count_at(&t->counted_at, home);
	note_answer(p, t, home);
	settle(t, false, now);
	t->ready_at = now;
	t->priority = priority_of(p, t);
	note_readied(p, t);
	t->displaced = false;
	if (is_central(home) && p->nr_cpus_allowed == 1) {
		/* Not told: whom a look of CPU 0 stops would make it look again, without end. */
		dsq_insert(p, CENTRAL_DSQ, QUANTUM_NS, enq_flags);
		kick(CENTRAL, SCX_KICK_IDLE);
		return;
	}
	dsq_insert_by_key(p, queue_of(home), SLICE_NS, key_of(t, now), enq_flags);
	if (is_amp())
		tell_central();
	else	/* It is not counted yet: what is inserted here is in the queue when this returns. */
		tell(claim_idle(p, home, scx_bpf_dsq_nr_queued(queue_of(home)) + 1), p);
}

/* ---- Pick ---- */

/* 3: a task that is not later than `limit`. */
static __noinline bool take(s32 cpu, bool anybody, u64 limit)
{
	struct task_struct *p;
	bool taken = false;

	for_each_queued(p, queue_of(cpu)) {
		u64 key = p->scx.dsq_vtime;

		if (key > limit)
			break;
		if (!anybody && !is_fresh(key) && !is_promoted(key) && scx_bpf_task_cpu(p) != cpu)
			continue;
		if (!may_come(p, cpu))
			continue;
		taken = dsq_move(&p_it, p, SCX_DSQ_LOCAL) && came(p, cpu);
		if (taken)
			break;
	}
	return taken;
}

/* The first key of a queue; ~0 if nobody waits. */
static __noinline u64 first_key(u64 dsq_id)
{
	struct task_struct *p;

	if (scx_bpf_dsq_nr_queued(dsq_id) == 0)
		return ~0ULL;
	for_each_queued(p, dsq_id)
		return p->scx.dsq_vtime;
	return ~0ULL;
}

/* That one, if it waits in the queue of `home`'s group. */
static __noinline bool take_that(struct task_struct *p, s32 home, s32 cpu)
{
	struct bpf_iter_scx_dsq it;
	bool taken;

	bpf_iter_scx_dsq_new(&it, queue_of(home), 0);
	taken = may_come(p, cpu) && dsq_move(&it, p, SCX_DSQ_LOCAL) && came(p, cpu);
	bpf_iter_scx_dsq_destroy(&it);
	return taken;
}

/* 2: for whom it was told, unless that would be to steal, and not what NIX stole. */
static __noinline bool take_told(s32 cpu)
{
	s32 pid = READ_ONCE(cpu_of(cpu)->told_of);
	struct task_struct *p;
	bool taken;

	if (!pid || steal_from_overloaded)
		return false;
	p = bpf_task_from_pid(pid);
	if (!p)
		return false;
	taken = take_that(p, scx_bpf_task_cpu(p), cpu);
	bpf_task_release(p);
	return taken;
}

/* 5: unless somebody is promoted. */
static __noinline bool take_readied(s32 cpu)
{
	struct cpu *c = cpu_of(cpu);
	s32 pid = READ_ONCE(c->readied);
	struct task_struct *p;

	WRITE_ONCE(c->readied, 0);
	if (!pid || is_promoted(first_key(queue_of(cpu))))
		return false;
	p = bpf_task_from_pid(pid);
	if (!p)
		return false;
	c->follows = take_that(p, cpu, cpu);
	bpf_task_release(p);
	return c->follows;
}

/* It goes on, and its 100 ms begin anew. */
static __always_inline void stay(struct task_struct *prev, struct task *t, s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);

	c->since = now;
	c->expired = false;
	WRITE_ONCE(c->priority, t->priority);
	task_set_slice(prev, SLICE_NS);
}

/* 6: the CPU waits for what CPU 0 gives it. Who is stopped goes on if nobody waits. */
static void dispatch_amp(s32 cpu, struct task_struct *prev, struct task *t, u64 now)
{
	bool waits = scx_bpf_dsq_nr_queued(QUEUE_DSQ);

	if (t && !waits)
		stay(prev, t, cpu, now);
	else if (waits)
		tell_central();
}

/* 6: CPU 0 has looked. What is bound to it takes turns; who began here while too few CPUs were left goes to the others. */
static void dispatch_central(struct task_struct *prev, struct task *t, u64 now)
{
	serve_all(now);
	if (!dsq_move_to_local(CENTRAL_DSQ) && t && prev->nr_cpus_allowed == 1)
		task_set_slice(prev, QUANTUM_NS);
}

OP2(void, nix_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	u64 now = now_ns();

	/* What a CPU takes that is on its way offline ends up in the kernel's own queue, and nobody is told. */
	if (is_leaving(cpu))
		return;
	if (is_central(cpu))
		WRITE_ONCE(central_away, false);
	if (t) {
		settle(t, true, now);
		t->priority = priority_of(prev, t);
		cpu_of(cpu)->readied = 0;
	}
	if (is_amp()) {
		if (cpu == CENTRAL)
			dispatch_central(prev, t, now);
		else
			dispatch_amp(cpu, prev, t, now);
		return;
	}
	if (t) {
		/* Behind those that came in this nanosecond, which the lowest bit would not tell. */
		if (!take(cpu, false, key_of(t, now) | 1))
			stay(prev, t, cpu, now);
		return;
	}
	if (take_told(cpu) || take_readied(cpu) || take(cpu, false, ~0ULL) || take(cpu, true, ~0ULL) || steal_for(cpu))
		return;
	if (amp && cpu == CENTRAL)
		dsq_move_to_local(CENTRAL_DSQ);
}

OP1(void, nix_running, struct task_struct *, p)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_of(cpu);
	u64 now = now_ns();

	if (!t)
		return;
	count_at(&t->counted_at, cpu);
	settle(t, false, now);
	t->priority = priority_of(p, t);
	t->fresh = t->displaced = false;
	if (!c->follows)
		c->since = now;
	c->follows = c->expired = false;
	WRITE_ONCE(c->priority, t->priority);
	WRITE_ONCE(c->busy, true);
}

/* 4, and of "amp.bpf.h" too. The kernel looks at the slice after this. */
static __always_inline bool has_to_stop(s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);
	u64 first = first_key(queue_of(cpu));

	if (now < look_until)
		return true;
	if (first == ~0ULL)
		return false;
	if (is_amp())
		return c->expired;
	return priority_in(first) > c->priority || now - c->since >= QUANTUM_NS;
}

OP1(void, nix_tick, struct task_struct *, p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	u64 now = now_ns(), due = READ_ONCE(load_seen_at) + SECOND_NS / hz;
	u32 waiting;

	if (now >= due) {
		waiting = count_waiting();
		sample_load(waiting, now);
		if (waiting && is_amp())
			tell_central();
	}
	miss_central(now);
	if (!is_central(cpu) && has_to_stop(cpu, now))
		task_set_slice(p, 0);
}

OP2(void, nix_stopping, struct task_struct *, p, bool, runnable)
{
	struct task *t = task_of(p);

	WRITE_ONCE(cpu_of(scx_bpf_task_cpu(p))->busy, false);
	if (!t)
		return;
	settle(t, true, now_ns());
	t->displaced = runnable;
}

/* ---- The machine ---- */

OP2(void, nix_update_idle, s32, cpu, bool, idle)
{
	if (!idle)
		tell_another(cpu);
}

OP2(void, nix_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	WRITE_ONCE(cpu_of(cpu)->taken, true);
	if (is_central(cpu))
		leave_central();
	put_local_back();
}

OP2(void, nix_cpu_acquire, s32, cpu, struct scx_cpu_acquire_args *, args)
{
	WRITE_ONCE(cpu_of(cpu)->taken, false);
}

/* Without these two the kernel ejects the scheduler when a CPU comes or goes. */
SLEEPABLE_OP1(void, nix_cpu_online, s32, cpu)
{
	struct cpu *c = cpu_of(cpu);

	c->busy = c->taken = c->closed = false;
	if (is_leaving(cpu))
		__sync_fetch_and_add(&gone_cpus, -1);
	if (!cpu_comes(cpu))
		scx_restart("CPU %d was offline when nix was loaded", cpu);
	if (is_central(cpu))
		WRITE_ONCE(central_away, false);
	if (is_amp_machine() && !is_leaving(CENTRAL))
		tell_central();
}

OP1(void, nix_cpu_offline, s32, cpu)
{
	bool was_amp = is_amp_machine();
	int i;

	cpu_goes(cpu);
	__sync_fetch_and_add(&gone_cpus, 1);
	WRITE_ONCE(look_until, now_ns() + SECOND_NS);
	for_range(i, 0, nr_groups)
		give_away(cpu, QUEUE_DSQ + i);
	if (was_amp && (cpu == CENTRAL || !is_amp_machine())) {
		leave_central();
		give_all_away(CENTRAL_DSQ);
	}
}

SLEEPABLE_OP0(s32, nix_init)
{
	s32 error;

	topology_init();
	error = make_groups();
	if (!error)
		error = amp_init();
	if (!error)
		timer_init();
	return error;
}

OP1(void, nix_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

/* With the first flag somebody who stops in amp goes back to the queue, and CPU 0 decides. */
SCHEDULER(nix_ops,
	.init_task = (void *)nix_init_task,
	.select_cpu = (void *)nix_select_cpu,
	.enqueue = (void *)nix_enqueue,
	.dispatch = (void *)nix_dispatch,
	.running = (void *)nix_running,
	.tick = (void *)nix_tick,
	.stopping = (void *)nix_stopping,
	.update_idle = (void *)nix_update_idle,
	.cpu_release = (void *)nix_cpu_release,
	.cpu_acquire = (void *)nix_cpu_acquire,
	.cpu_online = (void *)nix_cpu_online,
	.cpu_offline = (void *)nix_cpu_offline,
	.init = (void *)nix_init,
	.exit = (void *)nix_exit,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "nix",
);
