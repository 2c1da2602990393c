/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Log of a scheduler's ops, for the schedulers that are compared with the model: `trace.bpf.c` and
 * `witness.bpf.c`.
 *
 * 1. The name of a task gives its role: `w_…` are the workers of a scenario, `v_…` its victims,
 *    `d_…` the directors that control the others; all others are foreign tasks of the machine. Of
 *    foreign tasks, only `running` and `stopping` are logged, because a reader of the log must know
 *    where they disturbed.
 * 2. An entry gets its number when the op begins, and is completed by the decisions of the op. So
 *    the numbers are a total order of the ops on all CPUs, and an op that the kernel calls inside
 *    another one comes after it.
 * 3. The director marks the begin and the end of a scenario by its nice value.
 * 4. The log is an array, which the loader of the scheduler reads at the end.
 */
#ifndef WEIR_LOG_BPF_H
#define WEIR_LOG_BPF_H

#include <weir/scx.bpf.h>

struct task_struct___named {
	char comm[16];
} __attribute__((preserve_access_index));

#define COMM(p) (((struct task_struct___named *)(p))->comm)

#define LOG_SIZE 16384
/* Weights of the director's nice values 5 and 6, which mark the begin and the end. */
#define BEGIN_WEIGHT 33
#define END_WEIGHT 27

enum role { FOREIGN, WORKER, VICTIM, DIRECTOR, ROLES };

/* Ops by number, as event logs number them. */
enum op {
	SELECT_CPU = 1, ENQUEUE, DEQUEUE, DISPATCH, TICK, RUNNABLE, RUNNING, STOPPING, QUIESCENT, YIELD,
	SET_WEIGHT = 12, SET_CPUMASK, UPDATE_IDLE, CPU_ACQUIRE, CPU_RELEASE, INIT_TASK, EXIT_TASK, ENABLE, DISABLE,
	CPU_ONLINE = 32, CPU_OFFLINE, INIT, EXIT,
	/* Not an op, but a call that a policy makes in one. */
	INSERT = 64,
};

struct entry {
	u64 a;			/* first argument besides task and CPU */
	u64 b;			/* second */
	u64 verdict;		/* DSQ into which the task was inserted; 0: none */
	u32 op;
	s32 cpu;		/* CPU on which the op runs */
	s32 pid;		/* of the task; -1: none */
	s32 task_cpu;		/* CPU of the task; -1: none */
	s32 result;		/* what the op returns */
	u32 flags;		/* task_struct.scx.flags */
	u32 role;
	u32 slice_left;		/* 0: no slice is left; 1: some is */
	char comm[16];
	u64 time;		/* nanoseconds */
};

/* There are no marks: foreign tasks are logged from the start. */
const volatile bool without_marks;

struct entry entries[LOG_SIZE];
u32 logged;
/* Between the director's marks. */
u32 acting;

/* Of ops that nobody logs. */
static struct entry nowhere;

/* The barrier makes the compiler bound the number where the verifier sees it. */
static __always_inline u32 role_of(struct task_struct *p)
{
	u32 role = FOREIGN;

	if (p && COMM(p)[1] == '_') {
		char first = COMM(p)[0];

		role = first == 'w' ? WORKER : first == 'v' ? VICTIM : first == 'd' ? DIRECTOR : FOREIGN;
	}
	asm volatile("" : "+r"(role));
	return role & (ROLES - 1);
}

/* Allocates an entry. A full log overwrites old entries, which the reader sees from `logged`. */
static __always_inline struct entry *new_entry(u32 op, u64 a, u64 b)
{
	struct entry *e = &entries[__sync_fetch_and_add(&logged, 1) & (LOG_SIZE - 1)];

	e->time = bpf_ktime_get_ns();
	e->op = op;
	e->cpu = bpf_get_smp_processor_id();
	e->pid = -1;
	e->task_cpu = -1;
	e->a = a;
	e->b = b;
	return e;
}

/*
 * Allocates an entry for an op about a task. Foreign tasks get a dummy entry, except for `running`
 * and `stopping` after the begin, which get an entry with few members set.
 */
static __always_inline struct entry *note(u32 op, struct task_struct *p, u64 a, u64 b)
{
	u32 role = role_of(p);
	struct entry *e;

	if (role == FOREIGN) {
		if ((op != RUNNING && op != STOPPING) || !(READ_ONCE(acting) || without_marks))
			return &nowhere;
		e = new_entry(op, a, b);
		e->pid = p->pid;
		e->role = role;
		return e;
	}
	e = new_entry(op, a, b);
	e->pid = p->pid;
	e->role = role;
	e->flags = p->scx.flags;
	e->slice_left = p->scx.slice != 0;
	bpf_probe_read_kernel_str(e->comm, sizeof(e->comm), COMM(p));
	return e;
}

/* Allocates an entry for dispatch, whose `prev` may be NULL. */
static __always_inline struct entry *note_dispatch(s32 cpu, struct task_struct *prev)
{
	u32 role = role_of(prev);
	struct entry *e = new_entry(DISPATCH, cpu, 0);

	e->pid = prev ? prev->pid : -1;
	e->role = role;
	if (prev) {
		e->flags = prev->scx.flags;
		e->slice_left = prev->scx.slice != 0;
		bpf_probe_read_kernel_str(e->comm, sizeof(e->comm), COMM(prev));
	}
	return e;
}

/* Logs set_weight, which may be a mark. */
static __always_inline void note_weight(struct task_struct *p, u32 weight)
{
	note(SET_WEIGHT, p, weight, 0);
	if (role_of(p) == DIRECTOR && (weight == BEGIN_WEIGHT || weight == END_WEIGHT))
		WRITE_ONCE(acting, weight == BEGIN_WEIGHT);
}

#endif
