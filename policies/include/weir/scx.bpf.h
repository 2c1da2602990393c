/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sched_ext for the policies: ops, constants, kfuncs of kernels 6.12 to 7.2, and a record of the
 * reason why a scheduler exited.
 */
#ifndef WEIR_SCX_BPF_H
#define WEIR_SCX_BPF_H

#include "bpf.bpf.h"

/*
 * Ops. The kernel passes all arguments as an array of 64-bit words. OPn declares a program of n
 * arguments and unpacks them: OP2(void, fifo_enqueue, struct task_struct *, p, u64, enq_flags) {
 * ... }. SLEEPABLE_OPn is for the ops that may sleep: init, init_task, cgroup_init, cgroup_exit,
 * cgroup_prep_move, cpu_online, cpu_offline, exit.
 */
#define WEIR_OP(section, ret, name, declared, unpacked)	\
	static __always_inline ret name##_body declared;	\
	SEC(section #name) ret name(u64 *ctx)			\
	{							\
		return name##_body unpacked;			\
	}							\
	static __always_inline ret name##_body declared

#define OP1(ret, name, t1, a1) WEIR_OP("struct_ops/", ret, name, (t1 a1), ((t1)ctx[0]))
#define OP2(ret, name, t1, a1, t2, a2) WEIR_OP("struct_ops/", ret, name, (t1 a1, t2 a2), ((t1)ctx[0], (t2)ctx[1]))
#define OP3(ret, name, t1, a1, t2, a2, t3, a3) \
	WEIR_OP("struct_ops/", ret, name, (t1 a1, t2 a2, t3 a3), ((t1)ctx[0], (t2)ctx[1], (t3)ctx[2]))
#define OP4(ret, name, t1, a1, t2, a2, t3, a3, t4, a4) \
	WEIR_OP("struct_ops/", ret, name, (t1 a1, t2 a2, t3 a3, t4 a4), \
		((t1)ctx[0], (t2)ctx[1], (t3)ctx[2], (t4)ctx[3]))
#define SLEEPABLE_OP0(ret, name) WEIR_OP("struct_ops.s/", ret, name, (void), ())
#define SLEEPABLE_OP1(ret, name, t1, a1) WEIR_OP("struct_ops.s/", ret, name, (t1 a1), ((t1)ctx[0]))
#define SLEEPABLE_OP2(ret, name, t1, a1, t2, a2) \
	WEIR_OP("struct_ops.s/", ret, name, (t1 a1, t2 a2), ((t1)ctx[0], (t2)ctx[1]))
#define SLEEPABLE_OP3(ret, name, t1, a1, t2, a2, t3, a3) \
	WEIR_OP("struct_ops.s/", ret, name, (t1 a1, t2 a2, t3 a3), ((t1)ctx[0], (t2)ctx[1], (t3)ctx[2]))

#define SCHEDULER(variable, ...) SEC(".struct_ops.link") struct sched_ext_ops variable = { __VA_ARGS__ }

/*
 * Constants. Their values differ between kernels. So an object holds variables with the usual
 * names, which the loader fills from the kernel's enums. Zero means that the kernel lacks the
 * constant.
 */
#define SCX_CONSTANT(name) const volatile u64 __SCX_##name __weak

SCX_CONSTANT(DSQ_GLOBAL);
SCX_CONSTANT(DSQ_LOCAL);
SCX_CONSTANT(DSQ_LOCAL_ON);
SCX_CONSTANT(SLICE_DFL);
SCX_CONSTANT(SLICE_INF);
SCX_CONSTANT(ENQ_WAKEUP);
SCX_CONSTANT(ENQ_HEAD);
SCX_CONSTANT(ENQ_PREEMPT);
SCX_CONSTANT(ENQ_REENQ);
SCX_CONSTANT(ENQ_LAST);
SCX_CONSTANT(ENQ_IMMED);
SCX_CONSTANT(DEQ_SLEEP);
SCX_CONSTANT(KICK_IDLE);
SCX_CONSTANT(KICK_PREEMPT);
SCX_CONSTANT(KICK_WAIT);
SCX_CONSTANT(PICK_IDLE_CORE);
SCX_CONSTANT(TASK_QUEUED);
SCX_CONSTANT(WAKE_FORK);
SCX_CONSTANT(WAKE_SYNC);

#define SCX_DSQ_GLOBAL __SCX_DSQ_GLOBAL		/* the kernel's DSQ, which it consumes before ops.dispatch */
#define SCX_DSQ_LOCAL __SCX_DSQ_LOCAL		/* the local DSQ of the task's or the dispatching CPU */
#define SCX_DSQ_LOCAL_ON __SCX_DSQ_LOCAL_ON	/* | cpu: the local DSQ of that CPU */
#define SCX_SLICE_DFL __SCX_SLICE_DFL		/* 20 ms */
#define SCX_SLICE_INF __SCX_SLICE_INF		/* an infinite slice, which also stops the tick */
#define SCX_ENQ_WAKEUP __SCX_ENQ_WAKEUP		/* in enqueue: the task has just been woken */
#define SCX_ENQ_HEAD __SCX_ENQ_HEAD		/* in enqueue and insert: to the head of a FIFO DSQ */
#define SCX_ENQ_PREEMPT __SCX_ENQ_PREEMPT	/* insert into a local DSQ: end the slice of the running task */
#define SCX_ENQ_REENQ __SCX_ENQ_REENQ		/* in enqueue: the task was in a local DSQ and is reenqueued */
#define SCX_ENQ_LAST __SCX_ENQ_LAST		/* in enqueue: no other task is runnable; needs SCX_OPS_ENQ_LAST */
#define SCX_ENQ_IMMED __SCX_ENQ_IMMED		/* since 7.1: reenqueue the task unless it runs there at once */
#define SCX_DEQ_SLEEP __SCX_DEQ_SLEEP		/* in quiescent: the task goes to sleep */
#define SCX_KICK_IDLE __SCX_KICK_IDLE		/* only if the CPU is idle */
#define SCX_KICK_PREEMPT __SCX_KICK_PREEMPT	/* end the slice of the running task */
#define SCX_KICK_WAIT __SCX_KICK_WAIT		/* wait until the CPU has rescheduled */
#define SCX_PICK_IDLE_CORE __SCX_PICK_IDLE_CORE	/* only a CPU of a fully idle core */
#define SCX_TASK_QUEUED __SCX_TASK_QUEUED	/* in task_struct.scx.flags: runnable or running */
#define SCX_WAKE_FORK __SCX_WAKE_FORK		/* the task is new */
#define SCX_WAKE_SYNC __SCX_WAKE_SYNC		/* the waker is about to sleep */

/*
 * Kfuncs. Those that some kernel from 6.12 on lacks are weak, and are called only if their address
 * is not 0. The loader drops a suffix that begins with the last `___` of a name. A kernel name that
 * itself ends in such a suffix gets `___compat` appended, which is dropped instead.
 */
extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
extern s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) __ksym;
extern u32 scx_bpf_nr_cpu_ids(void) __ksym;
extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags) __ksym;
extern s32 scx_bpf_pick_any_cpu(const struct cpumask *allowed, u64 flags) __ksym;
extern bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
extern const struct cpumask *scx_bpf_get_idle_cpumask(void) __ksym;
extern const struct cpumask *scx_bpf_get_idle_smtmask(void) __ksym;
extern void scx_bpf_put_idle_cpumask(const struct cpumask *mask) __ksym;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
extern bool scx_bpf_task_running(const struct task_struct *p) __ksym;
extern void scx_bpf_error_bstr(char *format, u64 *data, u32 data__sz) __ksym;
extern void scx_bpf_exit_bstr(s64 code, char *format, u64 *data, u32 data__sz) __ksym;
extern bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) __ksym;
extern u32 bpf_cpumask_first(const struct cpumask *mask) __ksym;
extern bool bpf_cpumask_intersects(const struct cpumask *a, const struct cpumask *b) __ksym;
extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __weak __ksym;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __weak __ksym;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __weak __ksym;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

