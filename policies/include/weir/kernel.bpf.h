/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel types as far as the policies of this directory use them.
 *
 * Objects find kernel fields by name when they are loaded (CO-RE). So a struct here lists only the
 * members that some policy reads or writes, in any order; offsets and size are those of the kernel
 * that loads the object. If a member is missing, add it here with its kernel type, not in a policy.
 */
#ifndef WEIR_KERNEL_BPF_H
#define WEIR_KERNEL_BPF_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef _Bool bool;

enum { false = 0, true = 1 };

#define NULL ((void *)0)

/* Every access to these types is recorded for relocation. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/*
 * 8192 bits is the largest NR_CPUS of mainline configurations. Programs pass only pointers to this
 * type.
 */
struct cpumask {
	unsigned long bits[128];
};

struct mm_struct {
	unsigned long start_code;
};

typedef struct {
	u32 val;
} kuid_t;

/* Credentials of a task. */
struct cred {
	kuid_t uid;
};

struct upid {
	s32 nr;
};

/* Ids of a task, process or session; [0] is the id in the initial pid namespace. */
struct pid {
	struct upid numbers[1];
};

/* Data shared by the threads of a process. */
struct signal_struct {
	s32 nr_threads;	/* threads that have not exited */
	struct pid *pids[4];
};

struct kernfs_node {
	u64 id;		/* cgroup id */
	const char *name;
};

struct cgroup {
	s32 level;	/* depth below the root, which has 0 */
	struct kernfs_node *kn;
};

struct sched_ext_entity {
	u64 slice;	/* ns left; the kernel counts it down while the task runs */
	u64 dsq_vtime;	/* key in an ordered DSQ */
	u32 flags;	/* SCX_TASK_* */
	u32 weight;	/* 1 to 10000; 100 for nice 0 */
};

struct task_struct {
	s32 pid;
	s32 tgid;
	u32 flags;	/* PF_* */
	s32 static_prio; /* 120 + nice for tasks that are not real-time */
	u32 policy;	/* SCHED_* */
	s32 nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	struct mm_struct *mm;	/* address space, shared by threads; NULL for a kthread */
	char comm[16];	/* name, for messages */
	const struct cred *real_cred;
	struct signal_struct *signal;
	struct sched_ext_entity scx;
};

struct scx_init_task_args {
	bool fork;	/* the task is being forked, not found at attach */
	struct cgroup *cgroup;
};

struct scx_cgroup_init_args {
	u32 weight;	/* 1 to 10000; the default is 100 */
	u64 bw_period_us;	/* since 6.17, like the next two */
	u64 bw_quota_us; /* CPU time per period; U64_MAX means no limit */
	u64 bw_burst_us;
};

struct scx_exit_task_args {
	bool cancelled;	/* the fork failed: the task was never scheduled */
};

struct scx_cpu_acquire_args {};

struct scx_cpu_release_args {
	struct task_struct *task; /* task of a higher class that takes the CPU */
};

struct scx_dump_ctx {
	u64 at_ns;	/* time of the dump */
};

enum scx_exit_kind {
	SCX_EXIT_NONE = 0,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s32 exit_cpu;	/* since 7.2 */
	s64 exit_code;
	const char *reason;
	char *msg;
	char *dump;
};

/* Arguments of kfuncs that have more arguments than registers (6.19 and later). */
struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

#pragma clang attribute pop

/* Iterators are on the program's stack, so their sizes are fixed here: those of kernel 7.2. */
struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));

struct bpf_iter_scx_dsq {
	u64 opaque[6];
} __attribute__((aligned(8)));

/* Part of a map value; the kernel fills it. */
struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

/*
 * Part of a map value; the kernel fills it. A program calls no kernel function while it holds one.
 */
struct bpf_spin_lock {
	u32 opaque;
};

/* Bits of task_struct.flags. */
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

/*
 * Bits of sched_ext_ops.flags. KEEP_BUILTIN_IDLE: the kernel keeps tracking idle CPUs although the
 * scheduler has an `update_idle`.
 */
#define SCX_OPS_KEEP_BUILTIN_IDLE 1
/* A task that could continue because no other task is runnable is enqueued nevertheless. */
#define SCX_OPS_ENQ_LAST 2

/* Values of task_struct.policy. */
#define SCHED_NORMAL 0
#define SCHED_BATCH 3
#define SCHED_IDLE 5

/*
 * The ops table that a scheduler registers with the kernel. The loader matches members by name, so
 * their order is free, and a member that the kernel lacks is an error only if it is set.
 */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*update_idle)(s32 cpu, bool idle);
	void (*cpu_acquire)(s32 cpu, struct scx_cpu_acquire_args *args);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	s32 (*cgroup_prep_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_cancel_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cgroup_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us); /* since 6.17 */
	void (*cgroup_set_idle)(struct cgroup *cgrp, bool idle); /* since 6.19 */
	void (*dump)(struct scx_dump_ctx *ctx);
	void (*dump_cpu)(struct scx_dump_ctx *ctx, s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	u64 hotplug_seq; /* set by the loader: the kernel's count of CPU hotplug events */
	char name[128];
};

#endif
