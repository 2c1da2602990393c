/* SPDX-License-Identifier: GPL-2.0-only */
#include <weir/kthread.bpf.h>
#include "machine.h"

int main(void)
{
	for (u32 facts = 0; facts < 8; facts++) {
		struct task_struct task = { .flags = facts & 1 ? PF_KTHREAD : 0, .nr_cpus_allowed = facts & 2 ? 1 : 2 };

		host_per_cpu_flag = facts & 4;
		CHECK(is_per_cpu_kthread(&task) == (facts == 7), "%u", facts);
	}
	return 0;
}
