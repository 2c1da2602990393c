/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * customary: keeps its exit record like scx schedulers, with the dump in a section that the loader resizes. It has an
 * op that older kernels lack.
 */
#include "user_exit.bpf.h"

LICENSE("GPL");

OP1(void, customary_tick, struct task_struct *, p)
{
}

SLEEPABLE_OP1(void, customary_exit, struct scx_exit_info *, info)
{
	keep_exit(info);
}

SCHEDULER(customary_ops,
	.tick = (void *)customary_tick,
	.exit = (void *)customary_exit,
	.timeout_ms = 5000,
	.exit_dump_len = 65536,
	.name = "customary",
);
