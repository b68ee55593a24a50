//! The system-call filter of the target: what namespaces and capabilities do not close.
//!
//! Allows what [`table`] does not name. Everything that reaches the kernel by another table of call numbers than the one it knows is
//! closed, and so are calls that are newer than the table. It decides by numbers and register values alone, as the kernel has it: paths, addresses and structures in
//! memory are the business of mounts and Landlock.
//!
//! The program is put together here and not by a crate. Those at hand (seccompiler) give one answer a program, walk through all
//! calls in a row and do not know x32: EPERM and ENOSYS would be two programs, with instructions set before them by hand in any
//! case. Here it is one search tree. That counts for each call whose arguments are compared, and more so at the start: the kernel
//! tries the program with every number when it is loaded, to remember which calls are always allowed, and translates every
//! instruction. The same table took 254 µs to load by seccompiler and takes 35 µs so (`benches/README.md`).

pub mod table;

use serde::{Deserialize, Serialize};

use crate::sys::filter::Instruction;
use table::{Answer, Applies, GROUPS, Group, NEWEST, Test};

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;

// Classic BPF operations, from linux/bpf_common.h.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

// Offsets in struct seccomp_data, little endian.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

const ALLOW: u32 = 0x7FFF_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
const ASK: u32 = 0x7FC0_0000;
const EPERM: u32 = 1;
const EACCES: u32 = 13;
const ENOSYS: u32 = 38;

/// What of one run the filter depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct Options {
    /// Refuse signals to the own process group, which holds processes of the caller and which Landlock does not close.
    pub own_group: bool,
    /// Refuse to set the priority of that group: Landlock never closes that.
    pub shared_group: bool,
    /// Allow what a tracer needs.
    pub trace: bool,
    /// Refuse to make setuid files: they would be root's.
    pub as_root: bool,
    /// Refuse to empty files by name, which Landlock does not know yet.
    pub old_landlock: bool,
    /// No namespace is around the target: refuse what only one would hold.
    pub bare: bool,
    /// Refuse sockets of the host's network, which is the target's as well.
    pub no_network: bool,
    /// Refuse sockets of the host's network but for one kind, and let somebody else connect those.
    pub way_out: bool,
    /// Refuse Unix sockets that could be connected to somebody, which Landlock does not know yet.
    pub no_unix: bool,
    /// Refuse changes of mode, owner, times and attributes, which Landlock does not know.
    pub no_metadata: bool,
    /// Let somebody decide about each of them, instead.
    pub asked: bool,
}

/// The groups that count in such a run.
pub fn groups(options: Options) -> impl Iterator<Item = &'static Group> {
    GROUPS.iter().filter(move |group| match group.applies {
        Applies::Always => true,
        Applies::Untraced => !options.trace,
        Applies::OwnGroup => options.own_group,
        Applies::SharedGroup => options.shared_group,
        Applies::Root => options.as_root,
        Applies::OldLandlock => options.old_landlock,
        Applies::Bare => options.bare,
        Applies::NoNetwork => options.no_network,
        Applies::WayOut => options.way_out,
        Applies::NoUnix => options.no_unix,
        Applies::NoMetadata => options.no_metadata,
        Applies::RootNoMetadata => options.no_metadata && options.as_root,
    })
}

/// The filter.
#[must_use]
pub fn program(options: Options) -> Vec<Instruction> {
    let mut rules: Vec<Rule> = groups(options).flat_map(rules_of).collect();
    rules.sort_by_key(|rule| rule.number);
    let mut program = Program::default();
    let allow = program.answer(ALLOW);
    let refused = program.answer(ERRNO | EPERM);
    let unknown = program.answer(ERRNO | ENOSYS);
    let asked = program.answer(if options.asked { ASK } else { ERRNO | EACCES });
    let mut ranges = vec![(0, allow)];
    for rules in rules.chunk_by(|one, other| one.number == other.number) {
        let number = rules[0].number;
        let verdict = rules.iter().rev().fold(allow, |otherwise, rule| {
            let told = match rule.answer {
                Answer::Refused => refused,
                Answer::Unknown => unknown,
                Answer::Asked => asked,
            };
            rule.tests.iter().rev().fold(told, |then, test| program.test(*test, then, otherwise))
        });
        if ranges.last().is_some_and(|(first, _)| *first == number) {
            ranges.pop();
        }
        ranges.extend([(number, verdict), (number + 1, allow)]);
    }
    // So are calls of x32: their numbers are higher.
    ranges.push((NEWEST + 1, unknown));
    // Neighbours with the same answer are one range.
    ranges.dedup_by_key(|(_, verdict)| *verdict);
    program.search(&ranges);
    program.step(LOAD, NUMBER, 0, 0);
    let known = program.here();
    // A foreign table of numbers (i386 by int 0x80, 32-bit arm) would pass every comparison.
    let foreign = program.answer(KILL_PROCESS);
    program.compare(IF_EQUAL, ARCH, known, foreign);
    program.step(LOAD, ARCHITECTURE, 0, 0);
    program.into_instructions()
}

