//! Rules about paths as filters: what is let and what is denied, so that no order of rules matters.
//!
//! In a plan the most specific path decides. A profile has other rules of precedence, on which sources differ: the last rule
//! that matches, the denial, or the rule about the most specific operation. All of them come to the same where no denial
//! matches what a deeper grant shows. Hence each denial excepts by name what is granted below it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use crate::backend::sbpl::{Expr, Text};
use crate::error::{Error, Kind, Result};
use crate::plan::base::macos;
use crate::plan::view::{Own, Placed, Rule, View};

/// What a rule decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    /// Connecting to a Unix socket, and binding one.
    Connect,
}

/// What a rule says about an access; one that says nothing leaves it to the rule above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Allow,
    Deny,
    Inherit,
}

/// A rule at the name that the system uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region<'a> {
    pub rule: &'a Rule,
    directory: bool,
    granted: bool,
}

impl Region<'_> {
    fn decides(&self, access: Access) -> Decision {
        use Access::{Connect, Read, Write};
        use Decision::{Allow, Deny, Inherit};
        match (self.rule, access) {
            // A directory that is passed through, and what only has to keep its name, are held by others.
            (Rule::Folder | Rule::Pin | Rule::Own(Own::Proc | Own::Dev | Own::Nothing), _)
            | (Rule::Link { .. } | Rule::AllowSocket, Write)
            | (Rule::Link { .. }, Connect) => Inherit,
            (Rule::Protect, Read) if !self.granted => Inherit,
            (Rule::Own(Own::Shared | Own::SecondTmp | Own::Home) | Rule::Write, _)
            | (Rule::AllowSocket, Connect)
            | (
                Rule::System { .. }
                | Rule::Workdir
                | Rule::Program
                | Rule::Read
                | Rule::Link { .. }
                | Rule::AllowSocket
                | Rule::Protect,
                Read,
            ) => Allow,
            (Rule::System { .. } | Rule::Workdir | Rule::Program | Rule::Read | Rule::Protect, Write | Connect)
            | (Rule::Hidden | Rule::Secret | Rule::Mask | Rule::DenySocket, _) => Deny,
        }
    }

    /// Whether the place keeps whatever name it has: nobody typed it.
    fn is_exact(&self) -> bool {
        *self.rule == Rule::Hidden
    }
}

/// The rules of a plan.
pub(super) struct Regions<'a>(BTreeMap<PathBuf, Region<'a>>);

/// What a denial is about, as filters that except what is granted below it.
#[derive(Default)]
pub(super) struct Denial {
    /// What it covers.
    pub covered: Vec<Expr>,
    /// Directories in it that lead to something granted: they can be asked for, and not listed.
    pub passed: Vec<Expr>,
}

impl<'a> Regions<'a> {
    pub fn of(view: &'a View) -> Self {
        let mut regions = BTreeMap::new();
        for Placed { at, rule, directory, granted } in view.placed() {
            let region = Region { rule, directory, granted };
            // Two names of one place can have a rule each.
            match regions.entry(macos::canonical(at).into_owned()) {
                Entry::Vacant(slot) => drop(slot.insert(region)),
                Entry::Occupied(mut slot) if slot.get().rule < rule => drop(slot.insert(region)),
                Entry::Occupied(_) => {}
            }
        }
        Self(regions)
    }

    /// Filters of what is allowed by rules that `wanted` chooses.
    pub fn allowed(&self, access: Access, wanted: impl Fn(&Rule, bool) -> bool) -> Result<Vec<Expr>> {
        let all = self.allowing(access).filter(|(_, region)| wanted(region.rule, region.directory));
        all.map(|(at, region)| whole(at, region.directory)).collect()
    }

    /// Each strict ancestor of what can be read, the root left out.
    pub fn ancestors(&self) -> Result<Vec<Expr>> {
        let above = self.allowing(Access::Read).flat_map(|(at, _)| at.ancestors().skip(1));
        let above: std::collections::BTreeSet<_> = above.filter(|at| at.parent().is_some()).collect();
        above.into_iter().map(|at| whole(at, false)).collect()
    }

    /// Whether a rule that hides something decides about `path`.
    pub fn hides(&self, path: &Path) -> bool {
        path.ancestors().find_map(|at| self.0.get(at)).is_some_and(|region| region.rule.hides())
    }

    /// What rules that `wanted` chooses deny of what the rule above them allows. What hides something does so in any case: what
    /// is allowed beside the rules must not reach it either. `filter` makes of each filter of a path the one that is needed.
    pub fn denied(
        &self,
        access: Access,
        wanted: impl Fn(&Rule, bool) -> bool,
        filter: impl Fn(Expr) -> Expr,
    ) -> Result<Denial> {
        let mut denial = Denial::default();
        for (at, region) in &self.0 {
            let denies = wanted(region.rule, region.directory) && region.decides(access) == Decision::Deny;
            let above = self.above(at, access);
            let allowed = above.is_some_and(|(_, decision)| decision == Decision::Allow);
            if !denies || !(allowed || (region.rule.hides() && access != Access::Connect)) {
                continue;
            }
            let inside = || self.inside(at, access);
            let mut excepted =
                inside().map(|(below, region)| whole(below, region.directory)).collect::<Result<Vec<_>>>()?;
            if access == Access::Read {
                let passed = inside().flat_map(|(below, _)| below.ancestors().skip(1));
                let passed: std::collections::BTreeSet<_> = passed.filter(|passed| passed.starts_with(at)).collect();
                for passed in passed {
                    excepted.push(whole(passed, false)?);
                    denial.passed.push(whole(passed, false)?);
                }
            }
            let top = above.filter(|_| allowed && !region.is_exact()).map(|(top, _)| top);
            for covered in named(at, region.directory, top)? {
                let excepted = excepted.iter().cloned().map(|except| Expr::except(filter(except)));
                denial.covered.push(Expr::all([filter(covered)].into_iter().chain(excepted).collect()));
            }
        }
        Ok(denial)
    }

