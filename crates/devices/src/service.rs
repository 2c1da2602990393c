// SPDX-License-Identifier: GPL-2.0-only
//! Service times. Integer arithmetic only, so that they are identical on every host.

use crate::member::Job;
use ids::Nanos;
use machine_model::Service;

/// Capacity of a disk whose positions do not matter.
const ANY_CAPACITY: u64 = 1 << 50;

/// Constants of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timing {
    Recorded,
    Ram { overhead: u64, mb_s: u64 },
    Flash { read: u64, write: u64, mb_s: u64, exponential: bool },
    Spindle { overhead: u64, track: u64, average: u64, turn: u64, mb_s: u64, capacity: u64 },
}

/// Time to transfer so many bytes.
fn transfer(bytes: u64, mb_s: u64) -> u64 {
    (u128::from(bytes) * 1000 / u128::from(mb_s.max(1))) as u64
}

impl Timing {
    pub fn new(service: &Service) -> Timing {
        match service {
            Service::Recorded => Timing::Recorded,
            Service::Ram { overhead_ns, mb_s } => Timing::Ram { overhead: overhead_ns.typical, mb_s: mb_s.typical },
            Service::Flash { read_ns, write_ns, mb_s, exponential } => Timing::Flash {
                read: read_ns.typical,
                write: write_ns.typical,
                mb_s: mb_s.typical,
                exponential: *exponential,
            },
            Service::Spindle { overhead_ns, seek_track_ns, seek_average_ns, rpm, mb_s, capacity_gb } => {
                Timing::Spindle {
                    overhead: overhead_ns.typical,
                    track: seek_track_ns.typical,
                    average: seek_average_ns.typical.max(seek_track_ns.typical),
                    turn: 60_000_000_000 / rpm,
                    mb_s: mb_s.typical,
                    capacity: capacity_gb * 1_000_000_000,
                }
            }
        }
    }

    /// Capacity of a member in bytes.
    pub fn capacity(&self) -> u64 {
        if let Timing::Spindle { capacity, .. } = self { *capacity } else { ANY_CAPACITY }
    }

    /// CPU time of a request to a RAM disk.
    pub fn cpu_time(&self, bytes: u64) -> Option<Nanos> {
        match self {
            Timing::Ram { overhead, mb_s } => Some(Nanos((overhead + transfer(bytes, *mb_s)).max(1))),
            _ => None,
        }
    }

    /// Service time of a job on a member whose last job ended at the byte `head`; at least 1 ns.
    pub fn service(&self, job: &Job, head: u64, random: &mut dyn FnMut() -> u64) -> Nanos {
        let time = match *self {
            Timing::Recorded => job.recorded.0,
            Timing::Ram { overhead, mb_s } => overhead + transfer(job.bytes, mb_s),
            Timing::Flash { read, write, mb_s, exponential } => {
                let mean = Nanos(if job.write { write } else { read });
                let time = if exponential { mean.exponential((random() >> 32) as u32) } else { mean };
                time.0 + transfer(job.bytes, mb_s)
            }
            Timing::Spindle { mb_s, .. } if job.offset == head => transfer(job.bytes, mb_s),
            Timing::Spindle { overhead, track, average, turn, mb_s, capacity } => {
                let rotation = ((u128::from(random()) * u128::from(turn)) >> 64) as u64;
                let distance = job.offset.abs_diff(head);
                overhead + seek(track, average, distance, capacity) + rotation + transfer(job.bytes, mb_s)
            }
        };
        Nanos(time.max(1))
    }
}

/// Time of a seek over this distance.
fn seek(track: u64, average: u64, distance: u64, capacity: u64) -> u64 {
    let share = (u128::from(distance) << 32) / u128::from(capacity.max(1));
    let root = share.isqrt();
    track + ((u128::from(average - track) * 15 * root) >> 19) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seek_time_grows_with_the_root_of_the_distance() {
        // A quarter of the capacity: half of 15/8 of what is beyond the next track.
        assert_eq!(seek(1_000, 9_000, 250, 1_000), 1_000 + 7_500);
        assert_eq!(seek(1_000, 9_000, 1_000, 1_000), 1_000 + 15_000);
        assert_eq!(seek(1_000, 9_000, 0, 1_000), 1_000);
    }

    #[test]
    fn mean_seek_between_random_positions_is_the_given_average() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 34) * 1_000_000) >> 30
        };
        let sum: u64 = (0..200_000).map(|_| seek(800_000, 8_500_000, random().abs_diff(random()), 1_000_000)).sum();
        let mean = sum / 200_000;
        assert!(mean.abs_diff(8_500_000) < 40_000, "{mean}");
    }

    #[test]
    fn sequential_requests_of_a_spindle_take_only_the_transfer() {
        let timing =
            Timing::Spindle { overhead: 5, track: 10, average: 10, turn: 1_000, mb_s: 100, capacity: 1_000_000 };
        let job = |offset| Job { request: 0, write: false, offset, bytes: 1_000, recorded: Nanos::ZERO };
        assert_eq!(timing.service(&job(500), 500, &mut || unreachable!()), Nanos(10_000));
        // Half a turn of 1000 ns, a seek of 10, overhead of 5.
        assert_eq!(timing.service(&job(500), 400, &mut || 1 << 63), Nanos(10_000 + 515));
    }
}
