// SPDX-License-Identifier: GPL-2.0-only
/* Something to compile: twenty functions that differ in their constants, so none is merged with another. */
#define PASTE_(a, b, c) a##_##b##_##c
#define PASTE(a, b, c) PASTE_(a, b, c)

#define FUNCTION(number)                                                                \
	unsigned long PASTE(mix, UNIT, number)(unsigned long *words, unsigned long count) \
	{                                                                               \
		unsigned long sum = number * UNIT, i, j;                                \
		for (i = 0; i < count; i++) {                                           \
			for (j = i % 7; j < count; j += 3)                              \
				words[j] ^= (words[i] << (number % 31)) + sum * UNIT;   \
			switch (words[i] % 5) {                                         \
			case 0: sum += words[i] * number; break;                        \
			case 1: sum ^= words[i] >> 7; break;                            \
			case 2: sum -= words[i] & 0xff0f; break;                        \
			case 3: words[i] = sum % 1013; break;                           \
			default: sum = (sum << 9) | (sum >> 55);                        \
			}                                                               \
		}                                                                       \
		return sum;                                                             \
	}

#define TEN(tens)                                                                      \
	FUNCTION(tens##0) FUNCTION(tens##1) FUNCTION(tens##2) FUNCTION(tens##3) FUNCTION(tens##4) \
	FUNCTION(tens##5) FUNCTION(tens##6) FUNCTION(tens##7) FUNCTION(tens##8) FUNCTION(tens##9)

TEN(1) TEN(2)

#if UNIT == 1
int main(void)
{
	unsigned long words[64] = { 1 };

	return mix_1_10(words, 64) & 1;
}
#endif
