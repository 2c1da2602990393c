/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pushback: the dispatcher for large machines from a lecture by Peter Chubb: three queues, from
 * near to far.
 *
 * 1. Queues. Each CPU has one queue for tasks that were pushed back and one for tasks that are to
 *    run there. A third queue is global. All are FIFO, except that the task pushed back last is the
 *    first of its queue.
 *
 * 2. A task that becomes runnable is queued on its last CPU if that is idle, otherwise on an idle
 *    CPU of the same cell, which is a node, otherwise on any idle CPU.
 *
 * 3. If no CPU is idle, the task waits on its last CPU, unless already `depth` tasks wait there;
 *    then it waits in the global queue. A task that is pinned to one CPU always waits there.
 *
 * 4. Dispatch: first the tasks pushed back to this CPU, then those queued on it, then the global
 *    queue. If the first task of the global queue has waited for a second, the last two alternate.
 *
 * 5. A per-CPU kthread preempts the task that runs there. That task is pushed back, and continues
 *    after the kthread with the rest of its 20 ms.
 *
 * 6. Some time before the kernel reports that a CPU goes offline, it admits no task there any more,
 *    but still calls the CPU idle. Tasks that wait in its queues are then stuck, among them RCU's
 *    kthread, without which the CPU never goes offline. The scheduler notices this when the kernel
 *    places a task on another CPU than the idle one that select_cpu returned. From then on no task
 *    is sent to that CPU, and the next CPU that dispatches moves all tasks that wait there to the
 *    kernel's global DSQ.
 *
 * The lecture gives 2 and 4 in five lines. The rest was added here: that a cell is a node; when a
 * task waits on its CPU and not in the global queue (3); what pushes back (5); and the second
 * sentence of 4, without which no CPU would look into the global queue while it has tasks of its
 * own.
 *
 * Lesson: near queues keep tasks where their memory is, but other CPUs do not see the tasks that
 * wait in them. With `depth` 0, only pinned tasks wait on a busy CPU.
 */
#include <weir/hotplug.bpf.h>
#include <weir/kthread.bpf.h>

LICENSE("GPL");

#define GLOBAL_DSQ 0
#define CPU_DSQ 0x10000		/* + CPU */
#define PUSHED_DSQ 0x20000	/* + CPU */

#define SLICE_NS 20000000ULL
#define LEAST_NS 1000000ULL	/* a task with less of its slice left is not pushed back */
#define LONG_NS 1000000000ULL	/* 4 */

RODATA u32 depth = 1;

struct task {
	u64 left_ns;	/* of its slice */
	u64 since;	/* time at which it started to run */
	s32 counted_at;	/* CPU whose runqueue counted it when it was last queued, or ran */
	s32 claimed;	/* 1 + the idle CPU that select_cpu claimed for it */
	bool pushed;	/* was preempted with some of its slice left */
};

TASK_STORAGE(tasks, struct task);

struct cpu {
	bool global_next;	/* 4: the global queue is next */
	bool kernel;		/* a per-CPU kthread runs */
	bool taken;		/* by a higher class */
	u32 closed;		/* 6 */
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];
u32 taken_cpus;
u32 closed_cpus;

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & MAX_CPU_MASK];
}

/* No task may be sent to such a CPU. */
static __always_inline bool is_shut(s32 cpu)
{
	return is_leaving(cpu) || READ_ONCE(cpu_of(cpu)->closed);
}

#define IDLE_REFUSED(p, cpu) is_shut(cpu)
#include <weir/idle.bpf.h>

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* ---- Lifecycle of a task, in order ---- */

SLEEPABLE_OP2(s32, pushback_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	return t ? 0 : -12; /* ENOMEM */
}

/* 2 */
OP3(s32, pushback_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	struct task *t = task_of(p);
	s32 cpu = claim_idle_cpu(p, prev_cpu);

	if (t)
		t->claimed = cpu + 1;
	return cpu < 0 ? prev_cpu : cpu;
}

/* 5 */
static void push_back(struct task_struct *p, struct task *t, s32 cpu, u64 enq_flags)
{
	t->pushed = false;
	dsq_insert(p, PUSHED_DSQ + (cpu & MAX_CPU_MASK), t->left_ns, enq_flags | SCX_ENQ_HEAD);
}

/* 3: returns whether the task waits on `cpu`. */
static __always_inline bool waits_there(struct task_struct *p, s32 cpu)
{
	if (p->nr_cpus_allowed == 1)
		return true;
	return !is_shut(cpu) && !READ_ONCE(cpu_of(cpu)->taken) && scx_bpf_dsq_nr_queued(CPU_DSQ + cpu) < (s32)depth;
}

/* 6: stops sending tasks to the CPU. */
static __always_inline void close(s32 cpu)
{
	if (!__sync_lock_test_and_set(&cpu_of(cpu)->closed, 1))
		__sync_fetch_and_add(&closed_cpus, 1);
}

