/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nix: the three schedulers of NIX (2011 and 2012), a Plan 9 for machines with many cores.
 *
 * 1. Priorities are those of Plan 9 ("share.bpf.h"): the less CPU time a task used lately, the
 *    higher its priority, up to its base priority. A queue has its tasks by priority, FIFO within a
 *    priority, and has one lock.
 *
 * 2. smp: one queue for all CPUs. A task that becomes runnable goes there, and one idle CPU is
 *    notified, its last CPU if that is idle. That CPU takes this task, whichever other tasks have
 *    arrived meanwhile. If a higher class has taken the CPU, another one is notified.
 *
 * 3. A CPU that needs a task scans the queue twice. First pass: tasks that never ran, or last ran
 *    on this CPU. Second pass: any task that may run here. So a CPU prefers a task of low priority
 *    that last ran here to one of high priority that did not. A running task that can continue
 *    competes in the first pass, and loses against tasks of the same priority.
 *
 * 4. At a tick a task stops if a task of higher priority waits, or if it has run for 100 ms and any
 *    task waits. A wakeup does not preempt.
 *
 * 5. groups: one queue per node, and rules to move tasks between nodes ("groups.bpf.h"). If a task
 *    has made another one runnable and then stops by itself, that one is the next on its CPU, for
 *    the rest of the 100 ms.
 *
 * 6. amp: CPU 0 assigns tasks to all other CPUs, and runs none ("amp.bpf.h").
 *
 * Where this departs from NIX, and why:
 * - An idle core of NIX halts after each pass, and scans again at the next interrupt. Here both
 *   passes are one scan, and a CPU that was notified of a task does not look for another one, so
 *   that no task waits beside an idle CPU.
 * - A NIX core also looks for higher priorities at the end of each device interrupt. A sched_ext
 *   program does not see these.
 * - Preemption is not delayed while a task holds locks: Linux itself disables preemption where its
 *   spin locks need that.
 * - There are no deadlines (Plan 9's EDF).
 * - A CPU that goes offline still calls ops.dispatch for some milliseconds after the kernel has
 *   stopped admitting tasks there, and before it reports this. A task that such a CPU takes ends up
 *   in the kernel's global DSQ. The first such task shows that the CPU is closed; from then on it
 *   takes only pinned tasks.
 */
#include <weir/hotplug.bpf.h>

LICENSE("GPL");

#define QUEUE_DSQ 0		/* + group */
#define TIMER_EVERY_NS 1000000000ULL
#define QUANTUM_NS 100000000ULL
#define SLICE_NS (1ULL << 50)	/* practically infinite: nix_tick ends slices */

/* State of a task. */
struct task {
	u64 settled_at;	/* time of the last update of the share */
	u64 ready_at;
	u32 share;	/* of one CPU, which is ONE */
	u32 priority;
	s32 counted_at;	/* CPU whose runqueue counted it when it was last queued, or ran */
	s32 asked;	/* CPU that select_cpu has just returned, or -1 */
	bool fresh;	/* has never run */
	bool displaced;	/* was preempted */
};

TASK_STORAGE(tasks, struct task);

/*
 * State of a CPU that other CPUs read. Aligned to a cache line, because it is written at every
 * switch.
 */
struct cpu {
	u64 since;	/* start of the 100 ms of its task */
	u32 priority;	/* of its task at the start */
	s32 readied;	/* 5: pid of the last task that its task made runnable */
	s32 notified_for;	/* 2: pid of the task it was notified of while idle; 0 once taken */
	u8 busy;	/* a task runs, or was assigned */
	bool closed;	/* the kernel admits no task, but has not reported it offline */
	bool expired;	/* amp: its task must stop at the next tick */
	bool taken;	/* by a higher class */
	bool follows;	/* 5: the next task continues the 100 ms of the last one */
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

/* The kernel's idle mask can contain a CPU that is going offline. */
static __always_inline bool is_open(s32 cpu)
{
	return !is_leaving(cpu) && !READ_ONCE(cpu_of(cpu)->closed);
}

/*
 * Tasks of a CPU that went offline are in the kernel's global DSQ, whose length a program cannot
 * read. The kernel consumes it when a task stops, before ops.dispatch. So until this time all tasks
 * stop at each tick.
 */
u64 scan_until;

static bool task_arrived(struct task_struct *p, s32 cpu);

#include "share.bpf.h"
#include "groups.bpf.h"
#include "amp.bpf.h"

/* ---- 2: notification of idle CPUs ---- */

static __always_inline void notify(s32 cpu, const struct task_struct *p)
{
	if (cpu < 0)
		return;
	WRITE_ONCE(cpu_of(cpu)->notified_for, p->pid);
	kick(cpu, SCX_KICK_IDLE);
}

/*
 * The CPU is no longer idle, but may not have taken the task it was notified of, because a higher
 * class has it, or a task that the kernel inserted. Notifies another CPU.
 */
static __noinline void notify_another(s32 cpu)
{
	s32 pid = READ_ONCE(cpu_of(cpu)->notified_for);
	struct task_struct *p;

	if (!pid || is_amp())
		return;
	WRITE_ONCE(cpu_of(cpu)->notified_for, 0);
	p = bpf_task_from_pid(pid);
	if (!p)
		return;
	if ((p->scx.flags & SCX_TASK_QUEUED) && !scx_bpf_task_running(p)) {
		s32 home = scx_bpf_task_cpu(p);

		notify(claim_idle(p, home, scx_bpf_dsq_nr_queued(queue_of(home))), p);
	}
	bpf_task_release(p);
}

/*
 * Called after a task was moved to the CPU. Returns false if the kernel did not admit it: then it
 * is in the global DSQ, which the CPU that is notified here consumes.
 */
static __noinline bool task_arrived(struct task_struct *p, s32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	if (READ_ONCE(c->notified_for) == p->pid)
		WRITE_ONCE(c->notified_for, 0);
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL))
		return true;
	WRITE_ONCE(c->closed, true);
	WRITE_ONCE(scan_until, now_ns() + SECOND_NS);
	notify(claim_any(p), p);
	return false;
}

