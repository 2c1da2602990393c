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
 * 7. Currencies. Each cgroup issues its own tickets, and is backed by its weight: 100 unless somebody said otherwise. A draw
 *    begins at the root. Of the cgroups in which somebody wants the CPU one wins by its weight, then one of those in it, and so
 *    on down to a task; a cgroup's own tasks together are as one of weight 100. So what happens inside of a currency changes
 *    nothing outside: more tickets there only make each of them worth less. The paper computes values of tickets instead,
 *    and adjusts them whenever somebody comes or goes; to draw at each level gives the same chances.
 *
 * 8. Transfers. A client lends its tickets to the server for which it waits: the header beside this one.
 *
 * 9. A task that wakes goes to an idle CPU if there is one: where nobody else waits, there is nothing to draw.
 *
 * 10. Whoever has waited for 10 s has a short turn before all others (overdue.bpf.h). It has won nothing: its price is that
 *    of the quantum before, and the clock stands.
 *
 * Where this departs from the paper, and why:
 * - Threads of the kernel that belong to one CPU are no clients: they run at once. Else the kernel itself would wait for
 *   quanta of 100 ms.
 * - Two CPUs that draw at the same moment may see the clock of one winner ago.
 */
#include <weir/client.bpf.h>
#include <weir/jobs.bpf.h>
#include <weir/log2.bpf.h>
#include "lend.bpf.h"

LICENSE("GPL");

/* Set by the preset. */
RODATA u32 quantum_us = 100000;
RODATA bool compensation = true;

struct task {
	u64 key;	/* 2: when it wins, by the clock of the lottery */
	u64 price_ns;	/* 5: what it used of the quantum that it had last */
	u64 used_ns;	/* of the quantum that it has now */
	u64 since;	/* when it began to run */
	u64 waits_since;
	u32 job;	/* 7: its currency, whose queue has the same number */
	u32 home;	/* that of its cgroup, which 8 can make another one */
	bool overdue;	/* 10: has not won this turn */
	struct loan loan;
};

TASK_STORAGE(tasks, struct task);

/* 7: two lotteries are held in a currency. They have its cgroup's number. */
struct currency {
	u64 clock;	/* 2, of its own tasks */
	u64 inner_clock;	/* of the currencies in it, and of its own tasks as a whole */
	u64 key;	/* when it wins among its parent's */
	u64 own_key;	/* when its own tasks win, as a whole */
};

struct currency currencies[JOBS];

static u64 redrawn(struct task_struct *p, u64 key);

#define PICK_REFUSED(p, cpu) false
#define PICK_BIASED true
#define PICK_SEEN(p, key, cpu) redrawn(p, key)
#define PICK_FLAGS SCX_ENQ_IMMED
#include <weir/pick.bpf.h>

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

#define OVERDUE_DSQ JOBS
#include <weir/overdue.bpf.h>

/* 10 */
static void look_for_overdue(u64 now)
{
	int number;

	for_range(number, 0, last_job + 1)
		move_overdue(number, now);
}

static __always_inline struct currency *currency_at(u32 job)
{
	return &currencies[job % JOBS];
}

