// SPDX-License-Identifier: GPL-2.0-only
//! Operations on maps of 2-bit states: the bare map, the indexed map and the atomic map must agree with a list of
//! states.

use std::sync::atomic::{AtomicU64, Ordering};

use bitfit::{AtomicBitmap, Bitmap, Counts, Indexed, Kernel, SetError, State};

/// Maximum size in bytes of the part of a map taken from the input: several chunks of an index.
const MOST_BYTES: usize = 5000;

/// Length in bytes of a uniform prefix of some maps, long enough for the wide searches to reach their second step
/// twice.
const LONG_BYTES: usize = 34 << 10;

/// Maximum number of operations on such a map, because the list of states is slow.
const MOST_ON_LONG: usize = 12;

/// Takes numbers from the input; after its end they are 0.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn below(&mut self, end: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % end
    }
}

/// Makes a map from the first bytes and executes the operations encoded in the rest.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (own_length, base) = (input.below(MOST_BYTES), input.below(64));
    let is_long = input.byte() % 16 == 1;
    let lead = if is_long { LONG_BYTES } else { 0 };
    let length = lead + own_length;
    let mut memory = vec![State::from_bits(input.byte()).bits() * 0x55; base + length];
    if is_long {
        memory[base..base + lead].fill(input.byte());
    }
    for _ in 0..input.byte() {
        let at = lead + input.below(base + own_length + 1);
        if let Some(byte) = memory.get_mut(at) {
            *byte = input.byte();
        }
    }
    let mut copy = memory.clone();
    let words: Vec<AtomicU64> = memory[base..]
        .chunks(8)
        .map(|chunk| AtomicU64::new(chunk.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)).to_le()))
        .collect();
    let mut states: Vec<State> =
        memory[base..].iter().flat_map(|&byte| (0..4).map(move |k| State::from_bits(byte >> (2 * k)))).collect();
    let mut bare = Bitmap::new(&mut memory[base..]);
    let indexed_states = [State::Free, State::Dinode];
    let mut storage = vec![0; 2 * Indexed::words_per_state(length)];
    let mut indexed = Indexed::new(&mut copy[base..], &indexed_states, &mut storage).expect("enough storage");
    let atomic = AtomicBitmap::new(&words, 4 * length);
    let mut left = if is_long { MOST_ON_LONG } else { usize::MAX };
    while left > 0 && !input.0.is_empty() {
        left -= 1;
        let (what, state) = (input.byte(), State::from_bits(input.byte()));
        // The first blocks, or those of the input's own part and some beyond the end.
        let block = input.below(4 * own_length + 40) + if what & 4 == 0 { 4 * lead } else { 0 };
        match what % 4 {
            0 => {
                let expected = set(&mut states, block, state);
                assert_eq!(bare.set(block, state), expected);
                assert_eq!(indexed.set(block, state), expected);
                assert_eq!(atomic.set(block, state), expected);
            }
            1 => {
                let goal = if block < states.len() { block } else { 0 };
                let free = |block: &usize| states[*block] == State::Free;
                let expected = (goal..states.len()).chain(0..goal).find(free).filter(|_| State::Free.may_become(state));
                assert_eq!(atomic.allocate(state, block), expected);
                if let Some(block) = expected {
                    set(&mut states, block, state).expect("the block was free");
                    bare.set(block, state).expect("the block was free");
                    indexed.set(block, state).expect("the block was free");
                }
            }
            2 => {
                assert_eq!(atomic.get(block), states.get(block).copied());
                search(&bare, &mut indexed, &states, state, block);
            }
            _ => runs(&bare, &states, state, block, input.below(90)),
        }
    }
    assert!(bare.iter().eq(states.iter().copied()));
    assert_eq!(indexed.map().into_inner(), bare.as_bytes());
    let end = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).take(length);
    assert!(end.eq(bare.as_bytes().iter().copied()));
}

fn set(states: &mut [State], block: usize, next: State) -> Result<State, SetError> {
    let blocks = states.len();
    let state = states.get_mut(block).ok_or(SetError::OutOfRange { block, blocks })?;
    let from = *state;
    if !from.may_become(next) {
        return Err(SetError::Illegal { block, from, to: next });
    }
    *state = next;
    Ok(from)
}

fn search(bare: &Bitmap<&mut [u8]>, indexed: &mut Indexed<'_>, states: &[State], wanted: State, from: usize) {
    let expected = (from..states.len()).find(|&block| states[block] == wanted);
    for kernel in Kernel::ALL {
        assert_eq!(bare.find_with(kernel, wanted, from), expected, "{kernel:?}");
    }
    assert_eq!(bare.find(wanted, from), expected);
    assert_eq!(indexed.find(wanted, from), expected);
    let last = (0..from.min(states.len())).rev().find(|&block| states[block] == wanted);
    assert_eq!(bare.find_last(wanted, from), last);
}

fn runs(bare: &Bitmap<&mut [u8]>, states: &[State], wanted: State, from: usize, length: usize) {
    let fits =
        |&block: &usize| block + length <= states.len() && states[block..][..length].iter().all(|&s| s == wanted);
    assert_eq!(bare.find_run(wanted, from, length), (from..=states.len()).find(fits));
    assert_eq!(bare.find_other(wanted, from), (from..states.len()).find(|&block| states[block] != wanted));
    let counts = Counts::new(State::ALL.map(|state| states.iter().filter(|&&s| s == state).count()));
    for kernel in Kernel::ALL {
        assert_eq!(bare.count_with(kernel), counts, "{kernel:?}");
    }
}
