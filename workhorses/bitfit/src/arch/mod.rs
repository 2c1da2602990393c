// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wide loops, one file per instruction set, all with the same functions in the same order.
//!
//! Apart from `capi`, this is the only module with `unsafe` code, for three purposes: vector loads from a line whose
//! size the type guarantees, prefetches, which are valid for any address, and calls of functions compiled for
//! instructions whose presence was just checked.
#![allow(unsafe_code)]

#[macro_use]
mod skip;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use crate::word::{self, BLOCKS_PER_BYTE, BYTES, LOW, Want};
use crate::{Counts, State};

/// Length of a cache line in bytes, the unit of the wide loops.
pub(crate) const LINE: usize = 64;

/// A cache line of the map.
type Line = [u8; LINE];

/// Implementation of the wide loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Eight 64-bit words at a time, for any processor; the compiler may use baseline vector instructions.
    Portable,
    /// 256-bit vectors of x86-64 (AVX2).
    Avx2,
    /// 512-bit vectors of x86-64 with vector population count: Ice Lake, Zen 4 and later.
    Avx512,
    /// 128-bit vectors of 64-bit Arm (NEON).
    Neon,
}

/// Returns whether the processor has all named features: detected at run time with `std`, at compile time without.
#[cfg(target_arch = "x86_64")]
macro_rules! has {
    ($($feature:tt),*) => {{
        #[cfg(feature = "std")]
        let has = $(std::is_x86_feature_detected!($feature))&&*;
        #[cfg(not(feature = "std"))]
        let has = $(cfg!(target_feature = $feature))&&*;
        has
    }};
}

impl Kernel {
    /// All kernels, slowest first.
    pub const ALL: [Kernel; 4] = [Kernel::Portable, Kernel::Neon, Kernel::Avx2, Kernel::Avx512];

    /// Returns whether this machine can run the kernel.
    #[inline]
    pub fn is_available(self) -> bool {
        match self {
            Kernel::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => has!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => has!("avx512f", "avx512vpopcntdq"),
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => cfg!(target_feature = "neon"),
            _ => false,
        }
    }

    /// Fastest kernel this machine can run.
    #[inline]
    pub fn best() -> Kernel {
        let [_, faster @ ..] = Self::ALL;
        faster.into_iter().rev().find(|kernel| kernel.is_available()).unwrap_or(Kernel::Portable)
    }

    /// Lower-case name for output.
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::Portable => "portable",
            Kernel::Avx2 => "avx2",
            Kernel::Avx512 => "avx512",
            Kernel::Neon => "neon",
        }
    }
}

/// Dispatches a search number to code specialized at compile time.
macro_rules! for_want {
    ($want:expr, $kind:ident, $($argument:expr),*) => {
        match $want.number() {
            0 => $kind::skip::<0>($($argument),*),
            1 => $kind::skip::<1>($($argument),*),
            2 => $kind::skip::<2>($($argument),*),
            3 => $kind::skip::<3>($($argument),*),
            4 => $kind::skip::<4>($($argument),*),
            5 => $kind::skip::<5>($($argument),*),
            6 => $kind::skip::<6>($($argument),*),
            _ => $kind::skip::<7>($($argument),*),
        }
    };
}

