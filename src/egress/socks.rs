//! The messages of SOCKS 5 that a client sends and gets: connections only, names resolved by the proxy.
//!
//! Bytes to meaning and back. Nothing is read or written here.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::host::{Host, HostName};

/// What a client says first: which ways it knows to say who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// It may come without saying who it is.
    pub anonymous: bool,
    /// It can say a name and a password.
    pub password: bool,
}

/// Answer to a greeting: no need to say who you are.
pub const ANONYMOUS: [u8; 2] = [5, 0];
/// Answer to a greeting: name and password, please.
pub const PASSWORD: [u8; 2] = [5, 2];
/// Answer to a greeting: none of your ways will do.
pub const NO_WAY: [u8; 2] = [5, 0xff];
/// Answer to name and password that are right.
pub const WELCOME: [u8; 2] = [1, 0];
/// Answer to name and password that are wrong.
pub const STRANGER: [u8; 2] = [1, 1];

/// What a request comes to, in the numbers of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The connection is there.
    Done = 0,
    /// Something else failed.
    Failed = 1,
    /// The rules do not allow it.
    Denied = 2,
    /// There is no such host, or no way to it.
    Unreachable = 4,
    /// Nobody listens there.
    Refused = 5,
    /// Nobody answered in time.
    TimedOut = 6,
    /// Only connections are made.
    Command = 7,
    /// Addresses of that kind are not known.
    Kind = 8,
}

