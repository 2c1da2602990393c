// SPDX-License-Identifier: GPL-2.0-only
//! The policies on the kernel model.

mod all;
mod bfs;
mod bfs_presets;
mod bfs_turns;
mod both;
mod cfs;
mod cfs_balance;
mod cfs_cpus;
mod cfs_wake;
mod currency;
mod dwcs;
mod entitlement;
mod entitlement_share;
mod fifo;
mod gang;
mod headers;
mod lottery;
mod lottery_lend;
mod muqss;
mod muqss_cpus;
mod muqss_walk;
mod nix;
mod nix_amp;
mod nix_groups;
mod nix_told;
mod overdue;
mod pushback;
mod rules;
mod sets;
mod sharing;
mod stride;
mod stride_tree;
mod vrq;
mod vrq_cache;
mod world;
