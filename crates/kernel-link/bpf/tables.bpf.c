// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sums for `weir meter`: states of tasks, waits for locks, wakeups, interrupts. They are added up in the kernel, so that
 * cost and memory do not depend on the number of events.
 *
 * 1. A followed task has a note with the time that it spent in each state. Every nanosecond since its birth, or since
 *    the start of the meter, is charged to the state that it leaves. The note is sent when the task exits, and of all
 *    living tasks when user space asks (on_task).
 * 2. A task that is switched out with a state set sleeps. The state of its sleep follows from the system call that it
 *    executes: `orig_ax` of its registers, which is -1 within a page fault.
 * 3. A sleep ends at the waker (sched_waking). A wakeup before the task has left its CPU ends it at the switch.
 * 4. A kernel may suppress tracepoints while certain tasks run. If a task leaves a CPU without having been seen to get
 *    it, its CPU time tells for how long it had it. If a sleeping task runs, it was woken by then.
 * 5. Kernel locks report only contended acquisitions (contention_begin and _end). Waits for spinning locks nest, since
 *    an interrupt may wait too; each CPU has room for a few.
 * 6. A futex wait is a sleep in that system call. Its callers are the first words on the user stack that point behind a
 *    call instruction of the program's own text: frame pointers are not needed. A word that an earlier call left there
 *    may be among them.
 * 7. How long a lock is held is known only of user locks whose functions are named (holds.bpf.h).
 */
#include "kernel_types.h"

enum {
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_NOEXIST = 1,
	BPF_F_REUSE_STACKID = 1 << 10,
	BPF_F_USER_STACK = 1 << 8,
};

/* Layout is known to src/tables/wire.rs. */
enum state {
	STATE_RUN,
	STATE_RUN_QUEUE,
	STATE_FUTEX,
	STATE_POLL,
	STATE_TIMER,
	STATE_DISK,
	STATE_PAGING,
	STATE_INTERRUPTIBLE,
	STATE_UNINTERRUPTIBLE,
	STATES,
};

enum {
	COMM = 16,
	NESTED = 4,
	STACK_WORDS = 256,
	STACK_WORDS_LEAST = 64,
	CALLERS = 8,
	MAX_LOCKS = 16384,
	MAX_STACKS = 16384,
	MAX_PAIRS = 16384,
	MAX_SOURCES = 65536, /* 4,096 CPUs with 10 softirqs, 4 vectors and some devices each */
};

struct note {
	__u64 born_ns;
	__u64 since_ns;
	__u64 times_ns[STATES];
	__u32 counts[STATES];
	__u32 state;
	__u64 ran_ns;	   /* sum_exec_runtime when it was last switched out */
	__u64 ran_first_ns; /* sum_exec_runtime at the start */
	__u64 utime_first_ns;
	__u64 stime_first_ns;
	__u64 woken_ns;	   /* time of a wakeup since which it has not run; 0 if none */
	char waker[COMM];
	/* Current futex wait. */
	__u64 futex;
	__u64 callers[CALLERS];
	/* Current wait for a sleeping kernel lock. */
	__u64 lock;
	__u64 lock_ns;
	__s32 lock_stack;
	__u32 lock_flags;
	__u32 early; /* a wakeup came while it was on its CPU */
	__u32 unseen;
};

#include "note_map.bpf.h"
#include "preempt.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct mm_struct___text {
	unsigned long start_code;
	unsigned long end_code;
};
struct raw_spinlock___any {
	int unused;
};
struct rq___lock {
	struct raw_spinlock___any __lock;
};
struct pt_regs___user {
	unsigned long orig_ax;
	unsigned long ax;
	unsigned long di;
	unsigned long sp;
};
#pragma clang attribute pop

