/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Substitute for the kernel so that tests can compile the headers of this directory in user space.
 * The kernel's state is a few variables, which a test sets and reads.
 */
#ifndef WEIR_HOST_H
#define WEIR_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#undef __always_inline	/* the C library defines one, too */
#define __always_inline inline __attribute__((always_inline, unused))
#define __noinline __attribute__((noinline, unused))

#define VERIFIED_ONCE static __attribute__((noinline, unused))
#define TRUSTED

#define RODATA static	/* tests set these variables */

#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))

#define for_range(i, start, end) for (i = (start); i < (s32)(end); i++)

#define PF_KTHREAD 0x00200000
#define SCHED_IDLE 5
#define SCX_DSQ_GLOBAL 1
#define SCX_KICK_IDLE 1
#define SCX_KICK_PREEMPT 2

struct cpumask {
	u64 bits[64];
};

struct task_struct {
	s32 pid;
	u32 flags;
	s32 static_prio;
	u32 policy;
	u32 nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
};

/* State of the kernel. */
static struct cpumask host_idle, host_whole;	/* idle CPUs; CPUs of fully idle cores */
static s32 host_masks;				/* idle masks that were not put back */
static s32 host_lost_claims;			/* number of claims that fail from now on */
static s32 host_cpu;				/* current CPU */
static u64 host_kicked[8];			/* CPU << 8 | flags */
static u32 host_kicks;
static bool host_per_cpu_flag;			/* kthreads have KTHREAD_IS_PER_CPU */
static u64 host_ns, host_jiffies;		/* clock of the current CPU; jiffies */

static inline bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return mask->bits[cpu / 64] >> cpu % 64 & 1;
}

static inline bool has_per_cpu_flag(const struct task_struct *p)
{
	(void)p;
	return host_per_cpu_flag;
}

static inline bool bpf_cpumask_intersects(const struct cpumask *a, const struct cpumask *b)
{
	for (u32 word = 0; word < 64; word++)
		if (a->bits[word] & b->bits[word])
			return true;
	return false;
}

static inline const struct cpumask *scx_bpf_get_idle_cpumask(void)
{
	host_masks++;
	return &host_idle;
}

static inline const struct cpumask *scx_bpf_get_idle_smtmask(void)
{
	host_masks++;
	return &host_whole;
}

static inline void scx_bpf_put_idle_cpumask(const struct cpumask *mask)
{
	(void)mask;
	host_masks--;
}

static inline bool scx_bpf_test_and_clear_cpu_idle(s32 cpu)
{
	bool mine = bpf_cpumask_test_cpu(cpu, &host_idle) && host_lost_claims == 0;

	host_lost_claims -= host_lost_claims > 0;
	host_idle.bits[cpu / 64] &= ~(1ULL << cpu % 64);
	host_whole.bits[cpu / 64] &= ~(1ULL << cpu % 64);
	return mine;
}

static inline void bpf_rcu_read_lock(void) {}
static inline void bpf_rcu_read_unlock(void) {}

static inline u32 bpf_get_smp_processor_id(void)
{
	return host_cpu;
}

static inline u64 bpf_ktime_get_ns(void)
{
	return host_ns;
}

static inline u64 bpf_jiffies64(void)
{
	return host_jiffies;
}

static inline void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	if (host_kicks < sizeof(host_kicked) / sizeof(host_kicked[0]))
		host_kicked[host_kicks] = (u64)cpu << 8 | flags;
	host_kicks++;
}

#endif
