//! Requests that wait for a sequence and memory.

use std::time::{Duration, Instant};

use crate::task::Task;

use super::stream::Events;

/// A request with its listener, before it runs and while it does.
pub(super) struct Job {
    pub(super) task: Task,
    pub(super) events: Events,
    pub(super) priority: i32,
    pub(super) submitted: Instant,
    /// When it must have ended.
    pub(super) deadline: Option<Instant>,
    /// When it must have begun.
    pub(super) begin_by: Option<Instant>,
}

/// The queue: higher priority first, then who came first.
#[derive(Default)]
pub(super) struct Queue {
    jobs: Vec<Job>,
}

impl Queue {
    /// Adds a job behind those of its priority.
    pub(super) fn push(&mut self, job: Job) {
        let at = self.jobs.partition_point(|other| other.priority >= job.priority);
        self.jobs.insert(at, job);
    }

    /// Adds a job that ran before in front of those of its priority.
    pub(super) fn push_first(&mut self, job: Job) {
        let at = self.jobs.partition_point(|other| other.priority > job.priority);
        self.jobs.insert(at, job);
    }

    /// The job whose turn it is.
    pub(super) fn first(&self) -> Option<&Job> {
        self.jobs.first()
    }

    pub(super) fn pop(&mut self) -> Option<Job> {
        (!self.jobs.is_empty()).then(|| self.jobs.remove(0))
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Takes out every job that is over: cancelled, or out of time.
    pub(super) fn take_over(&mut self, now: Instant) -> Vec<(Job, Over)> {
        let mut over = Vec::new();
        let mut at = 0;
        while at < self.jobs.len() {
            match self.jobs[at].over(now) {
                Some(why) => over.push((self.jobs.remove(at), why)),
                None => at += 1,
            }
        }
        over
    }
}

/// Why a job ends without having finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// Nobody wants it any more.
    Cancelled,
    /// Its time is up.
    Deadline,
    /// It waited too long.
    Waited(Duration),
}

impl Job {
    /// Whether it is over while it waits.
    fn over(&self, now: Instant) -> Option<Over> {
        if self.events.is_cancelled() {
            return Some(Over::Cancelled);
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(Over::Deadline);
        }
        let waited = self.begin_by.filter(|begin_by| *begin_by <= now);
        waited.map(|_| Over::Waited(now.saturating_duration_since(self.submitted)))
    }
}
