/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A FIFO with one mistake, selected by a macro; the faulty line ends in a comment with the macro's name. Most kfuncs are
 * called through inlined functions of a header.
 */
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wunused-const-variable"
#pragma clang diagnostic ignored "-Wunused-variable"
#include <weir/scx.bpf.h>
#include "mistaken.h"

LICENSE("GPL");

#define SHARED 0
#define NOWHERE 0xbad

struct waker {
	struct bpf_timer timer;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct waker);
} wakers SEC(".maps");

static long (*const timer_init)(struct bpf_timer *timer, void *map, u64 flags) = (void *)169;
static long (*const timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const timer_start)(struct bpf_timer *timer, u64 nsecs, u64 flags) = (void *)171;

extern void scx_bpf_dump_bstr(char *format, u64 *data, u32 data__sz) __ksym;

static __always_inline void place(struct task_struct *p, u64 dsq_id, u64 enq_flags)
{
	dsq_insert(p, dsq_id, SCX_SLICE_DFL, enq_flags); /* INLINED */
}

OP3(s32, mistaken_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
#ifdef RESULT
	return 9999;
#endif
	return prev_cpu;
}

OP2(void, mistaken_enqueue, struct task_struct *, p, u64, enq_flags)
{
	u64 dsq_id = SHARED;
#if defined(DIRECT)
	dsq_insert(p, NOWHERE, SCX_SLICE_DFL, enq_flags); /* DIRECT */
#elif defined(JOINED)
	if (p->pid & 1)
		dsq_id = NOWHERE + p->pid;
	else
		dsq_id = NOWHERE;
	dsq_insert(p, dsq_id, SCX_SLICE_DFL, enq_flags); /* JOINED */
#elif defined(INLINED)
	place(p, NOWHERE, enq_flags);
#elif defined(SUBPROGRAM)
	insert_from_header(p, NOWHERE); /* SUBPROGRAM */
#elif defined(FAULT)
	struct task_struct *volatile missing = NULL;

	missing->scx.slice = 1; /* FAULT */
#elif defined(COMPLAINT)
	scx_error("no place for %d", p->pid); /* COMPLAINT */
#else
#ifdef PRINTS
	bpf_printk("pid %d waits\n", p->pid); /* PRINTS */
#endif
	dsq_insert(p, dsq_id, SCX_SLICE_DFL, enq_flags); /* FINE */
#endif
}

OP2(void, mistaken_dispatch, s32, cpu, struct task_struct *, prev)
{
#ifdef DISPATCH
	dsq_move_to_local(NOWHERE); /* DISPATCH */
#endif
	dsq_move_to_local(SHARED); /* MOVED */
}

static int on_timer(void *map, int *key, struct waker *waker)
{
	scx_bpf_kick_cpu(12345, 0); /* TIMER */
	return 0;
}

SLEEPABLE_OP0(s32, mistaken_init)
{
#ifdef TIMER
	u32 key = 0;
	struct waker *waker = bpf_map_lookup_elem(&wakers, &key);

	if (!waker || timer_init(&waker->timer, &wakers, 1) || timer_set_callback(&waker->timer, on_timer) ||
	    timer_start(&waker->timer, 1000000, 0))
		return -1;
#endif
	return scx_bpf_create_dsq(SHARED, -1);
}

OP1(void, mistaken_dump, struct scx_dump_ctx *, ctx)
{
	static char format[] = "mistaken counts %d\n";
	u64 data[] = { 7 };

	scx_bpf_dump_bstr(format, data, sizeof(data));
}

OP1(void, mistaken_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(mistaken_ops,
	.select_cpu = (void *)mistaken_select_cpu,
	.enqueue = (void *)mistaken_enqueue,
	.dispatch = (void *)mistaken_dispatch,
	.init = (void *)mistaken_init,
	.dump = (void *)mistaken_dump,
	.exit = (void *)mistaken_exit,
	.name = "mistaken",
);
