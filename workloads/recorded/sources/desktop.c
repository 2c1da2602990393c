// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a desktop does, in small: `desktop video|browser SECONDS`.
 *
 * video: a decoder with two threads has a frame ready for each of 25 frames a second; a display shows it in time.
 * browser: three pages, each a process, that a user and timers wake at random: bursts of 1 to 30 ms of work, of which every
 * second one is handed to a process that draws, as messages in pipes.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FRAME_NS = 40000000, SECOND_NS = 1000000000, AHEAD = 3, PAGES = 3 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int frames, next_frame, decoded, shown;

/* So many microseconds of work in registers, at about a nanosecond a step. */
static void work_us(long us)
{
	unsigned long word = 1;

	for (long step = us * 1000; step > 0; step--) {
		word = word * 6364136223846793005ul + 1;
		__asm__ volatile("" : "+r"(word));
	}
}

static void sleep_until(struct timespec *time, long later_ns)
{
	time->tv_nsec += later_ns;
	time->tv_sec += time->tv_nsec / SECOND_NS;
	time->tv_nsec %= SECOND_NS;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, time, NULL);
}

/* Every twelfth frame is a whole picture and takes longer; the others change it. */
static void *decode(void *unused)
{
	pthread_mutex_lock(&mutex);
	while (next_frame < frames) {
		int frame = next_frame++;

		while (frame > shown + AHEAD)
			pthread_cond_wait(&changed, &mutex);
		pthread_mutex_unlock(&mutex);
		work_us(frame % 12 ? 6000 + 400 * (frame * 7 % 11) : 22000);
		pthread_mutex_lock(&mutex);
		decoded++;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void video(int seconds)
{
	pthread_t decoders[2];
	struct timespec time;

	frames = seconds * (SECOND_NS / FRAME_NS);
	for (int i = 0; i < 2; i++)
		pthread_create(&decoders[i], NULL, decode, NULL);
	clock_gettime(CLOCK_MONOTONIC, &time);
	for (int frame = 0; frame < frames; frame++) {
		sleep_until(&time, FRAME_NS);
		pthread_mutex_lock(&mutex);
		while (decoded <= frame)
			pthread_cond_wait(&changed, &mutex);
		shown = frame;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&mutex);
		work_us(1500);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(decoders[i], NULL);
}

static void page(int number, int seconds, int to_draw)
{
	unsigned long left_us = seconds * 1000000ul;
	unsigned int random = 12345 * (number + 1);
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	for (int burst = 0;; burst++) {
		unsigned long pause_us = 5000 + rand_r(&random) % 120000;

		if (pause_us >= left_us)
			return;
		left_us -= pause_us;
		sleep_until(&time, pause_us * 1000);
		work_us(1000 + rand_r(&random) % 30000 * (rand_r(&random) % 4 == 0));
		if (burst % 2 && write(to_draw, "d", 1) != 1)
			return;
	}
}

static void browser(int seconds)
{
	int messages[2];
	char byte;

	if (pipe(messages))
		return;
	for (int number = 0; number < PAGES; number++) {
		if (!fork()) {
			page(number, seconds, messages[1]);
			_exit(0);
		}
	}
	close(messages[1]);
	while (read(messages[0], &byte, 1) == 1)
		work_us(4000);
	while (wait(NULL) > 0)
		;
}

int main(int argc, char **argv)
{
	int seconds = argc > 2 ? atoi(argv[2]) : 0;

	if (seconds > 0 && !strcmp(argv[1], "video"))
		video(seconds);
	else if (seconds > 0 && !strcmp(argv[1], "browser"))
		browser(seconds);
	else
		return fprintf(stderr, "desktop video|browser SECONDS\n"), 2;
	return 0;
}
