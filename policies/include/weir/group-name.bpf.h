/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names of groups, as far as user space can speak of them: 31 bytes and the 0 behind them. A group whose name is longer
 * is none of those that it speaks of, however its name begins.
 */
#ifndef WEIR_GROUP_NAME_BPF_H
#define WEIR_GROUP_NAME_BPF_H

struct name {
	char text[32];
};

/* The name of a group; nothing, if it is longer. */
static __always_inline void read_name(struct name *name, struct cgroup *cgrp)
{
	struct {
		struct name begin;
		u64 more;
	} whole = {};

	bpf_probe_read_kernel_str(&whole, sizeof(name->text) + 1, cgrp->kn->name);
	*name = whole.begin.text[sizeof(name->text) - 1] ? (struct name){} : whole.begin;
}

#endif
