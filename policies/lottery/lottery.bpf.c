/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lottery: the next task is chosen at random in proportion to its tickets, after C. A. Waldspurger
 * and W. E. Weihl, "Lottery scheduling: flexible proportional-share resource management" (OSDI
 * 1994).
 *
 * 1. Tickets. A waiting task with t of all T tickets wins the next quantum with probability t/T,
 *    independently of earlier quanta. So shares are right on average, no task with a ticket
 *    starves, and there is no state to update when tasks arrive, leave, or change their tickets.
 *    The tickets of a task are the weight of its nice value: 100 for nice 0.
 *
 * 2. The race. The paper draws a number and walks the list of clients to its owner. Here each task
 *    samples one time when it begins to wait, from the exponential distribution with mean 1/t, and
 *    the earliest time wins. This is the same lottery, because a task has the smallest of these
 *    times with probability t/T. The distribution is memoryless: when one task has won, the
 *    remaining times of the others are distributed as if they were sampled again. So a lottery is a
 *    queue ordered by keys. A key is the lottery's clock plus a sample, and the clock is the key of
 *    the last winner.
 *
 * 3. The quantum is 100 ms, as in the paper. No task is preempted before it ends.
 *
 * 4. The task whose quantum ends takes part in the next lottery like any other.
 *
 * 5. Compensation. A task that used only the fraction f of its quantum has 1/f times its tickets
 *    until it wins again. In the race, the mean of its sample is then its used time per ticket, in
 *    place of a quantum per ticket.
 *
 * 6. A CPU chooses among the tasks that may run there. Other tasks are skipped although their time
 *    has come. When a CPU that may run such a task looks at it, the task samples again. As the
 *    distribution is memoryless, this is fair, too.
 *
 * 7. Currencies. Each cgroup issues tickets of its own, backed by its weight (default 100). A
 *    lottery starts at the root. Among the cgroups with a task that wants the CPU, one wins by its
 *    weight, then one of its children, and so on down to a task. A cgroup's own tasks together
 *    count as one child of weight 100. So changes inside a currency have no effect outside: more
 *    tickets there only lower the value of each. The paper instead computes ticket values and
 *    adjusts them whenever a task arrives or leaves; a lottery at each level gives the same
 *    probabilities.
 *
 * 8. Transfers. A client lends its tickets to the server for which it waits ("lend.bpf.h").
 *
 * 9. A waking task goes to an idle CPU if there is one: no other task waits there, so no lottery is
 *    needed.
 *
 * 10. A task that has waited for 10 s gets a short slice before all others (<weir/overdue.bpf.h>).
 *     This is not a win: the used time of its last quantum still counts for its compensation, and
 *     the clock does not advance.
 *
 * Where this departs from the paper, and why:
 * - Per-CPU kthreads are not clients: they run at once. Otherwise the kernel itself would wait for
 *   quanta of 100 ms.
 * - Of two CPUs that hold a lottery at the same moment, one may see the clock without the other's
 *   winner.
 */
#include <weir/client.bpf.h>
#include <weir/jobs.bpf.h>
#include <weir/log2.bpf.h>
#include "lend.bpf.h"

LICENSE("GPL");

/* Set by the presets. */
RODATA u32 quantum_us = 100000;
RODATA bool compensation = true;

struct task {
	u64 key;	/* 2: time at which it wins, by the lottery's clock */
	u64 price_ns;	/* 5: used time of its last quantum */
	u64 used_ns;	/* used time of its current quantum */
	u64 since;	/* time at which it started to run */
	u64 waits_since;
	u32 job;	/* 7: its currency, whose DSQ has the same number */
	u32 home;	/* currency of its cgroup; a transfer (8) can change `job` */
	bool overdue;	/* 10: has not won its current slice */
	struct loan loan;
};

TASK_STORAGE(tasks, struct task);

/*
 * 7: a currency holds two lotteries: among its own tasks, and among its child currencies and its
 * own tasks as a whole. It has the number of its cgroup.
 */
