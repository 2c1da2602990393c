// SPDX-License-Identifier: GPL-2.0-only
//! Keeps the CPUs of this machine out of deep idle states.

use ids::Nanos;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// Device of the kernel's PM QoS (Documentation/power/pm_qos_interface.rst): a request holds while the file is open.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// A request that no CPU enters an idle state with a longer exit latency. Dropping it ends the request.
#[derive(Debug)]
pub struct IdleExitLimit {
    _open: File,
}

impl IdleExitLimit {
    /// Requests an exit latency of at most `limit`, rounded down to microseconds, as cyclictest does with 0.
    ///
    /// # Errors
    /// If the device cannot be opened, which needs root, or refuses the value.
    pub fn request(limit: Nanos) -> io::Result<IdleExitLimit> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{DEVICE}: {error}"));
        let mut device = OpenOptions::new().write(true).open(DEVICE).map_err(named)?;
        let microseconds = i32::try_from(limit.0 / 1_000).unwrap_or(i32::MAX);
        device.write_all(&microseconds.to_ne_bytes()).map_err(named)?;
        Ok(IdleExitLimit { _open: device })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// The kernel's effective limit, in microseconds.
    fn effective() -> io::Result<i32> {
        let mut bytes = [0; 4];
        File::open(DEVICE)?.read_exact(&mut bytes)?;
        Ok(i32::from_ne_bytes(bytes))
    }

    #[test]
    fn idle_exit_limit_holds_until_it_is_dropped() {
        let Ok(before) = effective() else { return skip::skip("no readable /dev/cpu_dma_latency") };
        let Ok(limit) = IdleExitLimit::request(Nanos::from_us(7)) else {
            return skip::skip("this process may not write /dev/cpu_dma_latency");
        };
        assert_eq!(effective().unwrap(), before.min(7));
        drop(limit);
        assert_eq!(effective().unwrap(), before);
    }
}
