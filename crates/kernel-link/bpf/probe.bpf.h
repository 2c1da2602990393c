/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Common beginning of all programs here.
 *
 * Programs dereference kernel pointers with plain loads, and use bpf_core_cast() where the verifier does not know the
 * type behind an address. A bad address reads as 0, as with bpf_probe_read_kernel(), which takes 38 ns instead of 1 ns
 * (EPYC, 6.18 with mitigations), charged to the recorded task.
 */
#ifndef WEIR_PROBE_BPF_H
#define WEIR_PROBE_BPF_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

#endif