    /// What must keep its name: a rule is about a name, so whoever renames what bears it, or a directory above, is rid of it. Each
    /// directory between a write grant and a rule in it, and the grant itself, which somebody else could stand for otherwise.
    pub fn held(&self) -> Result<Vec<Expr>> {
        let mut held = BTreeMap::new();
        for (at, region) in &self.0 {
            if region.decides(Access::Write) == Decision::Allow && at.parent().is_some() {
                held.entry(at.clone()).or_insert(None);
            }
            if region.decides(Access::Write) != Decision::Deny {
                continue;
            }
            for parent in at.ancestors().skip(1) {
                let Some((top, Decision::Allow)) = self.at_or_above(parent, Access::Write) else { break };
                if parent.parent().is_some() {
                    // What was typed may be another spelling of what is there.
                    let fold = Some(top).filter(|top| !region.is_exact() && *top != parent);
                    let slot = held.entry(parent.to_owned()).or_insert(None);
                    *slot = slot.or(fold);
                }
            }
        }
        let each = held.iter().map(|(at, top)| named(at, false, *top));
        Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn allowing(&self, access: Access) -> impl Iterator<Item = (&Path, &Region<'a>)> {
        let all = self.0.iter().filter(move |(_, region)| region.decides(access) == Decision::Allow);
        all.map(|(at, region)| (at.as_path(), region))
    }

    /// What is allowed below `at` against the rule above it.
    fn inside(&self, at: &Path, access: Access) -> impl Iterator<Item = (&Path, &Region<'a>)> {
        let below = self.0.range(at.to_owned()..).skip(1).take_while(move |(below, _)| below.starts_with(at));
        let against = move |below: &Path| self.above(below, access).is_some_and(|(_, above)| above == Decision::Deny);
        let again = below.filter(move |(below, region)| region.decides(access) == Decision::Allow && against(below));
        again.map(|(below, region)| (below.as_path(), region))
    }

    /// The rule above `at` that decides, and where it is.
    fn above(&self, at: &Path, access: Access) -> Option<(&Path, Decision)> {
        at.parent().and_then(|parent| self.at_or_above(parent, access))
    }

    fn at_or_above(&self, at: &Path, access: Access) -> Option<(&Path, Decision)> {
        let found = at.ancestors().filter_map(|at| self.0.get_key_value(at));
        let mut deciding = found.filter(|(_, region)| region.directory);
        deciding.find_map(|(at, region)| match region.decides(access) {
            Decision::Inherit => None,
            decision => Some((at.as_path(), decision)),
        })
    }
}

/// The filter of `at`, and with `tree` of what lies below.
pub(super) fn whole(at: &Path, tree: bool) -> Result<Expr> {
    Ok(Expr::of_text(if tree { "subpath" } else { "literal" }, text(at)?))
}

/// What a profile can hold, or an error that says what it cannot.
fn text(at: &Path) -> Result<Text> {
    Text::of(at).map_err(|reason| {
        Error::text(Kind::Backend, format!("cannot name '{}' in a profile of Seatbelt: {reason}", at.display()))
    })
}

/// The filters of `at` under its name, and below `top` under each name that differs in the case of letters only: on most volumes of
/// macOS that is the same file, and what was typed is one of its names.
fn named(at: &Path, tree: bool, top: Option<&Path>) -> Result<Vec<Expr>> {
    let mut filters = vec![whole(at, tree)?];
    let Some(tail) = top.and_then(|top| Some((text(top).ok()?, text(at.strip_prefix(top).ok()?).ok()?))) else {
        return Ok(filters);
    };
    let (top, tail) = (tail.0.as_str().trim_end_matches('/').to_owned(), tail.1);
    if tail.as_str().contains(|char: char| char.is_ascii_alphabetic()) {
        let mut pattern = "^".to_owned();
        top.chars().for_each(|char| push(&mut pattern, char, false));
        pattern.push('/');
        tail.as_str().chars().for_each(|char| push(&mut pattern, char, true));
        pattern.push_str(if tree { "(/|$)" } else { "$" });
        if let Ok(pattern) = Text::new(&pattern) {
            filters.push(Expr::of_text("regex", pattern));
        }
    }
    Ok(filters)
}

/// Appends what matches `char`, with `fold` in either case. What could mean something else in a pattern becomes any character: that
/// denies no less.
fn push(pattern: &mut String, char: char, fold: bool) {
    match char {
        letter if fold && letter.is_ascii_alphabetic() => {
            pattern.extend(['[', letter.to_ascii_lowercase(), letter.to_ascii_uppercase(), ']']);
        }
        '.' => pattern.push_str("[.]"),
        '/' | '-' | '_' | ' ' | ',' | ':' | '@' | '%' | '=' | '~' => pattern.push(char),
        other if other.is_ascii_punctuation() => pattern.push('.'),
        other => pattern.push(other),
    }
}
