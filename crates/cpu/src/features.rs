//! What this processor says it can do, by name: for reports.

/// Features that matter to kernels, in a fixed order.
pub fn cpu_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! detected {
            ($($name:tt),*) => {
                [$(($name, is_x86_feature_detected!($name))),*]
            };
        }
        let all = detected!(
            "sse4.2",
            "avx",
            "avx2",
            "fma",
            "f16c",
            "bmi2",
            "avxvnni",
            "avx512f",
            "avx512bw",
            "avx512dq",
            "avx512vl",
            "avx512vnni",
            "avx512vbmi",
            "avx512bf16",
            "avx512fp16"
        );
        all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }
    #[cfg(target_arch = "aarch64")]
    {
        macro_rules! detected {
            ($($name:tt),*) => {
                [$(($name, std::arch::is_aarch64_feature_detected!($name))),*]
            };
        }
        let all = detected!("neon", "fp16", "dotprod", "i8mm", "bf16", "sve", "sve2");
        all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    Vec::new()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::cpu_features;
    use crate::isa::Isa;

    #[test]
    fn the_list_and_the_levels_agree() {
        let has = |name| cpu_features().contains(&name);
        let levels: Vec<_> = Isa::available().iter().map(|isa| isa.name()).collect();
        assert_eq!(levels.contains(&"avx2"), has("avx2") && has("fma") && has("f16c") && has("bmi2"));
        assert!(!levels.contains(&"avx512") || has("avx512vnni"));
    }
}
