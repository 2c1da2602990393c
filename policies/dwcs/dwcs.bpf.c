/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dwcs: at most x of y requests are late, after R. West and K. Schwan, "Dynamic window-constrained
 * scheduling for multimedia applications" (1999), and R. West and C. Poellabauer, "Analysis of a
 * window-constrained scheduler for real-time and best-effort packet streams" (2000).
 *
 * 1. A stream is a task with a window: of every y requests, x may be late. A request is the work of
 *    the task from a wakeup until it sleeps, and must be finished within one period. The next
 *    deadline is one period after the last one, or after the wakeup if that is later. If a task
 *    wakes more than once per period, its deadline is at most two periods ahead.
 *
 * 2. The order of streams is that of <weir/window.bpf.h>: by deadline first, or, in the order of
 *    1999 (`window_first`), by window first. It is evaluated whenever a slice of 1 ms ends, not in
 *    between.
 *
 * 3. A request that is not finished by its deadline is late, and from then on the next deadline
 *    counts. The papers drop late packets. A task cannot be dropped, so it continues; its work
 *    until it sleeps still belongs to the late request, so that its next request has only the rest
 *    of the period.
 *
 * 4. A request that has received a slot of CPU time, 10 ms, counts as served. Further work of the
 *    task is a request of the next period; until then the task runs only when no other task wants
 *    the CPU. So a stream that never sleeps gets a slot in each period.
 *
 * 5. Tasks without a window share the remaining time round robin. A stream that wakes preempts
 *    them.
 *
 * 6. No task starves, which the papers leave to admission control: tasks without a window get a
 *    slice every 100 ms, and a request that has waited for 5 s is treated like one of them.
 *
 * Where this departs from the papers, and why:
 * - The service time of a packet is known, that of a request is not: hence 4.
 * - The papers have one link. Here each CPU takes the first request that may run on it.
 * - Per-CPU kthreads run at once.
 */
#include <weir/client.bpf.h>
#include <weir/window.bpf.h>

LICENSE("GPL");

/* Set by the presets. */
RODATA u32 nr_cpus = 1;
RODATA u32 turn_us = 1000;
RODATA u32 slot_us = 10000;
RODATA u32 rest_ms = 100;
RODATA bool window_first = false;

#define MAX_CPUS 4096
#define MAX_STREAMS 1024
#define MISSES_AT_ONCE 64
#define STARVED_NS 5000000000ULL

/*
 * Requests in their order; served streams by the start of their next period; and all other tasks in
 * FIFO order.
 */
enum queue { REQUESTS, SERVED, REST };

#define PICK_REFUSED(p, cpu) false
#define PICK_BIASED false
#define PICK_SEEN(p, key, cpu) (key)
#define PICK_FLAGS SCX_ENQ_IMMED
#include <weir/pick.bpf.h>

/* Windows of streams, by task name. User space fills the map. */
struct name {
	char text[16];
};

struct stream {
	u32 late;	/* x: requests that may be late ... */
	u32 of;		/* y: ... of this many */
	u64 request_us;	/* period */
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, MAX_STREAMS);
	MAP_TYPE(key, struct name);
	MAP_TYPE(value, struct stream);
} streams SEC(".maps");

struct task {
	u64 period_ns;	/* 0: no window */
	u64 deadline;	/* of its request, or of the last one if it has none */
	u64 used_ns;	/* of its slot */
	u64 since;	/* time up to which it is charged, or since which it waits */
	struct window window;
	bool awake;
	bool has_request;	/* waiting or running */
	bool late;	/* 3: its work belongs to a late request */
};

TASK_STORAGE(tasks, struct task);

/* 5: CPUs that run a task without a request. */
struct cpu {
	bool rest;
} __attribute__((aligned(64)));

struct cpu cpus[MAX_CPUS];

/* 6: time at which a task without a window last had a slice. Deadlines are relative to `began`. */
u64 rest_at, began;

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & (MAX_CPUS - 1)];
}

static __always_inline u64 turn_ns(void)
{
	return turn_us * 1000ULL;
}

static __always_inline u64 slot_ns(void)
{
	return slot_us * 1000ULL;
}

