/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measures the cost of calls by the kernel's clock. Where an instruction takes one nanosecond of
 * that clock (the deterministic virtual machine), the results are numbers of instructions.
 *
 * 1. A call that may be repeated is made TIMES times in a row, when one of the first tasks starts
 *    to run.
 * 2. A call that may not be repeated is measured one by one, where a scheduler with one queue makes
 *    it.
 * 3. The cost of the clock and of the loop is measured, too, and must be subtracted.
 *
 * When the scheduler exits, it writes the sum of each cost and the number of calls to the kernel's
 * trace.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

#define QUEUE 0
#define TIMES 100
#define BATCH 10	/* number of those first tasks */

extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags) __ksym;
extern bool bpf_cpumask_empty(const struct cpumask *mask) __ksym;
extern u32 bpf_cpumask_weight(const struct cpumask *mask) __ksym;
extern u32 bpf_cpumask_first_and(const struct cpumask *a, const struct cpumask *b) __ksym;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;
extern u32 scx_bpf_nr_cpu_ids(void) __ksym;
extern const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
extern void scx_bpf_put_cpumask(const struct cpumask *mask) __ksym;

struct cost {
	u64 ns;
	u64 times;
};

struct record {
	u64 words[4];
};

TASK_STORAGE(records, struct record);

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 64);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} hash SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 64);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} array SEC(".maps");

#define COSTS(X)											\
	X(clock) X(loop) X(instructions) X(processor_id) X(current) X(random) X(jiffies) X(now) X(task_cpu)	\
	X(task_running) X(test_cpu) X(idle_mask) X(online_mask) X(claim_idle) X(set_slice) X(rcu)	\
	X(acquire_release) X(nr_cpu_ids) X(storage) X(hash_lookup) X(array_lookup) X(nr_queued)	\
	X(from_pid) X(empty) X(intersects) X(weight) X(first_and) X(pick_idle) X(select_dfl) X(insert)	\
	X(insert_key) X(move) X(move_none) X(walk) X(walk_next) X(kick_idle) X(kick_self)

#define NUMBER(name) name##_cost,
enum { COSTS(NUMBER) NR_COSTS };

struct cost costs[NR_COSTS];
s64 sink;
u32 done;
u64 turn;
u32 walked;

static __always_inline void add(u32 which, u64 since, u64 times)
{
	costs[which].ns += bpf_ktime_get_ns() - since;
	costs[which].times += times;
}

/* Measures TIMES calls in a row. */
#define REPEAT(name, ...)					\
	do {							\
		u64 since = bpf_ktime_get_ns();			\
		int i;						\
		for_range(i, 0, TIMES) {			\
			(void)i;				\
			__VA_ARGS__;				\
		}						\
		add(name##_cost, since, TIMES);			\
	} while (0)

/* Measures one call. */
#define ONCE(name, ...)						\
	do {							\
		u64 since = bpf_ktime_get_ns();			\
		__VA_ARGS__;					\
		add(name##_cost, since, 1);			\
	} while (0)

static __noinline void measure_fields(struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);

	REPEAT(loop, sink++);
	REPEAT(instructions, asm volatile("r1 = 1; r1 += 2; r1 <<= 3; r1 ^= 5; r1 += r1; r1 >>= 1; r1 |= 7; r1 &= 255;"
					  "r1 += 2; r1 <<= 3; r1 ^= 5; r1 += r1; r1 >>= 1; r1 |= 7; r1 &= 255;"
					  "if r1 > 1000 goto +1; r1 += 1;" ::: "r1"));
	REPEAT(processor_id, sink += bpf_get_smp_processor_id());
	REPEAT(current, sink += bpf_get_current_task_btf()->pid);
	REPEAT(random, sink += bpf_get_prandom_u32());
	REPEAT(jiffies, sink += bpf_jiffies64());
	REPEAT(now, sink += now_ns());
	REPEAT(task_cpu, sink += scx_bpf_task_cpu(p));
	REPEAT(task_running, sink += scx_bpf_task_running(p));
	REPEAT(test_cpu, sink += bpf_cpumask_test_cpu(cpu, p->cpus_ptr));
	REPEAT(set_slice, task_set_slice(p, SCX_SLICE_DFL));
	REPEAT(nr_cpu_ids, sink += scx_bpf_nr_cpu_ids());
}

static __noinline void measure_masks(struct task_struct *p)
{
	const struct cpumask *idle;

	REPEAT(idle_mask, scx_bpf_put_idle_cpumask(scx_bpf_get_idle_cpumask()));
	REPEAT(online_mask, scx_bpf_put_cpumask(scx_bpf_get_online_cpumask()));
	REPEAT(claim_idle, sink += scx_bpf_test_and_clear_cpu_idle(0));
	REPEAT(pick_idle, sink += scx_bpf_pick_idle_cpu(p->cpus_ptr, 0));
	idle = scx_bpf_get_idle_cpumask();
	REPEAT(empty, sink += bpf_cpumask_empty(idle));
	REPEAT(intersects, sink += bpf_cpumask_intersects(idle, p->cpus_ptr));
	REPEAT(weight, sink += bpf_cpumask_weight(p->cpus_ptr));
	REPEAT(first_and, sink += bpf_cpumask_first_and(idle, p->cpus_ptr));
	scx_bpf_put_idle_cpumask(idle);
}

static __noinline void measure_lookups(struct task_struct *p)
{
	u32 key = 7;
	s32 pid = p->pid;

	REPEAT(storage, struct record *r = bpf_task_storage_get(&records, p, NULL, 0); if (r) r->words[0]++);
	REPEAT(hash_lookup, sink += bpf_map_lookup_elem(&hash, &key) != NULL);
	REPEAT(array_lookup, u64 *v = bpf_map_lookup_elem(&array, &key); if (v) sink += *v);
	REPEAT(nr_queued, sink += scx_bpf_dsq_nr_queued(QUEUE));
	REPEAT(from_pid, struct task_struct *q = bpf_task_from_pid(pid); if (q) bpf_task_release(q));
	REPEAT(acquire_release, struct task_struct *q = bpf_task_acquire(p); if (q) bpf_task_release(q));
	REPEAT(rcu, bpf_rcu_read_lock(); bpf_rcu_read_unlock());
}

static __noinline void measure_clock(void)
{
	ONCE(clock, );
	ONCE(clock, );
	ONCE(clock, );
	ONCE(clock, );
}

OP3(s32, costs_select_cpu, struct task_struct *, p, s32, prev_cpu, u64, wake_flags)
{
	bool is_idle = false;
	s32 cpu = prev_cpu;

	ONCE(select_dfl, cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle));
	return cpu;
}

