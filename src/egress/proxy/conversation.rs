//! One connection of a client, from its first byte: what it wants, whether it may, and who goes on with it.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use super::super::address::pin;
use super::super::head::{self, Head, Place, Target};
use super::super::host::Host;
use super::super::log::{Entry, Kind, Outcome};
use super::super::rules::{Inside, Rule, Verdict};
use super::super::socks::{self, BadMessage};
use super::refused::Refused;
use super::wire::{Clock, Socket, Wire};
use super::{Proxy, until};

/// A connection of a client.
pub(super) struct Conversation<'a, C = Socket> {
    pub(super) proxy: &'a Proxy,
    pub(super) clock: Clock<'a>,
    pub(super) client: C,
    /// Bytes of the client that were read and not used.
    pub(super) ahead: Vec<u8>,
    pub(super) entry: Entry,
    pub(super) begun: Instant,
    /// Whether the client has been told that a tunnel is open.
    pub(super) welcomed: bool,
    /// Whether it has begun a request of HTTP in the clear, within a tunnel.
    pub(super) clear: bool,
    /// Whether it comes from the target. What others want is no request of the run: nobody is told, and nothing is counted.
    pub(super) known: bool,
}

/// Whether somebody looks into a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nobody has to.
    No,
    /// Into TLS and HTTP; what is neither passes as it would.
    Rather,
    /// Nothing passes that cannot be looked into.
    Only,
}

/// How a conversation was left.
pub(super) type Left = Result<(), Stop>;

