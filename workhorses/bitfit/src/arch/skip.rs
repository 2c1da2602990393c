// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loops common to all instruction sets. The file of each instruction set supplies the operations on a line.

// The searches read the map sequentially and rely on the hardware prefetcher. On a virtual AMD EPYC 9004,
// alternatives were slower for maps in caches and in memory: software prefetches 512 bytes to 16 KiB ahead, of every
// line or of the first lines of a page, into L1, L2 or non-temporally (5 to 45 %); two or four parallel streams, 2
// KiB to 2 MiB apart (3 to 60 %). The percentages are medians of paired samples.

/// Defines `skip` and `read` for an instruction set from the functions `none`, `see`, `join`, `any`, `touch` and
/// `skip_groups` of its file; `skip_groups` covers most of a map.
macro_rules! define_loops {
    ($(#[$attribute:meta])*) => {
        /// Number of bytes at the start of `bytes` without a wanted block: see [`super::skip`].
        $(#[$attribute])*
        pub(super) fn skip<const WANT: u8>(bytes: &[u8]) -> usize {
            let Some(first_line) = bytes.first_chunk() else { return 0 };
            if any::<WANT>(see::<WANT>(none::<WANT>(), first_line)) {
                return 0;
            }
            // Align, so that no load crosses a cache line; the few bytes read twice hold no wanted block.
            let mut at = bytes.as_ptr().align_offset(LINE).min(bytes.len());
            at += skip_groups::<WANT>(&bytes[at..]);
            let (lines, _) = bytes[at..].as_chunks::<LINE>();
            for line in lines {
                if any::<WANT>(see::<WANT>(none::<WANT>(), line)) {
                    return at;
                }
                at += LINE;
            }
            at
        }

        /// Number of bytes at the start, in whole groups of `GROUP` lines, without a wanted block. Testing each line
        /// would cost more than reading it; `SEEN` independent accumulators avoid a dependency chain.
        $(#[$attribute])*
        fn skip_groups_of<const WANT: u8, const GROUP: usize, const SEEN: usize>(bytes: &[u8]) -> usize {
            let (groups, _) = bytes.as_chunks::<LINE>().0.as_chunks::<GROUP>();
            for (index, group) in groups.iter().enumerate() {
                let mut seen = [none::<WANT>(); SEEN];
                for lines in group.as_chunks::<SEEN>().0 {
                    seen = core::array::from_fn(|i| see::<WANT>(seen[i], &lines[i]));
                }
                if any::<WANT>(seen.into_iter().fold(none::<WANT>(), |all, seen| join::<WANT>(all, seen))) {
                    return index * GROUP * LINE;
                }
            }
            groups.len() * GROUP * LINE
        }

        /// Reads every whole line once: see [`super::read`].
        $(#[$attribute])*
        pub(super) fn read(bytes: &[u8]) -> bool {
            /// A search state whose accumulator is combined with OR.
            const DINODE: u8 = 3;
            let lead = bytes.as_ptr().align_offset(LINE).min(bytes.len());
            let (groups, rest) = bytes[lead..].as_chunks::<LINE>().0.as_chunks::<4>();
            let mut seen = [none::<DINODE>(); 4];
            for [a, b, c, d] in groups {
                let [sa, sb, sc, sd] = seen;
                seen = [touch(sa, a), touch(sb, b), touch(sc, c), touch(sd, d)];
            }
            for line in rest {
                seen[0] = touch(seen[0], line);
            }
            seen.into_iter().any(|seen| any::<DINODE>(seen))
        }
    };
}

/// Defines `skip_groups` in two steps from the functions `may_hold`, a fast test that can only rule out wanted blocks
/// in a group of lines, and `skip_exactly`, an exact search.
///
/// The first step is as fast as plain reads: one instruction per load. If it cannot rule out a block, the exact
/// search continues for a while, because blocks that defeat the fast test, such as inodes when used blocks are
/// sought, seldom occur alone.
#[cfg(target_arch = "x86_64")]
macro_rules! define_two_steps {
    ($(#[$attribute:meta])*) => {
        /// Number of bytes at the start, in whole groups, without a wanted block.
        $(#[$attribute])*
        fn skip_groups<const WANT: u8>(bytes: &[u8]) -> usize {
            /// Bytes per exact search: whole groups of any size.
            const SPAN: usize = 32 << 10;
            let is_far = bytes.len() >= FAR_BYTES;
            let mut at = 0;
            loop {
                at += skip_by_low_bits::<WANT>(&bytes[at..]);
                let span = &bytes[at..bytes.len().min(at + SPAN)];
                let passed = skip_exactly::<WANT>(span, is_far);
                at += passed;
                if passed < SPAN {
                    return at;
                }
            }
        }

        /// Number of bytes at the start, in whole groups, in which the fast test rules out wanted blocks.
        $(#[$attribute])*
        fn skip_by_low_bits<const WANT: u8>(bytes: &[u8]) -> usize {
            if const { Want::from_number(WANT).other } {
                return 0; // the exact search is as fast
            }
            let (groups, _) = bytes.as_chunks::<LINE>().0.as_chunks();
            let passed = groups.iter().take_while(|group| !may_hold::<WANT>(group)).count();
            passed * size_of::<LowBitGroup>()
        }
    };
}

/// Lines per call of `may_hold`.
#[cfg(target_arch = "x86_64")]
pub(super) type LowBitGroup = [super::Line; 8];