/* Returns whether the CPU may take the task. */
static __always_inline bool may_take_task(struct task_struct *p, s32 cpu)
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

/* Once a second: updates the priorities of all waiting tasks. */
static int second_timer_fn(void *map, u32 *key, struct second *s)
{
	u64 now = now_ns();
	int i;

	bpf_rcu_read_lock();
	for_range(i, 0, nr_groups)
		update_priorities(QUEUE_DSQ + i, now);
	bpf_rcu_read_unlock();
	check_central(now);
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
	bpf_timer_set_callback(&s->timer, second_timer_fn);
	bpf_timer_start(&s->timer, TIMER_EVERY_NS, 0);
}

/* ---- Lifecycle of a task, in order ---- */

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

/*
 * A waking task stays on its last CPU, except for a donated one; some CPU takes it from the queue.
 */
OP3(s32, nix_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	s32 cpu = is_donated(p, wake_flags) ? donate_to(p, prev_cpu) : prev_cpu;
	struct task *t = task_of(p);

	if (t)
		t->asked = cpu;
	return cpu;
}

/*
 * If the kernel admits no task on the CPU that select_cpu returned, it takes another one. Then the
 * former is closed.
 */
static __always_inline void note_closed(struct task_struct *p, struct task *t, s32 home)
{
	s32 asked = t->asked;

	t->asked = -1;
	if (asked >= 0 && asked != home && bpf_cpumask_test_cpu(asked, p->cpus_ptr))
		WRITE_ONCE(cpu_of(asked)->closed, true);
}

/* 5: the task that runs here has probably made `p` runnable. */
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
	note_closed(p, t, home);
	settle(t, false, now);
	t->ready_at = now;
	t->priority = priority_of(p, t);
	note_readied(p, t);
	t->displaced = false;
	if (is_central(home) && p->nr_cpus_allowed == 1) {
		/*
		 * No other CPU is notified: a task that CPU 0 preempts by a scan would make it scan
		 * again, endlessly.
		 */
		dsq_insert(p, CENTRAL_DSQ, QUANTUM_NS, enq_flags);
		kick(CENTRAL, SCX_KICK_IDLE);
		return;
	}
	dsq_insert_by_key(p, queue_of(home), SLICE_NS, key_of(t, now), enq_flags);
	if (is_amp())
		notify_central();
	else	/* + 1: the insert takes effect when this op returns. */
		notify(claim_idle(p, home, scx_bpf_dsq_nr_queued(queue_of(home)) + 1), p);
}

/* ---- Pick ---- */

/* 3: takes a task not later than `limit`; with `anybody` also one that last ran on another CPU. */
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
		if (!may_take_task(p, cpu))
			continue;
		taken = dsq_move(&p_it, p, SCX_DSQ_LOCAL) && task_arrived(p, cpu);
		if (taken)
			break;
	}
	return taken;
}

/* Key of the first task of a queue; ~0 if it is empty. */
static __noinline u64 first_key(u64 dsq_id)
{
	struct task_struct *p;

	if (scx_bpf_dsq_nr_queued(dsq_id) == 0)
		return ~0ULL;
	for_each_queued(p, dsq_id)
		return p->scx.dsq_vtime;
	return ~0ULL;
}

