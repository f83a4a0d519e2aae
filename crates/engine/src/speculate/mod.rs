//! Guessing tokens ahead, so that one step can verify several.
//!
//! A guess never changes an answer: at each place the target model's logits are drawn from with the request's own generator,
//! exactly as without guesses, and a guess that is something else is thrown away with all behind it. So greedy and seeded
//! answers are the same tokens, and what is drawn has the model's distribution by construction.

mod cost;
mod draft;
mod lookup;

use crate::request::Speculation;

pub(crate) use cost::StepCost;
pub(crate) use draft::Drafter;

/// Steps with guesses before it is judged whether they pay.
const TRIAL_STEPS: usize = 8;

/// With a draft model, one step in so many goes without guesses.
const PLAIN_EVERY: usize = 32;

/// Weight of the latest step in averages over steps.
const LATEST: f64 = 0.125;

/// What guessing ahead has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeculationReport {
    /// Tokens guessed and verified.
    pub n_guessed: usize,
    /// Those that were right.
    pub n_accepted: usize,
    /// After how many guessed tokens guessing was given up because it did not pay.
    pub given_up_after: Option<usize>,
}

/// Guesses of one task, and whether they pay.
#[derive(Clone, Debug)]
pub(crate) struct Speculator {
    mode: Speculation,
    guesses: Vec<u32>,
    /// Most tokens to guess next: more after a good guess, fewer after a bad one.
    n_next: usize,
    n_asked: usize,
    n_steps: usize,
    mean_guessed: f64,
    mean_accepted: f64,
    report: SpeculationReport,
}

impl Speculator {
    pub(crate) fn new(mode: Speculation) -> Self {
        let n_next = mode.max().min(4);
        Speculator {
            mode,
            guesses: Vec::new(),
            n_next,
            n_asked: 0,
            n_steps: 0,
            mean_guessed: 0.0,
            mean_accepted: 0.0,
            report: SpeculationReport::default(),
        }
    }

    pub(crate) fn report(&self) -> SpeculationReport {
        self.report
    }

    /// Tokens guessed for the next step.
    pub(crate) fn guesses(&self) -> &[u32] {
        &self.guesses
    }

    /// Guesses what follows `text`, if it is to be found in the text itself.
    pub(crate) fn guess_from(&mut self, text: &[u32]) {
        self.guesses.clear();
        if self.is_on() && matches!(self.mode, Speculation::PromptLookup { .. }) {
            self.guesses.extend_from_slice(lookup::continuation(text, self.n_next));
        }
    }

    /// How many tokens a draft model should guess.
    pub(crate) fn n_wanted_of_draft(&mut self) -> usize {
        let is_draft = matches!(self.mode, Speculation::DraftModel { .. });
        // Now and then a step goes without, so that it is known what one costs.
        let is_on = is_draft && self.is_on() && !self.n_asked.is_multiple_of(PLAIN_EVERY);
        self.n_asked += 1;
        if is_on { self.n_next } else { 0 }
    }

    /// Takes the guesses of a draft model.
    pub(crate) fn set_guesses(&mut self, guesses: Vec<u32>) {
        self.guesses = guesses;
    }

    /// The first `n` guesses, which were run; the rest is forgotten.
    pub(crate) fn take(&mut self, n: usize) -> Vec<u32> {
        let mut guesses = std::mem::take(&mut self.guesses);
        guesses.truncate(n);
        guesses
    }

    /// Notes how many of the guesses of a step were right.
    pub(crate) fn verified(&mut self, n_guessed: usize, n_accepted: usize) {
        if n_guessed == 0 {
            return;
        }
        self.report.n_guessed += n_guessed;
        self.report.n_accepted += n_accepted;
        self.n_next = if n_accepted == n_guessed { n_guessed * 2 } else { n_accepted + 1 };
        self.n_next = self.n_next.clamp(1, self.mode.max());
        let weight = if self.n_steps == 0 { 1.0 } else { LATEST };
        self.mean_guessed += weight * (n_guessed as f64 - self.mean_guessed);
        self.mean_accepted += weight * (n_accepted as f64 - self.mean_accepted);
        self.n_steps += 1;
    }

    /// Gives guessing up if a step with guesses, which takes `with_s` seconds, brings fewer tokens in its time than one
    /// without, which takes `without_s`.
    pub(crate) fn judge(&mut self, without_s: f64, with_s: f64) {
        let pays = (1.0 + self.mean_accepted) * without_s >= with_s;
        if self.is_on() && self.n_steps >= TRIAL_STEPS && !pays {
            self.report.given_up_after = Some(self.report.n_guessed);
            self.guesses.clear();
        }
    }

    /// Guesses in a step that has any, on average.
    pub(crate) fn mean_guessed(&self) -> f64 {
        self.mean_guessed
    }

    fn is_on(&self) -> bool {
        self.mode.max() > 0 && self.report.given_up_after.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(max: usize) -> Speculator {
        Speculator::new(Speculation::PromptLookup { max })
    }

    #[test]
    fn good_guesses_grow_and_bad_ones_shrink() {
        let mut s = lookup(10);
        let text: Vec<u32> = (0..20).chain(0..3).collect();
        s.guess_from(&text);
        assert_eq!(s.guesses(), [3, 4, 5, 6]);
        s.verified(4, 4);
        s.guess_from(&text);
        assert_eq!(s.guesses().len(), 8);
        s.verified(8, 1);
        s.guess_from(&text);
        assert_eq!(s.guesses(), [3, 4]);
        assert_eq!((s.report().n_guessed, s.report().n_accepted), (12, 5));
        assert_eq!(s.take(1), [3]);
        assert!(s.guesses().is_empty());
    }

    #[test]
    fn guessing_is_given_up_when_it_does_not_pay_and_only_then() {
        let mut s = lookup(4);
        for _ in 0..TRIAL_STEPS {
            // Half a token a step, for half as much time again: it is even.
            s.verified(2, 1);
            s.verified(2, 0);
        }
        s.judge(1.0, 1.4);
        assert_eq!(s.report().given_up_after, None);
        s.judge(1.0, 1.6);
        assert_eq!(s.report().given_up_after, Some(32));
        s.guess_from(&[1, 2, 3, 1, 2]);
        assert!(s.guesses().is_empty());
    }

    #[test]
    fn nothing_is_judged_before_its_trial() {
        let mut s = lookup(4);
        s.verified(4, 0);
        s.judge(1.0, 100.0);
        assert_eq!(s.report().given_up_after, None);
    }

    #[test]
    fn without_speculation_nothing_is_guessed() {
        let mut s = Speculator::new(Speculation::Off);
        s.guess_from(&[1, 2, 3, 1, 2]);
        assert!(s.guesses().is_empty());
        assert_eq!(s.n_wanted_of_draft(), 0);
    }
}
