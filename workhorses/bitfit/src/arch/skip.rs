// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shape that the wide loops share. Each processor's file fills in how to look at one line.

// The searches go straight through the map, and leave it to the processor to look ahead. Tried on a virtual AMD EPYC 9004
// and found slower, in caches and in memory: prefetches 512 bytes to 16 KiB ahead, of every line or of a page's first
// ones, into the first cache, the second or past them (by 5 to 45 %); two and four streams side by side, 2 KiB to 2 MiB
// apart (by 3 to 60 %). Each percentage is a median of paired samples.

/// Defines `skip` and `read` for one kind of processor, from what stands beside it: the functions `none`, `see`, `join`,
/// `any` and `touch`, and `skip_groups`, which passes over most of a map.
macro_rules! define_loops {
    ($(#[$attribute:meta])*) => {
        /// How many bytes from the start of `bytes` hold no wanted block: see [`super::skip`].
        $(#[$attribute])*
        pub(super) fn skip<const WANT: u8>(bytes: &[u8]) -> usize {
            let Some(first_line) = bytes.first_chunk() else { return 0 };
            if any::<WANT>(see::<WANT>(none::<WANT>(), first_line)) {
                return 0;
            }
            // From here on no load crosses a line; the few bytes seen twice are known to hold nothing.
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

        /// Bytes from the start in whole groups of `GROUP` lines without a wanted block. A test for each line would cost
        /// more than the look; `SEEN` results at a time keep the looks from waiting for each other.
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
            /// The search that gathers what it looks for with "or", as the reads are.
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

/// Defines `skip_groups` in two steps, from what stands beside it: `may_hold`, a look at a group of lines that can tell
/// only that it has no wanted block, and `skip_exactly`, which passes over groups as `skip_groups` does.
///
/// The first step is as fast as plain reads, as it takes one instruction for a load. Where it cannot tell, the second one
/// goes on for a while: what spoils the first step, such as inodes where used blocks are sought, is seldom alone.
#[cfg(target_arch = "x86_64")]
macro_rules! define_two_steps {
    ($(#[$attribute:meta])*) => {
        /// Bytes from the start in whole groups without a wanted block.
        $(#[$attribute])*
        fn skip_groups<const WANT: u8>(bytes: &[u8]) -> usize {
            /// Bytes of the second step: whole groups of any size.
            const SPAN: usize = 32 << 10;
            let is_far = bytes.len() >= FAR_BYTES;
            let mut at = 0;
            loop {
                at += skip_at_first_glance::<WANT>(&bytes[at..]);
                let span = &bytes[at..bytes.len().min(at + SPAN)];
                let passed = skip_exactly::<WANT>(span, is_far);
                at += passed;
                if passed < SPAN {
                    return at;
                }
            }
        }

        /// Bytes from the start in whole groups that are known to have no wanted block.
        $(#[$attribute])*
        fn skip_at_first_glance<const WANT: u8>(bytes: &[u8]) -> usize {
            if const { Want::from_number(WANT).other } {
                return 0; // the second step is as fast
            }
            let (groups, _) = bytes.as_chunks::<LINE>().0.as_chunks();
            let passed = groups.iter().take_while(|group| !may_hold::<WANT>(group)).count();
            passed * size_of::<Glance>()
        }
    };
}

/// Lines of which `may_hold` tells.
#[cfg(target_arch = "x86_64")]
pub(super) type Glance = [super::Line; 8];