/* Takes `p` if it waits in the queue of `home`'s group. */
static __noinline bool take_task(struct task_struct *p, s32 home, s32 cpu)
{
	struct bpf_iter_scx_dsq it;
	bool taken;

	bpf_iter_scx_dsq_new(&it, queue_of(home), 0);
	taken = may_take_task(p, cpu) && dsq_move(&it, p, SCX_DSQ_LOCAL) && task_arrived(p, cpu);
	bpf_iter_scx_dsq_destroy(&it);
	return taken;
}

/* 2: takes the task that the CPU was notified of, unless NIX would not steal it. */
static __noinline bool take_notified(s32 cpu)
{
	s32 pid = READ_ONCE(cpu_of(cpu)->notified_for);
	struct task_struct *p;
	bool taken;

	if (!pid || steal_from_overloaded)
		return false;
	p = bpf_task_from_pid(pid);
	if (!p)
		return false;
	taken = take_task(p, scx_bpf_task_cpu(p), cpu);
	bpf_task_release(p);
	return taken;
}

/* 5: takes the task that the last one made runnable, unless a promoted one waits. */
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
	c->follows = take_task(p, cpu, cpu);
	bpf_task_release(p);
	return c->follows;
}

/* The running task continues with a new slice of 100 ms. */
static __always_inline void keep_running(struct task_struct *prev, struct task *t, s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);

	c->since = now;
	c->expired = false;
	WRITE_ONCE(c->priority, t->priority);
	task_set_slice(prev, SLICE_NS);
}

/* 6: the CPU waits for a task from CPU 0. A task that was stopped continues if none waits. */
static void dispatch_amp(s32 cpu, struct task_struct *prev, struct task *t, u64 now)
{
	bool waits = scx_bpf_dsq_nr_queued(QUEUE_DSQ);

	if (t && !waits)
		keep_running(prev, t, cpu, now);
	else if (waits)
		notify_central();
}

/*
 * 6: CPU 0 assigns tasks. Its pinned tasks alternate; any other task that runs here goes to another
 * CPU.
 */
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

	/*
	 * A task that a CPU takes on its way offline ends up in the kernel's global DSQ, and no
	 * other CPU is notified.
	 */
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
		/* `| 1`: also behind tasks that arrived in this nanosecond. */
		if (!take(cpu, false, key_of(t, now) | 1))
			keep_running(prev, t, cpu, now);
		return;
	}
	if (take_notified(cpu) || take_readied(cpu) || take(cpu, false, ~0ULL) || take(cpu, true, ~0ULL) || steal_for(cpu))
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

/* 4, and the rule of "amp.bpf.h". The kernel checks the slice after this. */
static __always_inline bool must_stop(s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);
	u64 first = first_key(queue_of(cpu));

	if (now < scan_until)
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
			notify_central();
	}
	check_central(now);
	if (!is_central(cpu) && must_stop(cpu, now))
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

/* ---- CPUs ---- */

OP2(void, nix_update_idle, s32, cpu, bool, idle)
{
	if (!idle)
		notify_another(cpu);
}

OP2(void, nix_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	WRITE_ONCE(cpu_of(cpu)->taken, true);
	if (is_central(cpu))
		leave_central();
	reenqueue_local();
}

OP2(void, nix_cpu_acquire, s32, cpu, struct scx_cpu_acquire_args *, args)
{
	WRITE_ONCE(cpu_of(cpu)->taken, false);
}

/* Without these two ops the kernel exits the scheduler at a CPU hotplug event. */
SLEEPABLE_OP1(void, nix_cpu_online, s32, cpu)
{
	struct cpu *c = cpu_of(cpu);

	c->busy = c->taken = c->closed = false;
	if (is_leaving(cpu))
		__sync_fetch_and_add(&gone_cpus, -1);
	if (!mark_online(cpu))
		scx_restart("CPU %d was offline when nix was loaded", cpu);
	if (is_central(cpu))
		WRITE_ONCE(central_away, false);
	if (is_amp_machine() && !is_leaving(CENTRAL))
		notify_central();
}

OP1(void, nix_cpu_offline, s32, cpu)
{
	bool was_amp = is_amp_machine();
	int i;

	mark_offline(cpu);
	__sync_fetch_and_add(&gone_cpus, 1);
	WRITE_ONCE(scan_until, now_ns() + SECOND_NS);
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

/* Because of SCX_OPS_ENQ_LAST, a task that stops in amp returns to the queue, and CPU 0 decides. */
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