/// Why it was left before its end.
pub(super) enum Stop {
    /// The client is answered that, and it is told.
    Refused(Refused),
    /// The same, but the client cannot be answered any more.
    Silently(Refused),
    /// The client went away, or the run is over: there is nothing to tell.
    Gone,
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl<'a> Conversation<'a> {
    pub(super) fn new(proxy: &'a Proxy, client: Socket) -> Self {
        let clock = Clock::new(proxy.stop.as_fd());
        Self {
            proxy,
            clock,
            client,
            ahead: Vec::new(),
            entry: Entry::default(),
            begun: Instant::now(),
            welcomed: false,
            clear: false,
            known: proxy.token.is_none(),
        }
    }

    /// Holds it to its end.
    pub(super) fn hold(mut self) {
        let end = self.opening_end();
        // A client that connects and says nothing is nobody's business; it has as long as one that is slow.
        while self.ahead.is_empty() {
            match self.clock.read_some(&mut self.client, &mut self.ahead, end) {
                Ok(1..) => {}
                _ => return,
            }
        }
        if self.ahead[0] == 5 { self.socks() } else { self.http() }
    }

    fn http(mut self) {
        let (left, tunnel, head_only) = match self.read_head(Place::Proxy) {
            Ok(head) => {
                let tunnel = head.target == Target::Tunnel;
                let head_only = head.method == "HEAD";
                (self.serve_head(&head), tunnel, head_only)
            }
            Err(stop) => (Err(stop), self.ahead.starts_with(b"CONNECT "), false),
        };
        match left {
            Err(Stop::Refused(refused)) => {
                self.tell_refused(&refused);
                let end = self.opening_end();
                let answer = refused.http(tunnel, head_only);
                if self.clock.write_all(&mut self.client, &answer, end).is_ok() {
                    self.clock.linger(self.client);
                }
            }
            Err(Stop::Silently(refused)) => {
                self.tell_refused(&refused);
                self.clock.linger(self.client);
            }
            Ok(()) => self.clock.linger(self.client),
            Err(Stop::Gone) => {}
        }
    }

    fn serve_head(&mut self, head: &Head) -> Left {
        self.entry.method = Some(head.method.clone());
        self.entry.host = Some(head.host.to_string());
        self.entry.port = Some(head.port);
        if head.target == Target::Tunnel {
            self.entry.kind = Kind::Connect;
        } else if let Target::Path(path, _) = &head.target {
            self.entry.path = Some(path.as_str().to_owned());
        }
        if let Some(token) = &self.proxy.token
            && !head.token.as_deref().is_some_and(|field| token.is_in(field))
        {
            return Err(Refused::stranger().into());
        }
        self.known = true;
        if head.target == Target::Tunnel {
            let (server, look) = self.open_tunnel(&head.host, head.port)?;
            let end = self.opening_end();
            let welcome = b"HTTP/1.1 200 Connection established\r\n\r\n";
            self.clock.write_all(&mut self.client, welcome, end).map_err(|_| Stop::Gone)?;
            return self.tunnel(server, look, &head.host, head.port);
        }
        let server = self.open_request(head)?;
        let mut head = head.clone();
        self.proxy.swap(&mut head, false)?;
        self.exchange(&head, server, 80, self.proxy.upstream.as_ref().filter(|upstream| upstream.takes_requests()))
    }

    /// Asks the rules about a connection into which nobody looks, and makes it.
    fn open_tunnel(&mut self, host: &Host, port: u16) -> Result<(Socket, Look), Refused> {
        let (rule, look) = match self.proxy.rules.decide(host, port, None) {
            Verdict::Allowed(rule) if self.proxy.has_credentials() => (rule, Look::Rather),
            Verdict::Allowed(rule) => (rule, Look::No),
            Verdict::Inspect(rule) if self.proxy.inspection.is_some() => (rule, Look::Only),
            Verdict::Inspect(rule) => return Err(Refused::opaque(rule, host, port)),
            Verdict::Denied(denial) => return Err(Refused::by_rules(denial, host, port, None)),
        };
        self.connect(rule, host, port, None).map(|socket| (socket, look))
    }

    fn open_request(&mut self, head: &Head) -> Result<Socket, Refused> {
        let path = head.path_for_rules();
        let inside = Inside { method: &head.method, path: &path };
        let rule = self.allow(head, &inside)?;
        self.connect(rule, &head.host, head.port, Some(&inside))
    }

    /// Connects to where a request is going, of which `inside` is known, or a tunnel.
    fn connect(&mut self, rule: &Rule, host: &Host, port: u16, inside: Option<&Inside>) -> Result<Socket, Refused> {
        self.entry.rule = Some(rule.to_string());
        let Proxy { rules, resolver, own, limits, upstream, .. } = self.proxy;
        if let Some(upstream) = upstream {
            return self.connect_through(upstream, host, port, inside);
        }
        let failed = |failure| Refused::unreached(failure, host, port);
        let pinned = pin(rules, &**resolver, own, (host, port), inside).map_err(failed)?;
        let (stream, address) = pinned.connect(limits.connect).map_err(failed)?;
        self.entry.address = Some(address.to_string());
        Socket::from_tcp(stream).map_err(|error| Refused::of_error(&error, "cannot be read", host, port))
    }

    fn socks(mut self) {
        self.entry.kind = Kind::Socks;
        match self.serve_socks() {
            Err(Stop::Refused(refused)) => {
                self.tell_refused(&refused);
                let end = self.opening_end();
                // After the answer of SOCKS what is said is the client's own protocol.
                let answer = match (self.welcomed, self.clear) {
                    (false, _) => refused.socks().bytes().to_vec(),
                    (true, true) => refused.http(false, self.entry.method.as_deref() == Some("HEAD")),
                    (true, false) => Vec::new(),
                };
                let _answered = self.clock.write_all(&mut self.client, &answer, end);
                self.clock.linger(self.client);
            }
            Err(Stop::Silently(refused)) => {
                self.tell_refused(&refused);
                self.clock.linger(self.client);
            }
            Ok(()) => self.clock.linger(self.client),
            Err(Stop::Gone) => {}
        }
    }

    fn serve_socks(&mut self) -> Left {
        let greeting = self.message(socks::greeting)?;
        match &self.proxy.token {
            None if greeting.anonymous => self.say(&socks::ANONYMOUS)?,
            None if !greeting.password => {
                self.say(&socks::NO_WAY)?;
                return Err(Stop::Silently(Refused::stranger()));
            }
            // Some clients insist on saying who they are.
            _ if greeting.password => {
                self.say(&socks::PASSWORD)?;
                let said = self.message(socks::password)?;
                if self.proxy.token.as_ref().is_some_and(|token| !token.is(&said)) {
                    self.say(&socks::STRANGER)?;
                    return Err(Stop::Silently(Refused::stranger()));
                }
                self.known = true;
                self.say(&socks::WELCOME)?;
            }
            _ => {
                self.say(&socks::NO_WAY)?;
                return Err(Stop::Silently(Refused::stranger()));
            }
        }
        let (host, port) = self.message(socks::request)?;
        self.entry.host = Some(host.to_string());
        self.entry.port = Some(port);
        let (server, look) = self.open_tunnel(&host, port)?;
        self.say(&socks::Reply::Done.bytes())?;
        self.welcomed = true;
        self.tunnel(server, look, &host, port)
    }

    fn say(&mut self, bytes: &[u8]) -> Left {
        let end = self.opening_end();
        self.clock.write_all(&mut self.client, bytes, end).map_err(|_| Stop::Gone)
    }

    /// Reads one message of SOCKS.
    fn message<T>(&mut self, read: impl Fn(&[u8]) -> socks::Parsed<T>) -> Result<T, Stop> {
        let end = self.opening_end();
        loop {
            match read(&self.ahead) {
                Ok(Some((message, length))) => {
                    self.ahead.drain(..length);
                    return Ok(message);
                }
                Ok(None) => {}
                Err(BadMessage { reply: socks::Reply::Failed, reason }) => {
                    return Err(Refused::request(400, reason).into());
                }
                Err(BadMessage { reply, reason }) => {
                    self.say(&reply.bytes())?;
                    return Err(Stop::Silently(Refused::request(501, reason)));
                }
            }
            match self.clock.read_some(&mut self.client, &mut self.ahead, end) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Stop::Silently(Refused::late())),
                _ => return Err(Stop::Gone),
            }
        }
    }
}