static __always_inline void open(s32 cpu)
{
	if (__sync_lock_test_and_set(&cpu_of(cpu)->closed, 0))
		__sync_fetch_and_add(&closed_cpus, -1);
}

/* The idle CPU that select_cpu claimed, if the kernel placed the task there; otherwise -1. */
static __always_inline s32 claimed_cpu(struct task_struct *p, struct task *t, s32 cpu, u64 enq_flags)
{
	s32 claimed = t->claimed - 1;

	if (claimed < 0 || claimed == cpu)
		return claimed;
	if ((enq_flags & SCX_ENQ_WAKEUP) && bpf_cpumask_test_cpu(claimed, p->cpus_ptr))
		close(claimed);
	return -1;
}

/*
 * 2, 3. The second search follows the insert, because a CPU that became idle in between has found
 * the queue empty.
 */
static void enqueue_new(struct task_struct *p, struct task *t, u64 enq_flags)
{
	s32 last = scx_bpf_task_cpu(p) & MAX_CPU_MASK, cpu = claimed_cpu(p, t, last, enq_flags);

	if (cpu < 0)
		cpu = claim_idle_cpu(p, last);
	t->left_ns = SLICE_NS;
	if (cpu < 0 && waits_there(p, last)) {
		dsq_insert(p, CPU_DSQ + last, SLICE_NS, enq_flags | (is_per_cpu_kthread(p) ? SCX_ENQ_HEAD : 0));
		if (scx_bpf_test_and_clear_cpu_idle(last))
			kick(last, SCX_KICK_IDLE);
		else if (is_per_cpu_kthread(p) && !READ_ONCE(cpu_of(last)->kernel))
			kick(last, SCX_KICK_PREEMPT);
		return;
	}
	if (cpu >= 0) {
		dsq_insert(p, CPU_DSQ + (cpu & MAX_CPU_MASK), SLICE_NS, enq_flags);
	} else {
		dsq_insert_by_key(p, GLOBAL_DSQ, SLICE_NS, now_ns(), enq_flags);
		cpu = claim_idle_cpu(p, last);
	}
	if (cpu >= 0)
		kick(cpu, SCX_KICK_IDLE);
}

OP2(void, pushback_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);

	if (!t) {
		scx_error("task %d has no storage", p->pid);
		return;
	}
	count_at(&t->counted_at, cpu);
	if (t->pushed && !is_shut(cpu) && !READ_ONCE(cpu_of(cpu)->taken))
		push_back(p, t, cpu, enq_flags);
	else
		enqueue_new(p, t, enq_flags);
	t->pushed = false;
	t->claimed = 0;
}

/* ---- 4: dispatch ---- */

static __always_inline bool take(u64 dsq_id)
{
	return scx_bpf_dsq_nr_queued(dsq_id) && dsq_move_to_local(dsq_id);
}

/* Returns whether the first task of the global queue has waited for a second. */
static __noinline bool global_waits_long(u64 now)
{
	struct task_struct *p;

	if (scx_bpf_dsq_nr_queued(GLOBAL_DSQ) == 0)
		return false;
	for_each_queued(p, GLOBAL_DSQ)
		return now - p->scx.dsq_vtime > LONG_NS;
	return false;
}

static __noinline bool take_in_turn(s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);
	bool turn = c->global_next && global_waits_long(now);

	if (turn && take(GLOBAL_DSQ)) {
		c->global_next = false;
		return true;
	}
	c->global_next = true;
	return take(CPU_DSQ + cpu) || take(GLOBAL_DSQ);
}

/* A CPU without tasks takes those that wait on a CPU that a higher class has taken. */
static __noinline bool take_of_taken_cpus(void)
{
	int cpu;

	if (!READ_ONCE(taken_cpus))
		return false;
	for_range(cpu, 0, nr_cpus) {
		u32 other = cpu & MAX_CPU_MASK;

		if (READ_ONCE(cpu_of(other)->taken) && (take(PUSHED_DSQ + other) || take(CPU_DSQ + other)))
			return true;
	}
	return false;
}

/* 6: moves the tasks of closed CPUs to the kernel's global DSQ. */
static __noinline void empty_closed_cpus(void)
{
	int cpu;

	for_range(cpu, 0, nr_cpus) {
		u32 other = cpu & MAX_CPU_MASK;

		if (!READ_ONCE(cpu_of(other)->closed))
			continue;
		give_all_away(CPU_DSQ + other);
		give_all_away(PUSHED_DSQ + other);
	}
}

/*
 * 5: returns whether `prev` was preempted; then the task that preempted it is in the queue of its
 * CPU.
 */
static __always_inline bool is_stopped(const struct task *t, u64 now)
{
	return t && t->left_ns >= now - t->since + LEAST_NS;
}

