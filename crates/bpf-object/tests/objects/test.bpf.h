/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few declarations that the test objects need: types, section macros, helpers and excerpts of
 * kernel types.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef int s32;
typedef long long s64;
typedef _Bool bool;

#define NULL ((void *)0)
#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __weak __attribute__((weak))
#define __hidden __attribute__((visibility("hidden")))
#define __ksym __attribute__((section(".ksyms")))
#define __kconfig __attribute__((section(".kconfig")))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define __array(name, val) typeof(val) *name[]
#define __ulong(name, val) enum { name##_value = val } name

/* enum bpf_map_type */
#define MAP_HASH 1
#define MAP_ARRAY 2
#define MAP_PERCPU_ARRAY 6
#define MAP_ARRAY_OF_MAPS 12
#define MAP_QUEUE 22
#define MAP_TASK_STORAGE 29
#define MAP_ARENA 33

struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct task_struct;

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static void *(*const bpf_task_storage_get)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;
static long (*const bpf_timer_init)(struct bpf_timer *timer, void *map, u64 flags) = (void *)169;
static long (*const bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const bpf_timer_start)(struct bpf_timer *timer, u64 nsecs, u64 flags) = (void *)171;

/* Built-in CO-RE relocations of the compiler. The numbers are those of enum bpf_core_relo_kind. */
#define bpf_core_field_exists(field) __builtin_preserve_field_info(field, 2)
#define bpf_core_field_offset(field) __builtin_preserve_field_info(field, 0)
#define bpf_core_field_size(field) __builtin_preserve_field_info(field, 1)
#define bpf_core_field_signed(field) __builtin_preserve_field_info(field, 3)
#define bpf_core_field_lshift(field) __builtin_preserve_field_info(field, 4)
#define bpf_core_field_rshift(field) __builtin_preserve_field_info(field, 5)
#define bpf_core_type_id_local(type) __builtin_btf_type_id(*(typeof(type) *)0, 0)
#define bpf_core_type_id_kernel(type) __builtin_btf_type_id(*(typeof(type) *)0, 1)
#define bpf_core_type_exists(type) __builtin_preserve_type_info(*(typeof(type) *)0, 0)
#define bpf_core_type_size(type) __builtin_preserve_type_info(*(typeof(type) *)0, 1)
#define bpf_core_type_matches(type) __builtin_preserve_type_info(*(typeof(type) *)0, 2)
#define bpf_core_enum_value_exists(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 0)
#define bpf_core_enum_value(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 1)

#define bpf_ksym_exists(sym) (!!(void *)sym)

#ifndef CORE
#define CORE __attribute__((preserve_access_index))
#endif

typedef struct cpumask {
	unsigned long bits[128];
} CORE cpumask_t;

struct sched_ext_entity {
	u32 flags;
	u32 weight;
	s32 sticky_cpu;
	u64 slice;
	u64 dsq_vtime;
} CORE;

struct task_struct {
	u32 flags;
	s32 static_prio;
	struct sched_ext_entity scx;
	u32 policy;
	const cpumask_t *cpus_ptr;
	s32 nr_cpus_allowed;
	u16 migration_disabled;
	s32 pid;
	s32 tgid;
	struct task_struct *real_parent;
	char comm[16];
} CORE;

struct scx_init_task_args {
	bool fork;
} CORE;

struct scx_exit_info {
	s32 kind;
	s64 exit_code;
	const char *reason;
} CORE;

/* The ops that the tests use, and some members that lie between them in the kernel. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	u64 hotplug_seq;
	char name[128];
	void *priv;
};

#define BPF_STRUCT_OPS(name, args...) SEC("struct_ops/" #name) args name(unsigned long long *ctx)
