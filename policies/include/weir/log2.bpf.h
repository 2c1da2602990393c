/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Logarithms and powers of 2 in whole numbers, for policies that draw lots or let usage decay.
 *
 * 1. Numbers are fixed point with 16 bits after the point: LOG2_ONE is 1.
 * 2. The whole part of log2(x) is the place of the highest bit of x. What is left is between 1 and 2. Its square is 2 or
 *    more if and only if the next bit of the logarithm is 1; if so it is halved, and the next bit follows. So 16 squares
 *    give 16 bits, rounded down, and no table is needed.
 * 3. The other way: each bit of x after the point that is 1 multiplies 2^-x by a constant, and the whole part shifts.
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

/* The place of the highest bit; `x` is not 0. */
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
