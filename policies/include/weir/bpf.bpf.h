/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The BPF dialect of C: sections, map declarations, helpers, and CO-RE queries. Nothing in this
 * header is specific to scheduling.
 */
#ifndef WEIR_BPF_BPF_H
#define WEIR_BPF_BPF_H

#include "kernel.bpf.h"

#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __weak __attribute__((weak))
#define __ksym __attribute__((section(".ksyms")))
#define __kconfig __attribute__((section(".kconfig")))

#define LICENSE(text) char weir_license[] SEC("license") = text

/*
 * Maps are declared as structs in the section `.maps`. The loader reads the attributes from the
 * types of the members; numbers are encoded as array lengths.
 */
#define MAP_NUMBER(name, value) int (*name)[value]
#define MAP_TYPE(name, type) typeof(type) *name

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_CGRP_STORAGE = 32,
};

#define CLOCK_MONOTONIC 1

enum {
	BPF_ANY = 0,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_F_NO_PREALLOC = 1,
};

/* One value of type `stored` per task, looked up by the task and freed with it. */
#define TASK_STORAGE(name, stored)					\
	struct {							\
		MAP_NUMBER(type, BPF_MAP_TYPE_TASK_STORAGE);		\
		MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);		\
		MAP_TYPE(key, int);					\
		MAP_TYPE(value, stored);				\
	} name SEC(".maps")

/* Helpers are called by number; the numbers are kernel ABI (include/uapi/linux/bpf.h). */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static long (*const bpf_trace_printk)(const char *format, u32 size, ...) = (void *)6;
static u32 (*const bpf_get_prandom_u32)(void) = (void *)7;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*const bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*const bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;
static void *(*const bpf_task_storage_get)(void *map, struct task_struct *p, void *value, u64 flags) = (void *)156;
static u64 (*const bpf_jiffies64)(void) = (void *)118;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static long (*const bpf_timer_init)(struct bpf_timer *timer, void *map, u64 clock) = (void *)169;
static long (*const bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const bpf_timer_start)(struct bpf_timer *timer, u64 after_ns, u64 flags) = (void *)171;

/*
 * Whether the kernel has a weak symbol, a type, or a field. The loader turns these into constants.
 */
#define KERNEL_HAS(symbol) ((symbol) != NULL)
#define KERNEL_HAS_TYPE(type) __builtin_preserve_type_info(*(type *)NULL, 0)
#define KERNEL_HAS_FIELD(field) __builtin_preserve_field_info(field, 2)

extern void bpf_rcu_read_lock(void) __weak __ksym;
extern void bpf_rcu_read_unlock(void) __weak __ksym;
extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __weak __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __weak __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __weak __ksym;

/*
 * for (i = start; i < end; i++) for loops whose bound the verifier cannot see: it checks the body
 * once, for an unknown `i`. The iterator is destroyed however the loop ends, also by `break` or
 * `return`. The destructor is named a second time because clang emits no BTF for an extern that is
 * used only in a `cleanup` attribute, and the loader needs that BTF.
 */
#define for_range(i, start, end)								\
	for (struct bpf_iter_num i##_it __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))),	\
	     *i##_once __attribute__((unused)) =							\
		((void)bpf_iter_num_destroy, (void)(i), bpf_iter_num_new(&i##_it, start, end), &i##_it);	\
	     ({ int *i##_at = bpf_iter_num_next(&i##_it); i##_at ? (i = *i##_at, true) : false; });)

/*
 * A function that the verifier checks once, for any argument, instead of once per call and state.
 * Its arguments are numbers or kernel objects marked TRUSTED; it returns a number.
 */
#define VERIFIED_ONCE __attribute__((noinline))
#define TRUSTED __attribute__((btf_decl_tag("arg:trusted")))

/*
 * Set before the object is loaded and constant from then on, so that the verifier skips code that
 * it rules out.
 */
#define RODATA const volatile

/*
 * A load or store that the compiler neither repeats nor omits, because another CPU accesses the
 * same memory.
 */
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))

/*
 * Bounds-checked element of an array, or NULL. The verifier accepts an index only if it saw a bound
 * on the same register. The barrier keeps the compiler from checking one register and indexing with
 * another.
 */
#define BOUNDED_AT(array, index)							\
	({										\
		u32 __index = (index);							\
		asm volatile("" : "+r"(__index));					\
		__index < sizeof(array) / sizeof((array)[0]) ? &(array)[__index] : NULL;	\
	})

/*
 * For debugging a scheduler: a line with up to three numbers, which `weir sim` prints and a kernel
 * writes to trace_pipe.
 */
#define bpf_printk(format, ...)							\
({										\
	static const char line[] = format;					\
	bpf_trace_printk(line, sizeof(line), ##__VA_ARGS__);			\
})

#endif
