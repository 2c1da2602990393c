// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records the CPU use of a process tree and the causes of its sleeps. tree.bpf.h has the parts shared with the meter.
 *
 * 1. Preemptions need no events: they do not change what a task does, and positions are in CPU time. A yield that
 *    leads to a switch needs one. Tasks outside the tree cost one failed lookup per switch.
 * 2. One event per sleep. The cause of a wakeup is noted in the sleeper at sched_waking, where the waker is still
 *    `current` and the context is the waker's. The event is sent when the sleeper runs again, so a wakeup of a task
 *    that had not left its CPU yet sends nothing.
 * 3. Scheduling operations are counted for each task: how often it was switched in, and how many IPIs it sent, which
 *    on a virtual machine cost many times as much as the wakeup itself (see idle.bpf.h).
 * 4. A kernel may suppress tracepoints while certain tasks run: see meter.bpf.c. If a task runs without having been
 *    seen to wake, it was woken from outside the tree when it got its CPU; if it was not seen to get its CPU, it got
 *    it as long ago as it has run since.
 * 5. A kernel may preempt a task inside a program (7.2 does: tracepoint programs no longer disable preemption), and
 *    skips that program's calls by others on that CPU until the task is back. Code with interrupts disabled is safe:
 *    births are reported at sched_wakeup_new. So are perf events (SEC "tp/..."), which disable preemption themselves
 *    but take about 200 ns more. So there are two programs for events that could be skipped, and src/probes.rs
 *    chooses.
 */
#include "tree.bpf.h"
#include "siblings.bpf.h"
#include "idle.bpf.h"
#include "own_time.bpf.h"

enum {
	ARGUMENTS_MAX = 4096, /* maximum recorded length of a command line */
};

/* The scheduler updates the CPU time of a running task at each tick, at least 100 times per second. */
enum {
	TICK_MAX_NS = 10000000,
};

/* Scheduling operations of a task so far. */
struct scheduled {
	__u32 switches;             /* number of times it was switched in */
	__u32 interrupts;           /* IPIs that it sent, in its own context */
	__u32 interrupts_to_halted; /* those of them sent to halted CPUs */
	__u32 unused;
};

struct sleep {
	struct head head;
	__u64 wake_ns;
	__u64 waker_work_ns;
	__u32 waker;
	__u32 flags;
	struct scheduled scheduled; /* when the task fell asleep */
	__u32 cpu;                  /* CPU from which it was switched out */
	__u32 timer;                /* identifies the timer that ended it */
	__u64 expires_ns; /* expiry time of that timer, on its own clock */
	__u64 limit_ns;   /* timeout of the sleep by a timer of its own; 0: none */
	struct counters counters; /* resource use when the task fell asleep */
};

struct who {
	struct head head;
	__u64 cgroup;
	__u32 session;
	__u32 uid;
	__u64 utime_ns;
	__u64 stime_ns;
};

/* A signal sent to `head.task`, or delivered to it now. */
struct signal {
	struct head head;
	__u64 sender_work_ns;
	__u32 sender;
	__u32 flags;
	__u32 number;
	__u32 unused;
};

/* The task sets an alarm (SIGALRM). */
struct alarm {
	struct head head;
	__u64 after_ns; /* 0: alarm cancelled */
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
	__u32 length; /* of the whole command line; `arguments` may be truncated */
	__u32 kept;
	char arguments[ARGUMENTS_MAX];
};

struct exit {
	struct head head;
	__u64 utime_ns;
	__u64 stime_ns;
	__u64 peak_rss_pages;
	char comm[COMM_LENGTH];
	__u32 signal; /* signal that ends the task; 0: normal exit */
	__u32 unused;
};

struct note {
	struct member member;
	__u32 waker;
	__u32 wake_flags;
	struct scheduled scheduled;
	__u64 switched_in_ns;
	__u64 work_ns; /* CPU time at switched_in_ns */
	/* The current sleep. */
	__u64 blocked_ns;
	__u64 blocked_work_ns;
	__u32 blocked; /* a sleep has begun and has not been reported */
	__u32 flags;
	__u32 blocked_cpu;
	__u32 timer;
	__u64 expires_ns;
	__u64 limit_ns;
	/* The last timer that the task started for a sleep of its own: start and expiry. */
	__u64 armed_ns;
	__u64 armed_until_ns;
	/* Cgroup, session and user as last reported. */
	__u64 cgroup;
	__u32 session;
	__u32 uid;
	/* The last wakeup. */
	__u64 wake_ns;
	__u64 waker_work_ns;
	__u64 acted_ns; /* when it last woke another task */
	__u64 beside_ns; /* time on a CPU while its SMT sibling was busy */
	__u64 beside_before_ns; /* busy time of the sibling when the task was switched in, plus 1; 0: unknown */
	__u64 peak_at_exec_pages; /* peak RSS of the process before its last exec */
};

#include "notes.bpf.h"
#include "channels.bpf.h"
#include "touched.bpf.h"

/* The timer whose callback this CPU executes. */
struct expiry {
	__u64 timer;      /* 0: none */
	__u64 expires_ns; /* without the slack that coalesces timers */
	__u64 sleeper;    /* the sleeping task, if the timer ends a sleep; otherwise arbitrary */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct expiry);
	__uint(max_entries, 1);
} expiry SEC(".maps");