/* Every other task goes by key into a DSQ of its own, because a DSQ is either FIFO or ordered. */
OP2(void, costs_enqueue, struct task_struct *, p, u64, enq_flags)
{
	if (p->pid & 1)
		ONCE(insert, dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags));
	else
		ONCE(insert_key, dsq_insert_by_key(p, QUEUE + 1, SCX_SLICE_DFL, now_ns(), enq_flags));
	ONCE(kick_idle, scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE));
	ONCE(kick_self, scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0));
}

/* A counter in memory: the verifier would distinguish a walk of two steps from one of three. */
static __noinline int walk(u64 queue)
{
	struct task_struct *p;

	walked = 0;
	for_each_queued(p, queue)
		walked++;
	return 0;
}

static __noinline int take(u64 queue)
{
	u64 since = bpf_ktime_get_ns();

	walk(queue);
	if (walked == 0)
		add(walk_cost, since, 1);
	else if (walked == 2)
		add(walk_next_cost, since, 1);
	since = bpf_ktime_get_ns();
	if (dsq_move_to_local(queue)) {
		add(move_cost, since, 1);
		return 1;
	}
	add(move_none_cost, since, 1);
	return 0;
}

/* The DSQs alternate. */
OP2(void, costs_dispatch, s32, cpu, struct task_struct *, prev)
{
	turn ^= 1;
	if (!take(QUEUE + turn))
		take(QUEUE + (turn ^ 1));
}

OP1(void, costs_running, struct task_struct *, p)
{
	measure_clock();
	if (done >= BATCH || (p->flags & PF_KTHREAD))
		return;
	done++;
	measure_fields(p);
	measure_masks(p);
	measure_lookups(p);
}

SLEEPABLE_OP2(s32, costs_init_task, struct task_struct *, p, struct scx_init_task_args *, args)
{
	bpf_task_storage_get(&records, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

SLEEPABLE_OP0(s32, costs_init)
{
	s32 result = scx_bpf_create_dsq(QUEUE, -1);

	return result ? result : scx_bpf_create_dsq(QUEUE + 1, -1);
}

#define PRINT(name)											\
	{												\
		static const char format[] = "cost " #name " %llu ns %llu times";			\
		bpf_trace_printk(format, sizeof(format), costs[name##_cost].ns, costs[name##_cost].times);	\
	}

SLEEPABLE_OP1(void, costs_exit, struct scx_exit_info *, info)
{
	COSTS(PRINT)
	record_exit(info);
}

SCHEDULER(costs_ops,
	.select_cpu = (void *)costs_select_cpu,
	.enqueue = (void *)costs_enqueue,
	.dispatch = (void *)costs_dispatch,
	.running = (void *)costs_running,
	.init_task = (void *)costs_init_task,
	.init = (void *)costs_init,
	.exit = (void *)costs_exit,
	.timeout_ms = 10000,
	.name = "costs",
);
