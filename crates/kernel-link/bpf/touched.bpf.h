/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Resource use of tasks apart from CPU time: memory, files and devices. A program includes this after notes.bpf.h.
 *
 * 1. Faults and bytes are the kernel's own per-task counters, which getrusage(2) and /proc/PID/io show. Reading them
 *    costs a few loads per sleep; the resource use between two sleeps is the difference of two readings.
 * 2. A written page is accounted to its writer when it becomes dirty, and reaches the device later, from a kthread. So
 *    block-device requests are observed separately, for the whole machine, from the time the driver gets one until the
 *    device has completed it. The task of a request is known only if it submits the request itself.
 * 3. Memory use of a process is read at its exit and at the end of the recording. The kernel keeps the sum per CPU,
 *    and each CPU's part may be off by some dozens of pages.
 */
#ifndef WEIR_TOUCHED_BPF_H
#define WEIR_TOUCHED_BPF_H

#include "notes.bpf.h"

struct touched {
	struct head head;
	struct counters counters;
	__u32 cpu;
	__u32 unused;
};

struct footprint {
	struct head head;
	__u64 private_pages; /* anonymous pages, resident or swapped out */
	__u64 shared_pages;  /* pages of files and shared memory */
	__u64 table_bytes;   /* page tables */
	__u64 stack_pages;   /* kernel stack of one thread; 0: unknown */
	__u64 executable;    /* hash of its inode and device */
};

/* A completed request. `head.task` submitted it, or is NOBODY; `head.time_ns` is when the driver got it. */
struct request_done {
	struct head head;
	__u64 service_ns;
	__u32 device; /* MAJOR << 20 | MINOR */
	__u32 operation;
	__u64 bytes;
};

enum {
	OPERATION_MASK = 0xff, /* of a request's flags, in include/linux/blk_types.h */
	SECTOR_SHIFT = 9,
	MINOR_BITS = 20,
	REQUESTS_MAX = 65536, /* maximum number of requests in flight on all devices */
};

static void read_counters(struct counters *counters, struct task_struct *task, struct note *note)
{
	counters->beside_ns = note->beside_ns;
	counters->minor_faults = task->min_flt;
	counters->major_faults = task->maj_flt;
	counters->read = counters->written = 0;
	counters->device_read = counters->device_written = 0;
	/* CONFIG_TASK_XACCT and CONFIG_TASK_IO_ACCOUNTING. */
	if (bpf_core_field_exists(task->ioac.rchar)) {
		counters->read = task->ioac.rchar;
		counters->written = task->ioac.wchar;
	}
	if (bpf_core_field_exists(task->ioac.read_bytes)) {
		counters->device_read = task->ioac.read_bytes >> SECTOR_SHIFT;
		counters->device_written = task->ioac.write_bytes >> SECTOR_SHIFT;
	}
}

/* Reports the resource use of a task so far, when it does not fall asleep. */
static void report_touched(struct task_struct *task, struct note *note, __u64 now, __u64 work_ns)
{
	struct touched *event = RESERVE(touched);

	if (!event)
		return;
	fill_head(&event->head, KIND_TOUCHED, note->member.task, now, work_ns);
	read_counters(&event->counters, task, note);
	event->cpu = task->thread_info.cpu;
	event->unused = 0;
	bpf_ringbuf_submit(event, wakeup_flag());
}

/* Hash that identifies a file. Two executables collide with a probability of about 2^-32. */
static __u64 number_of(struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	__u64 device = BPF_CORE_READ(inode, i_sb, s_dev);

	return file ? BPF_CORE_READ(inode, i_ino) ^ device << 32 : 0;
}

/* Reports the memory of the task's process, unless it still shares its parent's (vfork). */
static void report_footprint(struct task_struct *task, struct note *note, __u64 now, __u64 work_ns)
{
	struct mm_struct *mm = task->mm;
	struct footprint *event;

	if (!mm || task->vfork_done)
		return;
	event = RESERVE(footprint);
	if (!event)
		return;
	fill_head(&event->head, KIND_FOOTPRINT, note->member.task, now, work_ns);
	event->private_pages = BPF_CORE_READ(mm, rss_stat[MM_ANONPAGES].count) +
			       BPF_CORE_READ(mm, rss_stat[MM_SWAPENTS].count);
	event->shared_pages = BPF_CORE_READ(mm, rss_stat[MM_FILEPAGES].count) +
			      BPF_CORE_READ(mm, rss_stat[MM_SHMEMPAGES].count);
	event->table_bytes = BPF_CORE_READ(mm, pgtables_bytes.counter);
	event->stack_pages = bpf_core_field_exists(task->stack_vm_area) ?
				     BPF_CORE_READ(task, stack_vm_area, nr_pages) : 0;
	event->executable = number_of(BPF_CORE_READ(mm, exe_file));
	bpf_ringbuf_submit(event, wakeup_flag());
}

/* A request in flight. */
struct issued {
	__u64 time_ns;
	__u64 bytes;
	__u32 task;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct issued);
	__uint(max_entries, REQUESTS_MAX);
} requests SEC(".maps");

/* Task that submits a request: the current one, if it is in the tree and this is not an interrupt. */
static __u32 submitter(void)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct note *note = note_of(current);

	return note && !interrupt_context(current) ? note->member.task : NOBODY;
}

/* An I/O scheduler queues the request. Another task, often a kthread, may issue it to the driver. */
SEC("?tp_btf/block_rq_insert")
int BPF_PROG(on_request, struct request *request)
{
	__u64 key = (__u64)request;
	struct issued issued = { .task = submitter() };

	if (issued.task == NOBODY)
		bpf_map_delete_elem(&requests, &key);
	else
		bpf_map_update_elem(&requests, &key, &issued, BPF_ANY);
	return 0;
}

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(on_issue, struct request *request)
{
	__u64 key = (__u64)request;
	struct issued *known = bpf_map_lookup_elem(&requests, &key);
	struct issued issued = { .time_ns = bpf_ktime_get_ns(), .bytes = request->__data_len };

	/* A requeued request is issued twice; a stale entry of the same address is overwritten. */
	issued.task = known && !known->time_ns ? known->task : submitter();
	if (bpf_map_update_elem(&requests, &key, &issued, BPF_ANY))
		count_loss();
	return 0;
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(on_completion, struct request *request, int error, unsigned int bytes)
{
	__u64 key = (__u64)request, now = bpf_ktime_get_ns();
	struct issued *issued = bpf_map_lookup_elem(&requests, &key);
	struct request_done *event;

	/* Issued before the recording began, or only partly completed. */
	if (!issued || !issued->time_ns || bytes < request->__data_len)
		return 0;
	event = RESERVE(request_done);
	if (event) {
		fill_head(&event->head, KIND_REQUEST, issued->task, issued->time_ns, 0);
		event->service_ns = now - issued->time_ns;
		event->device = BPF_CORE_READ(request, q, disk, major) << MINOR_BITS |
				BPF_CORE_READ(request, q, disk, first_minor);
		event->operation = request->cmd_flags & OPERATION_MASK;
		event->bytes = issued->bytes;
		bpf_ringbuf_submit(event, wakeup_flag());
	}
	bpf_map_delete_elem(&requests, &key);
	return 0;
}

#endif
