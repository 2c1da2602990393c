/* SPDX-License-Identifier: GPL-2.0-only */
#include <math.h>
#include <weir/log2.bpf.h>
#include "machine.h"

/*
 * Point 2 of log2.bpf.h: the logarithm is rounded down to 16 bits; the squarings lose less than a
 * further bit.
 */
static void check(u64 x)
{
	double exact = log2((double)x) * LOG2_ONE;
	double found = (double)log2_of(x);

	CHECK(found <= exact + 0.01 && found > exact - 1.6, "log2(%llu): %f, expected %f", (unsigned long long)x, found, exact);
}

/*
 * Point 3 of log2.bpf.h: sixteen factors, each rounded by half a unit, and each product rounded
 * down.
 */
static void check_power(u64 x)
{
	double exact = exp2(-(double)x / LOG2_ONE) * 4294967296.0;
	double found = (double)half_to(x);

	CHECK(found < exact + 10 && found > exact - 26, "2^-%llu: %f, expected %f", (unsigned long long)x, found, exact);
}

int main(void)
{
	u64 x = 88172645463325252ULL;

	for (u32 place = 0; place < 64; place++) {
		CHECK(highest_bit(1ULL << place) == place, "%u", place);
		CHECK(highest_bit(~0ULL >> (63 - place)) == place, "%u", place);
		CHECK(log2_of(1ULL << place) == place * LOG2_ONE, "%u", place);
		check(~0ULL >> (63 - place));
	}
	for (u32 i = 1; i < 5000; i++)
		check(i);
	for (u32 i = 0; i < 100000; i++) {
		/* xorshift; the shift below covers all magnitudes */
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		check(x >> i % 64 | 1);
	}
	for (int bit = 0; bit < LOG2_BITS; bit++)
		CHECK(halvings[bit] == (u32)round(exp2(32 - exp2(-1 - bit))), "%d", bit);
	CHECK(LN_2 == (u64)round(log(2) * LOG2_ONE), "ln 2");
	for (u64 power = 0; power < 40 * LOG2_ONE; power += 7)
		check_power(power);
	CHECK(half_to(0) == 1ULL << 32 && half_to(LOG2_ONE) == 1ULL << 31, "exact");
	CHECK(half_to(31 * LOG2_ONE) == 2 && half_to(32 * LOG2_ONE) == 0 && half_to(~0ULL) == 0, "small");
	return 0;
}