impl<'a, C: Wire> Conversation<'a, C> {
    /// The head of a request within a connection to `host`, if the rules allow it, with secrets in their place where the connection
    /// is `verified`.
    pub(super) fn request_within(&mut self, host: &Host, port: u16, verified: bool) -> Result<Head, Stop> {
        let mut head = self.read_head(Place::Within(host, port))?;
        self.entry.method = Some(head.method.clone());
        if let Target::Path(path, _) = &head.target {
            self.entry.path = Some(path.as_str().to_owned());
        }
        let path = head.path_for_rules();
        let rule = self.allow(&head, &Inside { method: &head.method, path: &path })?;
        self.entry.rule = Some(rule.to_string());
        self.proxy.swap(&mut head, verified)?;
        Ok(head)
    }

    pub(super) fn opening_end(&self) -> Instant {
        until(self.begun, self.proxy.limits.opening, self.proxy.limits.total)
    }

    pub(super) fn idle_end(&self) -> Instant {
        until(self.begun, self.proxy.limits.idle, self.proxy.limits.total)
    }

    /// One more line, with what is known by now.
    pub(super) fn tell(&self, outcome: Outcome) {
        self.proxy.log.tell(outcome, &self.entry, self.begun.elapsed());
    }

    pub(super) fn tell_refused(&mut self, refused: &Refused) {
        if !self.known {
            return;
        }
        self.entry.status = Some(refused.status);
        self.entry.reason = Some(refused.code.to_owned());
        self.entry.remedy = Some(refused.hint.clone().unwrap_or_else(|| refused.text.clone()));
        if let Some(rule) = &refused.rule {
            self.entry.rule = Some(rule.clone());
        }
        self.tell(refused.outcome);
    }

    /// Reads a head; what came behind it stays in `ahead`.
    pub(super) fn read_head(&mut self, place: Place) -> Result<Head, Stop> {
        let (mut seen, end) = (0, self.opening_end());
        loop {
            let found =
                head::end(&self.ahead, seen).map_err(|refusal| Refused::request(refusal.status, refusal.reason))?;
            if let Some(length) = found {
                let rest = self.ahead.split_off(length);
                let bytes = std::mem::replace(&mut self.ahead, rest);
                return Head::parse(&bytes, place)
                    .map_err(|refusal| Refused::request(refusal.status, refusal.reason).into());
            }
            seen = self.ahead.len();
            match self.clock.read_some(&mut self.client, &mut self.ahead, end) {
                Ok(1..) => {}
                Ok(0) => return Err(Refused::request(400, "ends before its head does").into()),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Refused::late().into()),
                Err(_) => return Err(Stop::Gone),
            }
        }
    }

    /// Asks the rules about a request.
    pub(super) fn allow<'r>(&'r self, head: &Head, inside: &Inside) -> Result<&'a Rule, Refused> {
        match self.proxy.rules.decide(&head.host, head.port, Some(inside)) {
            Verdict::Allowed(rule) | Verdict::Inspect(rule) => Ok(rule),
            Verdict::Denied(denial) => Err(Refused::by_rules(denial, &head.host, head.port, Some(inside))),
        }
    }
}
