/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * customary: keeps the record of its end as the schedulers of the scx world do, with the dump in a section that the
 * loader makes as large as needed. It has an op that older kernels lack.
 */
#include <weir/scx.bpf.h>

LICENSE("GPL");

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

OP1(void, customary_tick, struct task_struct *, p)
{
}

SLEEPABLE_OP1(void, customary_exit, struct scx_exit_info *, info)
{
	bpf_probe_read_kernel_str(uei.reason, sizeof(uei.reason), info->reason);
	bpf_probe_read_kernel_str(uei.msg, sizeof(uei.msg), info->msg);
	bpf_probe_read_kernel_str(uei_dump, uei_dump_len, info->dump);
	uei.exit_code = info->exit_code;
	uei.kind = info->kind;
}

SCHEDULER(customary_ops,
	.tick = (void *)customary_tick,
	.exit = (void *)customary_exit,
	.timeout_ms = 5000,
	.exit_dump_len = 65536,
	.name = "customary",
);
