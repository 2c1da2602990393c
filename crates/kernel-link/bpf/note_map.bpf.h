/* SPDX-License-Identifier: GPL-2.0-only */
/* Per-task data of a program, in task storage. A program includes this after it has defined `struct note`. */
#ifndef WEIR_NOTE_MAP_BPF_H
#define WEIR_NOTE_MAP_BPF_H

#include "probe.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct note);
} notes SEC(".maps");

/* Note of a task; NULL if it has none. */
static struct note *note_of(struct task_struct *task)
{
	return bpf_task_storage_get(&notes, task, NULL, 0);
}

/* Note of a task, created with zeros if it has none; NULL if there is no memory. */
static struct note *note_of_or_new(struct task_struct *task)
{
	return bpf_task_storage_get(&notes, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

#endif
