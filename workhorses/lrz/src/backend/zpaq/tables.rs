// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookup tables shared by all models.

use super::states::States;
use std::sync::OnceLock;

/// The lookup tables.
pub struct Tables {
    /// 32768 / (1 + e^(-x/64)) for x from -2048 to 2047.
    squash: Vec<u16>,
    /// 64 ln(p / (1 - p)) for p as a 15-bit fraction.
    stretch: Vec<i16>,
    /// Learning rate by the number of earlier updates, as a 16-bit fraction.
    pub learning: Vec<i32>,
    /// Confidence in the predicted bit by match length in bytes.
    pub trust: [i32; 256],
    /// Bit-history states.
    pub states: States,
}

impl Tables {
    /// Logistic function of a stretched prediction, -2048 to 2047.
    pub fn squash(&self, x: i32) -> i32 {
        i32::from(self.squash[(x.clamp(-2048, 2047) + 2048) as usize])
    }

    /// Inverse of `squash`; p is 0 to 32767.
    pub fn stretch(&self, p: i32) -> i32 {
        i32::from(self.stretch[(p & 32767) as usize])
    }
}

/// Returns the tables, computed on first use.
pub fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let squash = (0..4096).map(|x| (32768.0 / (1.0 + (f64::from(x - 2048) / -64.0).exp())) as u16).collect();
        let stretch = (0..32768).map(|p| {
            let odds = (f64::from(p) + 0.5) / (32767.5 - f64::from(p));
            (odds.ln() * 64.0 + 0.5).floor() as i16
        });
        let mut trust = [0; 256];
        for (length, trust) in trust.iter_mut().enumerate().skip(1) {
            *trust = 2048 / length as i32;
        }
        Tables {
            squash,
            stretch: stretch.collect(),
            learning: (0..1024).map(|n| (1 << 17) / (n * 2 + 3) * 2).collect(),
            trust,
            states: States::new(),
        }
    })
}
