/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * members: reads members of task_struct and rq in each operation and keeps what it read last. It declares only the
 * members that it reads, in another order than the kernel: objects find them by name.
 */
#define SEC(name) __attribute__((section(name), used))
#define KERNEL_TYPE __attribute__((preserve_access_index))
#define KSYM __attribute__((section(".ksyms")))

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

struct sched_class;
struct scx_dispatch_q {
	u64 id;
	u32 nr;
} KERNEL_TYPE;

struct load_weight {
	unsigned long weight;
} KERNEL_TYPE;

struct sched_avg {
	unsigned long util_avg;
} KERNEL_TYPE;

struct sched_entity {
	struct sched_avg avg;
	u64 exec_start;
	u64 nr_migrations;
	u64 vruntime;
	struct load_weight load;
} KERNEL_TYPE;

struct sched_ext_entity {
	struct scx_dispatch_q *dsq;
	unsigned long runnable_at;
	s32 sticky_cpu;
	u64 slice;
} KERNEL_TYPE;

struct task_struct {
	char comm[16];
	/* Only the word of a bit-field is found by name: the bits must be those of the kernel. */
	u32 sched_remote_wakeup : 1;
	u32 sched_rt_mutex : 1;
	u32 in_execve : 1;
	u32 in_iowait : 1;
	u8 on_cpu;
	u8 on_rq;
	u32 __state;
	s32 wake_cpu;
	u64 utime;
	u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	u64 start_time;
	const struct sched_class *sched_class;
	u32 psi_flags;
	struct sched_entity se;
	struct sched_ext_entity scx;
#ifdef WITH_ABSENT
	u64 core_cookie;
#endif
} KERNEL_TYPE;

struct task_struct___old {
	u64 core_cookie;
	s32 on_cpu;
} KERNEL_TYPE;

struct cfs_rq {
	u32 h_nr_queued;
} KERNEL_TYPE;

struct scx_rq {
	u32 nr_running;
	struct scx_dispatch_q local_dsq;
} KERNEL_TYPE;

struct rq {
	u32 nr_running;
	u64 nr_switches;
	u64 clock;
	s32 cpu;
	struct cfs_rq cfs;
	struct scx_rq scx;
	u64 avg_idle;
} KERNEL_TYPE;

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, _Bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	void (*tick)(struct task_struct *p);
	char name[128];
};

extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) KSYM;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) KSYM;
extern struct rq *scx_bpf_cpu_rq(s32 cpu) KSYM;
extern const struct sched_class ext_sched_class KSYM;

char members_license[] SEC("license") = "GPL";

static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;

#define DSQ_GLOBAL 0x8000000000000001ULL

enum { SELECT, ENQUEUE, RUNNABLE, RUNNING, STOPPING, QUIESCENT, TICK, OPS };
enum {
	STATE, ON_CPU, ON_RQ, IN_IOWAIT, NVCSW, NIVCSW, UTIME, STIME, WAKE_CPU, MIGRATIONS, EXEC_START, START_TIME,
	CLASS_IS_EXT, DSQ_ID, RUNNABLE_AT, STICKY_CPU, WEIGHT, UTIL_AVG, PSI_FLAGS, NVCSW_BY_HELPER, RQ_RUNNING,
	RQ_SWITCHES, RQ_CLOCK, RQ_CPU, RQ_FAIR, RQ_EXT, RQ_LOCAL, RQ_AVG_IDLE, MEMBERS,
};

u64 values[OPS * MEMBERS];
/* What the kernel says of existence: bit 0 in_iowait, 1 core_cookie, 2 se.avg.util_avg, 3 on_cpu. */
u32 exists;

static __attribute__((noinline)) u64 voluntary(struct task_struct *p)
{
	unsigned long value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), &p->nvcsw);
	return value;
}

static inline __attribute__((always_inline)) void look(u32 op, struct task_struct *p)
{
	struct rq *rq = scx_bpf_cpu_rq(scx_bpf_task_cpu(p));
	u64 *at = &values[op * MEMBERS];

	/* Only the task whose name begins with w. */
	if (p->comm[0] != 'w' || !rq)
		return;
	at[STATE] = p->__state;
	at[ON_CPU] = p->on_cpu;
	at[ON_RQ] = p->on_rq;
	at[IN_IOWAIT] = p->in_iowait + 2 * p->in_execve;
	at[NVCSW] = p->nvcsw;
	at[NIVCSW] = p->nivcsw;
	at[UTIME] = p->utime;
	at[STIME] = p->stime;
	at[WAKE_CPU] = p->wake_cpu;
	at[MIGRATIONS] = p->se.nr_migrations;
	at[EXEC_START] = p->se.exec_start;
	at[START_TIME] = p->start_time;
	at[CLASS_IS_EXT] = p->sched_class == &ext_sched_class;
	at[DSQ_ID] = p->scx.dsq ? p->scx.dsq->id : 0;
	at[RUNNABLE_AT] = p->scx.runnable_at;
	at[STICKY_CPU] = p->scx.sticky_cpu;
	at[WEIGHT] = p->se.load.weight;
	at[UTIL_AVG] = p->se.avg.util_avg;
	at[PSI_FLAGS] = p->psi_flags;
	at[NVCSW_BY_HELPER] = voluntary(p);
	at[RQ_RUNNING] = rq->nr_running;
	at[RQ_SWITCHES] = rq->nr_switches;
	at[RQ_CLOCK] = rq->clock;
	at[RQ_CPU] = rq->cpu;
	at[RQ_FAIR] = rq->cfs.h_nr_queued;
	at[RQ_EXT] = rq->scx.nr_running;
	at[RQ_LOCAL] = rq->scx.local_dsq.nr;
	at[RQ_AVG_IDLE] = rq->avg_idle;
}

SEC("struct_ops/members_select")
s32 members_select(u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	struct task_struct___old *old = (void *)p;

	exists = __builtin_preserve_field_info(p->scx.slice, 2) |
		 __builtin_preserve_field_info(old->core_cookie, 2) << 1 |
		 __builtin_preserve_field_info(p->se.avg.util_avg, 2) << 2 |
		 __builtin_preserve_field_info(old->on_cpu, 2) << 3;
	look(SELECT, p);
	return ctx[1];
}

#define OBSERVE(name, op)				\
	SEC("struct_ops/members_" #name)		\
	int members_##name(u64 *ctx)			\
	{						\
		look(op, (struct task_struct *)ctx[0]);	\
		return 0;				\
	}

OBSERVE(runnable, RUNNABLE)
OBSERVE(running, RUNNING)
OBSERVE(stopping, STOPPING)
OBSERVE(quiescent, QUIESCENT)
OBSERVE(tick, TICK)

SEC("struct_ops/members_enqueue")
int members_enqueue(u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];

	look(ENQUEUE, p);
#ifdef WITH_ABSENT
	values[0] = p->core_cookie;
#endif
	scx_bpf_dsq_insert(p, DSQ_GLOBAL, 20000000, ctx[1]);
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops members_ops = {
	.select_cpu = (void *)members_select,
	.enqueue = (void *)members_enqueue,
	.runnable = (void *)members_runnable,
	.running = (void *)members_running,
	.stopping = (void *)members_stopping,
	.quiescent = (void *)members_quiescent,
	.tick = (void *)members_tick,
	.name = "members",
};
