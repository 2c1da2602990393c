// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records what a process tree does with its CPUs, and why it stops. See tree.bpf.h for what it shares with the meter.
 *
 * 1. Preemptions need no events: they do not change what a task does, and positions are in CPU time. Tasks outside the
 *    tree cost one failed lookup per switch.
 * 2. One event per sleep. The wakeup's cause is noted in the sleeper at sched_waking, where the waker is still
 *    `current` and the context is the waker's. The event is sent when the sleeper runs again, so a wakeup of a task
 *    that had not left its CPU yet sends nothing.
 * 3. What the schedule costs the tasks is counted: how often each got a CPU, and how many interrupts it sent to other CPUs,
 *    which on a virtual machine take many times as long as the wakeup that needs them (see idle.bpf.h).
 * 4. A kernel may keep its tracepoints quiet while certain tasks have a CPU: see meter.bpf.c. A task that runs without
 *    having been seen to wake was woken, by nobody in the tree, when it got its CPU; and one that was not seen to get
 *    its CPU got it as long ago as it has run since.
 * 5. A kernel may let a task lose its CPU in the midst of a program (7.2 does: probes of tracepoints no longer disable
 *    preemption), and skips that program's calls by others on that CPU until the task is back. What has interrupts off is
 *    safe: births are told at sched_wakeup_new. So is what perf calls (SEC "tp/..."), since that disables preemption itself,
 *    but it takes some 200 ns more. So there are two programs for what may be skipped, and src/probes.rs chooses.
 */
#include "tree.bpf.h"
#include "siblings.bpf.h"
#include "idle.bpf.h"
#include "own_time.bpf.h"

enum {
	ARGUMENTS_MAX = 4096, /* bytes of a command line that are kept */
};

/* The scheduler counts the CPU time of a task that runs at each tick, of which the slowest kernels have 100 a second. */
enum {
	TICK_MAX_NS = 10000000,
};

/* What a task's schedule has made it do so far. */
struct scheduled {
	__u32 switches;             /* how often it got a CPU */
	__u32 interrupts;           /* that it sent to other CPUs, in its own context */
	__u32 interrupts_to_halted; /* those of them that went to a halted CPU */
	__u32 unused;
};

struct sleep {
	struct head head;
	__u64 wake_ns;
	__u64 waker_work_ns;
	__u32 waker;
	__u32 flags;
	struct scheduled scheduled; /* when the task fell asleep */
	__u32 cpu;                  /* the one that it left */
	__u32 timer;                /* which one ended it, to tell them apart */
	__u64 expires_ns; /* when that was to be, on the timer's own clock */
	__u64 limit_ns;   /* the sleep would have ended after this time by a timer of its own; 0: it had none */
	struct counters counters; /* what the task had touched when it fell asleep */
};

struct who {
	struct head head;
	__u64 cgroup;
	__u32 session;
	__u32 uid;
	__u64 utime_ns;
	__u64 stime_ns;
};

/* A signal for `head.task`, or one that it handles now. */
struct signal {
	struct head head;
	__u64 sender_work_ns;
	__u32 sender;
	__u32 flags;
	__u32 number;
	__u32 unused;
};

/* The task asks for SIGALRM. */
struct alarm {
	struct head head;
	__u64 after_ns; /* 0: no more */
	__u64 interval_ns;
};

struct end {
	struct head head;
	struct scheduled scheduled;
};

struct last {
	struct head head;
	struct scheduled scheduled;
	__u64 utime_ns;
	__u64 stime_ns;
};

struct exec {
	struct head head;
	__u64 utime_ns;
	__u64 stime_ns;
	char comm[COMM_LENGTH];
	__u32 length; /* of the whole command line; `arguments` may hold less */
	__u32 kept;
	char arguments[ARGUMENTS_MAX];
};

struct exit {
	struct head head;
	__u64 utime_ns;
	__u64 stime_ns;
	__u64 peak_rss_pages;
	char comm[COMM_LENGTH];
	__u32 signal; /* that ends it; 0: it ends by itself */
	__u32 unused;
};