/* Exits the scheduler with an error; `...` are integers for the conversions of `format`. */
#define scx_error(format, ...)								\
	({										\
		static char __format[] = format;					\
		u64 __data[] = { __VA_ARGS__ };						\
		scx_bpf_error_bstr(__format, __data, sizeof(__data));			\
	})

/*
 * Exits the scheduler and asks its loader to reload it, with the topology tables of the machine as
 * it is now. The exit code is the kernel's SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG, which has
 * the same value in all these kernels.
 */
#define scx_restart(format, ...)							\
	({										\
		static char __format[] = format;					\
		u64 __data[] = { __VA_ARGS__ };						\
		scx_bpf_exit_bstr(1LL << 48 | 1LL << 32, __format, __data, sizeof(__data)); \
	})

/*
 * scx_bpf_now() is new in 6.14; older kernels use bpf_ktime_get_ns(). It is constant within a
 * callback that holds its runqueue lock.
 */
extern u64 scx_bpf_now___new(void) __weak __ksym;

static __always_inline u64 now_ns(void)
{
	return KERNEL_HAS(scx_bpf_now___new) ? scx_bpf_now___new() : bpf_ktime_get_ns();
}

/*
 * The kfunc was named scx_bpf_dispatch() in 6.12 and scx_bpf_dsq_insert() from 6.13 on. Since 6.19
 * it returns whether the task was inserted.
 */
