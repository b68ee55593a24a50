//! Reading a profile of Seatbelt and deciding by it, as far as our profiles go: for tests where there is no Mac.
//!
//! Knows nothing of how profiles are made. Sources differ on which of several matching rules counts, so that each question is
//! decided by three readings, and an answer is one only when they agree.

mod pattern;

use std::fmt::Write as _;
use std::path::Path;

use pattern::Pattern;

/// Operations that our profiles use or that are asked for.
pub const OPERATIONS: &[&str] = &[
    "default",
    "file-ioctl",
    "file-map-executable",
    "file-read*",
    "file-read-data",
    "file-read-metadata",
    "file-read-xattr",
    "file-write*",
    "file-write-create",
    "file-write-data",
    "file-write-unlink",
    "ipc-posix-sem",
    "ipc-posix-shm",
    "iokit-open",
    "mach-lookup",
    "mach-priv-host-port",
    "network-bind",
    "network-inbound",
    "network-outbound",
    "process-exec",
    "process-exec*",
    "process-fork",
    "process-info*",
    "pseudo-tty",
    "signal",
    "sysctl-read",
    "sysctl-write",
    "system-socket",
];

/// Filters of one string.
pub const OF_TEXT: &[&str] = &[
    "extension",
    "global-name",
    "literal",
    "path-literal",
    "path-regex",
    "regex",
    "subpath",
    "sysctl-name",
    "sysctl-name-prefix",
];

/// Filters of one word or number.
pub const OF_WORD: &[&str] = &["socket-domain", "socket-protocol", "target", "with"];

/// Words and numbers that filters take.
pub const WORDS: &[&str] = &["AF_ROUTE", "AF_SYSTEM", "AF_UNIX", "ip", "no-log", "same-sandbox", "unix-socket"];

/// A word, a string or a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Word(String),
    Text(String),
    List(Vec<Node>),
}

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub operation: &'static str,
    pub path: String,
    /// A Unix socket has a path, another one an address.
    pub address: String,
    pub name: String,
    pub target: &'static str,
    pub extension: &'static str,
}

struct Rule {
    allows: bool,
    operations: Vec<String>,
    filters: Vec<Node>,
}

/// A profile that was read.
pub struct Profile {
    rules: Vec<Rule>,
    pub forms: Vec<Node>,
}

/// All expressions of a text.
pub fn read(text: &str) -> Result<Vec<Node>, String> {
    let mut stack = vec![Vec::new()];
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let open = stack.last_mut().ok_or("too many ')'")?;
        match char {
            ' ' | '\n' => {}
            ';' => while chars.next_if(|char| *char != '\n').is_some() {},
            '(' => stack.push(Vec::new()),
            ')' => {
                let list = stack.pop().ok_or("too many ')'")?;
                stack.last_mut().ok_or("too many ')'")?.push(Node::List(list));
            }
            '"' => {
                let mut string = String::new();
                loop {
                    match chars.next().ok_or("a string has no end")? {
                        '"' => break,
                        '\\' => {
                            let escaped = chars.next_if(|char| matches!(char, '"' | '\\'));
                            string.push(escaped.ok_or("a strange escape")?);
                        }
                        char if char.is_control() => return Err("a control character in a string".into()),
                        char => string.push(char),
                    }
                }
                open.push(Node::Text(string));
            }
            first => {
                let mut word = String::from(first);
                while let Some(char) = chars.next_if(|char| !" \n();\"".contains(*char)) {
                    word.push(char);
                }
                open.push(Node::Word(word));
            }
        }
    }
    let forms = stack.pop().filter(|_| stack.is_empty()).ok_or("a '(' has no end")?;
    Ok(forms)
}

