/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State that a scheduler keeps for each task.
 *
 * 1. ops.init_task creates the state, all zeros, before any other op is called for the task. If
 *    there is no memory for it, init_task fails, and with it the fork or the attach.
 * 2. The kernel frees the state with the task, so exit_task need not do it.
 * 3. Only a task for which init_task was not called has no state, that is, the idle task of a CPU.
 *    The verifier cannot know this, so each result of task_of() must be checked for NULL.
 *
 * Before including this, a policy defines `struct task`.
 */
#ifndef WEIR_TASK_BPF_H
#define WEIR_TASK_BPF_H

#include "scx.bpf.h"

TASK_STORAGE(tasks, struct task);

static struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* 1: returns NULL if there is no memory. */
static __always_inline struct task *make_task(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

#endif
