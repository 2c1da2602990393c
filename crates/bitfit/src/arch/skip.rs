// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shape that the wide loops share. Each processor's file fills in how to look at one line.

use super::Line;

/// Lines that are looked at before one test: a jump for each line would cost more than the look.
pub(super) const GROUP: usize = 4;

/// A group of lines.
pub(super) type Group = [Line; GROUP];

// The searches go straight through the map, and leave it to the processor to look ahead. Tried on a virtual AMD EPYC 9004
// and found slower, in caches and in memory: prefetches 1 to 8 KiB ahead (by a sixth to a third), four pages side by side
// (by a quarter to a half), groups of eight lines (no difference).

/// Defines `skip` and `read` for one kind of processor, from the functions `zero`, `see`, `touch` and `any` beside it.
macro_rules! define_loops {
    ($(#[$attribute:meta])*) => {
        /// How many bytes from the start of `bytes` hold no wanted block: see [`super::skip`].
        $(#[$attribute])*
        pub(super) fn skip<const WANT: u8>(bytes: &[u8]) -> usize {
            let Some(first_line) = bytes.first_chunk() else { return 0 };
            if any(see::<WANT>(zero(), first_line)) {
                return 0;
            }
            // From here on no load crosses a line; the few bytes seen twice are known to hold nothing.
            let mut at = bytes.as_ptr().align_offset(LINE).min(bytes.len());
            at += skip_groups::<WANT>(&bytes[at..]);
            let (lines, _) = bytes[at..].as_chunks::<LINE>();
            for line in lines {
                if any(see::<WANT>(zero(), line)) {
                    return at;
                }
                at += LINE;
            }
            at
        }

        /// Bytes from the start in whole groups without a wanted block of the map.
        $(#[$attribute])*
        fn skip_groups<const WANT: u8>(bytes: &[u8]) -> usize {
            let (groups, _): (&[Group], _) = bytes.as_chunks::<LINE>().0.as_chunks();
            for (index, [a, b, c, d]) in groups.iter().enumerate() {
                let left = see::<WANT>(see::<WANT>(zero(), a), b);
                let right = see::<WANT>(see::<WANT>(zero(), c), d);
                if any(left) | any(right) {
                    return index * GROUP * LINE;
                }
            }
            groups.len() * GROUP * LINE
        }

        /// Reads every whole line once: see [`super::read`].
        $(#[$attribute])*
        pub(super) fn read(bytes: &[u8]) -> bool {
            let lead = bytes.as_ptr().align_offset(LINE).min(bytes.len());
            let (groups, rest): (&[Group], _) = bytes[lead..].as_chunks::<LINE>().0.as_chunks();
            let mut seen = [zero(); GROUP];
            for [a, b, c, d] in groups {
                let [sa, sb, sc, sd] = seen;
                seen = [touch(sa, a), touch(sb, b), touch(sc, c), touch(sd, d)];
            }
            for line in rest {
                seen[0] = touch(seen[0], line);
            }
            seen.into_iter().any(|seen| any(seen))
        }
    };
}
