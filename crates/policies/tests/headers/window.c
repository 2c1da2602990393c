/* SPDX-License-Identifier: GPL-2.0-only */
#include <weir/window.bpf.h>
#include "machine.h"

struct stream {
	struct window w;
	u64 deadline;	/* in units of the key */
};

static u64 state = 88172645463325252ULL;

static u32 below(u32 end)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % end;
}

/* Comparison of x'/y' by cross-multiplication, as in the papers. */
static s64 by_window(const struct window *a, const struct window *b)
{
	u64 a_y = a->now_y ? a->now_y : 1, b_y = b->now_y ? b->now_y : 1;

	return (s64)(a->now_x * b_y) - (s64)(b->now_x * a_y);
}

/*
 * Point 3 of window.bpf.h, rule by rule: negative if `a` precedes `b`, 0 if the order of arrival
 * decides.
 */
static s64 naive(const struct stream *a, const struct stream *b, bool window_first)
{
	s64 window = by_window(&a->w, &b->w), deadline = (s64)a->deadline - (s64)b->deadline;
	s64 first = window_first ? window : deadline, second = window_first ? deadline : window;

	if (first || second)
		return first ? first : second;
	if (!a->w.now_x && !b->w.now_x)
		return (s64)b->w.now_y - (s64)a->w.now_y;
	return (s64)a->w.now_x - (s64)b->w.now_x;
}

static int sign(s64 x)
{
	return (x > 0) - (x < 0);
}

static u64 key_of(const struct stream *s, bool window_first)
{
	return window_key(&s->w, s->deadline << DEADLINE_SHIFT, window_first);
}

static struct stream random_stream(u32 most)
{
	u32 y = below(most) + 1, x = below(3) ? below(y + 1) : 0;

	return (struct stream){ .w = { .x = x, .y = y, .now_x = x, .now_y = y }, .deadline = 1000 + below(3) };
}

static void keys_order_streams_as_in_the_papers(void)
{
	for (u32 i = 0; i < 2000000; i++) {
		u32 most = i % 2 ? 255 : 6;
		struct stream a = random_stream(most), b = random_stream(most);
		u64 late = i % 3 ? 0 : (1ULL << DEADLINE_BITS) - 1010;

		a.deadline += late;
		b.deadline += late;

		for (int first = 0; first < 2; first++) {
			s64 keys = (s64)(key_of(&a, first) - key_of(&b, first));

			CHECK(sign(keys) == sign(naive(&a, &b, first)), "%d: %u/%u at %llu and %u/%u at %llu", first, a.w.now_x,
			      a.w.now_y, (unsigned long long)a.deadline, b.w.now_x, b.w.now_y, (unsigned long long)b.deadline);
		}
	}
	/* The last distinct deadline, and the longest windows. */
	struct stream last = { .w = { .now_x = 255, .now_y = 255 }, .deadline = (1ULL << DEADLINE_BITS) - 1 };
	CHECK(key_of(&last, false) >> 63 == 0 && key_of(&last, true) >> 63 == 0, "keys are positive");
	/* Bits of a deadline beyond DEADLINE_BITS are ignored. */
	struct stream beyond = last, first = last;
	beyond.deadline = 1ULL << DEADLINE_BITS;
	first.deadline = 0;
	for (int order = 0; order < 2; order++)
		CHECK(key_of(&beyond, order) == key_of(&first, order), "%d", order);
}

/*
 * The closest fractions are those of the longest windows, and the latest deadline uses all of its
 * bits.
 */
static void close_fractions_have_distinct_keys(void)
{
	u64 latest = ~0ULL >> 1;

	for (u32 n = 0; n < 3 * 255 * 255; n++) {
		struct window a = { .now_x = n % 255 + 1, .now_y = 255 };
		struct window b = { .now_x = n / 255 % 255 + 1, .now_y = 255 - n / 255 / 255 };
		s64 keys = (s64)(window_key(&a, latest, true) - window_key(&b, latest, true));

		if (by_window(&a, &b))
			CHECK(sign(keys) == sign(by_window(&a, &b)), "%u/%u and %u/%u", a.now_x, a.now_y, b.now_x, b.now_y);
	}
}

/* Point 1 of window.bpf.h: the state of a window agrees with the list of its outcomes. */
static void windows_count_what_remains(void)
{
	for (u32 y = 1; y < 12; y++) {
		for (u32 x = 0; x <= y; x++) {
			struct window w = { .x = x, .y = y };
			u32 lost = 0, length = 0;

			window_begin(&w);
			for (u32 i = 0; i < 200; i++) {
				/* A late request, if the window tolerates one. */
				bool late = w.now_x && below(2);

				if (late)
					CHECK(!window_missed(&w), "%u/%u", x, y);
				else
					window_served(&w);
				lost += late;
				length++;
				if (w.now_x == x && w.now_y == y) {
					/*
					 * A window ends after at most y requests: earlier if all
					 * remaining ones may be late.
					 */
					CHECK(lost <= x && length <= y, "%u/%u: %u late of %u", x, y, lost, length);
					lost = length = 0;
				}
				CHECK(w.now_x <= w.now_y && w.now_y <= y, "%u/%u: %u/%u", x, y, w.now_x, w.now_y);
			}
		}
	}
}

/*
 * Point 2 of window.bpf.h: a violation increases y' by (y - x) / x rounded up, or by y, up to 255;
 * the next service resets the window.
 */
static void violations_increase_urgency(void)
{
	struct window w = { .x = 2, .y = 7 };

	window_begin(&w);
	CHECK(!window_missed(&w) && !window_missed(&w) && w.now_x == 0 && w.now_y == 5, "%u/%u", w.now_x, w.now_y);
	CHECK(window_missed(&w) && w.now_y == 8 && w.violated, "%u", w.now_y);
	CHECK(window_missed(&w) && w.now_y == 11, "%u", w.now_y);
	for (u32 i = 0; i < 300; i++)
		window_missed(&w);
	CHECK(w.now_y == 255 && w.now_x == 0, "%u", w.now_y);
	window_served(&w);
	CHECK(w.now_x == 2 && w.now_y == 7 && !w.violated, "%u/%u", w.now_x, w.now_y);
	w = (struct window){ .x = 0, .y = 3 };
	window_begin(&w);
	CHECK(window_missed(&w) && w.now_y == 6, "%u", w.now_y);
	/* A 0/0 window tolerates everything, so only deadlines count. */
	w = (struct window){};
	CHECK(window_missed(&w) && w.now_y == 0, "%u", w.now_y);
	window_served(&w);
	CHECK(w.now_x == 0 && w.now_y == 0, "%u/%u", w.now_x, w.now_y);
}

int main(void)
{
	keys_order_streams_as_in_the_papers();
	close_fractions_have_distinct_keys();
	windows_count_what_remains();
	violations_increase_urgency();
	return 0;
}
