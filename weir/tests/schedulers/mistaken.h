/* SPDX-License-Identifier: GPL-2.0-only */
/* A non-inlined function in a header: its lines are not attributed to the scheduler. */
static __attribute__((noinline)) int insert_from_header(struct task_struct *p, u64 dsq_id)
{
	dsq_insert(p, dsq_id, SCX_SLICE_DFL, 0);
	return 0;
}
