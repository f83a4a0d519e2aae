//! What is said when a plan does not fit.

use std::fmt;
use std::sync::Arc;

use super::{Available, LimitSource, Plan, PlanPart};
use crate::model::Model;
use crate::params::ContextParams;

/// The plan does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Shortage {
    /// The plan.
    pub plan: Plan,
    /// Bytes that could be taken beside what the process has.
    pub available: usize,
    /// Who allows no more.
    pub limit: LimitSource,
    /// The longest context that would fit, with as many sequences; 0 when none does.
    pub largest_n_ctx: usize,
    /// The most sequences that would fit, with as long a context; 0 when none does.
    pub largest_n_seq: usize,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { n_ctx, n_seq_max, .. } = self.plan;
        write!(f, "a context of {n_ctx}")?;
        if n_seq_max > 1 {
            write!(f, " for each of {n_seq_max} sequences")?;
        }
        write!(f, " needs {} more memory (", size(self.plan.missing()))?;
        let parts = self.plan.parts().iter().filter(|p| p.0 != PlanPart::Program && p.1 > 0);
        for (i, (part, bytes)) in parts.enumerate() {
            write!(f, "{}{} {}", if i == 0 { "" } else { ", " }, part.name(), size(*bytes))?;
        }
        write!(f, "), but {} has {} left", self.limit, size(self.available))?;
        match (self.largest_n_ctx, self.largest_n_seq) {
            (0, 0) => f.write_str("; a smaller model is needed"),
            (0, n) => write!(f, "; the most sequences that fit are {n}"),
            (n, 0) => write!(f, "; the largest context that fits is {n}"),
            (n, m) => write!(f, "; the largest context that fits is {n}, the most sequences are {m}"),
        }
    }
}

/// `1.50 GiB`, `12.0 MiB`.
pub(crate) fn size(bytes: usize) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1024.0 { format!("{mib:.1} MiB") } else { format!("{:.2} GiB", mib / 1024.0) }
}

impl Shortage {
    /// A context that fits with a little to spare, since what is free changes until it is asked for; 0 when none does.
    pub fn suggested_n_ctx(&self) -> usize {
        let most = self.largest_n_ctx;
        (most - most / 16) / crate::context::KV_BLOCK * crate::context::KV_BLOCK
    }

    /// Finds what would fit.
    pub(super) fn explain(
        plan: &Plan,
        available: Available,
        model: &Arc<Model>,
        params: &ContextParams,
    ) -> Shortage {
        let fits = Fits { model, params, available: &available };
        let (n_ctx, n_seq) = (plan.n_ctx, plan.n_seq_max);
        let largest_n_ctx = fits.largest_n_ctx(n_ctx, n_seq);
        let largest_n_seq = if n_seq > 1 { largest(n_seq - 1, |n| fits.holds(n_ctx, n)) } else { 0 };
        let (available, limit) = (available.bytes, available.source.clone());
        Shortage { plan: plan.clone(), available, limit, largest_n_ctx, largest_n_seq }
    }
}

/// What fits into what is there.
pub(super) struct Fits<'a> {
    pub(super) model: &'a Arc<Model>,
    pub(super) params: &'a ContextParams,
    pub(super) available: &'a Available,
}

impl Fits<'_> {
    fn holds(&self, n_ctx: usize, n_seq_max: usize) -> bool {
        let params = ContextParams { n_ctx, n_seq_max, ..self.params.clone() };
        Plan::new(self.model, &params).is_ok_and(|plan| plan.fits(self.available))
    }

    /// The longest context up to `most`, in whole blocks of the cache; 0 when none fits.
    pub(super) fn largest_n_ctx(&self, most: usize, n_seq_max: usize) -> usize {
        let block = crate::context::KV_BLOCK;
        block * largest(most / block, |n| self.holds(n * block, n_seq_max))
    }
}

/// The largest `n` up to `most` that `fits`, or 0: what fits for one fits for less.
fn largest(most: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_that_fits_is_found() {
        for limit in 0..20 {
            assert_eq!(largest(12, |n| n <= limit), limit.min(12));
        }
        assert_eq!(largest(0, |_| true), 0);
        assert_eq!(largest(usize::MAX, |n| n <= 1 << 40), 1 << 40);
    }

    #[test]
    fn the_message_has_the_figures_and_what_would_fit() {
        let parts = vec![(PlanPart::Program, 7 << 20), (PlanPart::Weights, 3 << 20), (PlanPart::Kv, 5 << 30)];
        let plan = Plan {
            n_ctx: 4096,
            n_seq_max: 8,
            parts,
            arenas: Vec::new(),
            largest: Vec::new(),
            gpu: None,
            gpu_left_out: None,
        };
        let limit = LimitSource::Caller(1 << 30);
        let mut shortage =
            Shortage { plan, available: 1000 << 20, limit, largest_n_ctx: 768, largest_n_seq: 1 };
        assert_eq!(
            shortage.to_string(),
            "a context of 4096 for each of 8 sequences needs 5.00 GiB more memory (weights 3.0 MiB, KV cache 5.00 \
             GiB), but a limit of 1.00 GiB has 1000.0 MiB left; the largest context that fits is 768, the most \
             sequences are 1"
        );
        assert_eq!(shortage.suggested_n_ctx(), 704);
        (shortage.largest_n_ctx, shortage.largest_n_seq) = (0, 0);
        assert_eq!(shortage.suggested_n_ctx(), 0);
        assert!(shortage.to_string().ends_with("; a smaller model is needed"));
    }
}