struct note {
	struct member member;
	__u32 waker;
	__u32 wake_flags;
	struct scheduled scheduled;
	__u64 switched_in_ns;
	__u64 work_ns; /* at that time */
	/* The sleep that has begun. */
	__u64 blocked_ns;
	__u64 blocked_work_ns;
	__u32 blocked; /* whether one has, and has not been reported */
	__u32 flags;
	__u32 blocked_cpu;
	__u32 timer;
	__u64 expires_ns;
	__u64 limit_ns;
	/* The last timer that the task started to end a sleep of its own: when, and when it expires. */
	__u64 armed_ns;
	__u64 armed_until_ns;
	/* Whose it was when that was reported last. */
	__u64 cgroup;
	__u32 session;
	__u32 uid;
	/* The last wakeup. */
	__u64 wake_ns;
	__u64 waker_work_ns;
	__u64 acted_ns; /* when it woke somebody last */
	__u64 beside_ns; /* for which the other thread of its core was busy beside it */
	__u64 beside_before_ns; /* how long that had been busy when the task got its CPU, plus 1; 0: unknown */
	__u64 peak_at_exec_pages; /* peak RSS of what the process was before its last exec */
};

#include "notes.bpf.h"
#include "channels.bpf.h"
#include "touched.bpf.h"

/* The timer whose function this CPU executes. */
struct expiry {
	__u64 timer;      /* 0: none */
	__u64 expires_ns; /* without the slack that lets timers be put together */
	__u64 sleeper;    /* who sleeps, if the timer is one that ends a sleep; else anything */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct expiry);
	__uint(max_entries, 1);
} expiry SEC(".maps");

/* CPU time of a task that runs now. Too much if it was not seen to get its CPU: then as the scheduler counts. */
static __u64 work_now(struct task_struct *task, struct note *note, __u64 now)
{
	__u64 counted = task->se.sum_exec_runtime, by_clock = note->work_ns + (now - note->switched_in_ns);

	return by_clock > counted + TICK_MAX_NS ? counted : by_clock;
}

static __u32 session_of(struct task_struct *task)
{
	return task->signal->pids[PIDTYPE_SID]->numbers[0].nr;
}

/* Tells whose the task is, if that is new. */
static void report_who(struct task_struct *task, struct note *note, __u64 now, __u64 work_ns)
{
	__u64 cgroup = task->cgroups->dfl_cgrp->kn->id;
	__u32 session = session_of(task), uid = task->cred->uid.val;
	struct who *event;

	if (note->cgroup == cgroup && note->session == session && note->uid == uid)
		return;
	note->cgroup = cgroup;
	note->session = session;
	note->uid = uid;
	event = RESERVE(who);
	if (!event)
		return;
	fill_head(&event->head, KIND_WHO, note->member.task, now, work_ns);
	event->cgroup = cgroup;
	event->session = session;
	event->uid = uid;
	event->utime_ns = task->utime;
	event->stime_ns = task->stime;
	bpf_ringbuf_submit(event, wakeup_flag());
}

/* Its parent wakes it up, having made it. */
static enum own_class birth(struct task_struct *child)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct note *of_parent = note_of(parent), *of_child = note_on_child(child, parent, of_parent);
	__u64 now = bpf_ktime_get_ns();

	if (!of_child)
		return OWN_OTHER;
	of_child->waker = NOBODY;
	report_birth(child, &of_child->member, of_parent ? &of_parent->member : NULL, now,
		     of_parent ? work_now(parent, of_parent, now) : 0);
	if (of_parent) {
		of_child->cgroup = of_parent->cgroup;
		of_child->session = of_parent->session;
		of_child->uid = of_parent->uid;
	}
	report_who(child, of_child, now, 0);
	return OWN_OTHER;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_birth, struct task_struct *child)
{
	return TIMED(birth(child));
}

static enum own_class exec(struct task_struct *task)
{
	struct note *note = note_of(task);
	unsigned long start, length;
	struct exec *event;
	__u64 now, work_ns;

	if (!note)
		return OWN_OTHER;
	now = bpf_ktime_get_ns();
	work_ns = work_now(task, note, now);
	event = RESERVE(exec);
	if (!event)
		return OWN_OTHER;
	fill_head(&event->head, KIND_EXEC, note->member.task, now, work_ns);
	event->utime_ns = task->utime;
	event->stime_ns = task->stime;
	bpf_probe_read_kernel(event->comm, COMM_LENGTH, task->comm);
	/* The kernel has just written the arguments to the new stack: the pages are there, and no fault is needed. */
	start = BPF_CORE_READ(task, mm, arg_start);
	length = BPF_CORE_READ(task, mm, arg_end) - start;
	event->length = length;
	if (length > ARGUMENTS_MAX)
		length = ARGUMENTS_MAX;
	event->kept = bpf_probe_read_user(event->arguments, length, (void *)start) ? 0 : length;
	bpf_ringbuf_submit(event, wakeup_flag());
	note->peak_at_exec_pages = task->signal->maxrss;
	report_who(task, note, now, work_ns);
	if (attributes_differ(task, &note->member))
		report_attributes(task, &note->member, now, work_ns);
	return OWN_OTHER;
}

