/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bytes that pass through pipes and sockets between tasks of the tree. A program includes this after notes.bpf.h and
 * defines work_now(), the CPU time of a task.
 *
 * A read that finds its data does not sleep, so no wakeup shows which write it needed; on a machine with fewer CPUs it
 * might have slept. So each read and each write is reported with its channel and the number of bytes. The write that a
 * read needed is computed later, by counting bytes (crates/recording/src/channels.rs).
 *
 * 1. A pipe is identified by its inode number: inode numbers recur only after 2^32 others, addresses immediately.
 * 2. A TCP connection is identified by its addresses and ports, in the direction of the bytes. Both ends know stream
 *    positions, which are better than counts: sequence numbers.
 * 3. Any other socket of this machine is identified by the receiving socket.
 *
 * Socket tracepoints exist since 6.3; their programs are loaded where they exist. Pipes have none, and attaching to
 * kernel functions may be forbidden (lockdown), so the exits of system calls are traced. That costs about 100 ns for
 * every system call on the machine; with perf events, 300 ns for reads and writes only. Bytes moved by splice(2) are
 * not seen.
 */
#ifndef WEIR_CHANNELS_BPF_H
#define WEIR_CHANNELS_BPF_H

#include "notes.bpf.h"
#include "own_time.bpf.h"
#include <bpf/bpf_endian.h>

/* Flags of a transfer: its direction, and the meaning of `amount`. */
enum {
	PASS_WRITTEN = 1 << 0,
	PASS_SEQUENCE = 1 << 1, /* `amount` is the sequence number after the last byte, not a number of bytes */
};

struct pass {
	struct head head;
	__u64 channel;
	__u64 amount;
	__u32 flags;
	__u32 unused;
};

static __u64 work_now(struct task_struct *task, struct note *note, __u64 now);

static void report_pass(struct task_struct *current, struct note *note, __u64 channel, __u64 amount, __u32 flags)
{
	struct pass *event = RESERVE(pass);
	__u64 now;

	if (!event)
		return;
	now = bpf_ktime_get_ns();
	fill_head(&event->head, KIND_PASS, note->member.task, now, work_now(current, note, now));
	event->channel = channel;
	event->amount = amount;
	event->flags = flags;
	event->unused = 0;
	bpf_ringbuf_submit(event, wakeup_flag());
}

/* Inode of an open file of the calling task. */
static struct inode *inode_of(struct task_struct *current, unsigned int descriptor)
{
	struct fdtable *table = current->files->fdt;
	/* list_head serves as a structure that begins with a pointer, like the table's entries. */
	struct list_head *place = bpf_core_cast(table->fd + descriptor, struct list_head);

	if (descriptor >= table->max_fds)
		return NULL;
	return bpf_core_cast(place->next, struct file)->f_inode;
}

/* The calling task returns from a system call that transferred bytes. */
static enum own_class passed(struct pt_regs *registers, long bytes, __u32 flags)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct note *note = note_of(current);
	struct inode *inode;

	if (!note)
		return OWN_OTHER;
	inode = inode_of(current, registers->di);
	if (!inode || (inode->i_mode & S_IFMT) != S_IFIFO)
		return OWN_OTHER;
	report_pass(current, note, inode->i_ino, bytes, flags);
	return OWN_PASS;
}

static enum own_class call_ends(struct pt_regs *registers, long result)
{
	long call;

	/* Other architectures have other registers and other system call numbers. */
	if (result <= 0 || !bpf_core_field_exists(registers->orig_ax))
		return OWN_OTHER;
	call = registers->orig_ax;
	if (call == CALL_READ || call == CALL_READV)
		return passed(registers, result, 0);
	if (call == CALL_WRITE || call == CALL_WRITEV)
		return passed(registers, result, PASS_WRITTEN);
	return OWN_OTHER;
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(on_call_end, struct pt_regs *registers, long result)
{
	return TIMED(call_ends(registers, result));
}

static enum own_class passed_by_perf(struct trace_event_raw_sys_exit *end, __u32 flags)
{
	struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());

	if (end->ret <= 0 || !bpf_core_field_exists(registers->orig_ax))
		return OWN_OTHER;
	return passed(registers, end->ret, flags);
}

SEC("?tp/syscalls/sys_exit_read")
int on_read_by_perf(struct trace_event_raw_sys_exit *end)
{
	return TIMED(passed_by_perf(end, 0));
}

