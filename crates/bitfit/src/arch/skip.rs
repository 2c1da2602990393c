// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shape that the wide loops share. Each processor's file fills in how to look at one line.

use super::{LINE, Line};

/// Lines that are looked at before one test: a jump for each line would cost more than the look.
pub(super) const GROUP: usize = 4;

/// Bytes that memory serves in one go: the processor's own prefetch stops at the end of a page.
const PAGE: usize = 4096;

/// Lines in a page.
pub(super) const PAGE_LINES: usize = PAGE / LINE;

/// Streams of the far read. The searches go straight through the map: on the one machine measured so far (a virtual AMD
/// EPYC with AVX-512), several streams with prefetches were slower in memory than one that the processor itself follows.
pub(super) const STREAMS: usize = 4;

/// How far ahead the far read asks for lines, in bytes.
pub(super) const AHEAD: usize = STREAMS * PAGE;

/// A group of lines.
pub(super) type Group = [Line; GROUP];

/// The lines of one page.
pub(super) type Page = [Line; PAGE_LINES];

/// The pages that the far read goes through side by side.
pub(super) type Block = [Page; STREAMS];

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
        pub(super) fn read(bytes: &[u8], far: bool) -> bool {
            let lead = bytes.as_ptr().align_offset(LINE).min(bytes.len());
            let (lines, _) = bytes[lead..].as_chunks::<LINE>();
            let mut seen = [zero(); STREAMS];
            let mut rest = lines;
            if far {
                let (blocks, _): (&[Block], _) = lines.as_chunks::<{ PAGE_LINES }>().0.as_chunks();
                for block in blocks {
                    for line in 0..PAGE_LINES {
                        for stream in 0..STREAMS {
                            prefetch(&block[stream][line], AHEAD);
                            seen[stream] = touch(seen[stream], &block[stream][line]);
                        }
                    }
                }
                rest = &lines[blocks.len() * STREAMS * PAGE_LINES..];
            }
            for group in rest.chunks(STREAMS) {
                for (seen, line) in seen.iter_mut().zip(group) {
                    *seen = touch(*seen, line);
                }
            }
            seen.into_iter().any(|seen| any(seen))
        }
    };
}
