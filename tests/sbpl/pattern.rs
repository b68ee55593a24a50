//! Regular expressions as far as our profiles go: `^ $ . [] [^] () | + * ?`.

/// A regular expression.
#[derive(Debug)]
pub struct Pattern(Vec<Vec<(Atom, char)>>);

#[derive(Debug)]
pub enum Atom {
    Start,
    End,
    Any,
    One(char),
    Set(bool, Vec<(char, char)>),
    Group(Pattern),
}

impl Pattern {
    /// Reads one; what ours do not have is refused.
    pub fn of(text: &str) -> Result<Self, String> {
        let chars: Vec<_> = text.chars().collect();
        let mut at = 0;
        let pattern = Self::parse(&chars, &mut at)?;
        if at == chars.len() { Ok(pattern) } else { Err(format!("a ')' too many in '{text}'")) }
    }

    fn parse(chars: &[char], at: &mut usize) -> Result<Self, String> {
        let mut ways = vec![Vec::new()];
        while let Some(char) = chars.get(*at).copied().filter(|char| *char != ')') {
            *at += 1;
            let atom = match char {
                '|' => {
                    ways.push(Vec::new());
                    continue;
                }
                '^' => Atom::Start,
                '$' => Atom::End,
                '.' => Atom::Any,
                '(' => {
                    let group = Self::parse(chars, at)?;
                    if chars.get(*at) != Some(&')') {
                        return Err("a '(' has no end".into());
                    }
                    *at += 1;
                    Atom::Group(group)
                }
                '[' => Self::set(chars, at)?,
                '\\' | ']' | '{' | '}' | '*' | '+' | '?' => return Err(format!("'{char}' in a pattern")),
                char => Atom::One(char),
            };
            let repeat = chars.get(*at).copied().filter(|char| "*+?".contains(*char));
            *at += usize::from(repeat.is_some());
            ways.last_mut().expect("one").push((atom, repeat.unwrap_or('1')));
        }
        Ok(Self(ways))
    }

    fn set(chars: &[char], at: &mut usize) -> Result<Atom, String> {
        let not = chars.get(*at) == Some(&'^');
        *at += usize::from(not);
        let mut set = Vec::new();
        loop {
            let char = *chars.get(*at).ok_or("a '[' has no end")?;
            *at += 1;
            match (char, chars.get(*at), chars.get(*at + 1)) {
                (']', ..) => return Ok(Atom::Set(not, set)),
                (first, Some('-'), Some(&last)) if last != ']' => {
                    set.push((first, last));
                    *at += 2;
                }
                (one, ..) => set.push((one, one)),
            }
        }
    }

    /// Whether some part of `text` matches.
    pub fn is_in(&self, text: &str) -> bool {
        let chars: Vec<_> = text.chars().collect();
        (0..=chars.len()).any(|start| !self.ends(&chars, start).is_empty())
    }

    /// Where a match that begins at `start` can end.
    fn ends(&self, chars: &[char], start: usize) -> Vec<usize> {
        let mut ends: Vec<_> = self
            .0
            .iter()
            .flat_map(|way| {
                way.iter().fold(vec![start], |from, (atom, repeat)| {
                    let mut reached: Vec<_> = if "*?".contains(*repeat) { from.clone() } else { Vec::new() };
                    let mut front = from;
                    while !front.is_empty() {
                        front = front
                            .iter()
                            .flat_map(|at| atom.ends(chars, *at))
                            .filter(|at| !reached.contains(at))
                            .collect();
                        reached.extend(&front);
                        if "1?".contains(*repeat) {
                            break;
                        }
                    }
                    reached
                })
            })
            .collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }
}

impl Atom {
    fn ends(&self, chars: &[char], at: usize) -> Vec<usize> {
        let here = chars.get(at).copied();
        let one = |fits: bool| if fits { vec![at + 1] } else { Vec::new() };
        match self {
            Self::Start => {
                if at == 0 {
                    vec![at]
                } else {
                    Vec::new()
                }
            }
            Self::End => {
                if here.is_none() {
                    vec![at]
                } else {
                    Vec::new()
                }
            }
            Self::Any => one(here.is_some()),
            Self::One(char) => one(here == Some(*char)),
            Self::Set(not, set) => {
                one(here.is_some_and(|here| set.iter().any(|(first, last)| (*first..=*last).contains(&here)) != *not))
            }
            Self::Group(pattern) => pattern.ends(chars, at),
        }
    }
}

#[test]
fn patterns_match_as_they_should() {
    for (pattern, text, expected) in [
        ("^/a/[bB][.]c$", "/a/B.c", true),
        ("^/a/[bB][.]c$", "/a/Bxc", false),
        ("^/a(/|$)", "/a", true),
        ("^/a(/|$)", "/a/b", true),
        ("^/a(/|$)", "/ab", false),
        ("^/a(/|$)", "/x/a", false),
        ("a.c", "/xabcx", true),
        ("^/dev/ttys[0-9]+$", "/dev/ttys012", true),
        ("^/dev/ttys[0-9]+$", "/dev/ttys", false),
        ("^/f/[^/]+/[^/]+/C$", "/f/1/2/C", true),
        ("^/f/[^/]+/[^/]+/C$", "/f/1/2/3/C", false),
        ("^ab*c?d$", "/abbd", false),
        ("^/ab*c?d$", "/abbd", true),
    ] {
        assert_eq!(Pattern::of(pattern).unwrap().is_in(text), expected, "{pattern} {text}");
    }
}