static __always_inline u64 key_of(const struct task *t)
{
	return window_key(&t->window, t->deadline - began, window_first);
}

/* ---- 1: requests ---- */

/* Updates the window of the task, whose name may have changed. */
static __noinline void find_stream(struct task_struct *p, struct task *t)
{
	struct name name = {};
	struct stream *stream;

	bpf_probe_read_kernel_str(name.text, sizeof(name.text), p->comm);
	stream = bpf_map_lookup_elem(&streams, &name);
	if (!stream) {
		t->period_ns = 0;
		return;
	}
	if (t->period_ns == stream->request_us * 1000 && t->window.x == stream->late && t->window.y == stream->of)
		return;
	t->period_ns = stream->request_us * 1000;
	t->window.x = stream->late;
	t->window.y = stream->of;
	window_begin(&t->window);
}

/* 1, 3: starts a request at a wakeup. After a late request it has only the rest of the period. */
static __noinline void begin_request(struct task *t, u64 now)
{
	u64 ahead = t->deadline > now ? t->deadline - now : 0;

	if (!t->late || !ahead)
		t->deadline = now + (ahead < t->period_ns ? ahead : t->period_ns) + t->period_ns;
	t->used_ns = 0;
	t->has_request = true;
	t->late = false;
}

static __always_inline void serve(struct task *t)
{
	window_served(&t->window);
	t->used_ns = 0;
	t->has_request = false;
	t->late = false;
}

/* 3: counts all deadlines before `end` as missed. */
static __noinline void settle(struct task *t, u64 end)
{
	int i;

	for_range(i, 0, MISSES_AT_ONCE) {
		if (!t->has_request || t->deadline >= end)
			return;
		window_missed(&t->window);
		t->deadline += t->period_ns;
		t->late = true;
	}
	if (t->deadline < end)
		t->deadline = end;
}

/* 4: charges the time since the last charge. */
static __noinline void charge(struct task *t, u64 now)
{
	t->used_ns += now > t->since ? now - t->since : 0;
	t->since = now;
	settle(t, now);
	if (t->has_request && t->used_ns >= slot_ns())
		serve(t);
}

/* ---- 3, 4: periods that begin or end ---- */

/* 4: a served stream that never slept has its next request. */
static __always_inline void begin_next_request(struct task *t)
{
	t->deadline += t->period_ns;
	t->used_ns = 0;
	t->has_request = true;
}

static __noinline void begin_periods(u64 now)
{
	struct task_struct *p;

	for_each_queued(p, SERVED) {
		struct task *t = task_of(p);

		if (!t || t->deadline > now)
			break;
		begin_next_request(t);
		dsq_move_by_key(&p_it, p, REQUESTS, key_of(t));
	}
}

/* 3: requests that can no longer be served in time. In deadline order these are the first ones. */
static __noinline void end_periods(u64 now)
{
	struct task_struct *p;

	for_each_queued(p, REQUESTS) {
		struct task *t = task_of(p);

		if (!t)
			continue;
		if (!window_first && window_deadline(t->deadline - began) > window_deadline(now - began))
			break;
		if (t->deadline > now)
			continue;
		settle(t, now + 1);
		if (now > t->since + STARVED_NS)
			dsq_move(&p_it, p, REST);
		else
			dsq_move_by_key(&p_it, p, REQUESTS, key_of(t));
	}
}

/* ---- 5, 6: tasks without a window ---- */

static __always_inline bool take_rest(s32 cpu, u64 now)
{
	if (!take(REST, cpu, NO_LIMIT))
		return false;
	WRITE_ONCE(rest_at, now);
	return true;
}

/*
 * Preempts the first CPU for `p` that runs a task without a request. It no longer counts as such,
 * so that it is preempted once.
 */