/* CPU time of a running task: by the clock, or the scheduler's value if the switch to the task was not seen. */
static __u64 work_now(struct task_struct *task, struct note *note, __u64 now)
{
	__u64 counted = task->se.sum_exec_runtime, by_clock = note->work_ns + (now - note->switched_in_ns);

	return by_clock > counted + TICK_MAX_NS ? counted : by_clock;
}

static __u32 session_of(struct task_struct *task)
{
	return task->signal->pids[PIDTYPE_SID]->numbers[0].nr;
}

/* Reports cgroup, session and user of the task if they have changed. */
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

/* The parent wakes its new child. */
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
	/* The kernel has just written the arguments to the new stack, so the pages are present. */
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
 * Peak RSS of the current program of the process. The last thread's do_exit() has already raised `maxrss` to the
 * high-water mark. But an exec raises it to that of the old memory, which after a vfork is the parent's; for a program
 * that stayed below that, only the counters are available, each accurate to some pages per CPU.
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
	event->signal = task->exit_code & 0x7f; /* in the encoding of wait(2) */
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

/* For a wakeup in an interrupt: notes the timer whose callback made it, if any. */
static void note_timer(struct task_struct *task, struct note *note)
{
	__u32 zero = 0;
	struct expiry *expires = bpf_map_lookup_elem(&expiry, &zero);

	if (!expires || !expires->timer)
		return;
	note->wake_flags |= WAKE_TIMER | (expires->sleeper == (__u64)task ? WAKE_OWN_TIMER : 0);
	note->timer = expires->timer >> 3; /* bits 3 to 34: two timers that a task waits for differ in these */
	note->expires_ns = expires->expires_ns;
}

/* Reports the sleep of a task that runs again. */
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
 * A task that was woken is woken again without having been seen to run: it has run, unseen, and sleeps again. The time
 * at which it fell asleep is unknown; it is not before the task used the CPU time it has got since, nor before its last
 * wakeup of another task.
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

/* A timer expires: its callback runs until hrtimer_expire_exit. */
static enum own_class expires_now(struct hrtimer *timer)
{
	__u32 zero = 0;
	struct expiry *expires = bpf_map_lookup_elem(&expiry, &zero);

	if (!expires)
		return OWN_OTHER;
	expires->timer = (__u64)timer;
	expires->expires_ns = timer->_softexpires;
	/* The task pointer, if this is an hrtimer_sleeper. It is only compared with the woken task. */
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

/* Notes timers that a task starts for its own sleep, which are the timeouts of waits. */
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

/* SIGCHLD is skipped: the child's exit is already known, and the signal ends no task. */
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

/* Whether a task that falls asleep waits for the exit of a specific child. */
static __u32 names_child(struct task_struct *task)
{
	struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
	int selector;

	/* Other architectures have other registers and other system call numbers. */
	if (!bpf_core_field_exists(registers->orig_ax))
		return 0;
	selector = registers->di;
	if (registers->orig_ax == CALL_WAIT4)
		return selector > 0 ? SLEEP_NAMES_CHILD : 0;
	return registers->orig_ax == CALL_WAITID && (selector == P_PID || selector == P_PIDFD) ? SLEEP_NAMES_CHILD : 0;
}

/*
 * Reports that a task gave its CPU away by sched_yield(2). Only a yield that leads to a switch is seen: the others change
 * nothing.
 */
static void report_yield(struct task_struct *task, struct note *note)
{
	struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
	struct end *event;

	if (!bpf_core_field_exists(registers->orig_ax) || registers->orig_ax != CALL_SCHED_YIELD)
		return;
	event = RESERVE(end);
	if (!event)
		return;
	fill_head(&event->head, KIND_YIELD, note->member.task, bpf_ktime_get_ns(), task->se.sum_exec_runtime);
	event->scheduled = note->scheduled;
	bpf_ringbuf_submit(event, wakeup_flag());
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
	/* Its state was cleared, but not by a wakeup: a pending signal prevented the sleep. */
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
 * On SMT machines, every run interval counts, however it ends. The sibling's count can seem to go back slightly if the
 * sibling becomes busy between the moments at which this CPU reads the clock and the count.
 */
static __u64 count_busy_sibling(struct task_struct *prev, struct task_struct *next)
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
	__u64 now = has_siblings ? count_busy_sibling(prev, next) : 0;

	if (!prev->pid || !next->pid)
		note_idle(!next->pid);
	note = preempted ? NULL : note_of(prev);
	if (note && state) {
		now = now ? now : bpf_ktime_get_ns();
		switch_out(prev, note, state, now);
	} else if (note) {
		report_yield(prev, note);
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

/* The current task is charged for it, even if an interrupt sends the IPI. */
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
 * Processes that exist when the recording begins, by PID: 1 for a process to be recorded with its descendants, 0 for
 * one to be excluded. PID 0 stands for all others.
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

	/* Kthreads do not belong to any program. */
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

/* Since 7.2 a single byte, before the lowest of four bytes, which CO-RE does not handle by itself. */
#define IS_SET(task, member)                                          \
	({                                                            \
		__u8 byte_ = 0;                                       \
		bpf_core_read(&byte_, sizeof(byte_), &(task)->member); \
		byte_ != 0;                                           \
	})

/* Starts the recording of an existing task in its current state, running or sleeping. */
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

/* Reports the state of a task that is alive when the recording ends. */
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