SEC("?tp/syscalls/sys_exit_readv")
int on_readv_by_perf(struct trace_event_raw_sys_exit *end)
{
	return TIMED(passed_by_perf(end, 0));
}

SEC("?tp/syscalls/sys_exit_write")
int on_write_by_perf(struct trace_event_raw_sys_exit *end)
{
	return TIMED(passed_by_perf(end, PASS_WRITTEN));
}

SEC("?tp/syscalls/sys_exit_writev")
int on_writev_by_perf(struct trace_event_raw_sys_exit *end)
{
	return TIMED(passed_by_perf(end, PASS_WRITTEN));
}

/* Hash of an IPv6 address; for an IPv4-mapped address, the IPv4 address. */
static __u32 word_of(const struct in6_addr *address)
{
	const __u32 *words = address->in6_u.u6_addr32;

	if (!words[0] && !words[1] && words[2] == bpf_htonl(0xffff))
		return words[3];
	return words[0] ^ words[1] ^ words[2] ^ words[3];
}

/* Identifies a connection and direction. The two ends have local and remote address exchanged. */
static __u64 connection(struct sock *socket, bool written)
{
	__u32 own = socket->__sk_common.skc_rcv_saddr, other = socket->__sk_common.skc_daddr;
	__u16 own_port = socket->__sk_common.skc_num, other_port = bpf_ntohs(socket->__sk_common.skc_dport);
	__u64 from, to;

	if (socket->__sk_common.skc_family == AF_INET6) {
		struct in6_addr address;

		BPF_CORE_READ_INTO(&address, socket, __sk_common.skc_v6_rcv_saddr);
		own = word_of(&address);
		BPF_CORE_READ_INTO(&address, socket, __sk_common.skc_v6_daddr);
		other = word_of(&address);
	}
	from = (__u64)own << 16 | own_port;
	to = (__u64)other << 16 | other_port;
	/* Multiplication by a large odd number spreads one of them over all bits. */
	return written ? from * 0x9e3779b97f4a7c15ull ^ to : to * 0x9e3779b97f4a7c15ull ^ from;
}

static enum own_class report_socket(struct sock *socket, long bytes, __u32 flags)
{
	bool written = flags & PASS_WRITTEN;
	__u16 family = socket->__sk_common.skc_family;
	struct task_struct *current = bpf_get_current_task_btf();
	struct note *note = note_of(current);
	struct tcp_sock *tcp = bpf_core_cast(socket, struct tcp_sock);
	__u64 receiver = (__u64)socket;

	if (!note)
		return OWN_OTHER;
	if (family == AF_UNIX) {
		if (written)
			receiver = (__u64)bpf_core_cast(socket, struct unix_sock)->peer;
		if (!receiver)
			return OWN_OTHER;
		report_pass(current, note, receiver, bytes, flags);
	} else if ((family == AF_INET || family == AF_INET6) && socket->sk_protocol == IPPROTO_TCP) {
		report_pass(current, note, connection(socket, written),
			    written ? tcp->write_seq : tcp->copied_seq, flags | PASS_SEQUENCE);
	} else {
		return OWN_OTHER;
	}
	return OWN_PASS;
}

static enum own_class socket_sent(struct sock *socket, int bytes)
{
	return bytes > 0 ? report_socket(socket, bytes, PASS_WRITTEN) : OWN_OTHER;
}

static enum own_class socket_received(struct sock *socket, int bytes, int flags)
{
	return bytes > 0 && !(flags & MSG_PEEK) ? report_socket(socket, bytes, 0) : OWN_OTHER;
}

SEC("?tp_btf/sock_send_length")
int BPF_PROG(on_sent, struct sock *socket, int bytes)
{
	return TIMED(socket_sent(socket, bytes));
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(on_received, struct sock *socket, int bytes, int flags)
{
	return TIMED(socket_received(socket, bytes, flags));
}

SEC("?tp/sock/sock_send_length")
int on_sent_by_perf(struct trace_event_raw_sock_msg_length *message)
{
	return TIMED(socket_sent(bpf_core_cast(message->sk, struct sock), message->ret));
}

SEC("?tp/sock/sock_recv_length")
int on_received_by_perf(struct trace_event_raw_sock_msg_length *message)
{
	return TIMED(socket_received(bpf_core_cast(message->sk, struct sock), message->ret, message->flags));
}

#endif
