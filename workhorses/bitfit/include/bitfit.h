/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bitfit: block maps with two bits per block, as used by the GFS2 file system.
 *
 * A map is a range of bytes. A byte holds four blocks, the first in the two lowest bits; a map of n bytes has blocks
 * 0 to 4 n - 1. The bytes may have any alignment, and no function accesses a byte outside them. A map of 0 bytes may be
 * a null pointer; for any other null pointer, or an invalid state, the functions return BITFIT_NONE, -1 or
 * BITFIT_INVALID.
 *
 * Read-only functions may run concurrently; bitfit_set needs exclusive access to its map.
 *
 * The library: cargo rustc -p bitfit --release --lib --no-default-features --features capi --crate-type staticlib
 * (or --crate-type cdylib for a shared one).
 */
#ifndef BITFIT_H
#define BITFIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Block states, as stored by GFS2. */
#define BITFIT_FREE 0
#define BITFIT_USED 1
#define BITFIT_UNLINKED 2
#define BITFIT_DINODE 3

/* Result of an unsuccessful search. */
#define BITFIT_NONE SIZE_MAX

/* Results of bitfit_set. */
#define BITFIT_OK 0
#define BITFIT_OUT_OF_RANGE 1 /* the block is outside the map */
#define BITFIT_ILLEGAL 2      /* this state change is not allowed */
#define BITFIT_INVALID 3      /* invalid map or state */

/* Returns the state of a block, or -1 if it is outside the map. */
int bitfit_get(const uint8_t *map, size_t bytes, size_t block);

/*
 * Changes a block: from free to used or dinode, from dinode to unlinked, or from any other state to free. Any other
 * change is refused and has no effect.
 */
int bitfit_set(uint8_t *map, size_t bytes, size_t block, int state);

/* Returns the first block in the state at or after `from`. The search does not wrap. */
size_t bitfit_find(const uint8_t *map, size_t bytes, int state, size_t from);

/* Returns the first block not in the state at or after `from`, such as the end of a run. */
size_t bitfit_find_other(const uint8_t *map, size_t bytes, int state, size_t from);

/* Returns the start of the first run of `length` blocks in the state at or after `from`. */
size_t bitfit_find_run(const uint8_t *map, size_t bytes, int state, size_t from, size_t length);

/* Returns the last block in the state below `end`. */
size_t bitfit_find_last(const uint8_t *map, size_t bytes, int state, size_t end);

/* Counts the blocks in each state: counts[BITFIT_FREE] and so on. Returns BITFIT_OK or BITFIT_INVALID. */
int bitfit_count(const uint8_t *map, size_t bytes, size_t counts[4]);

#ifdef __cplusplus
}
#endif

#endif