struct currency {
	u64 clock;	/* 2: of the first lottery */
	u64 inner_clock;	/* of the second lottery */
	u64 key;	/* of this currency, in the second lottery of its parent */
	u64 own_key;	/* of its own tasks as a whole, in the second lottery */
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
static void scan_for_overdue(u64 now)
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

/*
 * Sample of the exponential distribution with mean 1, in units of 2^-16: -ln of a uniform random
 * number in (0, 1].
 */
static __always_inline u64 draw(void)
{
	return (32 * LOG2_ONE - log2_of(bpf_get_prandom_u32() + 1ULL)) * LN_2 >> LOG2_BITS;
}

/*
 * Sampled time until a task wins that used `price_ns` of its last quantum. Keys are in units of
 * 2^-10 ns per ticket.
 */
static __noinline u64 time_to_win(u64 price_ns, u32 tickets)
{
	if (!compensation || price_ns > quantum_ns())
		price_ns = quantum_ns();
	return (draw() * price_ns >> 6) / (tickets ? tickets : 1);
}

/* 8: tickets lent to the task, plus its own if they are of this job. */
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

/*
 * 6: a task that was skipped samples again. No sample is earlier than the clock, so no task is seen
 * with an earlier key than its own.
 */
static u64 redrawn(struct task_struct *p, u64 key)
{
	struct task *t = task_of(p);

	if (t && key < READ_ONCE(currency_of(t)->clock))
		key = t->key = key_for(p, t, t->price_ns);
	return key;
}

/* ---- 7: currencies ---- */

/* Jobs with a waiting task, as a bit mask. */
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

/* Adds the ancestors of the jobs in a bit mask. */
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

/* 6, 7: key of a currency in its lottery. A currency that has won or was skipped samples again. */
static __always_inline u64 key_of_currency(u64 *key, u64 clock, u32 weight)
{
	if (READ_ONCE(*key) <= clock)
		WRITE_ONCE(*key, clock + time_to_win(quantum_ns(), weight));
	return READ_ONCE(*key);
}

/*
 * 7: winner of the second lottery of currency `at`: a child, or `at` itself, which means its own
 * tasks.
 */
static __noinline u32 draw_in(u32 at, u64 some, u64 all)
{
	struct currency *c = &currencies[at % JOBS];
	u64 clock = READ_ONCE(c->inner_clock), best = ~0ULL;
	u32 winner = at;
	int number;

	if (some >> at & 1)
		best = key_of_currency(&c->own_key, clock, DEFAULT_WEIGHT);
	for_range(number, 1, last_job + 1) {
		u64 key;

		if (!(all >> number & 1) || job_at(number)->parent != at)
			continue;
		key = key_of_currency(&currencies[(u32)number % JOBS].key, clock, job_at(number)->weight);
		if (key < best) {
			best = key;
			winner = number;
		}
	}
	if (best != ~0ULL)
		set_clock(&c->inner_clock, best);
	return winner;
}

/* 7: the job that wins among the jobs `some`, each of which has a task that wants the CPU. */
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

/*
 * Takes a task of the jobs with waiting tasks. If the winner's tasks may not run on this CPU, the
 * lottery is repeated without it.
 */
static __noinline bool take_by_lottery(s32 cpu, struct task *own, u64 own_key)
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

/* 8: the server of this account samples again if it waits. */
VERIFIED_ONCE u32 redraw(u32 number)
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
			redraw(number);
	}
}

/* ---- Lifecycle of a task, in order ---- */

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
	kick_idle_cpu(p, enq_flags);
}

/* 4: the running task samples, too, and continues if no waiting task is earlier. */
OP2(void, lottery_dispatch, s32, cpu, struct task_struct *, prev)
{
	struct task *t = prev && (prev->scx.flags & SCX_TASK_QUEUED) ? task_of(prev) : NULL;
	u64 now = now_ns(), own = NO_LIMIT;

	settle_accounts();
	if (t) {
		t->job = job_for(&t->loan, t->home);
		own = key_for(prev, t, t->overdue ? t->price_ns : t->used_ns + (now - t->since));
	}
	if (take_overdue(cpu) || take_by_lottery(cpu, t, own) || !t)
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

/* The task leaves this scheduler, possibly while it sleeps. */
OP1(void, lottery_disable, struct task_struct *, p)
{
	struct task *t = task_of(p);

	if (t)
		take_back(&t->loan);
}

/* ---- Lifecycle of a cgroup ---- */

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