struct told {
	__u64 now_ns;
	__u64 born_ns;
	__u64 times_ns[STATES];
	__u32 counts[STATES];
	__u32 dead;
	__u64 ran_ns; /* CPU time by the scheduler until it last left its CPU */
	__u64 counted_ns; /* time in STATE_RUN until then */
	__u64 utime_ns;
	__u64 stime_ns;
	__u32 pid;
	__u32 tgid;
	__u32 unseen;
	__u32 unused;
	__u64 cgroup; /* ID in the unified hierarchy */
	char comm[COMM];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} lost SEC(".maps");

struct settings {
	__u32 root_thread; /* its next child is followed, with all descendants */
	__u32 process;	   /* this process is followed, with all descendants */
	__u32 everything;  /* all tasks are followed */
	__u32 own_process; /* Weir itself is not followed unless asked for */
	__u32 locks;	   /* callers of futex are looked for */
	__u32 by_thread;   /* waits in futex are kept by thread, not by process */
	__u32 wakeups;	   /* pairs of waker and woken task are counted */
};

struct settings settings SEC(".data.settings") = {};

struct lock_key {
	__u64 lock;   /* address; of a futex the user's */
	__u64 callers[CALLERS]; /* futex: distances from the start of the program's text; 0 if there are fewer */
	__s32 stack;  /* kernel lock: its stack; of a futex -1 */
	__u32 flags;  /* of the tracepoint; FUTEX for a futex */
	__u32 task;   /* of a futex: process or, for microstates, thread; 0 for kernel locks */
	__u32 unused;
};

enum {
	FUTEX = 1 << 30,
};

struct lock_sum {
	__u64 count;
	__u64 total_ns;
	__u64 max_ns;
	char comm[COMM]; /* of the first task that waited */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct lock_key);
	__type(value, struct lock_sum);
	__uint(max_entries, MAX_LOCKS);
} lock_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 16 * sizeof(__u64));
	__uint(max_entries, MAX_STACKS);
} stacks SEC(".maps");

struct spin {
	__u64 lock;
	__u64 since_ns;
	__s32 stack;
	__u32 flags;
};

struct spins {
	__u64 runqueue_lock; /* address of the lock of this CPU's runqueue */
	struct spin nested[NESTED];
	__u64 words[STACK_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct spins);
	__uint(max_entries, 1);
} spins SEC(".maps");

struct pair_key {
	char waker[COMM];
	char task[COMM];
};

struct pair_sum {
	__u64 count;
	__u64 measured;
	__u64 total_ns;
	__u64 max_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct pair_key);
	__type(value, struct pair_sum);
	__uint(max_entries, MAX_PAIRS);
} pairs SEC(".maps");

static void count_loss(void)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&lost, &zero);

	if (count)
		*count += 1;
}

/* ---- states of tasks ---- */

static void charge(struct note *note, enum state next, __u64 now)
{
	__u32 state = note->state;

	/* A note that its owner has not filled yet has no start. */
	if (state < STATES && note->since_ns && now > note->since_ns)
		note->times_ns[state] += now - note->since_ns;
	if (now > note->since_ns)
		note->since_ns = now;
	note->state = next;
	if (next < STATES)
		note->counts[next]++;
}

static struct pt_regs___user *user_registers(struct task_struct *task)
{
	return (struct pt_regs___user *)bpf_task_pt_regs(task);
}

/* 2. Numbers of x86-64; on other architectures every sleep is of the last two kinds. */
static enum state sleep_state(struct task_struct *task, unsigned int state)
{
	struct pt_regs___user *registers;
	bool iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
	enum state other = state & TASK_UNINTERRUPTIBLE ? STATE_UNINTERRUPTIBLE : STATE_INTERRUPTIBLE;
	long call;