/// Number of bytes at the start of `bytes` that are known to hold no wanted block. Either less than a line remains,
/// or the next line holds a wanted block.
///
/// `None` selects the fastest kernel.
pub(crate) fn skip(kernel: Option<Kernel>, bytes: &[u8], want: Want) -> usize {
    let kernel = match kernel {
        None => Kernel::best(),
        Some(kernel) if kernel.is_available() => kernel,
        Some(_) => Kernel::Portable,
    };
    match kernel {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the kernel is available, so the processor has AVX2.
        Kernel::Avx2 => unsafe { for_want!(want, avx2, bytes) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the kernel is available, so the processor has AVX-512F.
        Kernel::Avx512 => unsafe { for_want!(want, avx512, bytes) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the kernel is available, so the processor has NEON.
        Kernel::Neon => unsafe { for_want!(want, neon, bytes) },
        _ => for_want!(want, portable, bytes),
    }
}

/// Reads every whole line once with minimal computation: the benchmark's upper bound for a search.
///
/// The result only keeps the reads from being optimized away.
pub fn read(kernel: Kernel, bytes: &[u8]) -> bool {
    match kernel {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the match guard has detected AVX2.
        Kernel::Avx2 if kernel.is_available() => unsafe { avx2::read(bytes) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the match guard has detected AVX-512F.
        Kernel::Avx512 if kernel.is_available() => unsafe { avx512::read(bytes) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the match guard has detected NEON.
        Kernel::Neon if kernel.is_available() => unsafe { neon::read(bytes) },
        _ => portable::read(bytes),
    }
}

/// Number of pairs with the low bit set, with the high bit set, and with both.
#[derive(Clone, Copy, Default)]
struct Bits {
    low: u64,
    high: u64,
    both: u64,
}

impl Bits {
    /// Adds the pairs of a word.
    #[inline(always)]
    fn add(&mut self, word: u64) {
        self.low += u64::from((word & LOW).count_ones());
        self.high += u64::from((word & !LOW).count_ones());
        self.both += u64::from((word & (word >> 1) & LOW).count_ones());
    }
}

/// Counts the blocks in each state.
pub(crate) fn count(kernel: Kernel, bytes: &[u8]) -> Counts {
    let (lines, rest) = bytes.as_chunks::<LINE>();
    let mut bits = match kernel {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the match guard has detected AVX2.
        Kernel::Avx2 if kernel.is_available() => unsafe { avx2::count(lines) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the match guard has detected AVX-512F and its population count.
        Kernel::Avx512 if kernel.is_available() => unsafe { avx512::count(lines) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the match guard has detected NEON.
        Kernel::Neon if kernel.is_available() => unsafe { neon::count(lines) },
        _ => portable::count(lines),
    };
    finish(&mut bits, rest, bytes.len())
}

/// Adds the bytes after the last whole line and converts bit counts into state counts.
fn finish(bits: &mut Bits, rest: &[u8], bytes: usize) -> Counts {
    let (words, tail) = rest.as_chunks::<BYTES>();
    words.iter().for_each(|word| bits.add(u64::from_le_bytes(*word)));
    bits.add(word::load_tail(tail).0);
    let [low, high, both] = [bits.low, bits.high, bits.both].map(|count| count as usize);
    let mut counts = [0; 4];
    counts[State::Used as usize] = low - both;
    counts[State::Unlinked as usize] = high - both;
    counts[State::Dinode as usize] = both;
    counts[State::Free as usize] = bytes * BLOCKS_PER_BYTE + both - low - high;
    Counts::new(counts)
}

/// Counts with three population counts per 64-bit word, the conventional method; kept as the benchmark's baseline.
///
/// Uses the processor's popcnt instruction if available.
pub fn count_word_by_word(bytes: &[u8]) -> Counts {
    let (words, tail) = bytes.as_chunks::<BYTES>();
    #[cfg(target_arch = "x86_64")]
    let mut bits = if has!("popcnt") {
        // SAFETY: popcnt was just detected.
        unsafe { count_words_popcnt(words) }
    } else {
        count_words(words)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let mut bits = count_words(words);
    finish(&mut bits, tail, bytes.len())
}

/// Loop of [`count_word_by_word`].
#[inline(always)]
fn count_words(words: &[[u8; BYTES]]) -> Bits {
    let mut bits = Bits::default();
    words.iter().for_each(|word| bits.add(u64::from_le_bytes(*word)));
    bits
}

/// The loop of [`count_words`], compiled with the popcnt instruction.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn count_words_popcnt(words: &[[u8; BYTES]]) -> Bits {
    count_words(words)
}

/// Prefetches the cache line `ahead` bytes after the start of `line`.
#[inline(always)]
pub(crate) fn prefetch(line: &[u8], ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address; SSE is part of x86-64.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(ahead).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (line, ahead);
}
