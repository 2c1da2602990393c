/* SPDX-License-Identifier: GPL-2.0-only */
/* What every program here begins with. */
#ifndef WEIR_PROBE_BPF_H
#define WEIR_PROBE_BPF_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

#endif
