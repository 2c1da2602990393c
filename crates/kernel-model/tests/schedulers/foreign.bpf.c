/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * foreign: an object that uses no header of Weir, like those written by others. It reads the
 * kernel's per-CPU variables, keeps a timer, and has cgroup ops.
 */
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define KERNEL_TYPE __attribute__((preserve_access_index))
#define KSYM __attribute__((section(".ksyms")))
#define WEAK __attribute__((weak))

struct task_struct;
struct cgroup;

struct kernel_cpustat {
	u64 cpustat[11];
} KERNEL_TYPE;

struct scx_cgroup_init_args {
	u32 weight;
	u64 bw_period_us;
	u64 bw_quota_us;
	u64 bw_burst_us;
} KERNEL_TYPE;

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	s32 (*init)(void);
	char name[128];
};

/* Loaders only check that a map value has a timer. */
struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct element {
	struct bpf_timer timer;
};

struct {
	int (*type)[2];
	int (*max_entries)[1];
	u32 *key;
	struct element *value;
} timers SEC(".maps");

extern int sd_llc_id KSYM WEAK;
extern int sd_llc_size KSYM WEAK;
extern int sched_core_priority KSYM WEAK;
extern struct kernel_cpustat kernel_cpustat KSYM WEAK;
extern int no_such_variable KSYM WEAK;
extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) KSYM;

#ifdef LACKING
extern void *bpf_rbtree_first(void *root) KSYM;
extern void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) KSYM;

struct {
	int (*type)[33];
	int (*map_flags)[1024];
	int (*max_entries)[16];
} everything SEC(".maps");
#endif

#ifdef REFUSED
static long (*const probe_read)(void *to, u32 size, const void *from) = (void *)4;
static long (*const probe_read_str)(void *to, u32 size, const void *from) = (void *)45;
#endif

static void *(*const lookup)(void *map, const void *key) = (void *)1;
static void *(*const per_cpu)(const void *variable, u32 cpu) = (void *)153;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static long (*const timer_init)(struct bpf_timer *timer, void *map, u64 flags) = (void *)169;
static long (*const timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const timer_start)(struct bpf_timer *timer, u64 nsecs, u64 flags) = (void *)171;
static long (*const timer_cancel)(struct bpf_timer *timer) = (void *)172;

/* Results for the test; arrays are indexed by CPU and set at each wakeup. */
s32 llc_id[8], llc_size[8], priority[8];
u64 user_ns[8], nice_ns[8], idle_ns[8];
u32 absent_is_null;
s32 cancelled_by_init, cancelled_by_select, cancelled_by_itself;
u64 fires, attached_at;
u64 cgroups, weight, quota_us, period_us, burst_us;

static int fired(void *map, u32 *key, struct element *element)
{
	fires++;
	cancelled_by_itself = timer_cancel(&element->timer);
#ifdef FIRING
	timer_start(&element->timer, 1000000, 0);
#endif
#ifdef RETURNING
	return RETURNING;
#endif
	return 0;
}

static struct bpf_timer *the_timer(void)
{
	u32 zero = 0;
	struct element *element = lookup(&timers, &zero);

	return element ? &element->timer : 0;
}

SEC("struct_ops/foreign_select_cpu")
s32 foreign_select_cpu(u64 *ctx)
{
	struct bpf_timer *timer = the_timer();

	for (u32 cpu = 0; cpu < 8; cpu++) {
		int *id = per_cpu(&sd_llc_id, cpu);
		int *size = per_cpu(&sd_llc_size, cpu);
		int *favour = per_cpu(&sched_core_priority, cpu);
		struct kernel_cpustat *stat = per_cpu(&kernel_cpustat, cpu);

		llc_id[cpu] = id ? *id : -2;
		llc_size[cpu] = size ? *size : -2;
		priority[cpu] = favour ? *favour : -2;
		if (stat) {
			user_ns[cpu] = stat->cpustat[0];
			nice_ns[cpu] = stat->cpustat[1];
			idle_ns[cpu] = stat->cpustat[5];
		}
	}
	absent_is_null = &no_such_variable == 0;
	if (timer)
		cancelled_by_select = timer_cancel(timer);
	return ctx[1];
}

SEC("struct_ops/foreign_enqueue")
void foreign_enqueue(u64 *ctx)
{
	scx_bpf_dsq_insert((struct task_struct *)ctx[0], 0x8000000000000002ULL, 20000000, ctx[1]);
}

SEC("struct_ops.s/foreign_cgroup_init")
s32 foreign_cgroup_init(u64 *ctx)
{
	struct scx_cgroup_init_args *args = (void *)ctx[1];

	cgroups++;
	weight = args->weight;
	period_us = args->bw_period_us;
	quota_us = args->bw_quota_us;
	burst_us = args->bw_burst_us;
#ifdef REFUSE
	return -12;
#endif
	return 0;
}

SEC("struct_ops.s/foreign_cgroup_exit")
void foreign_cgroup_exit(u64 *ctx)
{
	cgroups += 100;
}

SEC("struct_ops.s/foreign_init")
s32 foreign_init(u64 *ctx)
{
	struct bpf_timer *timer = the_timer();

#ifdef REFUSED
	probe_read(&weight, sizeof(weight), &quota_us);
	probe_read_str(&weight, sizeof(weight), &quota_us);
#endif
#ifdef LACKING
	scx_bpf_dispatch(bpf_rbtree_first(&everything), 0, 0, 0);
#endif
	if (!timer)
		return -22;
	timer_init(timer, &timers, 1);
	timer_set_callback(timer, fired);
	timer_start(timer, 1000000000, 0);
	cancelled_by_init = timer_cancel(timer);
	timer_set_callback(timer, fired);
#ifdef FIRING
	timer_start(timer, 1000000, 0);
#endif
	attached_at = ktime_get_ns();
#ifdef ALARM
	/* Absolute expiry on the same clock. */
	timer_start(timer, attached_at + 1000000, 1);
#endif
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops foreign_ops = {
	.select_cpu = (void *)foreign_select_cpu,
	.enqueue = (void *)foreign_enqueue,
	.cgroup_init = (void *)foreign_cgroup_init,
	.cgroup_exit = (void *)foreign_cgroup_exit,
	.init = (void *)foreign_init,
	.name = "foreign",
};

char foreign_license[] SEC("license") = "GPL";