impl Profile {
    /// Reads a profile and refuses what the system would, or what would silently never match.
    pub fn of(text: &str) -> Result<Self, String> {
        let forms = read(text)?;
        let mut rules: Vec<Rule> = Vec::new();
        for (number, form) in forms.iter().enumerate() {
            let Node::List(parts) = form else { return Err(format!("not a form: {form:?}")) };
            let words: Vec<_> = parts.iter().map_while(word).collect();
            match words[..] {
                ["version", "1"] if number == 0 && parts.len() == 2 => {}
                _ if number == 0 => return Err("no (version 1) at the beginning".into()),
                [verb @ ("allow" | "deny"), ref operations @ ..] if !operations.is_empty() => {
                    if let Some(unknown) = operations.iter().find(|name| !OPERATIONS.contains(name)) {
                        return Err(format!("unknown operation: {unknown}"));
                    }
                    let mut filters = parts[words.len()..].to_vec();
                    filters.iter().try_for_each(checked)?;
                    filters.retain(|filter| !is(filter, "with"));
                    let operations = operations.iter().map(|&name| name.to_owned()).collect();
                    rules.push(Rule { allows: verb == "allow", operations, filters });
                }
                _ => return Err(format!("not a rule: {form:?}")),
            }
        }
        if forms.is_empty() {
            return Err("no (version 1) at the beginning".into());
        }
        Ok(Self { rules, forms })
    }

    /// Whether the operation is allowed, if all readings agree.
    pub fn allows(&self, query: &Query) -> Result<bool, String> {
        let chain = chain(query.operation);
        let fits = |rule: &&Rule| rule.filters.is_empty() || rule.filters.iter().any(|filter| matches(filter, query));
        let about = |rule: &&Rule, name: &str| rule.operations.iter().any(|own| own == name);
        let default = self.rules.iter().rfind(|rule| about(rule, "default")).is_some_and(|rule| rule.allows);
        let matching: Vec<_> =
            self.rules.iter().filter(|rule| chain.iter().any(|name| about(rule, name))).filter(fits).collect();

        let last = matching.last().map_or(default, |rule| rule.allows);
        let most_specific = chain.iter().find_map(|name| matching.iter().rfind(|rule| about(rule, name)));
        let specific = most_specific.map_or(default, |rule| rule.allows);
        let denial = if matching.is_empty() { default } else { matching.iter().all(|rule| rule.allows) };
        if last == specific && specific == denial {
            Ok(last)
        } else {
            Err(format!("{query:?}: the last rule says {last}, the most specific one {specific}, a denial {denial}"))
        }
    }

    /// How many rules decide about everything that no other rule decides about.
    pub fn defaults(&self) -> usize {
        self.rules.iter().filter(|rule| rule.operations.iter().any(|name| name == "default")).count()
    }

    /// What may be done with the file at a path: `m` ask for, `r` read, `x` execute, `w` write and make, `u` remove and rename,
    /// `c` connect to as a socket, `b` make as a socket.
    pub fn may(&self, path: &str) -> Result<String, String> {
        let mut all = String::new();
        for (letter, operations) in [
            ('m', &["file-read-metadata"][..]),
            ('r', &["file-read-data", "file-read-xattr"]),
            ('x', &["process-exec", "file-map-executable"]),
            ('w', &["file-write-data", "file-write-create"]),
            ('u', &["file-write-unlink"]),
            ('c', &["network-outbound"]),
            ('b', &["network-bind"]),
        ] {
            let answers = operations.iter().map(|&operation| {
                let address = if operation.starts_with("network") { "unix-socket".to_owned() } else { String::new() };
                self.allows(&Query { operation, path: path.to_owned(), address, ..Query::default() })
            });
            let answers: Vec<_> = answers.collect::<Result<_, _>>()?;
            if answers.iter().any(|answer| *answer != answers[0]) {
                return Err(format!("{operations:?} of '{path}' differ: {answers:?}"));
            }
            if answers[0] {
                all.push(letter);
            }
        }
        Ok(all)
    }

    /// Whether an address of the network, `HOST:PORT`, can be reached, and be listened at.
    pub fn reaches(&self, address: &str) -> Result<(bool, bool), String> {
        let ask = |operation| self.allows(&Query { operation, address: address.to_owned(), ..Query::default() });
        Ok((ask("network-outbound")?, ask("network-bind")?))
    }

    /// Whether something that has a name and no path can be used.
    pub fn allows_name(&self, operation: &'static str, name: &str) -> Result<bool, String> {
        self.allows(&Query { operation, name: name.to_owned(), ..Query::default() })
    }
}

fn word(node: &Node) -> Option<&str> {
    match node {
        Node::Word(word) => Some(word),
        Node::Text(_) | Node::List(_) => None,
    }
}

