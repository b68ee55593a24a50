//! The start of a target inside a job, step by step, and the way back from each.
//!
//! The process is born in the job and halted; it goes on only when the system itself says that it is a member. Whatever fails
//! before that ends it. The steps are those of a trait, so that each failure is tried without Windows.

use super::limits::Values;

/// The calls that a start takes.
pub trait System {
    /// A job, which ends everything in it when it is dropped.
    type Job;
    /// A halted process; dropping it does not end it.
    type Process;
    /// Why a call failed.
    type Error;

    /// Makes a job without a name.
    fn job(&self) -> Result<Self::Job, Self::Error>;
    /// Sets its limits.
    fn limit(&self, job: &Self::Job, values: &Values) -> Result<(), Self::Error>;
    /// Sets what it may not do to the desktop.
    fn restrict(&self, job: &Self::Job, restrictions: u32) -> Result<(), Self::Error>;
    /// Makes a halted process inside the job; `None` where the system cannot make one there.
    fn born(&self, job: &Self::Job) -> Result<Option<Self::Process>, Self::Error>;
    /// Makes a halted process in no job of ours.
    fn halted(&self) -> Result<Self::Process, Self::Error>;
    /// Takes a halted process into the job.
    fn take(&self, job: &Self::Job, process: &Self::Process) -> Result<(), Self::Error>;
    /// Whether the process is in the job.
    fn holds(&self, job: &Self::Job, process: &Self::Process) -> Result<bool, Self::Error>;
    /// Lets it go on.
    fn resume(&self, process: &Self::Process) -> Result<(), Self::Error>;
    /// Ends it.
    fn end(&self, process: &Self::Process);
}

/// What went wrong.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// There is no program that could run: the system's answer.
    Program(E),
    /// The job could not be made, or not hold the process.
    Job(&'static str, E),
    /// The system says that the process is not in the job.
    Outside,
}

/// The job and the process in it, or why there is none.
pub type Begun<S> = Result<(<S as System>::Job, <S as System>::Process), Failure<<S as System>::Error>>;

/// Starts the process in a job with these limits, and restricted so far where that is wanted.
pub fn begin<S: System>(system: &S, values: &Values, restrictions: Option<u32>) -> Begun<S> {
    let job = system.job().map_err(|error| Failure::Job("make a job object", error))?;
    system.limit(&job, values).map_err(|error| Failure::Job("set the limits of the job", error))?;
    if let Some(restrictions) = restrictions {
        system
            .restrict(&job, restrictions)
            .map_err(|error| Failure::Job("restrict what the job does to the desktop", error))?;
    }
    let (process, born) = match system.born(&job).map_err(Failure::Program)? {
        Some(process) => (process, true),
        None => (system.halted().map_err(Failure::Program)?, false),
    };
    let confined = if born { Ok(()) } else { system.take(&job, &process) };
    let confined = confined.map_err(|error| Failure::Job("put the process into the job", error)).and_then(|()| {
        match system.holds(&job, &process) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::Outside),
            Err(error) => Err(Failure::Job("ask whether the process is in the job", error)),
        }
    });
    let started =
        confined.and_then(|()| system.resume(&process).map_err(|error| Failure::Job("let the process go on", error)));
    match started {
        Ok(()) => Ok((job, process)),
        Err(failure) => {
            system.end(&process);
            Err(failure)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Fails in one call, and writes all of them down.
    #[derive(Default)]
    struct Fake {
        fails: &'static str,
        old: bool,
        elsewhere: bool,
        calls: RefCell<Vec<String>>,
    }

    impl Fake {
        fn call(&self, name: &'static str) -> Result<(), &'static str> {
            self.calls.borrow_mut().push(name.to_owned());
            if self.fails == name { Err(name) } else { Ok(()) }
        }
    }

    impl System for Fake {
        type Job = ();
        type Process = ();
        type Error = &'static str;

        fn job(&self) -> Result<(), &'static str> {
            self.call("job")
        }
        fn limit(&self, (): &(), values: &Values) -> Result<(), &'static str> {
            let done = self.call("limit");
            self.calls.borrow_mut().push(format!("{values:?}"));
            done
        }
        fn restrict(&self, (): &(), restrictions: u32) -> Result<(), &'static str> {
            assert_eq!(restrictions, 0xff);
            self.call("restrict")
        }
        fn born(&self, (): &()) -> Result<Option<()>, &'static str> {
            if self.old { Ok(None) } else { self.call("born").map(Some) }
        }
        fn halted(&self) -> Result<(), &'static str> {
            self.call("halted")
        }
        fn take(&self, (): &(), (): &()) -> Result<(), &'static str> {
            self.call("take")
        }
        fn holds(&self, (): &(), (): &()) -> Result<bool, &'static str> {
            self.call("holds").map(|()| !self.elsewhere)
        }
        fn resume(&self, (): &()) -> Result<(), &'static str> {
            self.call("resume")
        }
        fn end(&self, (): &()) {
            self.calls.borrow_mut().push("end".into());
        }
    }

    fn values() -> Values {
        Values { flags: 0x2408, active_processes: 3, ..Values::default() }
    }

    fn run(fake: Fake) -> (Result<(), Failure<&'static str>>, Vec<String>) {
        let done = begin(&fake, &values(), Some(0xff)).map(|((), ())| ());
        (done, fake.calls.into_inner())
    }

    #[test]
    fn it_goes_on_only_inside() {
        let asked = format!("{:?}", values());
        let (done, calls) = run(Fake::default());
        assert_eq!((done, calls.join(" ")), (Ok(()), format!("job limit {asked} restrict born holds resume")));
        let (done, calls) = run(Fake { old: true, ..Fake::default() });
        assert_eq!((done, calls.join(" ")), (Ok(()), format!("job limit {asked} restrict halted take holds resume")));
        let fake = Fake::default();
        assert_eq!(begin(&fake, &values(), None), Ok(((), ())));
        assert!(!fake.calls.into_inner().contains(&"restrict".to_owned()));
    }

    #[test]
    fn whatever_fails_ends_it_and_nothing_resumes_it() {
        for old in [false, true] {
            for fails in ["job", "limit", "restrict", "born", "halted", "take", "holds", "resume"] {
                if old == (fails == "born") || (!old && matches!(fails, "halted" | "take")) {
                    continue;
                }
                let (done, calls) = run(Fake { fails, old, ..Fake::default() });
                assert!(done.is_err(), "{fails}");
                let has = |call: &str| calls.iter().any(|made| made == call);
                let made = ["born", "halted"].into_iter().any(|call| has(call) && call != fails);
                assert_eq!(has("end"), made, "{fails}: {calls:?}");
                assert_eq!(has("resume"), fails == "resume", "{fails}: {calls:?}");
                let of_program = matches!(done, Err(Failure::Program(_)));
                assert_eq!(of_program, matches!(fails, "born" | "halted"), "{fails}");
            }
            let (done, calls) = run(Fake { old, elsewhere: true, ..Fake::default() });
            assert_eq!(done, Err(Failure::Outside));
            assert!(calls.ends_with(&["end".to_owned()]) && !calls.contains(&"resume".to_owned()), "{calls:?}");
        }
    }
}
