/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few kernel types that the programs here read. Each is a subset of the kernel's: libbpf finds the members by name
 * in the running kernel's BTF and relocates their offsets (CO-RE), so only names and types must be right here.
 */
#ifndef WEIR_KERNEL_TYPES_H
#define WEIR_KERNEL_TYPES_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __s32 pid_t;
typedef _Bool bool;

#define NULL ((void *)0)
#define false 0
#define true 1

/* From include/uapi/linux/bpf.h. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_ANY = 0,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
};

/* From include/linux/sched.h. The values have been the same since 4.14, the kernel exports them to tools that way. */
enum {
	TASK_UNINTERRUPTIBLE = 0x2,
	TASK_DEAD = 0x80,
};

/* From include/linux/pid_types.h. */
enum {
	PIDTYPE_SID = 3,
};

/* From include/uapi/linux/time.h, and from the table that most architectures share for signals. */
enum {
	ITIMER_REAL = 0,
	SIGALRM = 14,
	SIGCHLD = 17,
};

/* From include/linux/socket.h and include/uapi/linux/in.h. */
enum {
	AF_UNIX = 1,
	AF_INET = 2,
	AF_INET6 = 10,
	MSG_PEEK = 2,
	IPPROTO_TCP = 6,
};

/* From include/uapi/linux/stat.h, and numbers of calls of x86-64. */
enum {
	S_IFMT = 00170000,
	S_IFIFO = 0010000,
	CALL_READ = 0,
	CALL_WRITE = 1,
	CALL_READV = 19,
	CALL_WRITEV = 20,
	CALL_SCHED_YIELD = 24,
	CALL_WAIT4 = 61,
	CALL_WAITID = 247,
};

/* From include/uapi/linux/wait.h: idtype of waitid(2). */
enum {
	P_PID = 1,
	P_PIDFD = 3,
};

/* From include/linux/sched.h: flags of a task. */
enum {
	PF_EXITING = 0x00000004,
	PF_KTHREAD = 0x00200000,
};

/* From include/linux/preempt.h: which bits of the preemption count say where the CPU is. */
enum {
	SOFTIRQ_SERVED = 0x00000100, /* bit 8: serves a softirq; the bits above it only say that they are disabled */
	HARDIRQ_MASK = 0x000f0000,
	NMI_MASK = 0x00f00000,
};

/* From include/linux/mm_types_task.h: indices of the resident set's counters. */
enum {
	MM_FILEPAGES = 0,
	MM_ANONPAGES = 1,
	MM_SWAPENTS = 2,
	MM_SHMEMPAGES = 3,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rq;

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct sched_dl_entity {
	__u64 dl_runtime;
	__u64 dl_deadline;
	__u64 dl_period;
};

struct cpumask {
	unsigned long bits[1];
};

typedef struct cpumask cpumask_t;

struct percpu_counter {
	__s64 count;
};

struct super_block {
	__u32 s_dev;
};

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
};

typedef struct {
	__s64 counter;
} atomic64_t;

typedef atomic64_t atomic_long_t;

struct mm_struct {
	struct percpu_counter rss_stat[4];
	atomic_long_t pgtables_bytes;
	struct file *exe_file;
	unsigned long hiwater_rss;
	unsigned long arg_start;
	unsigned long arg_end;
};

struct upid {
	int nr;
};

struct pid {
	struct upid numbers[1];
};

typedef struct {
	int counter;
} atomic_t;

struct refcount_struct {
	atomic_t refs;
};

struct list_head {
	struct list_head *next;
};

struct signal_struct {
	atomic_t live;
	unsigned long maxrss;
	struct pid *pids[4];
};

typedef struct {
	__u32 val;
} kuid_t;

struct cred {
	kuid_t uid;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct hrtimer_clock_base {
	__s64 offset;
};

struct hrtimer {
	__s64 _softexpires;
	struct hrtimer_clock_base *base;
};

struct hrtimer_sleeper {
	struct hrtimer timer;
	struct task_struct *task;
};

struct timespec64 {
	__s64 tv_sec;
	long tv_nsec;
};

struct itimerspec64 {
	struct timespec64 it_interval;
	struct timespec64 it_value;
};

/* Only architectures with THREAD_INFO_IN_TASK, which all that run BPF schedulers have. */
struct thread_info {
	__u32 cpu;
};

struct task_io_accounting {
	__u64 rchar;
	__u64 wchar;
	__u64 read_bytes;
	__u64 write_bytes;
};

struct vm_struct {
	unsigned int nr_pages;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	__u8 on_rq;
	__u8 on_cpu;
	struct task_struct *real_parent;
	int prio;
	int static_prio;
	unsigned int rt_priority;
	struct sched_entity se;
	struct sched_dl_entity dl;
	unsigned int policy;
	cpumask_t cpus_mask;
	struct mm_struct *mm;
	int exit_code;
	unsigned in_iowait : 1;
	pid_t pid;
	pid_t tgid;
	__u64 utime;
	__u64 stime;
	char comm[16];
	struct signal_struct *signal;
	const struct cred *cred;
	struct css_set *cgroups;
	struct files_struct *files;
	struct completion *vfork_done;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct task_io_accounting ioac;
	struct vm_struct *stack_vm_area;
};

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
};

struct pt_regs {
	unsigned long di;
	unsigned long orig_ax;
};

/* What programs of perf's tracepoints get. */
struct trace_event_raw_sys_exit {
	long ret;
};

struct trace_event_raw_sock_msg_length {
	void *sk;
	int ret;
	int flags;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
};

struct tcp_sock {
	__u32 write_seq;
	__u32 copied_seq;
};

struct unix_sock {
	struct sock *peer;
};

struct bpf_iter__task {
	struct task_struct *task;
};

/* With PREEMPT_RT the softirq part of the count lives in the task. */
struct task_struct___rt {
	int softirq_disable_cnt;
};

#pragma clang attribute pop

#endif
