//! One request and its answer: both heads written anew, both bodies measured, both directions at once.
//!
//! A server may answer before it has read everything, and a client may wait for that answer before it sends the rest.

use std::io;

use nix::poll::PollFlags;

use super::super::body::{Body, Framing};
use super::super::head::{Answer, HEAD_MAX, Head};
use super::super::log::Outcome;
use super::super::upstream::Url;
use super::conversation::{Conversation, Left, Stop};
use super::refused::Refused;
use super::wire::{Wire, interest};

/// How much may be under way in one direction.
const ROOM: usize = 64 * 1024;

/// What is under way to one side.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    fn has_room(&self) -> bool {
        self.bytes.len() - self.sent < ROOM
    }

    /// Writes what goes; whether anything did.
    fn send(&mut self, wire: &mut impl Wire) -> io::Result<usize> {
        let mut total = 0;
        while !self.is_empty() {
            match wire.write(&self.bytes[self.sent..]) {
                Ok(count) => {
                    self.sent += count;
                    total += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        }
        match wire.push() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(total),
        }
    }
}

/// The answer, as far as it has come.
enum Incoming {
    Head(Vec<u8>),
    Body(Body),
}

impl<C: Wire> Conversation<'_, C> {
    /// Passes `head` and its body on to `server`, and the answer back. `default` is the port of the scheme. What goes `through`
    /// another proxy is told so.
    pub(super) fn exchange(&mut self, head: &Head, mut server: impl Wire, default: u16, through: Option<&Url>) -> Left {
        let mut state = Exchange {
            body: Body::of_request(head.body),
            up: Outgoing { bytes: head.rebuilt(default, through.is_some()), sent: 0 },
            down: Outgoing::default(),
            answer: Incoming::Head(Vec::new()),
            begun: false,
            client_ended: false,
            deaf: false,
            method: head.method.clone(),
            status: None,
        };
        let left = self.go_on(&mut state, &mut server, head, through);
        self.entry.status = state.status;
        match left {
            Ok(()) => {
                self.tell(Outcome::Allowed);
                self.refuse_more(&state);
                Ok(())
            }
            // Part of an answer was sent: nothing can be said any more, but the end comes too early for the client as well.
            Err(Stop::Refused(refused)) if state.begun => {
                self.tell_refused(&refused);
                Err(Stop::Gone)
            }
            Err(Stop::Gone) => {
                self.tell(Outcome::Allowed);
                Err(Stop::Gone)
            }
            other => other,
        }
    }

    /// One request for a connection: what follows an allowed one was not looked at.
    fn refuse_more(&mut self, state: &Exchange) {
        let mut byte = [0];
        let more = !self.ahead.is_empty() || (!state.client_ended && matches!(self.client.read(&mut byte), Ok(1)));
        if more && state.body.is_done() {
            (self.entry.bytes_up, self.entry.bytes_down) = (0, 0);
            (self.entry.method, self.entry.path, self.entry.rule) = (None, None, None);
            self.tell_refused(&Refused::request(400, "is the second one on its connection"));
        }
    }

    fn go_on(&mut self, state: &mut Exchange, server: &mut impl Wire, head: &Head, through: Option<&Url>) -> Left {
        let mut end = self.idle_end();
        let mut buffer = vec![0; 32 * 1024];
        let failed = |error: &io::Error, what| Refused::of_error(error, what, &head.host, head.port);
        loop {
            let mut moved = false;
            if !self.ahead.is_empty() && !state.body.is_done() && state.up.has_room() {
                let ahead = std::mem::take(&mut self.ahead);
                self.ahead = state.take_body(&ahead)?;
            }
            if state.wants_client() {
                match self.client.read(&mut buffer) {
                    Ok(0) => {
                        state.client_ended = true;
                        if !state.body.is_done() {
                            return Err(Stop::Gone);
                        }
                    }
                    Ok(count) => {
                        self.ahead = state.take_body(&buffer[..count])?;
                        moved = true;
                    }
                    Err(error) if waits(&error) => {}
                    Err(_) => return Err(Stop::Gone),
                }
            }
            match state.up.send(server) {
                Ok(count) => {
                    moved |= count > 0;
                    self.entry.bytes_up += count as u64;
                }
                // It may have said why before it closed.
                Err(_) => state.deafen(),
            }
            if state.down.has_room() && !state.answered() {
                match server.read(&mut buffer) {
                    Ok(0) => state.server_ended().map_err(|reason| Refused::answer(reason, &head.host, head.port))?,
                    Ok(count) => {
                        moved = true;
                        self.entry.bytes_down += count as u64;
                        let proxy = self.proxy;
                        let taken = state.take_answer(&buffer[..count], &|value| proxy.echoes(value));
                        taken.map_err(|reason| Refused::answer(reason, &head.host, head.port))?;
                        // No server asks that; it is no matter of the command's.
                        if let (Some(upstream), Some(407)) = (through, state.status) {
                            return Err(Refused::by_upstream(407, "", upstream, &head.host, head.port).into());
                        }
                    }
                    Err(error) if waits(&error) => {}
                    Err(error) => return Err(failed(&error, "breaks off").into()),
                }
            }
            match state.down.send(&mut self.client) {
                Ok(count) => {
                    moved |= count > 0;
                    state.begun |= count > 0;
                }
                Err(_) => return Err(Stop::Gone),
            }
            if state.answered() && state.down.is_empty() && !self.client.pending() {
                return Ok(());
            }
            if moved {
                end = self.idle_end();
                continue;
            }
            let mut client = PollFlags::empty();
            client.set(PollFlags::POLLIN, state.wants_client());
            client.set(PollFlags::POLLOUT, !state.down.is_empty());
            let mut upstream = PollFlags::empty();
            upstream.set(PollFlags::POLLIN, state.down.has_room() && !state.answered());
            upstream.set(PollFlags::POLLOUT, !state.up.is_empty());
            // A server that has gone would be told of all the time, while what it said before is still here.
            let client = interest(&self.client, client);
            let upstream = interest(server, upstream);
            let there = if upstream.is_empty() { self.clock.nothing() } else { server.fd() };
            match self.clock.wait(&[(self.client.fd(), client), (there, upstream)], Some(end)) {
                // Closed in both directions: nobody is there to be answered.
                Ok([ready, _])
                    if ready.intersects(PollFlags::POLLERR)
                        || (client.is_empty() && ready.intersects(PollFlags::POLLHUP)) =>
                {
                    return Err(Stop::Gone);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(failed(&error, "does not come").into());
                }
                Err(_) => return Err(Stop::Gone),
            }
        }
    }
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

