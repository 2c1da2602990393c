/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * shared: counts its enqueues with a race: it reads the counter, does something else, and writes
 * the counter back. In between it makes a call with -DCALL, or executes an atomic instruction
 * without. With -DLOCKED the update holds a spin lock.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define SHARED 7

struct spin_lock {
	u32 value;
};

#ifdef LOCKED
static long (*const spin_lock)(struct spin_lock *lock) = (void *)93;
static long (*const spin_unlock)(struct spin_lock *lock) = (void *)94;
struct spin_lock lock;
#endif

u64 counter;
u64 others;

OP2(void, shared_enqueue, struct task_struct *, p, u64, enq_flags)
{
	u64 read;

#ifdef LOCKED
	spin_lock(&lock);
#endif
	read = counter;
#ifdef CALL
	others += scx_bpf_task_cpu(p);
#else
	__sync_fetch_and_add(&others, 1);
#endif
	counter = read + 1;
#ifdef LOCKED
	spin_unlock(&lock);
#endif
	dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
}

OP2(void, shared_dispatch, s32, cpu, struct task_struct *, prev)
{
	dsq_move_to_local(SHARED);
}

SLEEPABLE_OP0(s32, shared_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SCHEDULER(shared_ops,
	.enqueue = (void *)shared_enqueue,
	.dispatch = (void *)shared_dispatch,
	.init = (void *)shared_init,
	.name = "shared",
);