OP2(void, pushback_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	u64 now = now_ns();

	/*
	 * A task that a CPU takes on its way offline ends up in the kernel's global DSQ, and no
	 * other CPU is notified.
	 */
	if (is_leaving(cpu))
		return;
	cpu &= MAX_CPU_MASK;
	if (READ_ONCE(closed_cpus))
		empty_closed_cpus();
	if (!is_stopped(t, now) && take(PUSHED_DSQ + cpu))
		return;
	if (take_in_turn(cpu, now) || take(PUSHED_DSQ + cpu) || take_of_taken_cpus() || !t)
		return;
	t->left_ns = SLICE_NS;
	t->since = now;
	task_set_slice(prev, SLICE_NS);
}

OP1(void, pushback_running, struct task_struct *, p)
{
	struct task *t = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p);

	WRITE_ONCE(cpu_of(cpu)->kernel, is_per_cpu_kthread(p));
	if (p->nr_cpus_allowed > 1 && READ_ONCE(cpu_of(cpu)->closed))
		open(cpu);
	if (!t)
		return;
	count_at(&t->counted_at, cpu);
	t->since = now_ns();
	t->pushed = false;
}

OP2(void, pushback_stopping, struct task_struct *, p, bool, runnable)
{
	struct task *t = task_of(p);
	u64 ran;

	WRITE_ONCE(cpu_of(scx_bpf_task_cpu(p))->kernel, false);
	if (!t)
		return;
	ran = now_ns() - t->since;
	t->left_ns -= ran < t->left_ns ? ran : t->left_ns;
	t->pushed = runnable && t->left_ns >= LEAST_NS;
}

/* A task that yields is not pushed back. */
OP2(bool, pushback_yield, struct task_struct *, from, struct task_struct *, to)
{
	struct task *t = task_of(from);

	if (t && !to) {
		t->left_ns = 0;
		task_set_slice(from, 0);
	}
	return false;
}

/* ---- CPUs ---- */

/*
 * A task waits in a queue of a CPU that cannot take it: wakes an idle CPU for the first such task.
 */
static __always_inline void kick_idle_for_first(u64 dsq_id, s32 cpu)
{
	struct task_struct *p;
	s32 other = -1;

	for_each_queued(p, dsq_id) {
		other = claim_idle_cpu(p, cpu);
		break;
	}
	if (other >= 0)
		kick(other, SCX_KICK_IDLE);
}

OP2(void, pushback_cpu_release, s32, cpu, struct scx_cpu_release_args *, args)
{
	cpu &= MAX_CPU_MASK;
	cpu_of(cpu)->taken = true;
	__sync_fetch_and_add(&taken_cpus, 1);
	kick_idle_for_first(CPU_DSQ + cpu, cpu);
	kick_idle_for_first(PUSHED_DSQ + cpu, cpu);
	reenqueue_local();
}

OP2(void, pushback_cpu_acquire, s32, cpu, struct scx_cpu_acquire_args *, args)
{
	if (cpu_of(cpu)->taken)
		__sync_fetch_and_add(&taken_cpus, -1);
	cpu_of(cpu)->taken = false;
}

/* Without these two ops the kernel exits the scheduler at a CPU hotplug event. */
SLEEPABLE_OP1(void, pushback_cpu_online, s32, cpu)
{
	open(cpu);
	if (!mark_online(cpu))
		scx_restart("CPU %d was offline when pushback was loaded", cpu);
}

OP1(void, pushback_cpu_offline, s32, cpu)
{
	mark_offline(cpu);
	give_away(cpu, GLOBAL_DSQ);
	give_all_away(CPU_DSQ + cpu);
	give_all_away(PUSHED_DSQ + cpu);
}

SLEEPABLE_OP0(s32, pushback_init)
{
	s32 error = scx_bpf_create_dsq(GLOBAL_DSQ, -1);
	int cpu;

	topology_init();
	for_range(cpu, 0, nr_cpus) {
		if (!error)
			error = scx_bpf_create_dsq(CPU_DSQ + cpu, -1);
		if (!error)
			error = scx_bpf_create_dsq(PUSHED_DSQ + cpu, -1);
	}
	return error;
}

OP1(void, pushback_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(pushback_ops,
	.init_task = (void *)pushback_init_task,
	.select_cpu = (void *)pushback_select_cpu,
	.enqueue = (void *)pushback_enqueue,
	.dispatch = (void *)pushback_dispatch,
	.running = (void *)pushback_running,
	.stopping = (void *)pushback_stopping,
	.yield = (void *)pushback_yield,
	.cpu_release = (void *)pushback_cpu_release,
	.cpu_acquire = (void *)pushback_cpu_acquire,
	.cpu_online = (void *)pushback_cpu_online,
	.cpu_offline = (void *)pushback_cpu_offline,
	.init = (void *)pushback_init,
	.exit = (void *)pushback_exit,
	.name = "pushback",
);
