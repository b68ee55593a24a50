//! The allocator of the static program: dlmalloc behind the simplest of locks.
//!
//! musl's own gives each freed page back to the kernel at once and takes it again, hundreds of times in a start. No process of
//! ours forks while it has threads.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use dlmalloc::Dlmalloc;

/// To be used as the global allocator.
#[derive(Debug)]
pub struct Allocator {
    taken: AtomicBool,
    inner: UnsafeCell<Dlmalloc>,
}

// SAFETY: `inner` is used by whoever has set `taken`, and by nobody else.
unsafe impl Sync for Allocator {}

impl Allocator {
    /// With no memory yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { taken: AtomicBool::new(false), inner: UnsafeCell::new(Dlmalloc::new()) }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Dlmalloc) -> T) -> T {
        while self.taken.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        // SAFETY: nobody else has it until `taken` is given back, and `work` neither panics nor allocates by this allocator.
        let done = work(unsafe { &mut *self.inner.get() });
        self.taken.store(false, Ordering::Release);
        done
    }
}

impl Default for Allocator {
    fn default() -> Self {
        Self::new()
    }
}

// Never inlined: there are thousands of callers, and the program would be a sixth larger.
// SAFETY: dlmalloc keeps what this trait promises; each call gets what the caller of the trait's function vouches for.
unsafe impl GlobalAlloc for Allocator {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.with(|inner| unsafe { inner.malloc(layout.size(), layout.align()) })
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.with(|inner| unsafe { inner.calloc(layout.size(), layout.align()) })
    }

    #[inline(never)]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        self.with(|inner| unsafe { inner.free(memory, layout.size(), layout.align()) });
    }

    #[inline(never)]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        self.with(|inner| unsafe { inner.realloc(memory, layout.size(), layout.align(), size) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_get_memory_of_their_own() {
        static ALLOCATOR: Allocator = Allocator::new();
        std::thread::scope(|scope| {
            for mark in 1..=8_u8 {
                scope.spawn(move || {
                    for size in (1..3000).step_by(7) {
                        let layout = Layout::from_size_align(size, 16).unwrap();
                        // SAFETY: the layout is not empty.
                        let memory = unsafe { ALLOCATOR.alloc_zeroed(layout) };
                        // SAFETY: it has `size` bytes, as the layout says.
                        let bytes = unsafe { std::slice::from_raw_parts_mut(memory, size) };
                        assert!(bytes.iter().all(|byte| *byte == 0) && memory.addr().is_multiple_of(16));
                        bytes.fill(mark);
                        std::thread::yield_now();
                        assert!(bytes.iter().all(|byte| *byte == mark));
                        // SAFETY: it came from here with this layout, and `bytes` is used no more.
                        let memory = unsafe { ALLOCATOR.realloc(memory, layout, size * 2) };
                        // SAFETY: it has more bytes than these by now, and they were kept.
                        let kept = unsafe { std::slice::from_raw_parts(memory, size) };
                        assert!(kept.iter().all(|byte| *byte == mark));
                        // SAFETY: it came from here with twice the size.
                        unsafe { ALLOCATOR.dealloc(memory, Layout::from_size_align(size * 2, 16).unwrap()) };
                    }
                });
            }
        });
    }
}