SEC("?tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	return TIMED(exec(task));
}

SEC("?tp/sched/sched_process_exec")
int on_exec_by_perf(void *context)
{
	return TIMED(exec(bpf_get_current_task_btf()));
}

/*
 * Peak RSS of the program that the process runs. The last thread's do_exit() has raised `maxrss` to the memory's
 * high-water mark by now. But an exec has raised it to that of the parent's memory, which a vfork borrows; a program
 * that stayed below it has only the counters, each exact to some pages a CPU.
 */
static __u64 peak_rss_pages(struct task_struct *task, struct note *note)
{
	__u64 peak = task->signal->maxrss, now, high;
	struct mm_struct *mm = task->mm;

	if (peak > note->peak_at_exec_pages || !mm)
		return peak;
	now = BPF_CORE_READ(mm, rss_stat[MM_FILEPAGES].count) + BPF_CORE_READ(mm, rss_stat[MM_ANONPAGES].count) +
	      BPF_CORE_READ(mm, rss_stat[MM_SHMEMPAGES].count);
	high = BPF_CORE_READ(mm, hiwater_rss);
	return now > high ? now : high;
}

static enum own_class end_of(struct task_struct *task)
{
	struct note *note = note_of(task);
	struct exit *event;
	__u64 now, work_ns;

	if (!note)
		return OWN_OTHER;
	now = bpf_ktime_get_ns();
	work_ns = work_now(task, note, now);
	report_who(task, note, now, work_ns);
	event = RESERVE(exit);
	if (!event)
		return OWN_OTHER;
	fill_head(&event->head, KIND_EXIT, note->member.task, now, work_ns);
	event->signal = task->exit_code & 0x7f; /* as wait(2) tells it */
	event->unused = 0;
	event->utime_ns = task->utime;
	event->stime_ns = task->stime;
	event->peak_rss_pages = peak_rss_pages(task, note);
	bpf_probe_read_kernel(event->comm, COMM_LENGTH, task->comm);
	bpf_ringbuf_submit(event, wakeup_flag());
	if (!task->signal->live.counter)
		report_footprint(task, note, now, work_ns);
	return OWN_OTHER;
}

SEC("?tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	return TIMED(end_of(task));
}

SEC("?tp/sched/sched_process_exit")
int on_exit_by_perf(void *context)
{
	return TIMED(end_of(bpf_get_current_task_btf()));
}

/* Of a wakeup in an interrupt: the timer that it serves, if it does. */
static void note_timer(struct task_struct *task, struct note *note)
{
	__u32 zero = 0;
	struct expiry *expires = bpf_map_lookup_elem(&expiry, &zero);

	if (!expires || !expires->timer)
		return;
	note->wake_flags |= WAKE_TIMER | (expires->sleeper == (__u64)task ? WAKE_OWN_TIMER : 0);
	note->timer = expires->timer >> 3; /* to bit 34: two timers that one task waits for differ below that */
	note->expires_ns = expires->expires_ns;
}

/* The sleep of a task that runs again. */
static void report_sleep(struct task_struct *task, struct note *note, __u64 now)
{
	struct sleep *event = RESERVE(sleep);
	bool seen = note->wake_ns >= note->switched_in_ns;

	note->blocked = 0;
	if (!event)
		return;
	fill_head(&event->head, KIND_SLEEP, note->member.task, note->blocked_ns, note->blocked_work_ns);
	event->wake_ns = seen ? note->wake_ns : now - (task->se.sum_exec_runtime - note->blocked_work_ns);
	event->waker_work_ns = seen ? note->waker_work_ns : 0;
	event->waker = seen ? note->waker : NOBODY;
	event->flags = note->flags | (seen ? note->wake_flags : WAKE_UNSEEN);
	event->scheduled = note->scheduled;
	event->cpu = note->blocked_cpu;
	event->timer = note->timer;
	event->expires_ns = note->expires_ns;
	event->limit_ns = note->limit_ns;
	read_counters(&event->counters, task, note);
	bpf_ringbuf_submit(event, wakeup_flag());
}