extern bool scx_bpf_dsq_insert___v2___compat(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __weak __ksym;
extern void scx_bpf_dsq_insert___v1(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __weak __ksym;
extern void scx_bpf_dispatch___old(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __weak __ksym;

/* Inserts `p` at the tail of a FIFO DSQ with a slice of `slice_ns`; 0 keeps the current slice. */
static __always_inline void dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice_ns, u64 enq_flags)
{
	if (KERNEL_HAS(scx_bpf_dsq_insert___v2___compat))
		scx_bpf_dsq_insert___v2___compat(p, dsq_id, slice_ns, enq_flags);
	else if (KERNEL_HAS(scx_bpf_dsq_insert___v1))
		scx_bpf_dsq_insert___v1(p, dsq_id, slice_ns, enq_flags);
	else
		scx_bpf_dispatch___old(p, dsq_id, slice_ns, enq_flags);
}

/* Renamed in the same versions; since 6.19 the arguments are in a struct. */
extern bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args) __weak __ksym;
extern void scx_bpf_dsq_insert_vtime___v1(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
					  u64 enq_flags) __weak __ksym;
extern void scx_bpf_dispatch_vtime___old(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
					 u64 enq_flags) __weak __ksym;

/*
 * Inserts `p` into a DSQ ordered by `key`, lowest first; keys are compared by signed differences.
 */
static __always_inline void dsq_insert_by_key(struct task_struct *p, u64 dsq_id, u64 slice_ns, u64 key, u64 enq_flags)
{
	if (KERNEL_HAS(__scx_bpf_dsq_insert_vtime)) {
		struct scx_bpf_dsq_insert_vtime_args args = {
			.dsq_id = dsq_id,
			.slice = slice_ns,
			.vtime = key,
			.enq_flags = enq_flags,
		};
		__scx_bpf_dsq_insert_vtime(p, &args);
	} else if (KERNEL_HAS(scx_bpf_dsq_insert_vtime___v1)) {
		scx_bpf_dsq_insert_vtime___v1(p, dsq_id, slice_ns, key, enq_flags);
	} else {
		scx_bpf_dispatch_vtime___old(p, dsq_id, slice_ns, key, enq_flags);
	}
}

/* The kfunc was named scx_bpf_consume() in 6.12. Since 7.1 it takes flags. */
extern bool scx_bpf_dsq_move_to_local___v2___compat(u64 dsq_id, u64 enq_flags) __weak __ksym;
extern bool scx_bpf_dsq_move_to_local___v1(u64 dsq_id) __weak __ksym;
extern bool scx_bpf_consume___old(u64 dsq_id) __weak __ksym;

/*
 * In dispatch: moves the first task that may run on this CPU from a DSQ to the local DSQ. Returns
 * whether there was one. Kernels before 7.1 ignore the flags.
 */
static __always_inline bool dsq_move_to_local_as(u64 dsq_id, u64 enq_flags)
{
	if (KERNEL_HAS(scx_bpf_dsq_move_to_local___v2___compat))
		return scx_bpf_dsq_move_to_local___v2___compat(dsq_id, enq_flags);
	if (KERNEL_HAS(scx_bpf_dsq_move_to_local___v1))
		return scx_bpf_dsq_move_to_local___v1(dsq_id);
	return scx_bpf_consume___old(dsq_id);
}

static __always_inline bool dsq_move_to_local(u64 dsq_id)
{
	return dsq_move_to_local_as(dsq_id, 0);
}

/*
 * Iterates over the tasks of a DSQ that the scheduler created, in its order. The iterator is
 * destroyed however the loop ends.
 */
#define for_each_queued(p, dsq_id)									\
	for (struct bpf_iter_scx_dsq p##_it __attribute__((cleanup(bpf_iter_scx_dsq_destroy))),		\
	     *p##_once __attribute__((unused)) =							\
		((void)bpf_iter_scx_dsq_destroy, bpf_iter_scx_dsq_new(&p##_it, dsq_id, 0), &p##_it);	\
	     (p = bpf_iter_scx_dsq_next(&p##_it));)

/* Named scx_bpf_dispatch_from_dsq() in 6.12. */
extern bool scx_bpf_dsq_move___new(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
				   u64 enq_flags) __weak __ksym;
extern bool scx_bpf_dispatch_from_dsq___old(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
					    u64 enq_flags) __weak __ksym;

/*
 * Moves `p`, which was in the iterator's DSQ when the iterator was created, to the tail of another
 * DSQ. Only in dispatch, or where no runqueue lock is held. Returns false if the task is no longer
 * there.
 */
static __always_inline bool dsq_move_as(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags)
{
	if (KERNEL_HAS(scx_bpf_dsq_move___new))
		return scx_bpf_dsq_move___new(it, p, dsq_id, enq_flags);
	return scx_bpf_dispatch_from_dsq___old(it, p, dsq_id, enq_flags);
}

static __always_inline bool dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id)
{
	return dsq_move_as(it, p, dsq_id, 0);
}

/*
 * The same for a DSQ ordered by keys. A separate call sets the key, which applies to the next move
 * only.
 */
extern void scx_bpf_dsq_move_set_vtime___new(struct bpf_iter_scx_dsq *it, u64 vtime) __weak __ksym;
extern bool scx_bpf_dsq_move_vtime___new(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
					 u64 enq_flags) __weak __ksym;
extern void scx_bpf_dispatch_from_dsq_set_vtime___old(struct bpf_iter_scx_dsq *it, u64 vtime) __weak __ksym;
extern bool scx_bpf_dispatch_vtime_from_dsq___old(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
						  u64 enq_flags) __weak __ksym;

static __always_inline bool dsq_move_by_key(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 key)
{
	if (KERNEL_HAS(scx_bpf_dsq_move_vtime___new)) {
		scx_bpf_dsq_move_set_vtime___new(it, key);
		return scx_bpf_dsq_move_vtime___new(it, p, dsq_id, 0);
	}
	scx_bpf_dispatch_from_dsq_set_vtime___old(it, key);
	return scx_bpf_dispatch_vtime_from_dsq___old(it, p, dsq_id, 0);
}

/*
 * In cpu_release: reenqueues all tasks of this CPU's local DSQ so that other CPUs can take them.
 * Since 6.19 the kernel does so after the op. Before 6.19 it did so during the op, which itself
 * keeps the current task from migrating. From 6.14 to 6.18 such a task therefore stays in the local
 * DSQ with a new slice and is not passed to ops.enqueue, and it is just the task that was
 * preempted.
 */
extern void scx_bpf_reenqueue_local___v2___compat(void) __weak __ksym;
extern u32 scx_bpf_reenqueue_local___v1(void) __weak __ksym;

static __always_inline void reenqueue_local(void)
{
	if (KERNEL_HAS(scx_bpf_reenqueue_local___v2___compat))
		scx_bpf_reenqueue_local___v2___compat();
	else if (KERNEL_HAS(scx_bpf_reenqueue_local___v1))
		scx_bpf_reenqueue_local___v1();
}

/* Since 6.19 a kfunc sets a task's slice; before that, a store. */
extern bool scx_bpf_task_set_slice___new(struct task_struct *p, u64 slice) __weak __ksym;

static __always_inline void task_set_slice(struct task_struct *p, u64 slice_ns)
{
	if (KERNEL_HAS(scx_bpf_task_set_slice___new))
		scx_bpf_task_set_slice___new(p, slice_ns);
	else
		p->scx.slice = slice_ns;
}

/*
 * Reason for the scheduler's exit, which the loader reads. `kind` is written last: if it is not 0,
 * all other members are valid. `dump` has the kernel's default length; a longer dump is truncated.
 */
struct weir_exit {
	s64 code;
	s32 exit_cpu;	/* CPU that caused the exit; -1 before 7.2 */
	char reason[128];
	char message[1024];
	char dump[32768];
	u32 kind;
};

struct weir_exit weir_exit SEC(".data.exit");

static __always_inline void record_exit(const struct scx_exit_info *info)
{
	bpf_probe_read_kernel_str(weir_exit.reason, sizeof(weir_exit.reason), info->reason);
	bpf_probe_read_kernel_str(weir_exit.message, sizeof(weir_exit.message), info->msg);
	bpf_probe_read_kernel_str(weir_exit.dump, sizeof(weir_exit.dump), info->dump);
	weir_exit.exit_cpu = KERNEL_HAS_FIELD(info->exit_cpu) ? info->exit_cpu : -1;
	weir_exit.code = info->exit_code;
	WRITE_ONCE(weir_exit.kind, info->kind);
}

#endif
