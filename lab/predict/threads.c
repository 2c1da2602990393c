// SPDX-License-Identifier: GPL-2.0-only
/* Threads that meet, exclude each other, hand over, or wake up in time: `threads barrier|mutex|queue|periodic`. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MANY = 8, ROOM = 16, ITEMS = 3000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t meeting;
static int items, taken;

/* So many steps of work in registers: about a nanosecond each. */
static void work(long steps)
{
	unsigned long word = 1;

	while (steps--) {
		word = word * 6364136223846793005ul + 1;
		__asm__ volatile("" : "+r"(word));
	}
}

static void *meet(void *number)
{
	for (int round = 0; round < 500; round++) {
		work(200000 + 50000 * ((long)number + round) % 170000);
		pthread_barrier_wait(&meeting);
	}
	return NULL;
}

static void *exclude(void *number)
{
	for (int round = 0; round < 6000; round++) {
		pthread_mutex_lock(&mutex);
		work(3000);
		pthread_mutex_unlock(&mutex);
		work(5000 + 100 * (long)number);
		if (round % 4 == 0)
			sched_yield();
	}
	return NULL;
}

static void *produce(void *number)
{
	for (int item = 0; item < ITEMS; item++) {
		work(20000 + 3000 * (long)number);
		pthread_mutex_lock(&mutex);
		while (items == ROOM)
			pthread_cond_wait(&emptied, &mutex);
		items++;
		pthread_cond_signal(&filled);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void *consume(void *number)
{
	(void)number;
	for (;;) {
		pthread_mutex_lock(&mutex);
		while (!items && taken < 3 * ITEMS)
			pthread_cond_wait(&filled, &mutex);
		if (taken == 3 * ITEMS) {
			pthread_mutex_unlock(&mutex);
			return NULL;
		}
		items--;
		if (++taken == 3 * ITEMS)
			pthread_cond_broadcast(&filled);
		pthread_cond_signal(&emptied);
		pthread_mutex_unlock(&mutex);
		work(40000);
	}
}

static void *wake_in_time(void *number)
{
	struct timespec next;

	(void)number;
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (int round = 0; round < 1500; round++) {
		work(50000);
		next.tv_nsec += 1000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	return NULL;
}

static void *hog(void *number)
{
	(void)number;
	work(1200000000);
	return NULL;
}

static void run(int count, void *(*bodies[])(void *))
{
	pthread_t threads[MANY];

	for (long i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, bodies[i], (void *)i);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	void *(*meeters[])(void *) = { meet, meet, meet, meet };
	void *(*excluders[])(void *) = { exclude, exclude, exclude, exclude, exclude, exclude, exclude, exclude };
	void *(*handers[])(void *) = { produce, produce, produce, consume, consume, consume };
	void *(*wakers[])(void *) = { wake_in_time, wake_in_time, wake_in_time, hog, hog };

	pthread_barrier_init(&meeting, NULL, 4);
	if (!strcmp(kind, "barrier"))
		run(4, meeters);
	else if (!strcmp(kind, "mutex"))
		run(8, excluders);
	else if (!strcmp(kind, "queue"))
		run(6, handers);
	else if (!strcmp(kind, "periodic"))
		run(5, wakers);
	else
		return fprintf(stderr, "threads barrier|mutex|queue|periodic\n"), 2;
	return 0;
}
