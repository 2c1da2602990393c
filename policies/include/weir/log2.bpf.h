/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Integer log2 and powers of 2, for policies that hold lotteries or decay usage.
 *
 * 1. Values are fixed point with 16 fractional bits: LOG2_ONE is 1.
 * 2. The integer part of log2(x) is the index of the highest set bit of x. The rest is in [1, 2).
 *    Its square is at least 2 exactly if the next bit of the logarithm is 1; it is then halved, and
 *    the next bit follows. So 16 squarings give 16 bits, rounded down, without a table.
 * 3. The inverse: each set fractional bit of x multiplies 2^-x by a constant, and the integer part
 *    shifts.
 */
#ifndef WEIR_LOG2_BPF_H
#define WEIR_LOG2_BPF_H

#ifdef __bpf__
#include "bpf.bpf.h"
#else
#include "host.h"
#endif

#define LOG2_BITS 16
#define LOG2_ONE (1ULL << LOG2_BITS)
#define LN_2 45426ULL	/* 0.693147 */

/* Index of the highest set bit; `x` is not 0. */
static __always_inline u32 highest_bit(u64 x)
{
	u32 place = 0, step;

	#pragma unroll
	for (step = 32; step; step /= 2) {
		u32 up = (x >> step != 0) * step;

		place += up;
		x >>= up;
	}
	return place;
}

/* log2(x), from 0 for 1 to just below 64; `x` is not 0. */
static __always_inline u64 log2_of(u64 x)
{
	u32 whole = highest_bit(x);
	u64 rest = x << (63 - whole) >> 32;	/* 1 is 2^31 */
	u64 log = whole;
	int bit;

	#pragma unroll
	for (bit = 0; bit < LOG2_BITS; bit++) {
		rest = rest * rest >> 31;
		log = log << 1 | rest >> 32;
		rest >>= rest >> 32;
	}
	return log;
}

/* 2^-(1/2), 2^-(1/4), ... in units of 2^-32. */
static const u32 halvings[LOG2_BITS] = {
	3037000500U, 3611622603U, 3938502376U, 4112874773U, 4202935003U, 4248701965U, 4271771996U, 4283353945U,
	4289156690U, 4292061010U, 4293513907U, 4294240540U, 4294603903U, 4294785595U, 4294876445U, 4294921870U,
};

/* 3: 2^-x in units of 2^-32: 2^32 for 0, and 0 for 32 and more. */
static __always_inline u64 half_to(u64 x)
{
	u64 result = 1ULL << 32;
	int bit;

	if (x >= 32 * LOG2_ONE)
		return 0;
	#pragma unroll
	for (bit = 0; bit < LOG2_BITS; bit++) {
		if (x & (LOG2_ONE / 2 >> bit))
			result = result * halvings[bit] >> 32;
	}
	return result >> (x >> LOG2_BITS);
}

#endif
