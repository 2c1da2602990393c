// SPDX-License-Identifier: MIT OR Apache-2.0
//! 9P2000.L interface: for virtual machines, other machines, and programs that speak 9P.
//!
//! - [`message`]: requests as bytes. Nothing that a client sends can make it panic or allocate more than was sent.
//! - [`session`]: one connection's fids and what each request does.
//! - [`listen`]: sockets and the credentials of the peer.
//!
//! # Threat model On the unix socket the kernel vouches for the client's user. User 0 may attach as any user, as a
//! mounting kernel does; every other client is the user that it is, whatever it claims. TCP has no authentication and
//! no encryption: a client is whom it claims to be, user 0 included. It therefore binds to loopback unless told
//! otherwise, and even there every local user can be any user. A malformed message ends its connection and nothing
//! else. A client can use up the quota of memory, 65,536 fids and 64 waiting `fsync`s, and no more.

pub mod listen;
pub mod locks;
pub mod message;
pub mod session;
