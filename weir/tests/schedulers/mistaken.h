/* SPDX-License-Identifier: GPL-2.0-only */
/* A function of its own in a header: lines of it are nobody's. */
static __attribute__((noinline)) int insert_from_header(struct task_struct *p, u64 dsq_id)
{
	dsq_insert(p, dsq_id, SCX_SLICE_DFL, 0);
	return 0;
}
