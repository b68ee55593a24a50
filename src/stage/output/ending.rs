//! The end of the run, for output: what still counts, how long there is something to pass on, and what came through.
//!
//! Waits for nobody itself: whoever supervises the run asks.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;

use nix::poll::PollFlags;

use super::super::account::Written;
use super::sink::{events, is_readable};
use super::{CHUNK, Measured, Output, Stream};

impl Output {
    /// The run is over, and somebody may still hold the other end, whom nobody waits for: what he writes from now on does not
    /// count.
    pub fn end_run(&mut self) {
        for stream in &mut self.streams {
            let unread = stream.source.as_ref().and_then(|source| crate::sys::fd::unread(source.as_fd()).ok());
            stream.in_time = Some(stream.written + unread.unwrap_or(0));
        }
        for measured in &mut self.measured {
            measured.end = measured.file.stream_position().ok();
        }
    }

    /// Nobody inside is left: what there is to read now is the last. Somebody outside may hold the other end, which the target
    /// can have given to him, and is not waited for.
    pub fn end_writers(&mut self) {
        self.end_run();
        for stream in &mut self.streams {
            stream.last = true;
        }
    }

    /// Whether there is nothing left to pass on. `alive` says that somebody may still hold the other end, whom nobody waits
    /// for: then only what is there already counts.
    #[must_use]
    pub fn is_done(&self, alive: bool) -> bool {
        if alive && self.relayed {
            let late = |stream: &Stream| stream.in_time.is_some_and(|in_time| stream.written >= in_time);
            // Where somebody outlives the run, whoever reads may take the time it takes: a process of its own waits for both.
            let left = |source: &File| !events(source.as_fd(), PollFlags::POLLIN).contains(PollFlags::POLLHUP);
            return self.streams.iter().all(|stream| match &stream.source {
                Some(source) if stream.waits => left(source),
                source => stream.pending.is_empty() && (source.is_none() || late(stream)),
            });
        }
        let waiting = self.streams.iter().any(|stream| stream.waits || !stream.pending.is_empty());
        let open = self.streams.iter().any(|stream| stream.source.is_some());
        !waiting && (!open || alive && !self.is_readable())
    }

    /// Nobody reads, and there is no more time: counts what is there, says so, and lets go of it.
    pub fn abandon(&mut self) {
        // More than a pipe holds: a writer that is still there must not keep us.
        const MOST: usize = 1 << 20;
        let mut lost = 0;
        for stream in &mut self.streams {
            lost += stream.pending.len();
            let Some(source) = &mut stream.source else { continue };
            let mut read_so_far = 0;
            let bound = |written: u64| match stream.in_time.filter(|_| stream.last) {
                Some(in_time) => usize::try_from(in_time.saturating_sub(written)).unwrap_or(usize::MAX).min(CHUNK),
                None => CHUNK,
            };
            while let Ok(read @ 1..) = source.read(&mut self.buffer[..bound(stream.written)]) {
                stream.written += read as u64;
                lost += read;
                read_so_far += read;
                if read_so_far >= MOST {
                    break;
                }
            }
            stream.pending.clear();
            stream.end();
        }
        if lost > 0 {
            self.lost = true;
            tracing::warn!("output is cut: {lost} bytes were not read by anybody in time");
        }
    }

    fn is_readable(&self) -> bool {
        self.streams.iter().filter_map(|stream| stream.source.as_ref()).any(|source| is_readable(source.as_fd()))
    }

    /// What came through. Says once, after the data, that some is missing.
    #[must_use]
    pub fn finish(self) -> Written {
        let counted = |index| {
            let passed = self.streams.iter().find(|stream| stream.index == index);
            let passed = passed.map(|stream| stream.in_time.unwrap_or(stream.written));
            let measured = self.measured.iter().find(|measured| measured.index == index);
            passed.or_else(|| {
                let Measured { file, start, end, .. } = measured?;
                end.or((&*file).stream_position().ok()).map(|end| end.saturating_sub(*start))
            })
        };
        let limit = self.kept.as_ref().map(|kept| kept.most).or(self.limit);
        if let Some(limit) = limit.filter(|_| self.over && !self.kill) {
            let what = if self.kept.is_some() { "kept" } else { "passed on" };
            tracing::warn!("output is cut: {limit} bytes are {what} (--max-output)");
        }
        Written {
            stdout: counted(0),
            stderr: if self.merged { None } else { counted(1) },
            truncated: self.over || self.lost,
            over: self.over,
            too_large: self.too_large,
            captured: self.kept.map(|kept| kept.bytes),
        }
    }
}