/*
 * A task that was woken is woken again before it was seen to run: it has run, and sleeps again. When it fell asleep is not
 * known; not before it had used the CPU time that it has got since, nor before it woke somebody last.
 */
static void report_hidden_turn(struct task_struct *task, struct note *note, __u64 now)
{
	__u64 work_ns = task->se.sum_exec_runtime, asleep = note->wake_ns + (work_ns - note->blocked_work_ns);

	if (asleep < note->acted_ns)
		asleep = note->acted_ns;
	report_sleep(task, note, now);
	note->blocked = 1;
	note->blocked_ns = asleep < now ? asleep : now;
	note->blocked_work_ns = work_ns;
	note->flags = 0;
}

static enum own_class waking(struct task_struct *task)
{
	struct note *note = note_of(task), *of_waker;
	struct task_struct *current;
	__u64 now;

	if (!note)
		return OWN_OTHER;
	now = bpf_ktime_get_ns();
	current = bpf_get_current_task_btf();
	if (note->blocked && note->wake_ns >= note->blocked_ns)
		report_hidden_turn(task, note, now);
	of_waker = note_waker(note, current, now);
	note->waker_work_ns = of_waker ? work_now(current, of_waker, now) : 0;
	if (of_waker)
		of_waker->acted_ns = now;
	if (note->wake_flags & (WAKE_HARDIRQ | WAKE_SOFTIRQ))
		note_timer(task, note);
	return of_waker ? OWN_WAKE : OWN_OTHER;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	return TIMED(waking(task));
}

/* A timer expires: its function is executed until the next one of these two. */
static enum own_class expires_now(struct hrtimer *timer)
{
	__u32 zero = 0;
	struct expiry *expires = bpf_map_lookup_elem(&expiry, &zero);

	if (!expires)
		return OWN_OTHER;
	expires->timer = (__u64)timer;
	expires->expires_ns = timer->_softexpires;
	/* Where a sleeper would stand. It is compared with a task that is woken, which no other memory points to by chance. */
	expires->sleeper = (__u64)bpf_core_cast(timer, struct hrtimer_sleeper)->task;
	return OWN_OTHER;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_expiry, struct hrtimer *timer)
{
	return TIMED(expires_now(timer));
}

static enum own_class expired(void)
{
	__u32 zero = 0;
	struct expiry *expires = bpf_map_lookup_elem(&expiry, &zero);

	if (expires)
		expires->timer = 0;
	return OWN_OTHER;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_expired, struct hrtimer *timer)
{
	return TIMED(expired());
}

/* Only timers that a task starts to end its own sleep: with them a wait has a limit. */
static enum own_class timer_starts(struct hrtimer *timer)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct note *note;

	if (bpf_core_cast(timer, struct hrtimer_sleeper)->task != current)
		return OWN_OTHER;
	note = note_of(current);
	if (!note)
		return OWN_OTHER;
	note->armed_ns = bpf_ktime_get_ns();
	note->armed_until_ns = timer->_softexpires - timer->base->offset;
	return OWN_OTHER;
}

SEC("tp_btf/hrtimer_start")
int BPF_PROG(on_timer_start, struct hrtimer *timer)
{
	return TIMED(timer_starts(timer));
}

static void report_signal(__u32 kind, struct note *note, __u64 now, __u64 work_ns, __u32 number)
{
	struct signal *event = RESERVE(signal);
	struct task_struct *current;
	struct note *of_sender = NULL;

	if (!event)
		return;
	current = bpf_get_current_task_btf();
	fill_head(&event->head, kind, note->member.task, now, work_ns);
	event->number = number;
	event->unused = 0;
	event->flags = interrupt_context(current);
	if (!(event->flags & (WAKE_HARDIRQ | WAKE_SOFTIRQ | WAKE_NMI)))
		of_sender = note_of(current);
	event->sender = of_sender ? of_sender->member.task : NOBODY;
	event->sender_work_ns = of_sender ? work_now(current, of_sender, now) : 0;
	bpf_ringbuf_submit(event, wakeup_flag());
}