static __always_inline struct currency *currency_of(const struct task *t)
{
	return currency_at(t->job);
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

/* How long until somebody wins who has used `price_ns`. Keys count 2^-10 ns for each ticket. */
static __noinline u64 time_to_win(u64 price_ns, u32 tickets)
{
	if (!compensation || price_ns > quantum_ns())
		price_ns = quantum_ns();
	return (draw() * price_ns >> 6) / (tickets ? tickets : 1);
}

/* 8: what it is lent, and its own where they are tickets of this job. */
static __always_inline u32 tickets_in(u32 job, struct task_struct *p, const struct task *t)
{
	return lent_to(&t->loan) + (job == t->home ? p->scx.weight : 0);
}

static __always_inline u64 key_in(u32 job, struct task_struct *p, struct task *t, u64 price_ns)
{
	return READ_ONCE(currency_at(job)->clock) + time_to_win(price_ns, tickets_in(job, p, t));
}

static __always_inline u64 key_for(struct task_struct *p, struct task *t, u64 price_ns)
{
	return key_in(t->job, p, t, price_ns);
}

static __always_inline void set_clock(u64 *clock, u64 key)
{
	if (key > READ_ONCE(*clock))
		WRITE_ONCE(*clock, key);
}

/* 6: a task that was passed over draws again. No draw is before the clock, so nobody is seen as earlier than its key. */
static u64 redrawn(struct task_struct *p, u64 key)
{
	struct task *t = task_of(p);

	if (t && key < READ_ONCE(currency_of(t)->clock))
		key = t->key = key_for(p, t, t->price_ns);
	return key;
}

/* ---- 7: currencies ---- */

/* Jobs of which somebody waits, as bits. */
VERIFIED_ONCE u64 jobs_that_wait(void)
{
	u64 found = 0;
	int number;

	for_range(number, 0, last_job + 1) {
		if (scx_bpf_dsq_nr_queued(number))
			found |= 1ULL << number;
	}
	return found;
}

/* The same with those in which they are. */
static __noinline u64 with_ancestors(u64 some)
{
	u64 found = 0;
	int number;

	for_range(number, 0, last_job + 1) {
		if (some >> number & 1)
			found |= job_at(number)->path;
	}
	return found;
}

/* 6: when one of a currency wins; one that has won, or was passed over, draws anew. */
static __always_inline u64 lot_of(u64 *key, u64 clock, u32 weight)
{
	if (READ_ONCE(*key) <= clock)
		WRITE_ONCE(*key, clock + time_to_win(quantum_ns(), weight));
	return READ_ONCE(*key);
}

/* Who wins in currency `at`: one of those in it, or itself, which means its own tasks. */
static __noinline u32 draw_in(u32 at, u64 some, u64 all)
{
	struct currency *c = &currencies[at % JOBS];
	u64 clock = READ_ONCE(c->inner_clock), best = ~0ULL;
	u32 winner = at;
	int number;

	if (some >> at & 1)
		best = lot_of(&c->own_key, clock, DEFAULT_WEIGHT);
	for_range(number, 1, last_job + 1) {
		u64 key;

		if (!(all >> number & 1) || job_at(number)->parent != at)
			continue;
		key = lot_of(&currencies[(u32)number % JOBS].key, clock, job_at(number)->weight);
		if (key < best) {
			best = key;
			winner = number;
		}
	}
	if (best != ~0ULL)
		set_clock(&c->inner_clock, best);
	return winner;
}

/* Of the jobs `some`, of which somebody wants the CPU, the one that wins. */
VERIFIED_ONCE u32 draw_job(u64 some)
{
	u64 all = with_ancestors(some);
	u32 at = ROOT_JOB, next;
	int level;

	for_range(level, 0, JOB_DEPTH + 1) {
		next = draw_in(at, some, all);
		if (next == at)
			break;
		at = next;
	}
	return at;
}

/* Somebody of the jobs that wait. If a winner's tasks may not run here, another job is drawn. */
static __noinline bool take_by_lot(s32 cpu, struct task *own, u64 own_key)
{
	u64 some = jobs_that_wait() | (own ? 1ULL << own->job % JOBS : 0);
	int attempt;

	for_range(attempt, 0, JOBS) {
		u32 winner;
		bool is_own;

		if (!some)
			break;
		winner = draw_job(some);
		is_own = own && own->job == winner;
		if (take(winner, cpu, is_own ? own_key : NO_LIMIT))
			return true;
		if (is_own)
			break;
		some &= ~(1ULL << winner % JOBS);
	}
	return false;
}

/* ---- 8: transfers ---- */

/* The server of this account draws anew if it waits. */
VERIFIED_ONCE u32 draw_anew(u32 number)
{
	struct task_struct *p = bpf_task_from_pid(account_at(number)->pid);
	struct task *t = p ? task_of(p) : NULL;

	if (t) {
		u32 job = job_for(&t->loan, t->home);
		u64 key = key_in(job, p, t, t->price_ns);
		struct bpf_iter_scx_dsq it;

		bpf_iter_scx_dsq_new(&it, t->job % JOBS, 0);
		if (dsq_move_by_key(&it, p, job % JOBS, key)) {
			t->job = job;
			t->key = key;
		}
		bpf_iter_scx_dsq_destroy(&it);
	}
	if (p)
		bpf_task_release(p);
	return 0;
}

static __noinline void settle_accounts(void)
{
	u64 some = READ_ONCE(changed_accounts);
	int number;

	if (!some)
		return;
	__sync_fetch_and_and(&changed_accounts, ~some);
	for_range(number, 1, ACCOUNTS) {
		if (some >> number & 1)
			draw_anew(number);
	}
}

/* ---- The life of a task, in order ---- */

SLEEPABLE_OP2(s32, lottery_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	struct task *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -12; /* ENOMEM */
	t->price_ns = quantum_ns();
	t->job = t->home = first_job(args);
	return 0;
}

OP2(void, lottery_runnable, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	waits_from(t, now_ns());
	if (!nr_parties)
		return;
	take_back(&t->loan);
	find_account(p, &t->loan);
}

/* 9 */
OP3(s32, lottery_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	struct task *t = task_of(p);

	if (is_idle && t) {
		t->key = 0;
		t->used_ns = 0;
		dsq_insert(p, SCX_DSQ_LOCAL, quantum_ns(), SCX_ENQ_IMMED);
	}
	return cpu;
}

OP2(void, lottery_enqueue, struct task_struct *, p, u64, enq_flags)
{
	struct task *t = task_of(p);

	if (!t || !is_client(p)) {
		run_at_once(p, quantum_ns(), enq_flags);
		return;
	}
	if (t->used_ns)
		t->price_ns = t->used_ns;
	t->used_ns = 0;
	t->overdue = false;
	t->job = job_for(&t->loan, t->home);
	t->key = key_for(p, t, t->price_ns);
	dsq_insert_by_key(p, t->job, quantum_ns(), t->key, enq_flags);
	tell_idle_cpu(p, enq_flags);
}

/* 4: whoever ran draws too, and goes on if nobody is earlier. */
OP2(void, lottery_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	u64 now = now_ns(), own = NO_LIMIT;

	settle_accounts();
	if (t) {
		t->job = job_for(&t->loan, t->home);
		own = key_for(prev, t, t->overdue ? t->price_ns : t->used_ns + (now - t->since));
	}
	if (take_overdue(cpu) || take_by_lot(cpu, t, own) || !t)
		return;
	set_clock(&currency_of(t)->clock, own);
	t->used_ns = 0;
	t->since = now;
	t->overdue = false;
	task_set_slice(prev, quantum_ns());
}

OP1(void, lottery_running, struct task_struct *, p)
{
	struct task *t = task_of(p);

	if (!t)
		return;
	t->since = now_ns();
	if (!t->overdue)
		set_clock(&currency_of(t)->clock, t->key);
}

OP2(void, lottery_stopping, struct task_struct *, p, bool, runnable)
{
	struct task *t = task_of(p);

	u64 now = now_ns();

	if (!t)
		return;
	if (!t->overdue)
		t->used_ns += now - t->since;
	waits_from(t, now);
}

OP2(void, lottery_quiescent, struct task_struct *, p, u64, deq_flags)
{
	struct task *t = nr_parties && (deq_flags & SCX_DEQ_SLEEP) ? task_of(p) : NULL;

	if (t)
		lend(p, &t->loan, tickets_in(t->job, p, t), t->job);
}

/* It leaves this scheduler, maybe in its sleep. */
OP1(void, lottery_disable, struct task_struct *, p)
{
	struct task *t = task_of(p);

	if (t)
		take_back(&t->loan);
}

/* ---- The life of a cgroup ---- */

SLEEPABLE_OP2(s32, lottery_cgroup_init, struct cgroup *, cgrp, struct scx_cgroup_init_args *, args)
{
	return make_job(cgrp, args->weight);
}

SLEEPABLE_OP1(void, lottery_cgroup_exit, struct cgroup *, cgrp)
{
	end_job(cgrp);
}

OP3(void, lottery_cgroup_move, struct task_struct *, p, struct cgroup *, from, struct cgroup *, to)
{
	struct task *t = task_of(p);

	if (t)
		t->job = t->home = number_of(to);
}

OP2(void, lottery_cgroup_set_weight, struct cgroup *, cgrp, u32, weight)
{
	weigh_job(cgrp, weight);
}

SLEEPABLE_OP0(s32, lottery_init)
{
	s32 error = overdue_init();
	int number;

	for_range(number, 0, JOBS) {
		if (!error)
			error = scx_bpf_create_dsq(number, -1);
	}
	return error;
}

OP1(void, lottery_exit, struct scx_exit_info *, info)
{
	record_exit(info);
}

SCHEDULER(lottery_ops,
	.init_task = (void *)lottery_init_task,
	.runnable = (void *)lottery_runnable,
	.select_cpu = (void *)lottery_select_cpu,
	.enqueue = (void *)lottery_enqueue,
	.dispatch = (void *)lottery_dispatch,
	.running = (void *)lottery_running,
	.stopping = (void *)lottery_stopping,
	.quiescent = (void *)lottery_quiescent,
	.disable = (void *)lottery_disable,
	.cgroup_init = (void *)lottery_cgroup_init,
	.cgroup_exit = (void *)lottery_cgroup_exit,
	.cgroup_move = (void *)lottery_cgroup_move,
	.cgroup_set_weight = (void *)lottery_cgroup_set_weight,
	.init = (void *)lottery_init,
	.exit = (void *)lottery_exit,
	.name = "lottery",
);
