/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests of the arithmetic of Share's control loops (policies/entitlement/share.bpf.h), without a
 * kernel and its cgroups.
 */
#include <weir/host.h>

#define WEIR_GROUP_BPF_H
#define WEIR_JOBS_BPF_H
#define JOBS 64
#define JOB_DEPTH 4
#define ROOT_JOB 0
#define DEFAULT_WEIGHT 100

static struct job {
	u64 path;
	u32 parent, weight;
} jobs[JOBS];

static u32 last_job;

static struct job *job_at(u32 number)
{
	return &jobs[number % JOBS];
}

#include <weir/log2.bpf.h>
#include <../entitlement/share.bpf.h>
#include "machine.h"

#define N(number) ((unsigned long long)(number))

static u32 make(u32 parent, u32 weight)
{
	u32 number = ++last_job;

	jobs[number] = (struct job){ jobs[parent].path | 1ULL << number, parent, weight };
	return number;
}

/*
 * Loop 3 of share.bpf.h: the smoothed process count covers half of a change in 4 seconds, upwards
 * and downwards.
 */
static void counts_are_smoothed(void)
{
	struct user user = { .runnable = 3 };
	int second;

	for_range(second, 0, 4)
		smooth(&user);
	CHECK(user.active >= 380 && user.active <= 384, "%llu", N(user.active));
	for_range(second, 0, 60)
		smooth(&user);
	CHECK(user.active >= 756 && user.active <= 768, "%llu", N(user.active));
	user = (struct user){ .runnable = -1, .active = 1000 };
	for_range(second, 0, 8)
		smooth(&user);
	CHECK(user.active >= 242 && user.active <= 250, "%llu", N(user.active));
}

/* Loop 4 of share.bpf.h: a user is active with an eighth of a process or more, or with a charge. */
static void active_users_count(void)
{
	CHECK(counts(&(struct user){ .active = 32 }) && !counts(&(struct user){ .active = 31 }), "an eighth of a process");
	CHECK(counts(&(struct user){ .charged_ns = 1 }), "was charged");
}

/*
 * Loop 3 of share.bpf.h: the equilibrium priority is usage times processes times half-life, with a
 * usage of at least 2 and 1 to 255 processes.
 */
static void priorities_reach_an_equilibrium(void)
{
	static const struct {
		u64 usage, active, times;
	} all[] = { { 5, 512, 10 }, { 5, 0, 5 }, { 0, 256, 2 }, { 2, 256, 2 }, { 3, 256, 3 }, { 2, 1 << 20, 510 } };

	for (u32 i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		u64 found;

		users[9] = (struct user){ .usage = all[i].usage, .active = all[i].active };
		/* A half-life of 2^8 units makes the division exact. */
		found = rest_of_priority(9, TICK_LN_2_NS << ACTIVE_BITS);
		CHECK(found == all[i].times << ACTIVE_BITS, "%u: %llu", i, N(found));
	}
}

/*
 * Loops 1, 4 of share.bpf.h: parts follow the weights of active users, and a charge is divided by
 * the square of the part.
 */
static void usage_is_updated_every_four_seconds(void)
{
	u32 a, b, inner;
	int second;

	jobs[ROOT_JOB] = (struct job){ 1, 0, DEFAULT_WEIGHT };
	a = make(ROOT_JOB, 300);
	b = make(ROOT_JOB, 100);
	inner = make(b, 50);
	users[a].runnable = users[inner].runnable = users[b].runnable = 1;
	users[a].charged_ns = 6000000000;
	users[inner].charged_ns = 2000000000;
	for_range(second, 1, 8) {
		each_second(LOG2_ONE / 2);
		/* The own processes of b count as one more child of 100 beside its child cgroup. */
		CHECK(users[a].part == 3 << 22 && users[b].part == (1 << 22) * 100 / 150, "%llu", N(users[b].part));
		CHECK(users[inner].part == ((1 << 24) * 50ULL / 150) / 4, "%llu", N(users[inner].part));
		if (second < 4)
			CHECK(users[a].usage == 0, "%llu after %u s", N(users[a].usage), second);
		else
			CHECK(users[a].usage == 600000 * 16 / 9, "%llu after %u s", N(users[a].usage), second);
	}
	CHECK(users[inner].usage > 200000 * 144 && users[inner].usage < 200001 * 144, "%llu", N(users[inner].usage));
	each_second(LOG2_ONE / 2);
	CHECK(users[a].usage == 300000 * 16 / 9, "%llu: half is left", N(users[a].usage));
	users[a].charged_ns = ~0ULL;
	users[a].part = 1;
	update_usage(&users[a], LOG2_ONE);
	CHECK(users[a].usage == MOST_USAGE, "%llu", N(users[a].usage));
}

/*
 * Loop 2 of share.bpf.h: after a second 0.9885 (nice + 47) / 66 is left, so half-lives are 30.35
 * times and 0.38777 times that of nice 0.
 */
static void half_lives_follow_nice_values(void)
{
	u64 slow = half_life_at(19, 1000000), quick = half_life_at(-20, 1000000);

	CHECK(half_life_at(0, 1000000) == 1000000, "%llu", N(half_life_at(0, 1000000)));
	CHECK(slow > 30300000 && slow < 30450000, "%llu", N(slow));
	CHECK(quick > 387700 && quick < 387850, "%llu", N(quick));
}

int main(void)
{
	counts_are_smoothed();
	active_users_count();
	priorities_reach_an_equilibrium();
	usage_is_updated_every_four_seconds();
	half_lives_follow_nice_values();
	return 0;
}
