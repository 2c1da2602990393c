// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bit-history states: one byte encodes how many zeros and ones were seen and, for short histories, which came last.

/// Maximum count of the more frequent bit, indexed by the count of the rarer bit.
const MOST: [u32; 6] = [20, 48, 15, 8, 6, 5];
/// Longest history, in bits, whose state records the last bit.
const RECENT: u32 = 17;
/// Exclusive upper bound of a count.
const COUNTS: usize = 50;

/// State table; each entry is the next state after a 0, the next state after a 1, the count of zeros and the count of
/// ones.
pub struct States(pub Vec<[u8; 4]>);

/// Number of states for a pair of counts: 0 if the pair is not representable, 2 if the last bit is recorded, else 1.
fn number(zeros: u32, ones: u32) -> u32 {
    let (more, less) = (zeros.max(ones), zeros.min(ones));
    if MOST.get(less as usize).is_none_or(|most| more > *most) {
        0
    } else if less > 0 && more + less <= RECENT {
        2
    } else {
        1
    }
}

/// Count that remains of one bit value after the opposite bit is seen.
fn discount(count: u32) -> u32 {
    [1, 2, 3, 4, 5, 7, 8].iter().filter(|least| count >= **least).count() as u32
}

fn follow(zeros: u32, ones: u32, bit: u32) -> (u32, u32) {
    if zeros < ones {
        let (ones, zeros) = follow(ones, zeros, 1 - bit);
        return (zeros, ones);
    }
    let (mut zeros, mut ones) = if bit == 1 { (discount(zeros), ones + 1) } else { (zeros + 1, discount(ones)) };
    while number(zeros, ones) == 0 {
        if ones < 2 {
            zeros -= 1;
        } else {
            zeros = (zeros * (ones - 1) + ones / 2) / ones;
            ones -= 1;
        }
    }
    (zeros, ones)
}

impl States {
    /// Computes the state table.
    pub fn new() -> States {
        let mut first = vec![[0u8; COUNTS]; COUNTS];
        let mut pairs = Vec::new();
        let mut states = 0;
        for sum in 0..COUNTS as u32 {
            for ones in 0..=sum {
                let zeros = sum - ones;
                let n = number(zeros, ones);
                if n > 0 {
                    first[zeros as usize][ones as usize] = states as u8;
                    pairs.extend((0..n).map(|_| (zeros, ones)));
                    states += n;
                }
            }
        }
        let after = |(zeros, ones): (u32, u32), bit: u32| {
            let (zeros, ones) = follow(zeros, ones, bit);
            let last = if bit == 1 { number(zeros, ones) - 1 } else { 0 };
            first[zeros as usize][ones as usize] + last as u8
        };
        let mut table: Vec<[u8; 4]> =
            pairs.iter().map(|pair| [after(*pair, 0), after(*pair, 1), pair.0 as u8, pair.1 as u8]).collect();
        table.resize(256, [0; 4]);
        States(table)
    }

    /// Initial probability of a 1 in a state, as a 23-bit fraction.
    pub fn probability(&self, state: usize) -> u32 {
        let [_, _, zeros, ones] = self.0[state].map(u32::from);
        ((ones * 2 + 1) << 22) / (zeros + ones + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_255_states_and_three_ones_are_counted() {
        let states = States::new();
        let real = states.0.iter().skip(1).take_while(|state| **state != [0; 4]).count() + 1;
        assert_eq!(real, 255);
        let mut state = 0;
        for _ in 0..3 {
            state = usize::from(states.0[state][1]);
        }
        assert_eq!(states.0[state][2..], [0, 3]);
    }
}
