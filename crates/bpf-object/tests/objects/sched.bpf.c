// SPDX-License-Identifier: GPL-2.0-only
/*
 * A small scheduler with every section, map encoding, kind of extern and relocation that real
 * schedulers contain.
 */
#include "test.bpf.h"

char _license[] SEC("license") = "GPL";

/* User space sets these from the kernel's enums before the load. */
const volatile u64 __SCX_SLICE_DFL __weak;
const volatile u64 __SCX_ENQ_HEAD __weak;
const volatile u32 slice_us = 20000;
const volatile bool verbose;

u64 nr_queued;
static u64 nr_local = 7;
u64 vtime_now = 0x1122334455667788;
char uei_dump[16] SEC(".data.uei_dump");
static volatile u32 nr_calls;

extern int LINUX_KERNEL_VERSION __kconfig;
extern bool CONFIG_PREEMPT_RCU __kconfig __weak;
extern u32 CONFIG_HZ __kconfig;
extern u64 CONFIG_ABSENT __kconfig __weak;
extern const char CC_VERSION_TEXT[64] __kconfig __weak;

extern const int runqueues __ksym;
extern const int no_such_variable __ksym __weak;

extern bool scx_bpf_dsq_insert___v2(struct task_struct *p, u64 dsq, u64 slice, u64 flags) __ksym __weak;
extern void scx_bpf_dsq_insert___v1(struct task_struct *p, u64 dsq, u64 slice, u64 flags) __ksym __weak;
extern s32 scx_bpf_create_dsq(u64 dsq, s32 node) __ksym;
extern bool scx_bpf_dsq_move_to_local(u64 dsq) __ksym __weak;
extern void scx_bpf_gone(u64 a, u64 b) __ksym __weak;
extern void *bpf_per_cpu_ptr_kfunc(u64 a) __ksym __weak;

struct task_ctx {
	u64 deadline;
	u32 runs;
};

struct {
	__uint(type, MAP_TASK_STORAGE);
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 512);
	__uint(key_size, 8);
	__uint(value_size, 24);
} by_pid SEC(".maps");

struct {
	__uint(type, MAP_QUEUE);
	__uint(max_entries, 4096);
	__type(value, u32);
} waiting SEC(".maps");

struct tick {
	struct bpf_timer timer;
	u64 fired;
};

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tick);
} ticks SEC(".maps");

struct inner {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 3);
	__type(key, u32);
	__type(value, u64);
} inner_a SEC(".maps"), inner_b SEC(".maps");

struct {
	__uint(type, MAP_ARRAY_OF_MAPS);
	__uint(max_entries, 4);
	__type(key, u32);
	__array(values, struct inner);
} outer SEC(".maps") = {
	.values = {[0] = &inner_a, [2] = &inner_b},
};

/* Types that differ in the kernel. */
enum scx_flags___local {
	SCX_KNOWN___local = 1,
	SCX_UNKNOWN___local = 2,
};

struct sched_ext_entity___new {
	u64 tid;
} CORE;

struct task_struct___new {
	u64 not_there;
} CORE;

struct no_such_type {
	int x;
} CORE;

static __noinline u64 scaled(struct task_struct *p, u64 delta)
{
	nr_calls++;
	return delta * 100 / p->scx.weight;
}

static __noinline u32 second_static(u32 x)
{
	nr_calls += x;
	return nr_calls * 3;
}

__noinline u64 global_sum(u64 a, u64 b)
{
	nr_local += a;
	return a + b * nr_local + second_static(a);
}

static int on_tick(void *map, int *key, struct tick *tick)
{
	tick->fired++;
	bpf_timer_start(&tick->timer, 1000000, 0);
	return 0;
}

SEC("struct_ops/toy_select_cpu")
s32 toy_select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	if (bpf_core_field_exists(p->migration_disabled) && p->migration_disabled)
		return (s32)ctx[1];
	return p->cpus_ptr->bits[1] ? p->pid : -1;
}

SEC("struct_ops/toy_enqueue")
void toy_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 1);
	struct sched_ext_entity___new *new = (void *)&p->scx;
	u32 pid = p->pid;

	if (!tctx)
		return;
	tctx->deadline += scaled(p, __SCX_SLICE_DFL);
	if (bpf_core_field_exists(new->tid))
		tctx->runs = new->tid;
	p->scx.slice = slice_us * 1000ull;
	p->scx.dsq_vtime = vtime_now;
	nr_queued++;
	bpf_map_push_elem(&waiting, &pid, 0);
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2))
		scx_bpf_dsq_insert___v2(p, 1, __SCX_SLICE_DFL, __SCX_ENQ_HEAD);
	else if (bpf_ksym_exists(scx_bpf_dsq_insert___v1))
		scx_bpf_dsq_insert___v1(p, 1, __SCX_SLICE_DFL, 0);
	if (bpf_ksym_exists(scx_bpf_gone))
		scx_bpf_gone(1, 2);
}

SEC("?struct_ops/toy_dispatch")
void toy_dispatch(u64 *ctx)
{
	u64 *hit = bpf_map_lookup_elem(&by_pid, &ctx[0]);

	if (hit && bpf_core_enum_value_exists(enum scx_flags___local, SCX_UNKNOWN___local))
		*hit = bpf_core_enum_value(enum scx_flags___local, SCX_UNKNOWN___local);
	if (hit && bpf_core_enum_value_exists(enum scx_flags___local, SCX_KNOWN___local))
		*hit += bpf_core_enum_value(enum scx_flags___local, SCX_KNOWN___local);
	if (bpf_core_type_exists(struct no_such_type))
		nr_queued = 99;
	scx_bpf_dsq_move_to_local(global_sum(ctx[0], 3));
}

SEC("struct_ops.s/toy_init")
s32 toy_init(void *ctx)
{
	u32 zero = 0;
	struct tick *tick = bpf_map_lookup_elem(&ticks, &zero);
	void *inner = bpf_map_lookup_elem(&outer, &zero);

	if (tick) {
		bpf_timer_init(&tick->timer, &ticks, 1);
		bpf_timer_set_callback(&tick->timer, on_tick);
	}
	if (&no_such_variable)
		return -1;
	if (inner && LINUX_KERNEL_VERSION > 0x60c00 && CONFIG_HZ == 1000 && !CONFIG_ABSENT && CONFIG_PREEMPT_RCU)
		nr_local += CC_VERSION_TEXT[3] + *(volatile int *)&runqueues;
	return scx_bpf_create_dsq(1, -1);
}

SEC("struct_ops/toy_exit")
void toy_exit(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];
	struct task_struct___new *odd = (void *)ctx;

	uei_dump[0] = info->kind;
	if (verbose)
		uei_dump[1] = odd->not_there;
}

SEC("syscall")
int tune(u64 *args)
{
	static const char words[] = "alpha\0beta\0";

	return global_sum(args[0], words[args[1] & 7]);
}

SEC(".struct_ops.link")
struct sched_ext_ops toy_ops = {
	.select_cpu = (void *)toy_select_cpu,
	.enqueue = (void *)toy_enqueue,
	.dispatch = (void *)toy_dispatch,
	.init = (void *)toy_init,
	.exit = (void *)toy_exit,
	.flags = 0x100000004ull,
	.timeout_ms = 5000,
	.name = "toy",
};
