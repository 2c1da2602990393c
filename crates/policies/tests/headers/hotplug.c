/* SPDX-License-Identifier: GPL-2.0-only */
#include <weir/hotplug.bpf.h>
#include "machine.h"

int main(void)
{
	s32 counted_at = 2;

	make_machine(1, 1, 4, 1);
	/* Point 2 of hotplug.bpf.h: an online CPU need not be kicked when a task moves away. */
	count_at(&counted_at, 3);
	CHECK(counted_at == 3 && host_kicks == 0, "%u", host_kicks);
	mark_offline(3);
	count_at(&counted_at, 3);
	CHECK(host_kicks == 0, "the task did not move");
	count_at(&counted_at, 1);
	CHECK(host_kicks == 1 && host_kicked[0] == (3 << 8 | SCX_KICK_IDLE), "%#llx", (unsigned long long)host_kicked[0]);
	/* Point 1 of hotplug.bpf.h: a CPU going offline kicks no other CPU. */
	host_cpu = 3;
	kick(0, SCX_KICK_PREEMPT);
	CHECK(host_kicks == 1, "%u", host_kicks);
	/* Point 4 of hotplug.bpf.h */
	CHECK(mark_online(3) && !is_leaving(3), "CPU 3 is back");
	kick(0, SCX_KICK_PREEMPT);
	CHECK(host_kicks == 2, "%u", host_kicks);
	CHECK(!mark_online(4), "CPU 4 is not in the tables");
	return 0;
}
