/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The BPF side of the language: sections, map declarations, helpers by number, and CO-RE questions. Nothing here knows
 * of scheduling.
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
 * Maps are declared as structures in the section `.maps`: the loader reads the attributes from the types of the
 * members, numbers as array lengths.
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

/* One value of type `stored` per task, found through the task itself and freed with it. */
#define TASK_STORAGE(name, stored)					\
	struct {							\
		MAP_NUMBER(type, BPF_MAP_TYPE_TASK_STORAGE);		\
		MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);		\
		MAP_TYPE(key, int);					\
		MAP_TYPE(value, stored);				\
	} name SEC(".maps")

/* Helpers are called by number; the numbers are the kernel's interface (include/uapi/linux/bpf.h). */
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

/* Whether the kernel has a weak symbol, a type, or a field. Constants once the object is loaded. */
#define KERNEL_HAS(symbol) ((symbol) != NULL)
#define KERNEL_HAS_TYPE(type) __builtin_preserve_type_info(*(type *)NULL, 0)
#define KERNEL_HAS_FIELD(field) __builtin_preserve_field_info(field, 2)

extern void bpf_rcu_read_lock(void) __weak __ksym;
extern void bpf_rcu_read_unlock(void) __weak __ksym;
extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __weak __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __weak __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __weak __ksym;

/*
 * for (i = start; i < end; i++) in a form whose end the verifier need not see: it checks the body once for an unknown
 * `i`. The iterator is destroyed on every way out, `break` and `return` included. The destructor is named a second
 * time because clang describes no extern in BTF that is only used in a `cleanup`, and the loader needs it described.
 */
#define for_range(i, start, end)								\
	for (struct bpf_iter_num i##_it __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))),	\
	     *i##_once __attribute__((unused)) =							\
		((void)bpf_iter_num_destroy, (void)(i), bpf_iter_num_new(&i##_it, start, end), &i##_it);	\
	     ({ int *i##_at = bpf_iter_num_next(&i##_it); i##_at ? (i = *i##_at, true) : false; });)

/*
 * A function that the verifier checks once, for any argument, instead of at each call for each state that leads there. It
 * takes numbers, and objects of the kernel that are TRUSTED, and returns a number.
 */
#define VERIFIED_ONCE __attribute__((noinline))
#define TRUSTED __attribute__((btf_decl_tag("arg:trusted")))

/* Filled in before the object is loaded; afterwards a constant, so that code which it rules out is not even verified. */
#define RODATA const volatile

/* A read or write that the compiler neither repeats nor drops: the other side is another CPU. */
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))

/*
 * The verifier only allows an index that it has seen bounded. Being a number it may keep the bound in another register
 * than the one that it checked: the barrier forbids the compiler to play such games.
 */
#define BOUNDED_AT(array, index)							\
	({										\
		u32 __index = (index);							\
		asm volatile("" : "+r"(__index));					\
		__index < sizeof(array) / sizeof((array)[0]) ? &(array)[__index] : NULL;	\
	})

/* While a scheduler is made: a line, with up to three numbers, for weir sim to show, or for the kernel's trace_pipe. */
#define bpf_printk(format, ...)							\
({										\
	static const char line[] = format;					\
	bpf_trace_printk(line, sizeof(line), ##__VA_ARGS__);			\
})

#endif
