# SPDX-License-Identifier: GPL-2.0-only
"""Writes so many bytes of a log of web servers and others: much repeats, but nothing for long.

The order of the draws decides the bytes, which are known by their sum: no draw may move."""
import random
import sys

length = int(sys.argv[1])
draw = random.Random(446085)
choice, below = draw.choice, draw.randrange
hosts = ["web%02d" % number for number in range(24)]
addresses = [".".join(str(below(1, 255)) for _ in range(4)) for _ in range(5000)]
words = (
    "index login logout cart item search static img css js api v1 v2 user order report admin health status metrics "
    "feed blog post tag page"
).split()
paths = ["/" + "/".join(choice(words) for _ in range(below(1, 5))) for _ in range(4000)]
browser = "Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/%d.0"
agents = [browser % (version, version) for version in range(90, 130)]
agents += ["curl/7.%d.%d" % (below(50, 90), below(3)) for _ in range(20)]
messages = [
    "Accepted publickey for %s from %s port %d ssh2",
    "Connection closed by %s %s port %d [preauth]",
    "Started Session %s of user %s (%d).",
    "kernel: usb %s: new high-speed device %s number %d",
    "CRON[%s]: (%s) CMD (run-parts --report /etc/cron.hourly %d)",
]


def request():
    path = choice(paths) if draw.random() < 0.7 else choice(paths) + "?id=%d&s=%08x" % (below(10**7), draw.getrandbits(32))
    return '%s - - [%d.%03d] "%s %s HTTP/1.1" %d %d "-" "%s" %.3f\n' % (
        choice(addresses), int(time), int(time * 1000) % 1000, choice(("GET", "GET", "GET", "POST", "HEAD")), path,
        choice((200, 200, 200, 200, 304, 404, 500)), below(120, 90000), choice(agents), draw.expovariate(8),
    )


def message():
    start = "%d %s sshd[%d]: " % (int(time), choice(hosts), below(300, 32768))
    user = choice(messages), choice(("root", "deploy", "git", "www-data", "%x" % draw.getrandbits(24)))
    return start + user[0] % (user[1], choice(addresses), below(1024, 65536)) + "\n"


time = 1291000000.0
written = 0
while written < length:
    time += draw.expovariate(40)
    line = request() if draw.random() < 0.85 else message()
    part = line.encode()[: length - written]
    sys.stdout.buffer.write(part)
    written += len(part)