	if (task->flags & PF_KTHREAD)
		return iowait ? STATE_DISK : other;
	registers = user_registers(task);
	if (!bpf_core_field_exists(registers->orig_ax))
		return iowait ? STATE_DISK : other;
	call = registers->orig_ax;
	if (call == -1)
		return iowait || other == STATE_UNINTERRUPTIBLE ? STATE_PAGING : other;
	if (iowait)
		return STATE_DISK;
	switch (call) {
	case 202: /* futex */
	case 449: /* futex_waitv */
	case 455: /* futex_wait */
		return STATE_FUTEX;
	case 7:	  /* poll */
	case 23:  /* select */
	case 232: /* epoll_wait */
	case 270: /* pselect6 */
	case 271: /* ppoll */
	case 281: /* epoll_pwait */
	case 441: /* epoll_pwait2 */
		return STATE_POLL;
	case 35:  /* nanosleep */
	case 230: /* clock_nanosleep */
		return STATE_TIMER;
	}
	return other;
}

static bool is_sleep(__u32 state)
{
	return state >= STATE_FUTEX && state < STATES;
}

static void begin(struct task_struct *task, struct note *note, enum state state, __u64 now)
{
	note->born_ns = now;
	note->since_ns = now;
	note->state = state;
	note->ran_ns = task->se.sum_exec_runtime;
	note->ran_first_ns = note->ran_ns;
	note->utime_first_ns = task->utime;
	note->stime_first_ns = task->stime;
}