fn is(node: &Node, name: &str) -> bool {
    matches!(node, Node::List(parts) if parts.first().and_then(word) == Some(name))
}

/// The operation and those that contain it: `file-read-data`, `file-read*`, `file*`.
fn chain(operation: &str) -> Vec<String> {
    let mut chain = vec![operation.to_owned()];
    let mut rest = operation.trim_end_matches('*');
    chain.push(format!("{rest}*"));
    while let Some((shorter, _)) = rest.rsplit_once('-') {
        chain.push(format!("{shorter}*"));
        rest = shorter;
    }
    chain.dedup();
    chain
}

fn checked(filter: &Node) -> Result<(), String> {
    let wrong = || Err(format!("not a filter: {filter:?}"));
    let Node::List(parts) = filter else { return wrong() };
    match &parts[..] {
        [Node::Word(name), inner @ ..] if name == "require-all" || name == "require-any" => {
            inner.iter().try_for_each(checked)
        }
        [Node::Word(name), inner] if name == "require-not" => checked(inner),
        [Node::Word(name), Node::Word(of)] if OF_WORD.contains(&name.as_str()) => {
            if WORDS.contains(&of.as_str()) || of.parse::<u32>().is_ok() { Ok(()) } else { wrong() }
        }
        [Node::Word(name), Node::Text(text)] if OF_TEXT.contains(&name.as_str()) => match name.as_str() {
            "literal" | "subpath" | "path-literal" if !is_clean(text) => Err(format!("not a clean path: '{text}'")),
            "regex" | "path-regex" => Pattern::of(text).map(drop),
            _ => Ok(()),
        },
        [Node::Word(side), Node::Word(ip), Node::Text(text)] if (side == "remote" || side == "local") && ip == "ip" => {
            match text.rsplit_once(':') {
                Some(("*" | "localhost", port)) if port == "*" || port.parse::<u16>().is_ok() => Ok(()),
                _ => Err(format!("not an address that a profile can have: '{text}'")),
            }
        }
        [Node::Word(side), Node::Word(unix), path]
            if (side == "remote" || side == "local") && unix == "unix-socket" =>
        {
            if ["path-literal", "path-regex", "subpath"].iter().any(|name| is(path, name)) {
                checked(path)
            } else {
                wrong()
            }
        }
        _ => wrong(),
    }
}

fn is_clean(path: &str) -> bool {
    path == "/" || (path.starts_with('/') && path[1..].split('/').all(|name| !["", ".", ".."].contains(&name)))
}

fn matches(filter: &Node, query: &Query) -> bool {
    let Node::List(parts) = filter else { return false };
    let has_path = !query.path.is_empty();
    match &parts[..] {
        [Node::Word(name), inner @ ..] if name == "require-all" => inner.iter().all(|filter| matches(filter, query)),
        [Node::Word(name), inner @ ..] if name == "require-any" => inner.iter().any(|filter| matches(filter, query)),
        [Node::Word(name), inner] if name == "require-not" => !matches(inner, query),
        [Node::Word(name), Node::Word(of)] => name == "target" && of == query.target,
        [Node::Word(name), Node::Text(text)] => match name.as_str() {
            "literal" | "path-literal" => has_path && query.path == *text,
            "subpath" => has_path && Path::new(&query.path).starts_with(text),
            "regex" | "path-regex" => has_path && Pattern::of(text).is_ok_and(|pattern| pattern.is_in(&query.path)),
            "sysctl-name-prefix" => query.name.starts_with(text),
            "extension" => query.extension == text,
            _ => query.name == *text,
        },
        [Node::Word(side), Node::Word(kind), what] => {
            // One end is asked about, and which one the operation says.
            let end = if query.operation == "network-outbound" { "remote" } else { "local" };
            side == end
                && if kind == "unix-socket" {
                    query.address == "unix-socket" && matches(what, query)
                } else {
                    let Node::Text(text) = what else { return false };
                    let Some(((host, port), (own, number))) = text.rsplit_once(':').zip(query.address.rsplit_once(':'))
                    else {
                        return false;
                    };
                    let local = ["localhost", "127.0.0.1", "::1"].contains(&own);
                    (host == "*" || local) && (port == "*" || port == number)
                }
        }
        _ => false,
    }
}

