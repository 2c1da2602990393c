/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lend: a client that waits for a server lends it its tickets (section 3.1 of the paper).
 *
 * 1. A kernel does not see who waits for whom. The workload says by names whom each client waits for whenever it sleeps.
 * 2. A client lends the tickets that it has when it falls asleep, with those that it has been lent, until it wakes.
 * 3. A server has an account of what it is lent. Tickets count in the currency of which they are: a server takes part in the
 *    lottery of the client that lent last, and its own tickets count there only if the currency is its own, too.
 * 4. What is lent to a server that waits already counts at once: the next CPU that draws lets it draw anew. That is fair, as
 *    draws have no memory.
 *
 * Where this departs from the paper: one that is lent tickets of two currencies has them all in the last one; and a client
 * that sleeps for another reason than its server lends as well.
 */
#ifndef LOTTERY_LEND_BPF_H
#define LOTTERY_LEND_BPF_H

#define MAX_PARTIES 1024
#define ACCOUNTS 64
#define NO_ACCOUNT 0

/* So many tasks lend or are lent to: set by the profile. */
RODATA u32 nr_parties = 0;

/* 1: what user space knows of tasks, by their names. */
struct name {
	char text[16];
};

struct party {
	u32 lends_to;	/* the account of its server */
	u32 lent_as;	/* its own account */
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, MAX_PARTIES);
	MAP_TYPE(key, struct name);
	MAP_TYPE(value, struct party);
} parties SEC(".maps");

/* 3 */
struct account {
	u32 tickets;
	u32 job;	/* whose they are */
	s32 pid;	/* of the server */
};

struct account accounts[ACCOUNTS];

/* 4: accounts that have changed, as bits. */
u64 changed_accounts;

/* What a task lends, and is lent. */
struct loan {
	u32 tickets;	/* that it has lent */
	u32 to;		/* and to which account */
	u32 account;	/* its own */
};

static __always_inline struct account *account_at(u32 number)
{
	return &accounts[number % ACCOUNTS];
}

/* An account beyond the table is none. */
static __always_inline u32 known_account(u32 number)
{
	return number < ACCOUNTS ? number : NO_ACCOUNT;
}

static __noinline struct party *party_of(struct task_struct *p)
{
	struct name name = {};

	bpf_probe_read_kernel_str(name.text, sizeof(name.text), p->comm);
	return bpf_map_lookup_elem(&parties, &name);
}

static __always_inline u32 lent_to(const struct loan *loan)
{
	return loan->account == NO_ACCOUNT ? 0 : READ_ONCE(account_at(loan->account)->tickets);
}

/* 3: the job in whose lottery a task of job `home` takes part. */
static __always_inline u32 job_for(const struct loan *loan, u32 home)
{
	return lent_to(loan) ? READ_ONCE(account_at(loan->account)->job) : home;
}

/* 2: it wakes. */
static __noinline void take_back(struct loan *loan)
{
	if (loan->to == NO_ACCOUNT)
		return;
	__sync_fetch_and_add(&account_at(loan->to)->tickets, -loan->tickets);
	__sync_fetch_and_or(&changed_accounts, 1ULL << loan->to % ACCOUNTS);
	loan->to = NO_ACCOUNT;
}

/* 2: it falls asleep with so many tickets of this job. */
static __noinline void lend(struct task_struct *p, struct loan *loan, u32 tickets, u32 job)
{
	struct party *party = party_of(p);
	u32 to = party ? known_account(party->lends_to) : NO_ACCOUNT;

	if (to == NO_ACCOUNT)
		return;
	loan->tickets = tickets;
	loan->to = to;
	WRITE_ONCE(account_at(to)->job, job);
	__sync_fetch_and_add(&account_at(to)->tickets, tickets);
	__sync_fetch_and_or(&changed_accounts, 1ULL << to % ACCOUNTS);
}

/* Its account, if it is a server. It may have got its name by now, or another one. */
static __noinline void find_account(struct task_struct *p, struct loan *loan)
{
	struct party *party = party_of(p);

	loan->account = party ? known_account(party->lent_as) : NO_ACCOUNT;
	if (loan->account != NO_ACCOUNT)
		WRITE_ONCE(account_at(loan->account)->pid, p->pid);
}

#endif
