/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A note on each task of the tree. A program includes this after it has said what a `struct note` is. That has
 * - member: who the task is,
 * - wake_ns, wake_flags and waker: when it was woken last, in which context, and by whom of the tree or NOBODY.
 */
#ifndef WEIR_NOTES_BPF_H
#define WEIR_NOTES_BPF_H

#include "tree.bpf.h"
#include "note_map.bpf.h"

/* A note on a child, all zero. NULL if it is not of the tree, or if there is no memory: then a loss is counted. */
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

/* Writes down who wakes a task, now. Gives the note on the waker, or NULL if that is not a task of the tree. */
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
