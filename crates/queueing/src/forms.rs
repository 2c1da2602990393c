// SPDX-License-Identifier: GPL-2.0-only
//! Closed forms. Times are in the unit of the service time, rates in its inverse; a station whose offered load is 1 or
//! more has no steady state, and `None` is returned.

/// Probability that a request has to wait in M/M/c (Erlang C), given the offered load of each server, below 1.
///
/// It is computed from Erlang B by the recursion B(k) = a B(k-1) / (k + a B(k-1)), whose terms stay between 0 and 1
/// for any number of servers.
pub fn probability_of_wait(servers: u32, load: f64) -> Option<f64> {
    if servers == 0 || !(0.0..1.0).contains(&load) {
        return None;
    }
    let offered = load * f64::from(servers);
    let blocked = (1..=servers).fold(1.0, |blocked, k| offered * blocked / (f64::from(k) + offered * blocked));
    Some(blocked / (1.0 - load * (1.0 - blocked)))
}

/// Mean response time (wait and service) of M/M/c.
pub fn mmc(servers: u32, rate: f64, service: f64) -> Option<f64> {
    let load = rate * service / f64::from(servers);
    let waits = probability_of_wait(servers, load)?;
    Some(service + waits * service / (f64::from(servers) * (1.0 - load)))
}

/// Mean response time of M/G/1, first come first served; `variation` is the squared coefficient of variation of the
/// service times: 0 if they are constant, 1 if exponential.
pub fn mg1(rate: f64, service: f64, variation: f64) -> Option<f64> {
    let load = rate * service;
    (0.0..1.0).contains(&load).then(|| service + load * service * (1.0 + variation) / (2.0 * (1.0 - load)))
}

/// Mean response time of M/D/1.
pub fn md1(rate: f64, service: f64) -> Option<f64> {
    mg1(rate, service, 0.0)
}

/// Mean response time of M/G/1 with processor sharing.
pub fn processor_sharing(rate: f64, service: f64) -> Option<f64> {
    let load = rate * service;
    (0.0..1.0).contains(&load).then(|| service / (1.0 - load))
}

/// Throughput of a closed station: `customers` think for an exponential time with mean `think` and then need an
/// exponential service time at one of the servers (M/M/c//N). The states are weighted by
/// p(k+1) / p(k) = (N - k) S / (min(k + 1, c) Z).
///
/// # Panics
/// If there is no server or no customer, or a time is not above 0 (`think` may be 0).
pub fn closed(customers: u32, servers: u32, think: f64, service: f64) -> f64 {
    assert!(customers > 0 && servers > 0 && service > 0.0 && think >= 0.0, "a station with customers and times");
    if think == 0.0 {
        return f64::from(customers.min(servers)) / service;
    }
    let (mut weight, mut sum, mut busy) = (1.0, 1.0, 0.0);
    for k in 0..customers {
        let serving = f64::from((k + 1).min(servers));
        weight *= f64::from(customers - k) * service / (serving * think);
        // Only ratios matter: keep the largest weight finite.
        if weight > 1e200 {
            (weight, sum, busy) = (weight / 1e200, sum / 1e200, busy / 1e200);
        }
        sum += weight;
        busy += weight * serving;
    }
    busy / sum / service
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) -> bool {
        (value - expected).abs() <= 0.000_06 * expected.abs().max(1.0)
    }

    /// Tables of Erlang C: probability of waiting, and mean wait in service times.
    #[test]
    fn erlang_c_has_its_published_values() {
        for (servers, load, waits, wait) in
            [(1, 0.8, 0.8, 4.0), (4, 0.8, 0.5964, 0.7455), (32, 0.8, 0.1606, 0.0251), (1, 0.5, 0.5, 1.0)]
        {
            let found = probability_of_wait(servers, load).unwrap();
            assert!(near(found, waits), "{servers} servers: {found}");
            let found = mmc(servers, load * f64::from(servers), 1.0).unwrap() - 1.0;
            assert!(near(found, wait), "{servers} servers: {found}");
        }
    }

    #[test]
    fn constant_service_times_halve_the_wait() {
        for load in [0.1, 0.5, 0.8, 0.95] {
            let (random, constant) = (mmc(1, load, 1.0).unwrap() - 1.0, md1(load, 1.0).unwrap() - 1.0);
            assert!(near(2.0 * constant, random));
            assert!(near(mg1(load, 1.0, 1.0).unwrap() - 1.0, random));
            assert!(near(processor_sharing(load, 1.0).unwrap() - 1.0, random));
        }
    }

    #[test]
    fn saturated_station_has_no_steady_state() {
        assert_eq!((mmc(2, 2.0, 1.0), md1(1.0, 1.0), processor_sharing(1.5, 1.0)), (None, None, None));
        assert_eq!(probability_of_wait(0, 0.5), None);
        assert_eq!(mmc(1, f64::NAN, 1.0), None);
    }

    /// Machine repairman with Z/S = 10: the speed-up N customers get over one, times 11/10.
    #[test]
    fn closed_station_matches_the_machine_repairman_model() {
        for (customers, speedup) in [(2, 1.984), (4, 3.887), (8, 7.278), (16, 10.755), (48, 11.0)] {
            let found = closed(customers, 1, 10.0, 1.0) / closed(1, 1, 10.0, 1.0);
            assert!((found - speedup).abs() < 0.0006, "{customers}: {found}");
        }
        assert!(near(closed(5, 2, 0.0, 0.5), 4.0));
        // With as many servers as customers, no customer waits.
        assert!(near(closed(3, 3, 2.0, 1.0), 1.0));
        assert!(closed(4000, 1, 1.0, 1.0).is_finite());
    }
}
