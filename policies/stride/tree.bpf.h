/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tree of hierarchical stride scheduling (section 3 of the report).
 *
 * 1. Clients are the leaves of a binary tree, and each node has the sum of the tickets of its
 *    leaves. Each node has a stride and a pass. A pick descends from the root, always to the child
 *    with the smaller pass, and advances each node on the way by its stride.
 * 2. So clients compete in pairs of groups. Many small clients beside a heavy one do not all run at
 *    once: the error after any number of quanta grows with the depth of the tree, not with the
 *    number of clients.
 * 3. A pick descends only into nodes with a waiting task. A running task has been picked: its
 *    tickets stay in the tree, so its nodes advance as before. With several CPUs, some tasks run
 *    without a pick, because no other task could or wanted to run there. They are not charged, as
 *    otherwise their neighbors in the tree would wait for that time.
 * 4. For a task that used more or less than a quantum, the difference is charged or returned on the
 *    way up.
 * 5. A joining leaf has the distance to its sibling that it had when it left, but is never before
 *    it. A node that had no leaf in the tree is not before its sibling either. So sleep earns
 *    nothing.
 * 6. There are SLOTS leaves. A task has one while it is runnable.
 */
#ifndef STRIDE_TREE_BPF_H
#define STRIDE_TREE_BPF_H

#define SLOT_BITS 10
#define SLOTS (1 << SLOT_BITS)
#define NO_SLOT (~0U)
#define ROOT 1

struct node {
	u64 pass;
	u64 tickets;
	u32 waiting;	/* 3: leaves under it whose task waits */
};

struct tree {
	struct bpf_spin_lock lock;
	struct node nodes[2 * SLOTS];
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct tree);
} trees SEC(".maps");

/*
 * Pid of the task that holds each slot; 0 if it is free. The search starts at the slot released
 * last.
 */
s32 holders[SLOTS];
u32 free_from;

static __always_inline struct tree *the_tree(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&trees, &key);
}

static __always_inline struct node *node_at(struct tree *tree, u32 number)
{
	return &tree->nodes[number % (2 * SLOTS)];
}

static __always_inline u64 stride_of(struct node *node, u64 ns)
{
	return (ns << PASS_BITS) / (node->tickets ? node->tickets : 1);
}

/* ---- 6: slots ---- */

static __noinline u32 take_slot(s32 pid)
{
	u32 from = READ_ONCE(free_from);
	int i;

	for_range(i, 0, SLOTS) {
		u32 slot = (from + i) % SLOTS;

		if (__sync_val_compare_and_swap(&holders[slot], 0, pid) == 0)
			return slot;
	}
	return NO_SLOT;
}

static __always_inline void release_slot(u32 slot)
{
	WRITE_ONCE(holders[slot % SLOTS], 0);
	WRITE_ONCE(free_from, slot);
}

/* ---- 3: waiting tasks. The lock is held. ---- */

static __always_inline void count_waiting(struct tree *tree, u32 slot, bool waits)
{
	u32 number = SLOTS + slot % SLOTS;
	int level;

	if (node_at(tree, number)->waiting == waits)
		return;
	for (level = 0; level <= SLOT_BITS; level++) {
		node_at(tree, number)->waiting += waits ? 1 : -1;
		number /= 2;
	}
}

VERIFIED_ONCE u32 set_waiting(u32 slot, bool waits)
{
	struct tree *tree = the_tree();

	if (!tree)
		return 0;
	bpf_spin_lock(&tree->lock);
	count_waiting(tree, slot, waits);
	bpf_spin_unlock(&tree->lock);
	return 0;
}

/* ---- 5: leaves that join and leave ---- */

/* Adds a leaf at its old distance `ahead` of its sibling, but not before it. */
VERIFIED_ONCE u32 join_tree(u32 slot, u64 tickets, u64 ahead)
{
	struct tree *tree = the_tree();
	u32 number = SLOTS + slot % SLOTS;
	int level;

	if (!tree)
		return 0;
	bpf_spin_lock(&tree->lock);
	for (level = 0; level < SLOT_BITS; level++) {
		struct node *node = node_at(tree, number), *sibling = node_at(tree, number ^ 1);
		u64 pass = sibling->tickets ? sibling->pass : node->pass;

		if (level == 0)
			node->pass = pass + ahead;
		else if (!node->tickets && (s64)(pass - node->pass) > 0)
			node->pass = pass;
		node->tickets += tickets;
		number /= 2;
	}
	node_at(tree, ROOT)->tickets += tickets;
	bpf_spin_unlock(&tree->lock);
	return 0;
}

/* Removes a leaf and returns its distance ahead of its sibling. */
VERIFIED_ONCE u64 leave_tree(u32 slot, u64 tickets)
{
	struct tree *tree = the_tree();
	u32 number = SLOTS + slot % SLOTS;
	s64 ahead = 0;
	int level;

	if (!tree)
		return 0;
	bpf_spin_lock(&tree->lock);
	count_waiting(tree, slot, false);
	if (node_at(tree, number ^ 1)->tickets)
		ahead = node_at(tree, number)->pass - node_at(tree, number ^ 1)->pass;
	for (level = 0; level <= SLOT_BITS; level++) {
		node_at(tree, number)->tickets -= tickets;
		number /= 2;
	}
	bpf_spin_unlock(&tree->lock);
	return ahead > 0 ? ahead : 0;
}

/* ---- 1: pick ---- */

/* 1 if `x`, of 32 bits, is not 0, otherwise 0. */
static __always_inline u64 is_some(u64 x)
{
	asm volatile("" : "+r"(x));	/* otherwise clang emits a branch */
	return -x >> 63;
}

/*
 * 0 to descend to the left, 1 to the right. Without a branch, because the verifier would follow all
 * paths to a thousand leaves.
 */
static __always_inline u32 side(const struct node *left, const struct node *right)
{
	u64 left_is_later = (right->pass - left->pass) >> 63;

	return is_some(right->waiting) & ((is_some(left->waiting) ^ 1) | left_is_later);
}

/* Slot of the waiting task that is next. It is charged a quantum, and no longer waits. */
VERIFIED_ONCE u32 pick_slot(u64 quantum_ns)
{
	struct tree *tree = the_tree();
	u32 number = ROOT;
	int level;

	if (!tree)
		return NO_SLOT;
	bpf_spin_lock(&tree->lock);
	if (!node_at(tree, ROOT)->waiting) {
		bpf_spin_unlock(&tree->lock);
		return NO_SLOT;
	}
	for (level = 0; level < SLOT_BITS; level++) {
		struct node *next;

		number = 2 * number + side(node_at(tree, 2 * number), node_at(tree, 2 * number + 1));
		next = node_at(tree, number);
		next->pass += stride_of(next, quantum_ns);
	}
	count_waiting(tree, number, false);
	bpf_spin_unlock(&tree->lock);
	return number % SLOTS;
}

/* 4: charges `ns` more than a quantum, or less if it is negative. */
VERIFIED_ONCE u32 correct(u32 slot, s64 ns)
{
	struct tree *tree = the_tree();
	u32 number = SLOTS + slot % SLOTS;
	u64 size = ns < 0 ? -ns : ns;
	int level;

	if (!tree)
		return 0;
	bpf_spin_lock(&tree->lock);
	for (level = 0; level < SLOT_BITS; level++) {
		struct node *node = node_at(tree, number);

		node->pass += ns < 0 ? -stride_of(node, size) : stride_of(node, size);
		number /= 2;
	}
	bpf_spin_unlock(&tree->lock);
	return 0;
}

#endif
