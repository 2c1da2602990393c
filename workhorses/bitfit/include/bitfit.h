/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bitfit: maps that keep two bits for each block, as the file system GFS2 does.
 *
 * A map is a range of bytes. Four blocks share a byte, the first in the two lowest bits; a map of n bytes has the
 * blocks 0 to 4 n - 1. The bytes may lie at any address, and no function reads or writes a byte outside them. A map of
 * 0 bytes may be a null pointer; any other null pointer, or a state that is none of the four, gets BITFIT_NONE, -1 or
 * BITFIT_INVALID.
 *
 * Functions that only read may run in many threads at once; bitfit_set must be alone with its map.
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

/* The states of a block, with the numbers that GFS2 stores. */
#define BITFIT_FREE 0
#define BITFIT_USED 1
#define BITFIT_UNLINKED 2
#define BITFIT_DINODE 3

/* The answer of a search that finds nothing. */
#define BITFIT_NONE SIZE_MAX

/* The answers of bitfit_set. */
#define BITFIT_OK 0
#define BITFIT_OUT_OF_RANGE 1 /* the map has no such block */
#define BITFIT_ILLEGAL 2      /* a block in its state must not change so */
#define BITFIT_INVALID 3      /* no map, or no state */

/* The state of a block, or -1 if the map has no such block. */
int bitfit_get(const uint8_t *map, size_t bytes, size_t block);

/*
 * Changes a block: from free to used or dinode, from dinode to unlinked, or from anything but free to free. Every other
 * change is illegal and changes nothing.
 */
int bitfit_set(uint8_t *map, size_t bytes, size_t block, int state);

/* The first block in the state at or after a block. The search does not wrap. */
size_t bitfit_find(const uint8_t *map, size_t bytes, int state, size_t from);

/* The first block that is not in the state, at or after a block: where a run ends. */
size_t bitfit_find_other(const uint8_t *map, size_t bytes, int state, size_t from);

/* The first block at or after a block that starts so many blocks in the state. */
size_t bitfit_find_run(const uint8_t *map, size_t bytes, int state, size_t from, size_t length);

/* The last block in the state below a block. */
size_t bitfit_find_last(const uint8_t *map, size_t bytes, int state, size_t end);

/* Counts the blocks in each state: counts[BITFIT_FREE] and so on. The answer is BITFIT_OK or BITFIT_INVALID. */
int bitfit_count(const uint8_t *map, size_t bytes, size_t counts[4]);

#ifdef __cplusplus
}
#endif

#endif
