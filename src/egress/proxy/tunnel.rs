//! A connection by CONNECT or SOCKS: what it begins with decides whether it may go on unseen.
//!
//! An allowed name must not carry a connection to another one. So TLS has to ask for the same host, requests in the clear are
//! taken one by one, and at the ports of the web nothing else passes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::poll::PollFlags;

use super::super::flow::{BUFFER, Flow, Lost, Turn};
use super::super::hello::{self, Opening};
use super::super::host::Host;
use super::super::log::Outcome;
use super::conversation::{Conversation, Left, Look, Stop};
use super::refused::Refused;
use super::wire::Socket;

impl Conversation<'_> {
    pub(super) fn tunnel(&mut self, server: Socket, look: Look, host: &Host, port: u16) -> Left {
        let web = self.proxy.web.contains(&port);
        let refused = |reason: &str| Stop::Silently(Refused::opening(reason, host, port));
        match self.opening(&server, web, host, port)? {
            Opening::Tls(asked) => {
                if let Some(reason) = hello::mismatch(host, asked.as_ref()) {
                    let end = self.opening_end();
                    let _told = self.clock.write_all(&mut self.client, &hello::UNRECOGNIZED_NAME, end);
                    return Err(refused(reason));
                }
                if look != Look::No {
                    return self.look_into(server, host, port);
                }
                self.carry(&server);
                Ok(())
            }
            Opening::Http => {
                self.clear = true;
                let head = self.request_within(host, port, false)?;
                self.exchange(&head, server, if port == 443 { 443 } else { 80 }, None)
            }
            Opening::Other | Opening::Partial if !web && look != Look::Only => {
                self.carry(&server);
                Ok(())
            }
            Opening::Partial => {
                // It was opened and not used.
                self.tell(Outcome::Allowed);
                Ok(())
            }
            Opening::Other => Err(refused("begins as neither TLS nor HTTP does")),
            Opening::Broken(reason) => Err(refused(reason)),
        }
    }

    /// Reads until it is clear what the client begins with. `Partial`: one of the two ended, or the server began.
    fn opening(&mut self, server: &Socket, web: bool, host: &Host, port: u16) -> Result<Opening, Stop> {
        let mut end = if self.ahead.is_empty() { self.idle_end() } else { self.opening_end() };
        loop {
            let opening = Opening::of(&self.ahead);
            if opening != Opening::Partial {
                return Ok(opening);
            }
            let wanted = [(self.client.as_fd(), PollFlags::POLLIN), (server.as_fd(), PollFlags::POLLIN)];
            let ready = match self.clock.wait(&wanted, Some(end)) {
                Ok(ready) => ready,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(Stop::Silently(Refused::opening("does not begin", host, port)));
                }
                Err(_) => {
                    self.tell(Outcome::Allowed);
                    return Err(Stop::Gone);
                }
            };
            if ready[0].is_empty() {
                // The server is the first to speak: then it is no server of HTTP or TLS, unless it gives up.
                if self.ahead.is_empty() || !web {
                    return Ok(Opening::Partial);
                }
                return Err(Stop::Silently(Refused::opening("is answered before it begins", host, port)));
            }
            let first = self.ahead.is_empty();
            match self.clock.read_some(&mut self.client, &mut self.ahead, end) {
                Ok(1..) if first => end = self.opening_end(),
                Ok(1..) => {}
                Ok(0) if self.ahead.is_empty() || !web => return Ok(Opening::Partial),
                Ok(0) => return Err(Stop::Silently(Refused::opening("ends before it begins", host, port))),
                Err(_) => {
                    self.tell(Outcome::Allowed);
                    return Err(Stop::Gone);
                }
            }
        }
    }

    /// Carries bytes in both directions until both have ended, or nothing moves for too long.
    fn carry(&mut self, server: &Socket) {
        let mut up = Flow::new(std::mem::take(&mut self.ahead));
        let mut down = Flow::new(Vec::new());
        let mut buffer = vec![0; BUFFER];
        let mut end = self.idle_end();
        // A direction for which nothing is ready is not tried: in a transfer that is one of two.
        let mut due = (true, true);
        loop {
            let moved = (up.moved(), down.moved());
            let there = match up.turn_if(due.0, &self.client, server, &mut buffer) {
                Err(Lost::Goal(_)) => {
                    // An answer may be on its way, from somebody who wanted to hear no more.
                    up.cut();
                    Turn::Over
                }
                Err(Lost::Source(_)) => break,
                Ok(turn) => turn,
            };
            let back = match down.turn_if(due.1, server, &self.client, &mut buffer) {
                Err(Lost::Source(_)) => {
                    down.end();
                    Turn::Again
                }
                Err(Lost::Goal(_)) => break,
                Ok(turn) => turn,
            };
            if (there, back) == (Turn::Over, Turn::Over) {
                break;
            }
            if moved != (up.moved(), down.moved()) {
                end = self.idle_end();
            }
            if there == Turn::Again || back == Turn::Again {
                // Others have their turn by having threads; only the end of the run is looked for.
                if self
                    .clock
                    .wait(&[], Some(std::time::Instant::now()))
                    .is_err_and(|error| error.kind() != io::ErrorKind::TimedOut)
                {
                    break;
                }
                due = (true, true);
                continue;
            }
            let ends = [self.wanted(&self.client, &up, &down), self.wanted(server, &down, &up)];
            match self.clock.wait(&ends, Some(end)) {
                Ok(ready) if gone(ready[0], ends[0].1) || gone(ready[1], ends[1].1) => break,
                Ok([client, server]) => due = (is_due(client, server), is_due(server, client)),
                Err(error) => {
                    if error.kind() == io::ErrorKind::TimedOut {
                        self.entry.reason = Some("idle".to_owned());
                    }
                    break;
                }
            }
        }
        (self.entry.bytes_up, self.entry.bytes_down) = (up.moved(), down.moved());
        self.tell(Outcome::Allowed);
    }

    /// What is waited for at a socket that `reads` reads and `writes` writes.
    fn wanted<'s>(&'s self, socket: &'s Socket, reads: &Flow, writes: &Flow) -> (BorrowedFd<'s>, PollFlags) {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, reads.wants_to_read());
        flags.set(PollFlags::POLLOUT, writes.wants_to_write());
        // Its end would be told all the time, while what it said before is still here.
        let watched = !flags.is_empty() || reads.is_over();
        (if watched { socket.as_fd() } else { self.clock.nothing() }, flags)
    }
}

/// Whether something may move from `source` to `goal`.
fn is_due(source: PollFlags, goal: PollFlags) -> bool {
    !source.difference(PollFlags::POLLOUT).is_empty() || !goal.difference(PollFlags::POLLIN).is_empty()
}

/// Whether a socket is closed in both directions, with nothing more to be read from it and nothing to be written to it.
fn gone(ready: PollFlags, wanted: PollFlags) -> bool {
    wanted.is_empty() && ready.intersects(PollFlags::POLLHUP | PollFlags::POLLERR)
}
