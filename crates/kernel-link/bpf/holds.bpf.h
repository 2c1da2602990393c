/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long user locks are held: probes at a pair of functions, one that takes the lock in its first argument and one
 * that releases it. A lock is taken when the first one returns, and released when the second one is called. A lock that
 * a thread takes again while it has it is held until its first release.
 */
#ifndef HOLDS_BPF_H
#define HOLDS_BPF_H

enum {
	MAX_HELD = 65536,
	/* Cookie of a probe: 0 is returned only by calls that took the lock, as pthread_mutex_trylock() does. */
	RETURNS_ERROR = 1,
};

/* A call that has not returned, by thread. */
struct asked {
	__u64 lock;
	__u64 caller;
};

struct held_key {
	__u64 lock;
	__u32 process;
	__u32 unused;
};

struct held {
	__u64 since_ns;
	__u64 caller;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct asked);
	__uint(max_entries, MAX_HELD);
} asked_locks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct held_key);
	__type(value, struct held);
	__uint(max_entries, MAX_HELD);
} held_locks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct lock_key);
	__type(value, struct lock_sum);
	__uint(max_entries, MAX_LOCKS);
} hold_sums SEC(".maps");

/* Distance of the call from the start of the program's text; 0 if the caller is a library. */
static __u64 caller_of_function(struct task_struct *task, struct pt_regs___user *registers)
{
	struct mm_struct___text *mm = (void *)task->mm;
	__u64 after = 0, low, high;

	if (!mm || bpf_probe_read_user(&after, sizeof(after), (void *)BPF_CORE_READ(registers, sp)))
		return 0;
	low = BPF_CORE_READ(mm, start_code);
	high = BPF_CORE_READ(mm, end_code);
	return after > low && after < high ? after - low : 0;
}

SEC("?uprobe")
int on_take(struct pt_regs___user *registers)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct asked asked = {};
	__u32 thread;

	if (!counts_lock_of(task))
		return 0;
	thread = task->pid;
	asked.lock = BPF_CORE_READ(registers, di);
	asked.caller = caller_of_function(task, registers);
	if (bpf_map_update_elem(&asked_locks, &thread, &asked, 0))
		count_loss();
	return 0;
}

SEC("?uretprobe")
int on_taken(struct pt_regs___user *registers)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 thread = task->pid;
	struct asked *asked = bpf_map_lookup_elem(&asked_locks, &thread);
	struct held_key key = {};
	struct held held = {};

	if (!asked)
		return 0;
	key.lock = asked->lock;
	key.process = task->tgid;
	held.caller = asked->caller;
	bpf_map_delete_elem(&asked_locks, &thread);
	if ((bpf_get_attach_cookie(registers) & RETURNS_ERROR) && (__u32)BPF_CORE_READ(registers, ax))
		return 0;
	held.since_ns = bpf_ktime_get_ns();
	/* BPF_NOEXIST: taken again by its owner. */
	if (bpf_map_update_elem(&held_locks, &key, &held, BPF_NOEXIST) && !bpf_map_lookup_elem(&held_locks, &key))
		count_loss();
	return 0;
}

SEC("?uprobe")
int on_release(struct pt_regs___user *registers)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 now = bpf_ktime_get_ns();
	struct held_key key = {};
	struct lock_key sum = {};
	struct held *held;

	if (!counts_lock_of(task))
		return 0;
	key.lock = BPF_CORE_READ(registers, di);
	key.process = task->tgid;
	held = bpf_map_lookup_elem(&held_locks, &key);
	if (!held)
		return 0;
	sum.lock = key.lock;
	sum.callers[0] = held->caller;
	sum.flags = FUTEX;
	sum.stack = -1;
	sum.task = task->tgid;
	add_time(&hold_sums, &sum, now - held->since_ns);
	bpf_map_delete_elem(&held_locks, &key);
	return 0;
}

#endif