static __noinline void preempt_rest(struct task_struct *p)
{
	int cpu;

	for_range(cpu, 0, nr_cpus) {
		if (!READ_ONCE(cpu_of(cpu)->rest) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		WRITE_ONCE(cpu_of(cpu)->rest, false);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		break;
	}
}

/* ---- Lifecycle of a task, in order ---- */

SLEEPABLE_OP2(s32, dwcs_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	return bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -12; /* ENOMEM */
}

static __always_inline u64 slice_of(const struct task *t)
{
	u64 left = slot_ns() > t->used_ns ? slot_ns() - t->used_ns : 1;

	return t->has_request && left < turn_ns() ? left : turn_ns();
}

OP3(s32, dwcs_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	return go_to_idle_cpu(p, prev_cpu, wake_flags, turn_ns());
}

OP2(void, dwcs_runnable, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);

	if (!t || t->awake)
		return;
	t->awake = true;
	find_stream(p, t);
	if (t->period_ns)
		begin_request(t, now_ns());
}

OP2(void, dwcs_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);

	if (!t || !is_client(p)) {
		run_at_once(p, turn_ns(), enq_flags);
		return;
	}
	t->since = now_ns();
	if (t->has_request)
		dsq_insert_by_key(p, REQUESTS, slice_of(t), key_of(t), enq_flags);
	else if (t->period_ns)
		dsq_insert_by_key(p, SERVED, turn_ns(), t->deadline, enq_flags);
	else
		dsq_insert(p, REST, turn_ns(), enq_flags);
	if (!kick_idle_cpu(p, enq_flags) && t->has_request)
		preempt_rest(p);
}

/*
 * 2: the running task continues if it is the first in the order. Among tasks without a request, a
 * waiting task goes first.
 */
OP2(void, dwcs_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	u64 now = now_ns();
	bool has_request;

	if (t) {
		charge(t, now);
		if (t->period_ns && !t->has_request && t->deadline <= now)
			begin_next_request(t);
	}
	begin_periods(now);
	end_periods(now);
	has_request = t && t->has_request;
	if (now > READ_ONCE(rest_at) + rest_ms * 1000000ULL && take_rest(cpu, now))
		return;
	if (take(REQUESTS, cpu, has_request ? key_of(t) : NO_LIMIT))
		return;
	if (!has_request && (take_rest(cpu, now) || ((!t || t->period_ns) && take(SERVED, cpu, NO_LIMIT))))
		return;
	if (t) {
		WRITE_ONCE(cpu_of(cpu)->rest, !has_request);
		task_set_slice(prev, slice_of(t));
	}
}

OP1(void, dwcs_running, struct task_struct *, p)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	t->since = now_ns();
	WRITE_ONCE(cpu_of(scx_bpf_task_cpu(p))->rest, !t->has_request && is_client(p));
}

OP2(void, dwcs_stopping, struct task_struct *, p, bool, runnable)
{
	struct task *t = task_of(p);
	u64 now = now_ns();

	WRITE_ONCE(cpu_of(scx_bpf_task_cpu(p))->rest, false);
	if (!t)
		return;
	charge(t, now);
	if (!t->period_ns && is_client(p))
		WRITE_ONCE(rest_at, now);
}

OP2(void, dwcs_quiescent, struct task_struct *, p, u64, deq_flags)
{
	struct task *t = task_of(p);

	if (!t || !(deq_flags & SCX_DEQ_SLEEP))
		return;
	t->awake = false;
	if (t->has_request && !t->late)
		serve(t);
	t->has_request = false;
}

SLEEPABLE_OP0(s32, dwcs_init)
{
	s32 error = 0;
	int queue;

	began = rest_at = now_ns();
	for_range(queue, REQUESTS, REST + 1) {
		if (!error)
			error = scx_bpf_create_dsq(queue, -1);
	}
	return error;
}

OP1(void, dwcs_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(dwcs_ops,
	.init_task = (void *)dwcs_init_task,
	.select_cpu = (void *)dwcs_select_cpu,
	.runnable = (void *)dwcs_runnable,
	.enqueue = (void *)dwcs_enqueue,
	.dispatch = (void *)dwcs_dispatch,
	.running = (void *)dwcs_running,
	.stopping = (void *)dwcs_stopping,
	.quiescent = (void *)dwcs_quiescent,
	.init = (void *)dwcs_init,
	.exit = (void *)dwcs_exit,
	.name = "dwcs",
);
