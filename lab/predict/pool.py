# SPDX-License-Identifier: GPL-2.0-only
"""A pool of four processes that share 1200 pieces of work of different lengths."""
from multiprocessing import Pool


def piece(number):
    total = 0
    for i in range(4000 + number * 137 % 9000):
        total += i * i % 7
    return total


if __name__ == "__main__":
    with Pool(4) as pool:
        print(sum(pool.imap_unordered(piece, range(1200))))
