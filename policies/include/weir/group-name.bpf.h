/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cgroup names as user space passes them: up to 31 bytes and a terminating NUL. A cgroup with a
 * longer name matches none of them, whatever its prefix.
 */
#ifndef WEIR_GROUP_NAME_BPF_H
#define WEIR_GROUP_NAME_BPF_H

struct name {
	char text[32];
};

/* Reads the name of a cgroup; empty if it is longer than 31 bytes. */
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
