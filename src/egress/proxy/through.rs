//! Connections through the upstream proxy: this proxy connects to that one alone, and asks it for the rest.
//!
//! A tunnel is asked for by CONNECT, a request in the clear in the form that proxies take, since many let CONNECT lead to port 443
//! only; where that would be unwise, by CONNECT as well.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Instant;

use nix::poll::PollFlags;

use super::super::address::{beyond, locate};
use super::super::head::HEAD_MAX;
use super::super::host::Host;
use super::super::rules::Inside;
use super::super::upstream::Url;
use super::conversation::Conversation;
use super::refused::Refused;
use super::wire::Socket;
use super::{Proxy, until};
use crate::sys::process::describe;

impl Conversation<'_> {
    /// Connects to the upstream proxy for a request of which `inside` is known, or for a tunnel, which is open then.
    pub(super) fn connect_through(
        &mut self,
        upstream: &Url,
        host: &Host,
        port: u16,
        inside: Option<&Inside>,
    ) -> Result<Socket, Refused> {
        let Proxy { rules, resolver, limits, .. } = self.proxy;
        let end = until(Instant::now(), limits.connect, limits.total);
        let there = locate(&**resolver, (&upstream.host, upstream.port))
            .map_err(|failure| Refused::no_upstream(&failure, upstream))?;
        beyond(rules, &**resolver, (&upstream.host, &there), (host, port), inside)
            .map_err(|failure| Refused::unreached(failure, host, port))?;
        let (stream, address) =
            there.connect(limits.connect).map_err(|failure| Refused::no_upstream(&failure, upstream))?;
        self.entry.address = Some(address.to_string());
        let failed = |error: io::Error| {
            let reason = match error.kind() {
                io::ErrorKind::TimedOut => "does not answer".to_owned(),
                io::ErrorKind::UnexpectedEof => "closes the connection without an answer".to_owned(),
                io::ErrorKind::InvalidData => "answers in no way that is HTTP".to_owned(),
                _ => format!("breaks off: {}", describe(&error)),
            };
            Refused::upstream_fails(&reason, upstream, host, port)
        };
        let mut socket = Socket::from_tcp(stream).map_err(failed)?;
        if inside.is_some() && upstream.takes_requests() {
            return Ok(socket);
        }
        let who = upstream.authorization().map(|field| format!("Proxy-Authorization: {field}\r\n")).unwrap_or_default();
        let head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{who}\r\n");
        self.clock.write_all(&mut socket, head.as_bytes(), end).map_err(failed)?;
        loop {
            let (status, phrase) = self.answer_of(&mut socket, end).map_err(failed)?;
            match status {
                // Another answer follows.
                100..=199 => {}
                200..=299 => return Ok(socket),
                _ => {
                    let refused = Refused::by_upstream(status, &phrase, upstream, host, port);
                    // Nobody would think of CONNECT here.
                    let hint = inside.filter(|_| (400..407).contains(&status)).map(|_| {
                        format!("an upstream proxy that is told who asks has to allow CONNECT to port {port}, for http as well")
                    });
                    return Err(Refused { hint, ..refused });
                }
            }
        }
    }

    /// Reads the head of an answer and not a byte more: what follows is the server's.
    fn answer_of(&self, socket: &mut Socket, end: Instant) -> io::Result<(u16, String)> {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            match socket.read(&mut byte) {
                Ok(0) if head.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(0) => return Err(io::ErrorKind::InvalidData.into()),
                Ok(_) if head.len() == HEAD_MAX => return Err(io::ErrorKind::InvalidData.into()),
                Ok(_) => head.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.clock.wait(&[(socket.as_fd(), PollFlags::POLLIN)], Some(end))?;
                }
                Err(error) => return Err(error),
            }
        }
        let mut fields = [httparse::EMPTY_HEADER; 128];
        let mut answer = httparse::Response::new(&mut fields);
        match (answer.parse(&head), answer.code, answer.reason) {
            (Ok(httparse::Status::Complete(_)), Some(status), phrase) => {
                Ok((status, phrase.unwrap_or_default().to_owned()))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
