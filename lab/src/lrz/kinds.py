# SPDX-License-Identifier: GPL-2.0-only
"""Writes files of many kinds, of LENGTH bytes each, into a folder: kinds.py FOLDER LENGTH.

The order of the draws decides the bytes."""
import base64
import json
import math
import os
import random
import struct
import sys

folder, LENGTH = sys.argv[1], int(sys.argv[2])
draw = random.Random(448866)
FIRST = "Anna Bert Carl Dora Emil Fritz Gina Hans Ida Jan".split()
LAST = "Meyer Smith Novak Rossi Garcia Silva Kim Sato".split()
names = ["%s %s" % (draw.choice(FIRST), draw.choice(LAST)) for _ in range(300)]


def digits(*lengths):
    return "-".join("%0*x" % (length, draw.getrandbits(4 * length)) for length in lengths)


uuids = [digits(8, 4, 4, 4, 12) for _ in range(20000)]
hashes = [digits(32) for _ in range(50000)]


def table(n):
    day = "2024-%02d-%02d" % (draw.randrange(1, 13), draw.randrange(1, 29))
    state = draw.choice(("open", "closed", "pending"))
    return "%d,%s,%s,%.2f,%d,%s\n" % (n, draw.choice(names), state, draw.expovariate(0.01), draw.randrange(10000), day)


def table_of_hashes(n):
    last = digits(32) if draw.random() < 0.5 else draw.choice(("ok", "retry"))
    return "%d,%s,%.4f,%d,%s\n" % (n, draw.choice(FIRST), draw.uniform(10, 25), draw.randrange(10**6), last)


def events(n):
    page, session = "/" + draw.choice(names).replace(" ", "/"), draw.choice(uuids)
    seen = {"page": page, "session": session, "ms": draw.randrange(5000)}
    return json.dumps({"id": n, "user": draw.choice(uuids), "event": draw.choice(FIRST), "props": seen}) + "\n"


def messages(n):
    text = "request %s took %d ms" % (draw.choice(names), draw.randrange(1000))
    level = draw.choice(("info", "warn", "error"))
    return json.dumps({"ts": 1700000000 + n, "level": level, "msg": text, "host": "web%02d" % draw.randrange(20)}) + "\n"


def dump(n):
    return "INSERT INTO t VALUES (%d,'%s','%s',%d);\n" % (n, draw.choice(hashes), draw.choice(LAST), draw.randrange(10**6))


def lines(line):
    parts, length = [], 0
    while length < LENGTH:
        parts.append(line(len(parts)))
        length += len(parts[-1])
    return "".join(parts).encode()[:LENGTH]


def write(name, content):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)


write("csv", lines(table))
write("csv-hashes", lines(table_of_hashes))
write("json-uuids", lines(events))
write("json-text", lines(messages))
write("sql-hashes", lines(dump))
write("floats", b"".join(struct.pack("<dd", math.sin(k / 100) + draw.gauss(0, 0.001), k) for k in range(LENGTH // 16)))
write("base64", base64.encodebytes(draw.randbytes(LENGTH * 3 // 4))[:LENGTH])
write("noise", draw.randbytes(LENGTH))
write("zeros", bytes(LENGTH))
