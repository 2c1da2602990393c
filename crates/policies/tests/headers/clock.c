/* SPDX-License-Identifier: GPL-2.0-only */
#include <weir/clock.bpf.h>
#include "machine.h"

int main(void)
{
	static const u32 rates[] = { 100, 250, 1000 };

	for (u32 i = 0; i < 3; i++) {
		u64 tick = 1000000000 / rates[i], at;

		hz = rates[i];
		host_ns = 5000000000;
		host_jiffies = 77;
		clock_init();
		/* Ten ticks later by jiffies, which all CPUs share. */
		host_jiffies += 10;
		at = 5000000000 + 10 * tick;
		/*
		 * Point 2 of clock.bpf.h: within two ticks of jiffies the CPU's own clock counts,
		 * to the nanosecond.
		 */
		for (s64 off = -2; off <= 2; off++) {
			host_ns = at + off * (s64)tick;
			CHECK(common_now() == host_ns, "%lld ticks off", (long long)off);
		}
		/* A clock farther off is clamped to two ticks. */
		host_ns = at - 2 * tick - 1;
		CHECK(common_now() == at - 2 * tick, "%llu", (unsigned long long)common_now());
		host_ns = 1;
		CHECK(common_now() == at - 2 * tick, "%llu", (unsigned long long)common_now());
		host_ns = at + 2 * tick + 1;
		CHECK(common_now() == at + 2 * tick, "%llu", (unsigned long long)common_now());
		host_ns = at + 9000 * tick;
		CHECK(common_now() == at + 2 * tick, "%llu", (unsigned long long)common_now());
	}
	return 0;
}