/// One call of this architecture, and what becomes of it when all tests hold.
struct Rule {
    number: u32,
    tests: &'static [Test],
    answer: Answer,
}

fn rules_of(group: &'static Group) -> impl Iterator<Item = Rule> {
    group.calls.iter().filter_map(|call| {
        // A negative number is a call that this architecture has not.
        let number = u32::try_from(call.number).ok()?;
        Some(Rule { number, tests: call.tests, answer: group.answer })
    })
}

/// A program under construction, from its last instruction to its first: all jumps lead forward, to what is there already.
#[derive(Default)]
struct Program {
    reversed: Vec<Instruction>,
    /// Tests with where they lead, and where they are: many calls have the same.
    tests: Vec<((Test, Label, Label), Label)>,
}

/// A place in a program, counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label(usize);

impl Program {
    fn here(&self) -> Label {
        Label(self.reversed.len())
    }

    fn step(&mut self, code: u16, k: u32, jt: u8, jf: u8) {
        self.reversed.push(Instruction { code, jt, jf, k });
    }

    fn answer(&mut self, action: u32) -> Label {
        self.step(RETURN, action, 0, 0);
        self.here()
    }

    /// Goes on at one of two places.
    fn compare(&mut self, code: u16, k: u32, holds: Label, not: Label) {
        let (holds, not) = (self.near(holds), self.near(not));
        let distance = |to: Label| u8::try_from(self.reversed.len() - to.0).unwrap_or(u8::MAX);
        self.step(code, k, distance(holds), distance(not));
    }

    /// A place that a comparison can reach, by way of a longer jump if need be. One more instruction may come before it.
    fn near(&mut self, to: Label) -> Label {
        let distance = self.reversed.len() - to.0;
        if u8::try_from(distance + 1).is_ok() {
            return to;
        }
        self.step(JUMP, u32::try_from(distance).unwrap_or(u32::MAX), 0, 0);
        self.here()
    }

    /// Goes on at `then` when `test` holds, else at `otherwise`.
    fn test(&mut self, test: Test, then: Label, otherwise: Label) -> Label {
        let key = (test, then, otherwise);
        if let Some((_, label)) = self.tests.iter().find(|(known, _)| *known == key) {
            return *label;
        }
        let mut mask = None;
        let (argument, values, equal, different) = match test {
            Test::Masked(argument, bits, values) => {
                mask = Some(bits);
                (argument, values, then, otherwise)
            }
            Test::MaskedNot(argument, bits, values) => {
                mask = Some(bits);
                (argument, values, otherwise, then)
            }
            Test::HasAny(argument, bits) => {
                self.compare(IF_ANY_BIT, bits, then, otherwise);
                (argument, &[][..], then, otherwise)
            }
            Test::HasNone(argument, bits) => {
                self.compare(IF_ANY_BIT, bits, otherwise, then);
                (argument, &[][..], then, otherwise)
            }
            Test::Within(argument, first, last) => {
                // From the end: what is not above the last is looked at once more.
                let above = last.checked_add(1).map_or(then, |above| {
                    self.compare(IF_AT_LEAST, above, otherwise, then);
                    self.here()
                });
                self.compare(IF_AT_LEAST, first, above, otherwise);
                (argument, &[][..], then, otherwise)
            }
            Test::Is(argument, values) => (argument, values, then, otherwise),
            Test::IsNot(argument, values) => (argument, values, otherwise, then),
            Test::IsPointer(argument) => {
                self.compare(IF_EQUAL, 0, otherwise, then);
                self.step(LOAD, ARGUMENTS + 8 * argument, 0, 0);
                let low = self.here();
                self.compare(IF_EQUAL, 0, low, then);
                self.step(LOAD, ARGUMENTS + 8 * argument + 4, 0, 0);
                self.tests.push((key, self.here()));
                return self.here();
            }
        };
        let mut next = different;
        for value in values {
            self.compare(IF_EQUAL, *value, equal, next);
            next = self.here();
        }
        if let Some(bits) = mask {
            self.step(AND, bits, 0, 0);
        }
        self.step(LOAD, ARGUMENTS + 8 * argument, 0, 0);
        self.tests.push((key, self.here()));
        self.here()
    }

    /// Goes on at the place of the last range that begins at or below the number; the first has to begin at 0.
    fn search(&mut self, ranges: &[(u32, Label)]) -> Label {
        match ranges {
            [] => self.here(),
            [(_, only)] => *only,
            _ => {
                let (below, from) = ranges.split_at(ranges.len() / 2);
                let first = from[0].0;
                let (from, below) = (self.search(from), self.search(below));
                self.compare(IF_AT_LEAST, first, from, below);
                self.here()
            }
        }
    }

    fn into_instructions(mut self) -> Vec<Instruction> {
        self.reversed.reverse();
        self.reversed
    }
}

#[cfg(test)]
mod tests;