struct Exchange {
    body: Body,
    up: Outgoing,
    down: Outgoing,
    answer: Incoming,
    /// Whether the client has got part of an answer.
    begun: bool,
    client_ended: bool,
    /// Whether the server takes nothing more.
    deaf: bool,
    method: String,
    status: Option<u16>,
}

impl Exchange {
    fn wants_client(&self) -> bool {
        !self.client_ended && !self.body.is_done() && self.up.has_room()
    }

    fn answered(&self) -> bool {
        matches!(&self.answer, Incoming::Body(body) if body.is_done())
    }

    /// Takes bytes of the request's body; gives those that come behind it.
    fn take_body(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Refused> {
        let taken = self.body.take(bytes, &mut self.up.bytes).map_err(|bad| Refused {
            code: "request",
            text: format!("in the body of the request {}", bad.0),
            ..Refused::request(400, "")
        })?;
        if self.deaf {
            self.deafen();
        }
        Ok(bytes[taken..].to_vec())
    }

    fn deafen(&mut self) {
        self.deaf = true;
        self.up = Outgoing::default();
    }

    fn server_ended(&mut self) -> Result<(), &'static str> {
        match &mut self.answer {
            Incoming::Head(bytes) if bytes.is_empty() => Err("does not come"),
            Incoming::Head(_) => Err("ends before its head does"),
            Incoming::Body(body) if body.may_end_here() => {
                *body = Body::of_answer(Framing::Length(0));
                Ok(())
            }
            Incoming::Body(_) => Err("ends too early"),
        }
    }

    fn take_answer(&mut self, bytes: &[u8], hidden: &dyn Fn(&[u8]) -> bool) -> Result<(), &'static str> {
        let mut rest = bytes.to_vec();
        loop {
            match &mut self.answer {
                Incoming::Body(body) => {
                    // What comes behind the end of an answer belongs to no request.
                    return body.take(&rest, &mut self.down.bytes).map(|_| ()).map_err(|bad| bad.0);
                }
                Incoming::Head(head) => {
                    let seen = head.len().saturating_sub(3);
                    head.append(&mut rest);
                    let end = head.get(seen..).unwrap_or_default().windows(4).position(|four| four == b"\r\n\r\n");
                    let Some(end) = end else {
                        return if head.len() > HEAD_MAX { Err("has a head that is too long") } else { Ok(()) };
                    };
                    rest = head.split_off(seen + end + 4);
                    let answer = Answer::parse(head, &self.method, hidden)?;
                    self.down.bytes.extend_from_slice(&answer.bytes);
                    if answer.status < 200 {
                        self.answer = Incoming::Head(Vec::new());
                        if rest.is_empty() {
                            return Ok(());
                        }
                    } else {
                        self.status = Some(answer.status);
                        self.answer = Incoming::Body(Body::of_answer(answer.body));
                    }
                }
            }
        }
    }
}
