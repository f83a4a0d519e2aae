//! What a context will need, compared with what there is, before anything is allocated.

use minfer_graph::KvSpec;

/// The plan does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a context of {n_ctx} needs {} for the KV cache and {} for weights, but {} are available{}",
    gib(*kv_bytes), gib(*weight_bytes), gib(*available), advice(*largest_n_ctx)
)]
pub struct Shortage {
    /// Positions asked for.
    pub n_ctx: usize,
    /// Bytes of the KV cache.
    pub kv_bytes: usize,
    /// Bytes of the weights.
    pub weight_bytes: usize,
    /// Bytes that can be had.
    pub available: usize,
    /// The longest context that would fit; 0 when none does.
    pub largest_n_ctx: usize,
}

fn gib(bytes: usize) -> String {
    format!("{:.2} GiB", bytes as f64 / (1u64 << 30) as f64)
}

fn advice(largest: usize) -> String {
    match largest {
        0 => "; a smaller model is needed".into(),
        n => format!("; the largest context that fits is {n}"),
    }
}

/// Checks weights and KV cache against what the machine, or the container, has left.
pub(crate) fn check(n_ctx: usize, kv: &[KvSpec], weight_bytes: usize, n_seqs: usize) -> Result<(), Shortage> {
    let Some(available) = available_bytes() else { return Ok(()) };
    fits(n_ctx, kv, weight_bytes, n_seqs, available)
}

fn fits(
    n_ctx: usize,
    kv: &[KvSpec],
    weight_bytes: usize,
    n_seqs: usize,
    available: usize,
) -> Result<(), Shortage> {
    let kv_bytes = kv.iter().fold(0usize, |sum, s| sum.saturating_add(region_bytes(s).saturating_mul(2)));
    if weight_bytes.saturating_add(kv_bytes) <= available {
        return Ok(());
    }
    let block = kv.first().map_or(1, |s| s.block);
    let one_block: usize = kv.iter().map(|s| 2 * s.block_bytes()).sum::<usize>() * n_seqs;
    let largest_n_ctx = available.saturating_sub(weight_bytes) / one_block.max(1) * block;
    Err(Shortage { n_ctx, kv_bytes, weight_bytes, available, largest_n_ctx })
}

fn region_bytes(spec: &KvSpec) -> usize {
    spec.block_bytes().saturating_mul(spec.n_blocks)
}

/// Memory that can be had without swapping: the least of the system's and the container's figures.
fn available_bytes() -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let system = read("/proc/meminfo").and_then(|text| meminfo_available(&text));
    let limit = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse::<usize>().ok());
    let used = read("/sys/fs/cgroup/memory.current").and_then(|text| text.trim().parse::<usize>().ok());
    let cached = read("/sys/fs/cgroup/memory.stat").and_then(|text| stat_field(&text, "inactive_file"));
    // Page cache counts as use but gives way.
    let container = limit.map(|l| l.saturating_sub(used.unwrap_or(0).saturating_sub(cached.unwrap_or(0))));
    match (system, container) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn meminfo_available(text: &str) -> Option<usize> {
    let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok()?.checked_mul(1024)
}

fn stat_field(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find(|l| l.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use minfer_graph::KvType;

    #[test]
    fn what_does_not_fit_is_refused_with_the_figures_and_what_would() {
        let spec = KvSpec { n_kv_heads: 2, head_dim: 64, block: 32, n_blocks: 1000, kv_type: KvType::F16 };
        let kv = [spec; 4];
        let kv_bytes = 4 * 2 * region_bytes(&spec);
        assert_eq!(fits(32_000, &kv, 1000, 1, kv_bytes + 1000), Ok(()));
        let shortage = fits(32_000, &kv, 1000, 1, kv_bytes / 2 + 1000).unwrap_err();
        assert_eq!((shortage.kv_bytes, shortage.largest_n_ctx), (kv_bytes, 16_000));
        let none = fits(32_000, &kv, 1000, 1, 10).unwrap_err();
        assert!(none.to_string().ends_with("a smaller model is needed"));
    }

    #[test]
    fn sizes_beyond_any_machine_do_not_overflow() {
        let spec = KvSpec {
            n_kv_heads: 1 << 20,
            head_dim: 1 << 20,
            block: 32,
            n_blocks: usize::MAX,
            kv_type: KvType::F32,
        };
        assert!(fits(usize::MAX, &[spec; 3], usize::MAX, 1, 1 << 40).is_err());
    }

    #[test]
    fn the_systems_figure_is_read() {
        assert_eq!(meminfo_available("MemTotal: 8 kB\nMemAvailable:   3 kB\n"), Some(3072));
        assert_eq!(stat_field("file 1\ninactive_file 42\n", "inactive_file"), Some(42));
    }
}
