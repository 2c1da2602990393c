// SPDX-License-Identifier: GPL-2.0-only
//! Writes the tables `[disks.NAME]`, `[networks.NAME]` and `[page_cache]`.

use super::effects::estimate;
use super::{line, quoted};
use crate::{Disk, Disks, Link, Network, Networks, Order, PageCache, Routing, Service};

pub(super) fn write(text: &mut String, disks: &Disks) {
    disks.disks.iter().for_each(|disk| write_disk(text, disk));
}

fn write_disk(text: &mut String, disk: &Disk) {
    let Disk { name, service, servers, depth, order, spindles, stripe_kb, interrupt_cpus, routing, top_ns, bottom_ns } =
        disk;
    text.push_str(&format!("\n[disks.{name}]\n"));
    write_service(text, service);
    line(text, "servers", servers, "requests that a member serves at the same time");
    line(text, "depth", depth, "requests that a member holds");
    let word = Order::NAMES.iter().find(|(_, own)| own == order).map_or("", |(word, _)| word);
    line(text, "order", quoted(word), "of the requests that the kernel keeps");
    line(text, "spindles", spindles, "members over which addresses are striped");
    line(text, "stripe_kb", stripe_kb, "");
    if let Some(cpus) = interrupt_cpus {
        line(text, "interrupt_cpus", quoted(&cpus.to_string()), "");
    }
    let word = Routing::NAMES.iter().find(|(_, own)| own == routing).map_or("", |(word, _)| word);
    line(text, "interrupts", quoted(word), "one, round-robin or issuer");
    line(text, "top_ns", estimate(top_ns), "interrupt handler");
    line(text, "bottom_ns", estimate(bottom_ns), "softirq for each completed request");
}

pub(super) fn write_networks(text: &mut String, networks: &Networks) {
    for network in &networks.networks {
        let Network { name, link, server_ns, exponential, servers, interrupt_cpus, routing, top_ns, bottom_ns } =
            network;
        text.push_str(&format!("\n[networks.{name}]\n"));
        match link {
            Link::Wire { latency_ns, mbit_s } => {
                line(text, "kind", quoted("wire"), "");
                line(text, "latency_ns", estimate(latency_ns), "of one direction");
                line(text, "mbit_s", estimate(mbit_s), "of one direction");
            }
            Link::Loopback { overhead_ns, mb_s } => {
                line(text, "kind", quoted("loopback"), "CPU time of the task");
                line(text, "overhead_ns", estimate(overhead_ns), "for each call");
                line(text, "mb_s", estimate(mb_s), "");
            }
        }
        line(text, "server_ns", estimate(server_ns), "mean service time of the server");
        line(text, "draw", quoted(if *exponential { "exponential" } else { "constant" }), "");
        line(text, "servers", servers, "calls that it serves at the same time");
        if let Some(cpus) = interrupt_cpus {
            line(text, "interrupt_cpus", quoted(&cpus.to_string()), "");
        }
        let word = Routing::NAMES.iter().find(|(_, own)| own == routing).map_or("", |(word, _)| word);
        line(text, "interrupts", quoted(word), "one, round-robin or issuer");
        line(text, "top_ns", estimate(top_ns), "interrupt handler");
        line(text, "bottom_ns", estimate(bottom_ns), "softirq for each answer");
    }
}

pub(super) fn write_page_cache(text: &mut String, cache: &PageCache) {
    let PageCache { size_mb, background_percent, limit_percent, flush_ms, expire_ms, overhead_ns, mb_s } = cache;
    text.push_str("\n[page_cache]\n");
    line(text, "size_mb", size_mb, "MiB");
    line(text, "background_percent", background_percent, "of dirty pages, above which kthreads write back");
    line(text, "limit_percent", limit_percent, "of dirty pages, above which writers wait");
    line(text, "flush_ms", flush_ms, "interval in which kthreads look for old dirty pages");
    line(text, "expire_ms", expire_ms, "age from which a dirty page is old");
    line(text, "overhead_ns", estimate(overhead_ns), "for each cached request");
    line(text, "mb_s", estimate(mb_s), "copying");
}

fn write_service(text: &mut String, service: &Service) {
    match service {
        Service::Recorded => line(text, "kind", quoted("recorded"), "as long as in the recording"),
        Service::Ram { overhead_ns, mb_s } => {
            line(text, "kind", quoted("ram"), "CPU time of the task");
            line(text, "overhead_ns", estimate(overhead_ns), "for each request");
            line(text, "mb_s", estimate(mb_s), "");
        }
        Service::Flash { read_ns, write_ns, mb_s, exponential } => {
            line(text, "kind", quoted("flash"), "");
            line(text, "read_ns", estimate(read_ns), "without the transfer");
            line(text, "write_ns", estimate(write_ns), "");
            line(text, "mb_s", estimate(mb_s), "transfer");
            line(text, "draw", quoted(if *exponential { "exponential" } else { "constant" }), "");
        }
        Service::Spindle { overhead_ns, seek_track_ns, seek_average_ns, rpm, mb_s, capacity_gb } => {
            line(text, "kind", quoted("spindle"), "");
            line(text, "overhead_ns", estimate(overhead_ns), "controller and command");
            line(text, "seek_track_ns", estimate(seek_track_ns), "to the next track");
            line(text, "seek_average_ns", estimate(seek_average_ns), "between two random positions");
            line(text, "rpm", rpm, "");
            line(text, "mb_s", estimate(mb_s), "transfer");
            line(text, "capacity_gb", capacity_gb, "");
        }
    }
}
