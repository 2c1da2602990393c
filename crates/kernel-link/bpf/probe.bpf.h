/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What every program here begins with.
 *
 * Programs follow the kernel's pointers by plain loads, and say with bpf_core_cast() what stands behind an address that the
 * verifier cannot tell. A bad address gives 0, as with bpf_probe_read_kernel(), which takes 38 ns where a load takes one
 * (EPYC, 6.18, with its mitigations): what is recorded pays for that.
 */
#ifndef WEIR_PROBE_BPF_H
#define WEIR_PROBE_BPF_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

#endif
