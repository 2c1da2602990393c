/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ticket transfers: a client that waits for a server lends it its tickets (section 3.1 of the
 * paper).
 *
 * 1. A kernel does not see which task waits for which. The workload declares, by task name, the
 *    server for which each client waits when it sleeps.
 * 2. When a client falls asleep it lends all its tickets, including those lent to it, until it
 *    wakes.
 * 3. A server has an account of the tickets lent to it. Tickets count in the currency that issued
 *    them: a server takes part in the lottery of the client that lent last, and its own tickets
 *    count there only if the currency is also its own.
 * 4. Tickets lent to a server that already waits count at once: the next CPU that holds a lottery
 *    makes the server sample again. This is fair, because the distribution is memoryless.
 *
 * Where this departs from the paper: if tickets of two currencies are lent to a server, all count
 * in the currency of the last ones; and a client that sleeps for another reason than its server
 * lends, too.
 */
#ifndef LOTTERY_LEND_BPF_H
#define LOTTERY_LEND_BPF_H

#define MAX_PARTIES 1024
#define ACCOUNTS 64
#define NO_ACCOUNT 0

/* Number of tasks that lend or borrow; set by the profile. */
RODATA u32 nr_parties = 0;

/* 1: clients and servers by task name. User space fills the map. */
struct name {
	char text[16];
};

struct party {
	u32 lends_to;	/* account of its server */
	u32 lent_as;	/* account of its own, if it is a server */
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, MAX_PARTIES);
	MAP_TYPE(key, struct name);
	MAP_TYPE(value, struct party);
} parties SEC(".maps");

/* 3: account of a server. */
struct account {
	u32 tickets;
	u32 job;	/* currency of the tickets */
	s32 pid;	/* of the server */
};

struct account accounts[ACCOUNTS];

/* 4: accounts that have changed, as a bit mask. */
u64 changed_accounts;

/* Tickets that a task lends, and its account as a server. */
struct loan {
	u32 tickets;	/* lent by it */
	u32 to;		/* account to which it lends */
	u32 account;	/* its own account */
};

static __always_inline struct account *account_at(u32 number)
{
	return &accounts[number % ACCOUNTS];
}

/* Accounts beyond the table are ignored. */
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

/* 3: job in whose lottery a task of job `home` takes part. */
static __always_inline u32 job_for(const struct loan *loan, u32 home)
{
	return lent_to(loan) ? READ_ONCE(account_at(loan->account)->job) : home;
}

/* 2: the client wakes. */
static __noinline void take_back(struct loan *loan)
{
	if (loan->to == NO_ACCOUNT)
		return;
	__sync_fetch_and_add(&account_at(loan->to)->tickets, -loan->tickets);
	__sync_fetch_and_or(&changed_accounts, 1ULL << loan->to % ACCOUNTS);
	loan->to = NO_ACCOUNT;
}

/* 2: the client falls asleep. */
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

/* Finds the account of the task if it is a server. Its name may have changed. */
static __noinline void find_account(struct task_struct *p, struct loan *loan)
{
	struct party *party = party_of(p);

	loan->account = party ? known_account(party->lent_as) : NO_ACCOUNT;
	if (loan->account != NO_ACCOUNT)
		WRITE_ONCE(account_at(loan->account)->pid, p->pid);
}

#endif
