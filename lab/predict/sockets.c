// SPDX-License-Identifier: GPL-2.0-only
/* Processes that send each other messages: `sockets groups|ping-pong [STEPS]`, with so many steps of work for each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GROUPS = 2, MEMBERS = 5, MESSAGES = 6000, BYTES = 100, ROUNDS = 60000 };

/* Reads so many bytes, in whatever parts they come. */
static void read_all(int from, long count)
{
	char bytes[BYTES];
	long got;

	while (count > 0 && (got = read(from, bytes, count < BYTES ? count : BYTES)) > 0)
		count -= got;
}

/* Each sender sends to each receiver of its group. */
static void group(void)
{
	int pairs[MEMBERS][2];
	char bytes[BYTES] = { 0 };

	for (int i = 0; i < MEMBERS; i++)
		socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]);
	for (int i = 0; i < MEMBERS; i++) {
		if (!fork()) {
			read_all(pairs[i][0], (long)MEMBERS * MESSAGES * BYTES);
			_exit(0);
		}
		if (!fork()) {
			for (int message = 0; message < MESSAGES; message++)
				for (int to = 0; to < MEMBERS; to++)
					if (write(pairs[to][1], bytes, BYTES) != BYTES)
						_exit(1);
			_exit(0);
		}
	}
}

/* So many steps of work in registers: about a nanosecond each. */
static void work(long steps)
{
	unsigned long word = 1;

	while (steps--) {
		word = word * 6364136223846793005ul + 1;
		__asm__ volatile("" : "+r"(word));
	}
}

/* Fewer rounds if each is long: some 150 ms of work at most. */
static void ping_pong(long steps)
{
	long rounds = steps && 150000000 / steps < ROUNDS ? 150000000 / steps : ROUNDS;
	int there[2], back[2];
	char byte = 0;

	if (pipe(there) || pipe(back))
		return;
	if (!fork()) {
		for (int round = 0; round < rounds; round++, work(steps))
			if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
				_exit(1);
		_exit(0);
	}
	for (int round = 0; round < rounds; round++, work(steps))
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			return;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";

	if (!strcmp(kind, "groups"))
		for (int i = 0; i < GROUPS; i++)
			group();
	else if (!strcmp(kind, "ping-pong"))
		ping_pong(argc > 2 ? atol(argv[2]) : 0);
	else
		return fprintf(stderr, "sockets groups|ping-pong [STEPS]\n"), 2;
	while (wait(NULL) > 0)
		;
	return 0;
}
