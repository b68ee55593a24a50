//! Looking into TLS: both halves of a connection, and between them requests as anywhere else.
//!
//! Without the feature `intercept` nothing of this can be had, and what needs it is refused.

#[cfg(not(feature = "intercept"))]
use super::{super::head::Head, super::host::Host, Proxy, refused::Refused};

/// What looking into TLS takes.
#[cfg(feature = "intercept")]
#[derive(Debug)]
pub struct Inspection {
    /// Who speaks for all hosts inside.
    pub interception: super::super::intercept::Interception,
    /// What is added to requests.
    pub credentials: Vec<super::super::secrets::Credential>,
}

/// What looking into TLS takes, and cannot be had here.
#[cfg(not(feature = "intercept"))]
#[derive(Debug)]
pub enum Inspection {}

#[cfg(not(feature = "intercept"))]
#[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "the same as with the feature")]
impl Proxy {
    pub(super) fn has_credentials(&self) -> bool {
        self.inspection.is_some()
    }

    pub(super) fn swap(&self, _: &mut Head, _: bool) -> Result<(), Refused> {
        Ok(())
    }

    pub(super) fn echoes(&self, _: &[u8]) -> bool {
        self.inspection.is_some()
    }
}

#[cfg(not(feature = "intercept"))]
#[allow(clippy::unused_self, reason = "the same as with the feature")]
impl super::conversation::Conversation<'_> {
    pub(super) fn look_into(&mut self, _: super::wire::Socket, host: &Host, port: u16) -> super::conversation::Left {
        Err(super::conversation::Stop::Silently(Refused::opening("cannot be looked into", host, port)))
    }
}

#[cfg(feature = "intercept")]
mod tls {
    use std::io;
    use std::ops::DerefMut;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::time::Instant;

    use nix::poll::PollFlags;
    use rustls::{ConnectionCommon, SideData, StreamOwned};

    use super::super::super::head::Head;
    use super::super::super::host::Host;
    use super::super::super::log::Kind;
    use super::super::super::secrets;
    use super::super::Proxy;
    use super::super::conversation::{Conversation, Left, Stop};
    use super::super::refused::Refused;
    use super::super::wire::{Clock, Socket, Wire, interest};
    use super::Inspection;

    impl Proxy {
        /// Whether there are secrets. Only somebody who looks inside can add one, or see that a placeholder goes elsewhere.
        pub(in super::super) fn has_credentials(&self) -> bool {
            self.inspection.iter().any(|inspection| !inspection.credentials.is_empty())
        }

        /// Puts secrets where they belong, or refuses what would carry a placeholder elsewhere.
        pub(in super::super) fn swap(&self, head: &mut Head, verified: bool) -> Result<(), Refused> {
            let Some(Inspection { credentials, .. }) = &self.inspection else { return Ok(()) };
            secrets::swap(credentials, head, verified).map_err(|_| Refused {
                code: "credential",
                text: format!(
                    "the request to '{}:{}' holds a placeholder that stands for nothing there",
                    head.host, head.port
                ),
                ..Refused::request(403, "")
            })
        }

        /// Whether a field of an answer tells a secret.
        pub(in super::super) fn echoes(&self, value: &[u8]) -> bool {
            self.inspection.as_ref().is_some_and(|inspection| secrets::echoes(&inspection.credentials, value))
        }
    }

    impl<C, S> Wire for StreamOwned<C, Socket>
    where
        C: DerefMut<Target = ConnectionCommon<S>>,
        S: SideData,
    {
        fn fd(&self) -> BorrowedFd<'_> {
            self.sock.as_fd()
        }

        fn finish(&mut self) {
            self.conn.send_close_notify();
            let _told = self.push();
            self.sock.finish();
        }

        fn pending(&self) -> bool {
            self.conn.wants_write()
        }

