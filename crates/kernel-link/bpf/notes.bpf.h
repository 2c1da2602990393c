/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A note for each task of the tree. A program includes this after it has defined `struct note` with at least
 * - member: the identity of the task,
 * - wake_ns, wake_flags and waker: time and context of its last wakeup, and the waker's number or NOBODY.
 */
#ifndef WEIR_NOTES_BPF_H
#define WEIR_NOTES_BPF_H

#include "tree.bpf.h"
#include "note_map.bpf.h"

/* Creates a zeroed note for a child. NULL if it is not in the tree, or without memory, which counts as a loss. */
static struct note *note_on_child(struct task_struct *child, struct task_struct *parent, struct note *of_parent)
{
	struct note *note;

	if (!of_parent && !begins_tree(parent))
		return NULL;
	note = note_of_or_new(child);
	if (!note)
		count_loss();
	return note;
}

/* Records the current waker of a task. Returns the note of the waker, or NULL if it is not a task of the tree. */
static struct note *note_waker(struct note *note, struct task_struct *current, __u64 now)
{
	struct note *of_waker;

	note->wake_ns = now;
	note->wake_flags = interrupt_context(current);
	of_waker = note->wake_flags ? NULL : note_of(current);
	note->waker = of_waker ? of_waker->member.task : NOBODY;
	return of_waker;
}

#endif