/// A program for `tinyscheme`, which macOS has inside, that defines what our profiles use and writes each rule as it was read.
pub fn shim() -> String {
    let mut text = String::from("(define (version number) #t)\n");
    for verb in ["allow", "deny"] {
        writeln!(text, "(define ({verb} . parts) (write (cons '{verb} parts)) (newline))").expect("text");
    }
    for name in OF_TEXT.iter().chain(OF_WORD).chain(&["require-all", "require-any", "require-not", "remote", "local"]) {
        writeln!(text, "(define ({name} . parts) (cons '{name} parts))").expect("text");
    }
    for name in OPERATIONS.iter().chain(WORDS) {
        writeln!(text, "(define {name} '{name})").expect("text");
    }
    text
}

#[test]
fn what_the_system_would_refuse_is_refused() {
    for (text, why) in [
        ("", "no (version 1)"),
        ("(deny default)", "no (version 1)"),
        ("(version 2)\n(deny default)", "no (version 1)"),
        ("(version 1)\n(deny default", "no end"),
        ("(version 1)\n(deny default))", "too many"),
        ("(version 1)\n(allow file-raed*)", "unknown operation"),
        ("(version 1)\n(allow)", "not a rule"),
        ("(version 1)\n(permit default)", "not a rule"),
        ("(version 1)\n(allow file-read* (subpath \"a\"))", "not a clean path"),
        ("(version 1)\n(allow file-read* (subpath \"/a/\"))", "not a clean path"),
        ("(version 1)\n(allow file-read* (literal \"/a/../b\"))", "not a clean path"),
        ("(version 1)\n(allow file-read* (literal \"/a\\n\"))", "a strange escape"),
        ("(version 1)\n(allow file-read* (literal \"/a\n\"))", "a control character"),
        ("(version 1)\n(allow file-read* (literal \"/a))", "no end"),
        ("(version 1)\n(allow file-read* (folder \"/a\"))", "not a filter"),
        ("(version 1)\n(allow file-read* (literal (param \"HOME\")))", "not a filter"),
        ("(version 1)\n(allow network-outbound (remote ip \"10.0.0.1:80\"))", "not an address"),
        ("(version 1)\n(allow network-outbound (remote ip \"example.org:80\"))", "not an address"),
        ("(version 1)\n(allow network-outbound (remote unix-socket (literal \"/a\")))", "not a filter"),
    ] {
        let refused = Profile::of(text).err().unwrap_or_default();
        assert!(refused.contains(why), "{text}: '{refused}'");
    }
    Profile::of("(version 1)\n(deny default (with no-log)) ; a comment (\n(allow file-read* (subpath \"/\"))").unwrap();
}

#[test]
fn readings_that_differ_are_no_answer() {
    let read = |text: &str| Profile::of(&format!("(version 1)\n(deny default)\n{text}")).unwrap();
    let allow = "(allow file-read* (subpath \"/a\"))\n";
    for (rest, path, expected) in [
        ("", "/a/b", Some("r")),
        ("", "/ab", Some("")),
        ("(deny file-read* (subpath \"/a/b\"))", "/a/b", Some("")),
        ("(deny file-read* (subpath \"/a/b\"))", "/a/c", Some("r")),
        // The last rule allows it, a denial does not.
        ("(deny file-read* (subpath \"/a/b\"))\n(allow file-read* (subpath \"/a/b/c\"))", "/a/b/c", None),
        // The last rule denies it, the rule about the very operation does not.
        ("(allow file-read-data (subpath \"/a\"))\n(deny file-read* (subpath \"/a/b\"))", "/a/b", None),
        ("(deny file-read* (require-all (subpath \"/a/b\") (require-not (subpath \"/a/b/c\"))))", "/a/b/c", Some("r")),
    ] {
        let answer = read(&format!("{allow}{rest}")).allows(&Query {
            operation: "file-read-data",
            path: path.into(),
            ..Query::default()
        });
        let found = answer.ok().map(|allowed| if allowed { "r" } else { "" });
        assert_eq!(found, expected, "{rest} {path}");
    }
}
