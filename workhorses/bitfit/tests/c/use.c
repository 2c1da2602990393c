/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Uses every function of bitfit.h, and compares with a loop over all blocks. */
#include "bitfit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "use.c:%d: %s\n", __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

static int state_at(const uint8_t *map, size_t block)
{
	return map[block / 4] >> (2 * (block % 4)) & 3;
}

static size_t naive(const uint8_t *map, size_t bytes, int state, size_t from, int other)
{
	for (size_t block = from; block < 4 * bytes; block++)
		if ((state_at(map, block) == state) != other)
			return block;
	return BITFIT_NONE;
}

static void compare(const uint8_t *map, size_t bytes)
{
	size_t counts[4], expected[4] = {0};

	CHECK(bitfit_count(map, bytes, counts) == BITFIT_OK);
	for (size_t block = 0; block < 4 * bytes; block++) {
		expected[state_at(map, block)]++;
		CHECK(bitfit_get(map, bytes, block) == state_at(map, block));
	}
	CHECK(memcmp(counts, expected, sizeof counts) == 0);
	for (int state = BITFIT_FREE; state <= BITFIT_DINODE; state++) {
		size_t last = BITFIT_NONE;

		for (size_t from = 0; from <= 4 * bytes + 1; from++) {
			CHECK(bitfit_find_last(map, bytes, state, from) == last);
			CHECK(bitfit_find(map, bytes, state, from) == naive(map, bytes, state, from, 0));
			CHECK(bitfit_find_other(map, bytes, state, from) == naive(map, bytes, state, from, 1));
			if (from < 4 * bytes && state_at(map, from) == state)
				last = from;
		}
	}
}

static void set_and_find_runs(void)
{
	uint8_t map[1000];

	memset(map, 0x55, sizeof map);
	CHECK(bitfit_find_run(map, sizeof map, BITFIT_FREE, 0, 1) == BITFIT_NONE);
	for (size_t block = 3990; block < 4000; block++)
		CHECK(bitfit_set(map, sizeof map, block, BITFIT_FREE) == BITFIT_OK);
	CHECK(bitfit_find_run(map, sizeof map, BITFIT_FREE, 17, 10) == 3990);
	CHECK(bitfit_find_run(map, sizeof map, BITFIT_FREE, 17, 11) == BITFIT_NONE);
	CHECK(bitfit_set(map, sizeof map, 3990, BITFIT_DINODE) == BITFIT_OK);
	CHECK(bitfit_set(map, sizeof map, 3990, BITFIT_USED) == BITFIT_ILLEGAL);
	CHECK(bitfit_set(map, sizeof map, 3990, BITFIT_UNLINKED) == BITFIT_OK);
	CHECK(bitfit_get(map, sizeof map, 3990) == BITFIT_UNLINKED);
	CHECK(bitfit_set(map, sizeof map, 4000, BITFIT_FREE) == BITFIT_OUT_OF_RANGE);
	CHECK(bitfit_set(map, sizeof map, 0, 4) == BITFIT_INVALID);
	CHECK(bitfit_set(map, sizeof map, 0, -1) == BITFIT_INVALID);
	CHECK(bitfit_get(map, sizeof map, 0) == BITFIT_USED);
}

static void senseless_arguments(void)
{
	uint8_t map[1] = {0};
	size_t counts[4];

	CHECK(bitfit_find(NULL, 0, BITFIT_FREE, 0) == BITFIT_NONE);
	CHECK(bitfit_find(NULL, 7, BITFIT_FREE, 0) == BITFIT_NONE);
	CHECK(bitfit_find(map, SIZE_MAX, BITFIT_FREE, 0) == BITFIT_NONE);
	CHECK(bitfit_find(map, 1, 4, 0) == BITFIT_NONE);
	CHECK(bitfit_find(map, 1, BITFIT_FREE, SIZE_MAX) == BITFIT_NONE);
	CHECK(bitfit_find_run(map, 1, BITFIT_FREE, 0, SIZE_MAX) == BITFIT_NONE);
	CHECK(bitfit_find_run(map, 1, BITFIT_FREE, SIZE_MAX, 1) == BITFIT_NONE);
	CHECK(bitfit_find_last(map, 1, BITFIT_FREE, SIZE_MAX) == 3);
	CHECK(bitfit_get(NULL, 7, 0) == -1);
	CHECK(bitfit_get(NULL, 0, 0) == -1);
	CHECK(bitfit_set(NULL, 7, 0, BITFIT_USED) == BITFIT_INVALID);
	CHECK(bitfit_set(NULL, 0, 0, BITFIT_USED) == BITFIT_OUT_OF_RANGE);
	CHECK(bitfit_count(NULL, 7, counts) == BITFIT_INVALID);
	CHECK(bitfit_count(map, 1, NULL) == BITFIT_INVALID);
	CHECK(bitfit_count(NULL, 0, counts) == BITFIT_OK && counts[0] == 0 && counts[3] == 0);
}

int main(void)
{
	uint32_t random = 1;

	for (size_t bytes = 0; bytes <= 300; bytes += 1 + bytes / 9) {
		uint8_t *buffer = malloc(bytes + 3);

		CHECK(buffer);
		for (size_t i = 0; i < bytes + 3; i++) {
			random = random * 1103515245 + 12345;
			buffer[i] = bytes % 2 ? 0x55 : random >> 16;
		}
		compare(buffer + 3, bytes);
		free(buffer);
	}
	set_and_find_runs();
	senseless_arguments();
	puts("fine");
	return 0;
}