impl Reply {
    /// The message; the address in it is of no use to anybody, so it is none.
    #[must_use]
    pub fn bytes(self) -> [u8; 10] {
        [5, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// A message that is whole, and how many bytes it takes.
pub type Parsed<T> = Result<Option<(T, usize)>, BadMessage>;

/// What is no message of SOCKS 5, and the answer to it, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMessage {
    /// What the client is told.
    pub reply: Reply,
    /// To stand behind "the request".
    pub reason: &'static str,
}

const fn bad(reply: Reply, reason: &'static str) -> BadMessage {
    BadMessage { reply, reason }
}

/// Reads a greeting.
pub fn greeting(bytes: &[u8]) -> Parsed<Greeting> {
    match bytes {
        [5, 0, ..] => Err(bad(Reply::Failed, "names no way to say who sends it")),
        [5, count, rest @ ..] => {
            let count = usize::from(*count);
            let methods = rest.get(..count);
            Ok(methods.map(|methods| {
                (Greeting { anonymous: methods.contains(&0), password: methods.contains(&2) }, 2 + count)
            }))
        }
        [5] | [] => Ok(None),
        _ => Err(bad(Reply::Failed, "is of another version of SOCKS than 5")),
    }
}

/// Reads a name and a password, as `NAME:PASSWORD`.
pub fn password(bytes: &[u8]) -> Parsed<Vec<u8>> {
    let [1, length, rest @ ..] = bytes else {
        return if matches!(bytes, [] | [1]) {
            Ok(None)
        } else {
            Err(bad(Reply::Failed, "says in an odd way who sends it"))
        };
    };
    let Some((name, rest)) = rest.split_at_checked(usize::from(*length)) else { return Ok(None) };
    let Some((length, rest)) = rest.split_first() else { return Ok(None) };
    let Some(word) = rest.get(..usize::from(*length)) else { return Ok(None) };
    Ok(Some(([name, b":", word].concat(), 3 + name.len() + word.len())))
}

/// Reads a request for a connection.
pub fn request(bytes: &[u8]) -> Parsed<(Host, u16)> {
    let (command, kind, rest) = match bytes {
        [5, command, 0, kind, rest @ ..] => (*command, *kind, rest),
        [5] | [5, _] | [5, _, 0] | [] => return Ok(None),
        _ => return Err(bad(Reply::Failed, "is no request of SOCKS 5")),
    };
    if command != 1 {
        return Err(bad(Reply::Command, "is for something else than a connection"));
    }
    let (length, skip) = match kind {
        1 => (4, 0),
        4 => (16, 0),
        3 => match rest.first() {
            Some(length) => (usize::from(*length), 1),
            None => return Ok(None),
        },
        _ => return Err(bad(Reply::Kind, "has an address of a kind that is not known")),
    };
    let Some(address) = rest.get(skip..skip + length) else { return Ok(None) };
    let Some([high, low]) = rest.get(skip + length..skip + length + 2) else { return Ok(None) };
    let host = if let Ok(octets) =
        <[u8; 4]>::try_from(address).map_err(|_| ()).and_then(|octets| if kind == 1 { Ok(octets) } else { Err(()) })
    {
        Host::address(Ipv4Addr::from(octets).into())
    } else if let Some(octets) = <[u8; 16]>::try_from(address).ok().filter(|_| kind == 4) {
        Host::address(Ipv6Addr::from(octets).into())
    } else {
        name(address)?
    };
    let port = u16::from_be_bytes([*high, *low]);
    if port == 0 {
        return Err(bad(Reply::Failed, "has a port that is no number from 1 to 65535"));
    }
    Ok(Some(((host, port), 6 + skip + length)))
}

/// A name, or an IPv4 address that a client takes for one.
fn name(bytes: &[u8]) -> Result<Host, BadMessage> {
    let no = bad(Reply::Failed, "is for what is no host");
    let text = std::str::from_utf8(bytes).map_err(|_| no)?;
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(Host::address(address.into()));
    }
    if text.starts_with('[') {
        return Err(no);
    }
    match Host::parse(text) {
        Ok(host @ Host::Address(_)) => Ok(host),
        Ok(Host::Name(_)) => HostName::parse(text).map(Host::Name).map_err(|_| no),
        Err(_) => Err(no),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(kind: u8, address: &[u8], port: u16) -> Vec<u8> {
        [&[5, 1, 0, kind][..], address, &port.to_be_bytes()].concat()
    }

    #[test]
    fn requests_are_read_as_far_as_they_are_there() {
        let whole = asked(3, b"\x07OK.test", 443);
        for length in 0..whole.len() {
            assert_eq!(request(&whole[..length]), Ok(None), "{length}");
        }
        let host = |text| Host::parse(text).unwrap();
        assert_eq!(request(&whole), Ok(Some(((host("ok.test"), 443), whole.len()))));
        assert_eq!(request(&asked(1, &[127, 0, 0, 1], 80)), Ok(Some(((host("127.0.0.1"), 80), 10))));
        let six = Ipv6Addr::LOCALHOST.octets();
        assert_eq!(request(&asked(4, &six, 80)), Ok(Some(((host("[::1]"), 80), 22))));
        assert_eq!(request(&asked(3, b"\x09127.0.0.1", 80)).unwrap().unwrap().0.0, host("127.0.0.1"));
        assert_eq!(request(&asked(3, b"\x03::1", 80)).unwrap().unwrap().0.0, host("[::1]"));
        // Four letters are a name and no address.
        assert_eq!(request(&asked(3, b"\x04test", 80)).unwrap().unwrap().0.0, host("test"));
    }

    #[test]
    fn what_is_not_asked_for_plainly_is_refused() {
        for (bytes, reply) in [
            (asked(3, b"\x0cok.test\0.com", 80), Reply::Failed),
            (asked(3, b"\x0a2130706433", 80), Reply::Failed),
            (asked(3, b"\x00", 80), Reply::Failed),
            (asked(3, b"\x05[::1]", 80), Reply::Failed),
            (asked(3, b"\x07ok test", 80), Reply::Failed),
            (asked(2, b"x", 80), Reply::Kind),
            (asked(1, &[1, 1, 1, 1], 0), Reply::Failed),
            (vec![5, 2, 0, 1, 1, 1, 1, 1, 0, 80], Reply::Command),
            (vec![5, 3, 0, 1, 1, 1, 1, 1, 0, 80], Reply::Command),
            (vec![4, 1, 0, 80, 1, 1, 1, 1, 0], Reply::Failed),
            (vec![5, 1, 1, 1, 1, 1, 1, 1, 0, 80], Reply::Failed),
        ] {
            assert_eq!(request(&bytes).unwrap_err().reply, reply, "{bytes:?}");
        }
    }

    #[test]
    fn greetings_and_passwords() {
        assert_eq!(greeting(&[5, 2, 0]), Ok(None));
        assert_eq!(greeting(&[5, 2, 0, 2]), Ok(Some((Greeting { anonymous: true, password: true }, 4))));
        assert_eq!(greeting(&[5, 1, 1, 9]), Ok(Some((Greeting { anonymous: false, password: false }, 3))));
        assert!(greeting(&[4, 1]).is_err());
        assert!(greeting(&[5, 0]).is_err());
        assert_eq!(password(b"\x01\x01u\x02pw"), Ok(Some((b"u:pw".to_vec(), 6))));
        assert_eq!(password(b"\x01\x01u\x02p"), Ok(None));
        assert!(password(b"\x02\x01u\x02pw").is_err());
    }

    proptest! {
        #[test]
        fn reading_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _read = (greeting(&bytes), password(&bytes), request(&bytes));
        }
    }
}
