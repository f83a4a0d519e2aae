//! A counter that threads can sleep on until it moves.
//!
//! Take [`Event::current`], look whether there is something to wait for, then [`Event::wait`] for the count taken: a
//! signal that falls in between is not lost, since the count has moved. Linux sleeps in a futex; elsewhere, a mutex and
//! a condition variable do the same.

#[cfg(target_os = "linux")]
pub(super) use linux::Event;
#[cfg(not(target_os = "linux"))]
pub(super) use portable::Event;

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::SeqCst;

    pub(crate) struct Event(AtomicU32);

    impl Event {
        pub(crate) fn new() -> Event {
            Event(AtomicU32::new(0))
        }

        /// The count to wait for a change of.
        pub(crate) fn current(&self) -> u32 {
            self.0.load(SeqCst)
        }

        /// Sleeps unless the count has moved from `seen`; may return without a signal.
        pub(crate) fn wait(&self, seen: u32) {
            let forever = std::ptr::null::<libc::timespec>();
            let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the address is that of a live, aligned u32; the null timeout means none.
            unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), op, seen, forever) };
        }

        /// Moves the count and wakes every thread that waits.
        pub(crate) fn signal(&self) {
            self.0.fetch_add(1, SeqCst);
            let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: as in `wait`; waking touches no memory.
            unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), op, i32::MAX) };
        }
    }
}

#[cfg(any(test, not(target_os = "linux")))]
mod portable {
    use std::sync::{Condvar, Mutex, PoisonError};

    pub(crate) struct Event {
        count: Mutex<u32>,
        moved: Condvar,
    }

    impl Event {
        pub(crate) fn new() -> Event {
            Event { count: Mutex::new(0), moved: Condvar::new() }
        }

        /// The count to wait for a change of.
        pub(crate) fn current(&self) -> u32 {
            *self.count.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Sleeps unless the count has moved from `seen`; may return without a signal.
        pub(crate) fn wait(&self, seen: u32) {
            let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
            if *count == seen {
                drop(self.moved.wait(count).unwrap_or_else(PoisonError::into_inner));
            }
        }

        /// Moves the count and wakes every thread that waits.
        pub(crate) fn signal(&self) {
            let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
            *count = count.wrapping_add(1);
            self.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::SeqCst;

    /// Two threads hand a number back and forth, each sleeping until it is its turn: a lost signal hangs the test.
    macro_rules! hands_over {
        ($name:ident, $event:ty) => {
            #[test]
            fn $name() {
                const TURNS: u32 = 2000;
                let (event, turn) = (<$event>::new(), AtomicU32::new(0));
                let play = |me: u32| {
                    while turn.load(SeqCst) < TURNS {
                        let seen = event.current();
                        if turn.load(SeqCst) % 2 == me {
                            turn.fetch_add(1, SeqCst);
                            event.signal();
                        } else {
                            event.wait(seen);
                        }
                    }
                };
                std::thread::scope(|scope| {
                    scope.spawn(|| play(0));
                    scope.spawn(|| play(1));
                });
                assert!(turn.load(SeqCst) >= TURNS);
            }
        };
    }

    #[cfg(target_os = "linux")]
    hands_over!(a_futex_loses_no_signal, super::linux::Event);
    hands_over!(the_portable_form_loses_no_signal, super::portable::Event);
}