static void tell(struct task_struct *task, struct note *note, __u64 now, bool dead)
{
	struct told *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	__u32 state = note->state;

	if (!event) {
		count_loss();
		return;
	}
	event->now_ns = now > note->since_ns ? now : note->since_ns;
	event->born_ns = note->born_ns;
	__builtin_memcpy(event->times_ns, note->times_ns, sizeof(event->times_ns));
	__builtin_memcpy(event->counts, note->counts, sizeof(event->counts));
	if (state < STATES)
		event->times_ns[state] += event->now_ns - note->since_ns;
	event->dead = dead;
	event->ran_ns = note->ran_ns - note->ran_first_ns;
	event->counted_ns = note->times_ns[STATE_RUN];
	event->utime_ns = task->utime - note->utime_first_ns;
	event->stime_ns = task->stime - note->stime_first_ns;
	event->pid = task->pid;
	event->tgid = task->tgid;
	event->unseen = note->unseen;
	event->unused = 0;
	event->cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	bpf_probe_read_kernel(event->comm, COMM, task->comm);
	/* The consumer polls: a wakeup for each task would disturb what is measured. */
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static bool follows_child_of(struct task_struct *parent)
{
	if (settings.everything)
		return parent->tgid != settings.own_process;
	if (note_of(parent))
		return true;
	if (settings.root_thread && parent->pid == settings.root_thread) {
		settings.root_thread = 0;
		return true;
	}
	return false;
}

SEC("?tp_btf/sched_wakeup_new")
int BPF_PROG(on_birth, struct task_struct *child)
{
	__u64 now = bpf_ktime_get_ns();
	struct note *note;

	if (!follows_child_of(bpf_get_current_task_btf()))
		return 0;
	note = note_of_or_new(child);
	if (!note) {
		count_loss();
		return 0;
	}
	begin(child, note, STATE_RUN_QUEUE, now);
	note->counts[STATE_RUN_QUEUE]++;
	note->woken_ns = now;
	bpf_get_current_comm(note->waker, COMM);
	return 0;
}

/* ---- waits for locks ---- */

static __always_inline void add_time(void *sums, struct lock_key *key, __u64 time)
{
	struct lock_sum *sum = bpf_map_lookup_elem(sums, key), fresh = {};

	if (!sum) {
		bpf_get_current_comm(fresh.comm, COMM);
		bpf_map_update_elem(sums, key, &fresh, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(sums, key);
	}
	if (!sum) {
		count_loss();
		return;
	}
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->total_ns, time);
	if (time > sum->max_ns)
		sum->max_ns = time; /* two CPUs at once: the smaller of two maxima may win */
}

static void add_wait(struct lock_key *key, __u64 waited)
{
	add_time(&lock_sums, key, waited);
}

static bool counts_lock_of(struct task_struct *task)
{
	return settings.everything ? task->tgid != settings.own_process : !!note_of(task);
}

/* From include/trace/events/lock.h. A mutex whose owner runs spins first, but can sleep later. */
enum {
	LCB_F_SPIN = 1 << 0,
	LCB_F_MUTEX = 1 << 5,
};

/* Every task, even the idle task, points to the runqueue of its CPU. */
static void note_runqueue(struct spins *here, struct task_struct *task)
{
	struct rq___lock *rq = (void *)task->se.cfs_rq->rq;

	if (!here->runqueue_lock && bpf_core_field_exists(rq->__lock))
		here->runqueue_lock = (__u64)rq + bpf_core_field_offset(rq->__lock);
}

SEC("?tp_btf/contention_begin")
int BPF_PROG(on_contention_begin, void *lock, unsigned int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 zero = 0;
	struct spins *here;
	struct note *note;

	if (!counts_lock_of(task))
		return 0;
	if (!(flags & LCB_F_SPIN) || (flags & LCB_F_MUTEX)) {
		note = note_of(task);
		/* A mutex first spins and then sleeps: two begins, one end. */
		if (note && note->lock != (__u64)lock) {
			note->lock = (__u64)lock;
			note->lock_ns = bpf_ktime_get_ns();
			note->lock_flags = flags;
			note->lock_stack = bpf_get_stackid(ctx, &stacks, BPF_F_REUSE_STACKID);
		}
		if (note)
			return 0;
	}
	here = bpf_map_lookup_elem(&spins, &zero);
	if (!here)
		return 0;
	note_runqueue(here, task);
	for (int i = 0; i < NESTED; i++) {
		if (here->nested[i].lock && here->nested[i].lock != (__u64)lock)
			continue;
		if (here->nested[i].lock == (__u64)lock)
			return 0;
		here->nested[i].lock = (__u64)lock;
		here->nested[i].since_ns = bpf_ktime_get_ns();
		here->nested[i].flags = flags;
		here->nested[i].stack = bpf_get_stackid(ctx, &stacks, BPF_F_REUSE_STACKID);
		return 0;
	}
	count_loss();
	return 0;
}

SEC("?tp_btf/contention_end")
int BPF_PROG(on_contention_end, void *lock, int error)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct note *note = note_of(task);
	__u64 now = bpf_ktime_get_ns();
	struct lock_key key = {};
	__u32 zero = 0;
	struct spins *here;

	key.lock = (__u64)lock;
	if (note && note->lock == (__u64)lock) {
		key.flags = note->lock_flags;
		key.stack = note->lock_stack;
		note->lock = 0;
		add_wait(&key, now - note->lock_ns);
		return 0;
	}
	here = bpf_map_lookup_elem(&spins, &zero);
	if (!here)
		return 0;
	for (int i = 0; i < NESTED; i++) {
		if (here->nested[i].lock != (__u64)lock)
			continue;
		key.flags = here->nested[i].flags;
		key.stack = here->nested[i].stack;
		here->nested[i].lock = 0;
		add_wait(&key, now - here->nested[i].since_ns);
		return 0;
	}
	return 0;
}

/* Whether a call instruction ends at this address: call rel32, or one of the forms of call r/m64. */
static bool follows_call(__u64 address)
{
	__u8 code[8] = {};

	if (bpf_probe_read_user(code, 7, (void *)(address - 7)))
		return false;
	if (code[2] == 0xe8)
		return true;
	for (int length = 2; length <= 7; length++) {
		/* ff /2: the reg field of the byte after the opcode is 2 */
		if (length != 4 && length != 5 && code[7 - length] == 0xff && ((code[8 - length] >> 3) & 7) == 2)
			return true;
	}
	return false;
}

/* A search for return addresses. bpf_loop() calls it for each word, so that the verifier follows it only once. */
struct search {
	__u64 *words;
	__u64 *callers;
	__u64 low;
	__u64 high;
	__u32 count;
	__u32 found;
};

