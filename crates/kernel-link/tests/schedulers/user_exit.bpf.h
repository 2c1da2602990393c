/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Exit record in the form of scx schedulers, with the dump in a section that the loader resizes as requested. The
 * `exit` op calls keep_exit().
 */
#ifndef WEIR_TEST_USER_EXIT_BPF_H
#define WEIR_TEST_USER_EXIT_BPF_H

#include <weir/scx.bpf.h>

struct user_exit_info {
	s32 kind;
	s32 exit_cpu;
	s64 exit_code;
	char reason[128];
	char msg[1024];
};

char uei_dump[1] SEC(".data.uei_dump");
const volatile u32 uei_dump_len;
struct user_exit_info uei SEC(".data");

/* The kind is written last: once it is visible, the rest is too. */
static void keep_exit(struct scx_exit_info *info)
{
	bpf_probe_read_kernel_str(uei.reason, sizeof(uei.reason), info->reason);
	bpf_probe_read_kernel_str(uei.msg, sizeof(uei.msg), info->msg);
	bpf_probe_read_kernel_str(uei_dump, uei_dump_len, info->dump);
	uei.exit_cpu = KERNEL_HAS_FIELD(info->exit_cpu) ? info->exit_cpu : -1;
	uei.exit_code = info->exit_code;
	uei.kind = info->kind;
}

#endif