/* A child's end is known already, and nobody ends by hearing of it. */
SEC("tp_btf/signal_generate")
int BPF_PROG(on_signal, int number, void *info, struct task_struct *task, int group, int result)
{
	struct note *note;

	if (result || number == SIGCHLD)
		return 0;
	note = note_of(task);
	if (note)
		report_signal(KIND_SIGNAL, note, bpf_ktime_get_ns(), 0, number);
	return 0;
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(on_delivery, int number)
{
	struct task_struct *current;
	struct note *note;
	__u64 now;

	if (number != SIGALRM)
		return 0;
	current = bpf_get_current_task_btf();
	note = note_of(current);
	if (!note)
		return 0;
	now = bpf_ktime_get_ns();
	report_signal(KIND_DELIVERY, note, now, work_now(current, note, now), number);
	return 0;
}

static __u64 ns_of(const struct timespec64 *time)
{
	return time->tv_sec * 1000000000ull + time->tv_nsec;
}

SEC("tp_btf/itimer_state")
int BPF_PROG(on_alarm, int which, const struct itimerspec64 *value)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct note *note = note_of(current);
	struct alarm *event;
	__u64 now;

	if (!note || which != ITIMER_REAL)
		return 0;
	event = RESERVE(alarm);
	if (!event)
		return 0;
	now = bpf_ktime_get_ns();
	fill_head(&event->head, KIND_ALARM, note->member.task, now, work_now(current, note, now));
	event->after_ns = ns_of(&value->it_value);
	event->interval_ns = ns_of(&value->it_interval);
	bpf_ringbuf_submit(event, wakeup_flag());
	return 0;
}

/* Whether a task that falls asleep waits for the end of a child, and names it. */
static __u32 names_child(struct task_struct *task)
{
	struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
	int whom;

	/* Other processors have other registers, and other numbers of calls. */
	if (!bpf_core_field_exists(registers->orig_ax))
		return 0;
	whom = registers->di;
	if (registers->orig_ax == CALL_WAIT4)
		return whom > 0 ? SLEEP_NAMES_CHILD : 0;
	return registers->orig_ax == CALL_WAITID && (whom == P_PID || whom == P_PIDFD) ? SLEEP_NAMES_CHILD : 0;
}

static void switch_out(struct task_struct *task, struct note *note, unsigned int state, __u64 now)
{
	__u64 work_ns = task->se.sum_exec_runtime;
	struct end *event;

	if (note->blocked)
		report_sleep(task, note, now);
	if (attributes_differ(task, &note->member))
		report_attributes(task, &note->member, now, work_ns);
	if (state & TASK_DEAD) {
		report_touched(task, note, now, work_ns);
		event = RESERVE(end);
		if (!event)
			return;
		fill_head(&event->head, KIND_END, note->member.task, now, work_ns);
		event->scheduled = note->scheduled;
		bpf_ringbuf_submit(event, wakeup_flag());
		return;
	}
	/* No wakeup has cleared its state, so it was a signal: it does not sleep. */
	if (!task->__state && note->wake_ns < note->switched_in_ns)
		return;
	note->blocked = 1;
	note->blocked_ns = now;
	note->blocked_work_ns = work_ns;
	note->blocked_cpu = bpf_get_smp_processor_id();
	note->limit_ns = note->armed_ns >= note->switched_in_ns && note->armed_until_ns > now ?
				 note->armed_until_ns - now : 0;
	note->flags = sleep_flags(task, state) | names_child(task);
}

static void switch_in(struct task_struct *task, struct note *note, __u64 now)
{
	if (note->blocked)
		report_sleep(task, note, now);
	if (has_siblings)
		note->beside_before_ns = busy_beside(now) + 1;
	note->scheduled.switches++;
	note->switched_in_ns = now;
	note->work_ns = task->se.sum_exec_runtime;
}

/*
 * Where cores have several threads, turns count that end in whatever way. The other one's count seems to go back a little if it
 * begins to be busy between the two moments at which this CPU looks at its clock and at the count.
 */
static __u64 look_beside(struct task_struct *prev, struct task_struct *next)
{
	struct note *note = note_of(prev);
	__u64 now = bpf_ktime_get_ns();
	__s64 more;

	if (note && note->beside_before_ns) {
		more = busy_beside(now) + 1 - note->beside_before_ns;
		if (more > 0)
			note->beside_ns += more;
		note->beside_before_ns = 0;
	}
	note_busy(next->pid, now);
	return now;
}

