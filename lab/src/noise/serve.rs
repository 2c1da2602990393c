// SPDX-License-Identifier: GPL-2.0-only
//! The kind `server`: two threads answer requests of four clients over sockets.

use std::hint::black_box;
use std::io::{Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

const CLIENTS: u32 = 4;
const REQUESTS: u32 = 2_000;
/// Number of requests after which a client pauses.
const BURST: u32 = 20;
const PAUSE: Duration = Duration::from_millis(2);

/// Runs the workload. Client `c` talks to the server thread of its pair.
pub fn serve() -> Result<()> {
    let mut threads = Vec::new();
    for pair in 0..CLIENTS / 2 {
        let mut ends = Vec::new();
        for client in 0..2 {
            let (near, far) = UnixStream::pair()?;
            ends.push(far);
            threads.push(thread::spawn(move || ask(near, pair * 2 + client)));
        }
        // The server reads from its two clients in turn and blocks on each: a slow client delays the other one.
        threads.push(thread::spawn(move || answer(&ends)));
    }
    threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
}

fn ask(mut server: UnixStream, client: u32) -> Result<()> {
    let mut answer = [0; 256];
    for request in 0..REQUESTS {
        compute(2_000 + 500 * u64::from(client));
        server.write_all(&[client as u8; 64])?;
        server.read_exact(&mut answer)?;
        if request % BURST == BURST - 1 {
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

fn answer(clients: &[UnixStream]) -> Result<()> {
    let mut request = [0; 64];
    for _ in 0..REQUESTS {
        for mut client in clients {
            client.read_exact(&mut request)?;
            compute(10_000);
            client.write_all(&[request[0]; 256])?;
        }
    }
    Ok(())
}

/// Performs a number of steps of work.
fn compute(steps: u64) {
    let mut state = steps;
    for step in 0..steps {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step));
    }
}
