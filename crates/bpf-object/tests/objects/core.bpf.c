// SPDX-License-Identifier: GPL-2.0-only
/* One CO-RE relocation in each program: its first instruction holds the relocated value. */
#include "test.bpf.h"

char _license[] SEC("license") = "GPL";

struct task_struct___more {
	u32 low : 5;
	s32 wide : 9;
	u32 far;
	struct {
		struct {
			s32 pid;
		};
	};
	struct sched_ext_entity *scx;
	struct {
		s32 now;
	} state;
	char comm[64];
} CORE;

struct sched_ext_entity___other {
	u32 weight;
	unsigned long slice;
} CORE;

struct sched_ext_entity___wrong {
	u32 *weight;
} CORE;

struct cpumask___fits {
	unsigned long bits[128];
} CORE;

struct absent {
	int x;
} CORE;

enum toy_wide___here {
	TOY_TOP___here = 0x8000000000000000ull,
	TOY_BOTTOM___here = 1,
};

enum scx_flags___here {
	SCX_OTHER___here = 9,
	SCX_NEVER___here = 10,
};

#define ASK(name, type, answer)          \
	SEC("syscall")                   \
	u64 name(void *ctx)              \
	{                                \
		type *p __attribute__((unused)) = ctx; \
		return answer;           \
	}

#define task struct task_struct
#define more struct task_struct___more

ASK(offset_of_scx, task, bpf_core_field_offset(p->scx))
ASK(offset_of_slice, task, bpf_core_field_offset(p->scx.slice))
ASK(offset_in_anonymous, more, bpf_core_field_offset(p->pid))
ASK(offset_of_char, task, bpf_core_field_offset(p->comm[5]))
ASK(offset_of_second, task, bpf_core_field_offset(p[1].flags))
ASK(size_of_scx, task, bpf_core_field_size(p->scx))
ASK(size_of_comm, more, bpf_core_field_size(p->comm))
ASK(exists_pid, task, bpf_core_field_exists(p->pid))
ASK(exists_far_char, more, bpf_core_field_exists(p->comm[40]))
ASK(exists_as_pointer, more, bpf_core_field_exists(p->scx))
ASK(exists_nested, more, bpf_core_field_exists(p->state.now))
ASK(signed_pid, task, bpf_core_field_signed(p->pid))
ASK(signed_flags, task, bpf_core_field_signed(p->flags))
ASK(low_offset, more, bpf_core_field_offset(p->low))
ASK(low_size, more, bpf_core_field_size(p->low))
ASK(low_lshift, more, bpf_core_field_lshift(p->low))
ASK(low_rshift, more, bpf_core_field_rshift(p->low))
ASK(low_signed, more, bpf_core_field_signed(p->low))
ASK(wide_offset, more, bpf_core_field_offset(p->wide))
ASK(wide_size, more, bpf_core_field_size(p->wide))
ASK(wide_lshift, more, bpf_core_field_lshift(p->wide))
ASK(wide_rshift, more, bpf_core_field_rshift(p->wide))
ASK(wide_signed, more, bpf_core_field_signed(p->wide))
ASK(pid_lshift, task, bpf_core_field_lshift(p->pid))
ASK(pid_rshift, task, bpf_core_field_rshift(p->pid))
ASK(type_exists, task, bpf_core_type_exists(struct sched_ext_entity___other))
ASK(type_absent, task, bpf_core_type_exists(struct absent))
ASK(type_size, task, bpf_core_type_size(struct sched_ext_entity))
ASK(type_size_absent, task, bpf_core_type_size(struct absent))
ASK(type_typedef, task, bpf_core_type_exists(cpumask_t))
ASK(type_matches, task, bpf_core_type_matches(struct sched_ext_entity___other))
ASK(type_matches_array, task, bpf_core_type_matches(struct cpumask___fits))
ASK(type_differs, task, bpf_core_type_matches(struct sched_ext_entity___wrong))
ASK(type_id_kernel, task, bpf_core_type_id_kernel(struct task_struct))
ASK(type_id_local, task, bpf_core_type_id_local(struct absent))
ASK(enum_wide, task, bpf_core_enum_value(enum toy_wide___here, TOY_TOP___here))
ASK(enum_wide_exists, task, bpf_core_enum_value_exists(enum toy_wide___here, TOY_TOP___here))
ASK(enum_wide_absent, task, bpf_core_enum_value_exists(enum toy_wide___here, TOY_BOTTOM___here))
ASK(enum_value, task, bpf_core_enum_value(enum scx_flags___here, SCX_OTHER___here))
ASK(enum_never, task, bpf_core_enum_value(enum scx_flags___here, SCX_NEVER___here))

/* Loads and stores of fields that have another size or offset in the kernel. */
ASK(load_grown, task, p->policy)
ASK(load_grown_signed, task, p->tgid)
ASK(load_far, more, p->far)
ASK(load_absent, struct absent, p->x)
ASK(load_pointer, task, (u64)p->real_parent)

SEC("syscall")
u64 store_grown(void *ctx)
{
	struct task_struct *p = ctx;

	p->policy = 3;
	return 0;
}
