/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lottery: who runs next is drawn by lot, after C. A. Waldspurger and W. E. Weihl, "Lottery scheduling: flexible
 * proportional-share resource management" (OSDI 1994).
 *
 * 1. Tickets. A task that waits with t of all T tickets wins the next quantum with probability t/T, whatever was drawn
 *    before. So shares are right on average, no task with a ticket starves, and there is nothing to keep up to date when
 *    tasks come, go, or change their tickets. A task has as many tickets as its nice value has weight: 100 for nice 0.
 *
 * 2. The race. The paper draws a number and walks the list of clients to its owner. Here each task draws for itself, once,
 *    when it begins to wait: a time from the exponential distribution with mean 1/t. The earliest one wins. That is the
 *    same lottery: the smallest of such times belongs to a task with probability t/T. And these times have no memory: what
 *    is left of the others' when one has won is distributed as if it were drawn anew. So a lottery is a queue in the order of
 *    keys, where a key is the clock of the lottery plus a draw, and that clock is the key of the last winner.
 *
 * 3. The quantum is 100 ms, as in the paper. Nobody is interrupted before it ends.
 *
 * 4. The task whose quantum ends takes part in the next draw as everybody does.
 *
 * 5. Compensation. A task that used only the fraction f of its quantum has 1/f times its tickets until it wins again. For
 *    the race this means: the mean of its draw is what it used for each of its tickets, in place of a quantum for each.
 *
 * 6. A CPU draws among the tasks that may run there. One that may not was passed over when its time came; when its own CPU
 *    looks, it draws again. As draws have no memory, this is fair too.
 *
 * 7. A task that wakes goes to an idle CPU if there is one: where nobody else waits, there is nothing to draw.
 *
 * Where this departs from the paper, and why:
 * - Threads of the kernel that belong to one CPU are no clients: they run at once. Else the kernel itself would wait for
 *   quanta of 100 ms.
 * - Two CPUs that draw at the same moment may see the clock of one winner ago.
 */
#include <weir/log2.bpf.h>
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define QUEUE_DSQ 0

/* Set by the preset. */
RODATA u32 quantum_us = 100000;
RODATA bool compensation = true;

struct task {
	u64 key;	/* 2: when it wins, by the clock of the lottery */
	u64 price_ns;	/* 5: what it used of the quantum that it had last */
	u64 used_ns;	/* of the quantum that it has now */
	u64 since;	/* when it began to run */
};

TASK_STORAGE(tasks, struct task);

/* 2 */
u64 lottery_clock;

static u64 redrawn(struct task_struct *p, u64 key);

#define PICK_REFUSED(p, cpu) false
#define PICK_BIASED true
#define PICK_SEEN(p, key, cpu) redrawn(p, key)
#include <weir/pick.bpf.h>

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline u64 quantum_ns(void)
{
	return quantum_us * 1000ULL;
}

/* ---- 2: the race ---- */

/* From the exponential distribution with mean 1, in units of 2^-16: -ln of a number that is as likely anywhere up to 1. */
static __always_inline u64 draw(void)
{
	return (32 * LOG2_ONE - log2_of(bpf_get_prandom_u32() + 1ULL)) * LN_2 >> LOG2_BITS;
}

/* When a task wins that has used `price_ns`. Keys count 2^-10 ns for each ticket. */
static __noinline u64 key_for(struct task_struct *p, u64 price_ns)
{
	u32 tickets = p->scx.weight;

	if (!compensation || price_ns > quantum_ns())
		price_ns = quantum_ns();
	return READ_ONCE(lottery_clock) + (draw() * price_ns >> 6) / (tickets ? tickets : 1);
}

/* 6: a task that was passed over draws again. No draw is before the clock, so nobody is seen as earlier than its key. */
static u64 redrawn(struct task_struct *p, u64 key)
{
	struct task *t;

	if (key >= READ_ONCE(lottery_clock))
		return key;
	t = task_of(p);
	if (t)
		key = t->key = key_for(p, t->price_ns);
	return key;
}

static __always_inline void set_clock(u64 key)
{
	if (key > READ_ONCE(lottery_clock))
		WRITE_ONCE(lottery_clock, key);
}

/* ---- The life of a task, in order ---- */

SLEEPABLE_OP2(s32, lottery_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -12; /* ENOMEM */
	t->price_ns = quantum_ns();
	return 0;
}

/* 7 */
OP3(s32, lottery_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	struct task *t = task_of(p);

	if (is_idle && t) {
		t->key = 0;
		t->used_ns = 0;
		dsq_insert(p, SCX_DSQ_LOCAL, quantum_ns(), 0);
	}
	return cpu;
}

OP2(void, lottery_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);
	s32 cpu;

	if (!t || ((p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1)) {
		dsq_insert(p, SCX_DSQ_LOCAL, quantum_ns(), enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	if (t->used_ns)
		t->price_ns = t->used_ns;
	t->used_ns = 0;
	t->key = key_for(p, t->price_ns);
	dsq_insert_by_key(p, QUEUE_DSQ, quantum_ns(), t->key, enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* 4: whoever ran draws too, and goes on if nobody is earlier. */
OP2(void, lottery_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	u64 now = now_ns(), own = t ? key_for(prev, t->used_ns + (now - t->since)) : NO_LIMIT;

	if (take(QUEUE_DSQ, cpu, own) || !t)
		return;
	set_clock(own);
	t->used_ns = 0;
	t->since = now;
	task_set_slice(prev, quantum_ns());
}

OP1(void, lottery_running, struct task_struct *, p)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	t->since = now_ns();
	set_clock(t->key);
}

OP2(void, lottery_stopping, struct task_struct *, p, bool, runnable)
{
	struct task *t = task_of(p);

	if (t)
		t->used_ns += now_ns() - t->since;
}

SLEEPABLE_OP0(s32, lottery_init)
{
	return scx_bpf_create_dsq(QUEUE_DSQ, -1);
}

OP1(void, lottery_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(lottery_ops,
	.init_task = (void *)lottery_init_task,
	.select_cpu = (void *)lottery_select_cpu,
	.enqueue = (void *)lottery_enqueue,
	.dispatch = (void *)lottery_dispatch,
	.running = (void *)lottery_running,
	.stopping = (void *)lottery_stopping,
	.init = (void *)lottery_init,
	.exit = (void *)lottery_exit,
	.name = "lottery",
);