static enum own_class switched(bool preempted, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	struct note *note;
	__u64 now = has_siblings ? look_beside(prev, next) : 0;

	if (!prev->pid || !next->pid)
		note_idle(!next->pid);
	if (!preempted && state) {
		note = note_of(prev);
		if (note) {
			now = now ? now : bpf_ktime_get_ns();
			switch_out(prev, note, state, now);
		}
	}
	note = note_of(next);
	if (!note)
		return OWN_OTHER;
	switch_in(next, note, now ? now : bpf_ktime_get_ns());
	return OWN_SWITCH;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	return TIMED(switched(preempted, prev, next, state));
}

/* Whoever has the CPU pays for it, also in an interrupt of its own. */
static enum own_class interrupt_sent(unsigned int cpu)
{
	struct note *note = note_of(bpf_get_current_task_btf());

	if (note) {
		note->scheduled.interrupts++;
		note->scheduled.interrupts_to_halted += is_halted(cpu);
	}
	return OWN_OTHER;
}

SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(on_interrupt_sent, unsigned int cpu)
{
	return TIMED(interrupt_sent(cpu));
}

/*
 * Tasks that are there when the recording begins: 1 for the number of a process that is to be recorded with its descendants,
 * 0 for one that is not. Number 0 stands for all that have no other.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 4096);
} wanted SEC(".maps");

enum {
	GENERATIONS_MAX = 64,
};

static bool is_wanted(struct task_struct *task)
{
	struct task_struct *member = task;
	__u32 tgid = 0, *answer;
	int i;

	/* Threads of the kernel are not part of any program's work. */
	if (task->flags & (PF_KTHREAD | PF_EXITING))
		return false;
	for (i = 0; i < GENERATIONS_MAX; i++) {
		tgid = BPF_CORE_READ(member, tgid);
		if (!tgid)
			break;
		answer = bpf_map_lookup_elem(&wanted, &tgid);
		if (answer)
			return *answer;
		member = BPF_CORE_READ(member, real_parent);
	}
	tgid = 0;
	answer = bpf_map_lookup_elem(&wanted, &tgid);
	return answer && *answer;
}

/* One byte has been enough since 7.2 and was the lowest of four before: CO-RE does not bridge that by itself. */
#define IS_SET(task, member)                                          \
	({                                                            \
		__u8 byte_ = 0;                                       \
		bpf_core_read(&byte_, sizeof(byte_), &(task)->member); \
		byte_ != 0;                                           \
	})

/* A task that is there already begins with what it does: it runs, or it sleeps. */
SEC("iter/task")
int on_existing(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct note *note;
	__u64 now, work_ns;

	if (!task || !is_wanted(task) || note_of(task))
		return 0;
	note = note_of_or_new(task);
	if (!note) {
		count_loss();
		return 0;
	}
	now = bpf_ktime_get_ns();
	work_ns = task->se.sum_exec_runtime;
	report_birth(task, &note->member, NULL, now, work_ns);
	note->waker = NOBODY;
	note->switched_in_ns = now;
	note->work_ns = work_ns;
	report_who(task, note, now, work_ns);
	report_touched(task, note, now, work_ns);
	if (task->__state && !IS_SET(task, on_rq)) {
		note->blocked_ns = now;
		note->blocked_work_ns = work_ns;
		note->blocked_cpu = task->thread_info.cpu;
		note->flags = sleep_flags(task, task->__state);
		note->blocked = 1;
	}
	return 0;
}

/* How far those have come that live when the recording ends. */
SEC("iter/task")
int on_last(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct note *note;
	struct last *event;
	__u64 now, work_ns;

	if (!task)
		return 0;
	note = note_of(task);
	if (!note)
		return 0;
	now = bpf_ktime_get_ns();
	work_ns = IS_SET(task, on_cpu) && !note->blocked ? work_now(task, note, now) : task->se.sum_exec_runtime;
	report_touched(task, note, now, work_ns);
	if (task->pid == task->tgid)
		report_footprint(task, note, now, work_ns);
	event = RESERVE(last);
	if (!event)
		return 0;
	fill_head(&event->head, KIND_LAST, note->member.task, now, work_ns);
	event->scheduled = note->scheduled;
	event->utime_ns = task->utime;
	event->stime_ns = task->stime;
	bpf_ringbuf_submit(event, wakeup_flag());
	return 0;
}
