/* SPDX-License-Identifier: GPL-2.0-only */
#include <weir/deadline.bpf.h>
#include "machine.h"

int main(void)
{
	static const u32 cpus[] = { 1, 2, 4, 8, 16, 64, 4096 }, ms[] = { 6, 9, 12, 15, 18, 22, 23 };
	struct budget t = { .slice_ns = 5000, .since = 100 };

	/* Point 1 of deadline.bpf.h: each ratio is the previous one * 11 / 10, rounded down. */
	CHECK(ratio_of(100) == 128, "%u", ratio_of(100));
	for (s32 prio = 101; prio < 140; prio++)
		CHECK(ratio_of(prio) == ratio_of(prio - 1) * 11 / 10, "%d: %u", prio, ratio_of(prio));
	CHECK(ratio_of(99) == 836 && ratio_of(140) == 836, "out of range counts as nice 0");

	/* Point 5 of deadline.bpf.h */
	for (u32 i = 0; i < 7; i++) {
		deadline_init(cpus[i]);
		CHECK(rr_ms == ms[i], "%u CPUs: %llu", cpus[i], (unsigned long long)rr_ms);
	}
	rr_scaled = false;
	deadline_init(16);
	CHECK(rr_ms == 6 && rr_slice_ns == 6291456, "not scaled");
	rr_interval_ms = 300;
	rr_scaled = true;
	deadline_init(16);
	CHECK(rr_ms == 300, "an explicit interval is not scaled");
	rr_interval_ms = 0;
	hz = 1000;
	deadline_init(1);
	CHECK(half_tick_ns == 512000, "%llu", (unsigned long long)half_tick_ns);

	/* Points 1 and 2 of deadline.bpf.h: deadlines of nice -20, 0 and 19 with 6 ms slices. */
	for (u32 i = 0; i < 3; i++) {
		static const u64 away[] = { 6291456, 41091072, 250134528 };

		t.ratio = ratio_of((s32[]){ 100, 120, 139 }[i]);
		renew(&t, 1000);
		CHECK(t.deadline == 1000 + away[i], "%llu", (unsigned long long)t.deadline);
		CHECK(t.slice_ns == rr_slice_ns, "%llu", (unsigned long long)t.slice_ns);
	}

	/*
	 * Point 2 of deadline.bpf.h: CPU time below 1 us is not charged, and a slice does not
	 * become negative.
	 */
	t = (struct budget){ .slice_ns = 5000, .since = 100 };
	charge(&t, 100 + 2047);
	CHECK(t.slice_ns == 5000 - 1024 && t.since == 2147, "%llu", (unsigned long long)t.slice_ns);
	charge(&t, 2000);
	CHECK(t.slice_ns == 5000 - 1024 && t.since == 2000, "time that goes backwards is not charged");
	charge(&t, 1000000);
	CHECK(t.slice_ns == 0, "%llu", (unsigned long long)t.slice_ns);

	/* Point 4 of deadline.bpf.h */
	t.slice_ns = 102400;
	CHECK(!tick_ends(&t, false) && tick_ends(&t, true), "100 us left do not end the slice");
	t.slice_ns = 102399;
	CHECK(tick_ends(&t, false), "less than 100 us end it");
	t.slice_ns = 512000;
	CHECK(!tick_ends(&t, true), "half a period");
	t.slice_ns = 511999;
	CHECK(tick_ends(&t, true), "less than half a period");

	/* Point 5 of deadline.bpf.h: 200 us are split, less is not. */
	for (u64 left = 199; left <= 201; left++) {
		struct budget parent = { .slice_ns = left << 10, .deadline = 7, .since = 50 }, child = { .deadline = 9 };
		bool shared = share(&child, &parent, 50);

		CHECK(shared == (left >= 200), "%llu", (unsigned long long)left);
		CHECK(parent.slice_ns == (shared ? left << 9 : 0), "%llu", (unsigned long long)parent.slice_ns);
		CHECK(child.slice_ns == (shared ? left << 9 : 0), "%llu", (unsigned long long)child.slice_ns);
		CHECK(child.deadline == (shared ? 7 : 9) && parent.deadline == 7, "deadlines of parent and child");
	}
	return 0;
}