static long look_at_word(__u64 index, struct search *search)
{
	__u32 at = index, found = search->found;
	__u64 word;

	if (at >= STACK_WORDS || at >= search->count || found >= CALLERS)
		return 1;
	word = search->words[at];
	if (word <= search->low || word >= search->high || !follows_call(word))
		return 0;
	search->callers[found] = word - search->low;
	search->found = found + 1;
	return 0;
}

/* 6. */
static void find_callers(struct task_struct *task, __u64 *callers)
{
	struct mm_struct___text *mm = (void *)task->mm;
	struct pt_regs___user *registers = user_registers(task);
	struct search search = { .callers = callers, .count = STACK_WORDS };
	__u32 zero = 0;
	struct spins *here = bpf_map_lookup_elem(&spins, &zero);

	__builtin_memset(callers, 0, CALLERS * sizeof(*callers));
	if (!here || !mm || !bpf_core_field_exists(registers->sp))
		return;
	search.words = here->words;
	search.low = BPF_CORE_READ(mm, start_code);
	search.high = BPF_CORE_READ(mm, end_code);
	/* The last page of a stack may end earlier. */
	if (bpf_probe_read_user(here->words, sizeof(here->words), (void *)registers->sp)) {
		search.count = STACK_WORDS_LEAST;
		if (bpf_probe_read_user(here->words, STACK_WORDS_LEAST * sizeof(__u64), (void *)registers->sp))
			return;
	}
	bpf_loop(STACK_WORDS, look_at_word, &search, 0);
}

static void begin_futex(struct task_struct *task, struct note *note)
{
	struct pt_regs___user *registers = user_registers(task);

	if (!bpf_core_field_exists(registers->di))
		return;
	note->futex = registers->di;
	find_callers(task, note->callers);
}

static void end_futex(struct task_struct *task, struct note *note, __u64 now)
{
	struct lock_key key = {};

	key.lock = note->futex;
	__builtin_memcpy(key.callers, note->callers, sizeof(key.callers));
	key.flags = FUTEX;
	key.stack = -1;
	key.task = settings.by_thread ? task->pid : task->tgid;
	if (now > note->since_ns)
		add_wait(&key, now - note->since_ns);
	else
		add_wait(&key, 0);
}

/* ---- wakeups ---- */

static struct pair_sum *pair_of(struct task_struct *task, struct note *note)
{
	struct pair_key key = {};
	struct pair_sum *sum, fresh = {};

	__builtin_memcpy(key.waker, note->waker, COMM);
	bpf_probe_read_kernel(key.task, COMM, task->comm);
	sum = bpf_map_lookup_elem(&pairs, &key);
	if (sum)
		return sum;
	bpf_map_update_elem(&pairs, &key, &fresh, BPF_NOEXIST);
	sum = bpf_map_lookup_elem(&pairs, &key);
	if (!sum)
		count_loss();
	return sum;
}

/* A woken task runs: counts the wakeup and its latency. */
static void count_wakeup(struct task_struct *task, struct note *note, __u64 now, bool measured)
{
	struct pair_sum *sum;
	__u64 waited = now > note->woken_ns ? now - note->woken_ns : 0;

	if (!settings.wakeups)
		return;
	sum = pair_of(task, note);
	if (!sum)
		return;
	__sync_fetch_and_add(&sum->count, 1);
	if (!measured)
		return;
	__sync_fetch_and_add(&sum->measured, 1);
	__sync_fetch_and_add(&sum->total_ns, waited);
	if (waited > sum->max_ns)
		sum->max_ns = waited;
}

/* Names the waker: the current task, unless an interrupt wakes. */
static void name_waker(struct note *note)
{
	struct task_struct *current = bpf_get_current_task_btf();

	__builtin_memset(note->waker, 0, COMM);
	if (!(preemption_count(current) & (SOFTIRQ_SERVED | HARDIRQ_MASK | NMI_MASK)))
		bpf_get_current_comm(note->waker, COMM);
	else if (note->state == STATE_TIMER)
		__builtin_memcpy(note->waker, "(timer)", 8);
	else
		__builtin_memcpy(note->waker, "(interrupt)", 12);
}