        fn push(&mut self) -> io::Result<()> {
            while self.conn.wants_write() {
                match self.conn.write_tls(&mut self.sock) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => {
                        result?;
                    }
                }
            }
            Ok(())
        }
    }

    /// Shakes hands.
    fn begin<C, S>(clock: Clock, stream: &mut StreamOwned<C, Socket>, end: Instant) -> io::Result<()>
    where
        C: DerefMut<Target = ConnectionCommon<S>>,
        S: SideData,
    {
        while stream.conn.is_handshaking() || stream.conn.wants_write() {
            match stream.conn.complete_io(&mut stream.sock) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut flags = PollFlags::empty();
                    flags.set(PollFlags::POLLIN, stream.conn.wants_read());
                    clock.wait(&[(stream.fd(), interest(stream, flags))], Some(end))?;
                }
                Err(error) => {
                    // What is wrong is said to the other side as well.
                    let _told = stream.push();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    impl Conversation<'_> {
        /// Takes the client's TLS for that of `host`, and goes on with the request inside.
        pub(in super::super) fn look_into(&mut self, server: Socket, host: &Host, port: u16) -> Left {
            let refused = |reason: String| Stop::Silently(Refused::opening(&reason, host, port));
            let Some(inspection) = &self.proxy.inspection else {
                return Err(refused("cannot be looked into".into()));
            };
            let end = self.opening_end();
            let connection = inspection
                .interception
                .server(host)
                .map_err(|error| refused(format!("cannot be looked into: {error}")))?;
            let socket = self.client.again().map_err(|_| Stop::Gone)?;
            let mut client = StreamOwned::new(connection, socket);
            let ahead = std::mem::take(&mut self.ahead);
            let mut rest = &*ahead;
            let fed = (|| {
                while !rest.is_empty() {
                    client.conn.read_tls(&mut rest)?;
                    client.conn.process_new_packets().map_err(io::Error::other)?;
                }
                begin(self.clock, &mut client, end)
            })();
            if let Err(error) = fed {
                let _told = client.push();
                // Clients that know which certificate to expect, and those that trust a list of their own.
                return Err(refused(format!("does not accept who looks into it: {}", plain(&error))));
            }
            self.entry.kind = Kind::Https;
            let entry = std::mem::take(&mut self.entry);
            let mut inner = Conversation {
                proxy: self.proxy,
                clock: self.clock,
                client,
                ahead: Vec::new(),
                entry,
                begun: self.begun,
                welcomed: true,
                clear: false,
                known: self.known,
            };
            let left = inner.within(server, host, port);
            let end = inner.opening_end().max(Instant::now() + std::time::Duration::from_secs(1));
            match left {
                Err(Stop::Refused(refused)) => {
                    inner.tell_refused(&refused);
                    let head_only = inner.entry.method.as_deref() == Some("HEAD");
                    let _answered = inner.clock.write_all(&mut inner.client, &refused.http(false, head_only), end);
                    inner.client.finish();
                    Ok(())
                }
                Err(Stop::Silently(refused)) => {
                    inner.tell_refused(&refused);
                    inner.client.finish();
                    Ok(())
                }
                Ok(()) => {
                    inner.client.finish();
                    Ok(())
                }
                // No polite end: the client has to see that something is missing.
                Err(Stop::Gone) => Err(Stop::Gone),
            }
        }
    }

    impl<C: Wire> Conversation<'_, C> {
        /// One request within TLS, on to `server` in TLS of our own.
        fn within(&mut self, server: Socket, host: &Host, port: u16) -> Left {
            let head = self.request_within(host, port, true)?;
            let failed = |reason: &str| Refused {
                code: "certificate",
                text: format!("cannot speak TLS with '{host}:{port}': {reason}"),
                ..Refused::answer("", host, port)
            };
            let Some(inspection) = &self.proxy.inspection else { return Err(failed("nobody looks inside").into()) };
            let connection = inspection.interception.client(host).map_err(|error| failed(&error.to_string()))?;
            let mut server = StreamOwned::new(connection, server);
            let end = super::super::until(self.begun, self.proxy.limits.connect, self.proxy.limits.total);
            begin(self.clock, &mut server, end).map_err(|error| failed(&plain(&error)))?;
            self.exchange(&head, server, 443, None)
        }
    }

    /// What is wrong with TLS in words of its own, and with a socket in ours.
    fn plain(error: &io::Error) -> String {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => error.to_string(),
            None => crate::sys::process::describe(error),
        }
    }
}
