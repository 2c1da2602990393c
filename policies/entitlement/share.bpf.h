/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The loops of the Share scheduler, after J. Kay and P. Lauder, "A fair share scheduler" (CACM 31,
 * 1988).
 *
 * A user is a cgroup, and its shares are the cgroup's weight.
 *
 * 1. Users, every 4 seconds. A user's usage is the sum of its charges, each of which counts half
 *    after 2 minutes. A charge is CPU time divided by the square of the user's part of the machine.
 *    This makes CPU time proportional to shares: a user with CPU rate r and shares s has a usage of
 *    r/s^2, so the priority of its processes worsens at the rate r * r/s^2, and these rates are
 *    equal for all users if the rates r are proportional to the shares s.
 *
 * 2. Processes, every second. The priority of a process, where larger is worse, decays: at nice 0
 *    it halves in 2 seconds; with higher nice values it decays more slowly, in up to a minute.
 *
 * 3. Ticks. The priority of a running process grows by its user's usage times the number of the
 *    user's runnable processes, so more processes do not help. That number is smoothed with a
 *    half-life of 4 seconds.
 *
 * 4. Hierarchy. A user's part of the machine is its part of its group, times that of the group, and
 *    so on. Users count if they have runnable processes or were charged lately. The tasks of a
 *    cgroup with children count as one more child, with a weight of 100.
 */
#ifndef SHARE_BPF_H
#define SHARE_BPF_H

#define SECOND_NS 1000000000ULL
#define SECONDS_OF_USAGE 4

/* A CPU tick of 10 ms is charged as 1000. MOST_USAGE is the largest usage. */
#define NS_OF_CHARGE 10000
#define MOST_USAGE 1000000000000ULL
#define LEAST_USAGE 2

/*
 * 10 ms times ln 2. Per half-life of this length, the limit of a priority is the growth of one
 * tick.
 */
#define TICK_LN_2_NS 6931472ULL

/*
 * 2: the factor 0.9885 (nice + 47) / 66 that remains after a second, as logarithms: 0.7040 at nice
 * 0, 0.9885 at 19, 0.4044 at -20.
 */
#define LOG_AT_19 1092
#define NICE_RANGE 66

/* Parts of the machine are in units of 2^-24, numbers of processes in units of 2^-8. */
#define PART_BITS 24
#define ACTIVE_BITS 8
#define ACTIVE_ONE (1ULL << ACTIVE_BITS)
#define MOST_ACTIVE (255 * ACTIVE_ONE)

struct user {
	u64 usage;
	u64 charged_ns;		/* since the last update of the usage */
	u64 part;		/* 4 */
	u64 active;		/* 3: smoothed */
	s64 runnable;
	u64 weights;		/* sum over its children that count */
};

struct user users[JOBS];

u32 seconds;

static __always_inline struct user *user_at(u32 job)
{
	return &users[job % JOBS];
}

/* ---- 2 ---- */

static __always_inline u64 log_left_at(s32 nice)
{
	return LOG_AT_19 + log2_of(NICE_RANGE) - log2_of(nice + NICE_RANGE - 19);
}

/* 2: half-life at a nice value, given that at nice 0. */
static __always_inline u64 half_life_at(s32 nice, u64 at_0_ns)
{
	return at_0_ns * log_left_at(0) / log_left_at(nice);
}

/* ---- 3 ---- */

/* 3: limit of the priority of a process that runs forever. */
static __noinline u64 rest_of_priority(u32 job, u64 half_life_ns)
{
	u64 usage = READ_ONCE(user_at(job)->usage), active = READ_ONCE(user_at(job)->active);

	usage = usage > LEAST_USAGE ? usage : LEAST_USAGE;
	active = active > ACTIVE_ONE ? active : ACTIVE_ONE;
	return (usage * (half_life_ns / TICK_LN_2_NS) >> ACTIVE_BITS) * (active < MOST_ACTIVE ? active : MOST_ACTIVE);
}

static __always_inline void charge(u32 job, u64 ns)
{
	__sync_fetch_and_add(&user_at(job)->charged_ns, ns);
}

static __always_inline void count_runnable(u32 job, s64 tasks)
{
	__sync_fetch_and_add(&user_at(job)->runnable, tasks);
}

static __always_inline void smooth(struct user *user)
{
	s64 runnable = READ_ONCE(user->runnable);
	u64 still = half_to(LOG2_ONE / 4), target = runnable > 0 ? runnable * ACTIVE_ONE : 0;

	user->active = (user->active * still + target * ((1ULL << 32) - still)) >> 32;
}

/* ---- 4 ---- */

static __always_inline bool counts(struct user *user)
{
	return user->active >= ACTIVE_ONE / 8 || READ_ONCE(user->charged_ns);
}

/* 4: users that count, and their ancestors, as a bit mask. */
static __noinline u64 counted_users(void)
{
	u64 those = 1;
	int job;

	for_range(job, 0, last_job + 1) {
		if (counts(user_at(job)))
			those |= job_at(job)->path;
	}
	return those;
}

static __noinline void add_weights(u64 those)
{
	int job;

	for_range(job, 0, last_job + 1)
		user_at(job)->weights = 0;
	for_range(job, 1, last_job + 1) {
		if (those >> job & 1)
			user_at(job_at(job)->parent)->weights += job_at(job)->weight;
	}
	for_range(job, 0, last_job + 1) {
		if (user_at(job)->weights && counts(user_at(job)))
			user_at(job)->weights += DEFAULT_WEIGHT;
	}
}

static __noinline u64 part_of(u32 job)
{
	u64 inner = user_at(job)->weights, part = 1ULL << PART_BITS;
	int level;

	if (inner)
		part = part * DEFAULT_WEIGHT / inner;
	for_range(level, 0, JOB_DEPTH) {
		u64 weights;

		if (job == ROOT_JOB)
			break;
		weights = user_at(job_at(job)->parent)->weights;
		part = part * job_at(job)->weight / (weights ? weights : job_at(job)->weight);
		job = job_at(job)->parent;
	}
	return part ? part : 1;
}

/* ---- 1 ---- */

static __noinline void update_usage(struct user *user, u64 left)
{
	u64 charged = __sync_lock_test_and_set(&user->charged_ns, 0) / NS_OF_CHARGE;
	u64 once = (charged << PART_BITS) / (user->part ? user->part : 1);
	u64 usage = MOST_USAGE;

	if (once < MOST_USAGE)
		usage = (user->usage * left >> LOG2_BITS) + (once << PART_BITS) / (user->part ? user->part : 1);
	WRITE_ONCE(user->usage, usage < MOST_USAGE ? usage : MOST_USAGE);
}

/* `left` is the part of a usage that remains after 4 seconds, in units of 2^-16. */
static __noinline void each_second(u64 left)
{
	bool updates_usage = ++seconds % SECONDS_OF_USAGE == 0;
	int job;

	for_range(job, 0, last_job + 1)
		smooth(user_at(job));
	add_weights(counted_users());
	for_range(job, 0, last_job + 1) {
		user_at(job)->part = part_of(job);
		if (updates_usage)
			update_usage(user_at(job), left);
	}
}

#endif