static void wake(struct task_struct *task, struct note *note, __u64 now)
{
	if (note->state == STATE_FUTEX && settings.locks)
		end_futex(task, note, now);
	charge(note, STATE_RUN_QUEUE, now);
	note->woken_ns = now;
}

SEC("?tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct note *note = note_of(task);

	if (!note)
		return 0;
	if (is_sleep(note->state)) {
		name_waker(note);
		wake(task, note, bpf_ktime_get_ns());
	} else if (note->state == STATE_RUN) {
		note->early = 1;
		name_waker(note);
	}
	return 0;
}

/* ---- switches ---- */

static void enter(struct task_struct *task, struct note *note, __u64 now)
{
	bool unseen = is_sleep(note->state);

	if (unseen) {
		note->unseen++;
		__builtin_memset(note->waker, 0, COMM);
		__builtin_memcpy(note->waker, "(unseen)", 9);
		wake(task, note, now);
	}
	if (note->woken_ns)
		count_wakeup(task, note, now, !unseen);
	note->woken_ns = 0;
	note->early = 0;
	charge(note, STATE_RUN, now);
}

static void leave(struct task_struct *task, struct note *note, unsigned int state, __u64 now)
{
	__u64 ran = task->se.sum_exec_runtime;
	enum state next;

	if (note->state != STATE_RUN) {
		/* 4: unseen switch; it has had the CPU for as long as its CPU time says. */
		__u64 had = ran - note->ran_ns, from = now - had;

		note->unseen++;
		if (from < note->since_ns)
			from = note->since_ns;
		enter(task, note, from);
	}
	note->ran_ns = ran;
	if (state & TASK_DEAD) {
		charge(note, STATES, now);
		tell(task, note, now, true);
		bpf_task_storage_delete(&notes, task);
		return;
	}
	if (!state || (!task->__state && !note->early)) {
		charge(note, STATE_RUN_QUEUE, now);
		note->woken_ns = 0;
		note->early = 0;
		return;
	}
	next = sleep_state(task, state);
	charge(note, next, now);
	if (next == STATE_FUTEX && settings.locks)
		begin_futex(task, note);
	/* 3: it was woken while it was being switched out. */
	if (!task->__state)
		wake(task, note, now);
	note->early = 0;
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	struct note *of_prev = note_of(prev), *of_next = note_of(next);
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0;
	struct spins *here = settings.locks ? bpf_map_lookup_elem(&spins, &zero) : NULL;

	if (here && !here->runqueue_lock)
		note_runqueue(here, prev);
	if (of_prev)
		leave(prev, of_prev, preempted ? 0 : state, now);
	if (of_next)
		enter(next, of_next, now);
	return 0;
}

/* Begins to follow the tasks that exist. */
SEC("?iter/task")
int on_existing(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct note *note;
	enum state state;
	__u64 now;

	if (!task || !task->pid || note_of(task))
		return 0;
	if (settings.everything ? task->tgid == settings.own_process : task->tgid != settings.process)
		return 0;
	note = note_of_or_new(task);
	if (!note) {
		count_loss();
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (BPF_CORE_READ(task, on_cpu))
		state = STATE_RUN;
	else if (BPF_CORE_READ(task, on_rq))
		state = STATE_RUN_QUEUE;
	else
		state = task->__state & TASK_UNINTERRUPTIBLE ? STATE_UNINTERRUPTIBLE : STATE_INTERRUPTIBLE;
	begin(task, note, state, now);
	return 0;
}

/* Sends the notes of living tasks. */
SEC("?iter/task")
int on_task(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct note *note;

	if (!task)
		return 0;
	note = note_of(task);
	if (note)
		tell(task, note, bpf_ktime_get_ns(), false);
	return 0;
}

#include "holds.bpf.h"
#include "interrupts.bpf.h"
