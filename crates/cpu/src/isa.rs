//! Which instruction set the kernels use: found once at start, then carried as a value.
//!
//! A level that needs CPU features holds a token, and a token can only be had from a successful check
//! ([`Avx2::detect`], [`Avx512::detect`]). Whoever holds an [`Isa`] may therefore enter the matching
//! `#[target_feature]` functions: the proof is in the type, and nothing is probed inside a kernel.
//!
//! Every level gives the same bits (see [`crate::matmul`]); choosing one is a matter of speed alone.

use std::fmt;

/// Proof that this CPU has AVX2, FMA, F16C and BMI2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

/// Proof that this CPU has AVX-512 F, BW, DQ, VL and VNNI, and everything that [`Avx2`] stands for.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// The token, if the CPU (and the operating system) can run this level.
    pub fn detect() -> Option<Avx2> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi2");
        has.then_some(Avx2(()))
    }
}

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// The token, if the CPU (and the operating system) can run this level.
    pub fn detect() -> Option<Avx512> {
        Avx2::detect()?;
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni");
        has.then_some(Avx512(()))
    }
}

/// An instruction set level that this machine can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Plain Rust: the definition of every result, and the only level off x86-64.
    Scalar,
    /// 256-bit vectors with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// 512-bit vectors with the integer dot product `vpdpbusd`.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512),
}

/// An instruction set was asked for that can't be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IsaError {
    /// No level has this name.
    #[error("unknown instruction set '{value}'; this machine has: {possible}")]
    Unknown {
        /// What was asked for.
        value: String,
        /// The names that would work here, separated by commas.
        possible: String,
    },
    /// The level exists, but not on this machine.
    #[error("this machine cannot run '{value}'; it has: {possible}")]
    Unsupported {
        /// What was asked for.
        value: String,
        /// The names that would work here, separated by commas.
        possible: String,
    },
}

/// Every name that there is on some machine.
const KNOWN: [&str; 3] = ["scalar", "avx2", "avx512"];

impl Isa {
    /// The best level of this machine.
    pub fn detect() -> Isa {
        Isa::available().pop().unwrap_or(Isa::Scalar)
    }

    /// Every level of this machine, slowest first; never empty.
    pub fn available() -> Vec<Isa> {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = Avx2::detect().map(Isa::Avx2);
            let avx512 = Avx512::detect().map(Isa::Avx512Vnni);
            [Some(Isa::Scalar), avx2, avx512].into_iter().flatten().collect()
        }
        #[cfg(not(target_arch = "x86_64"))]
        vec![Isa::Scalar]
    }

    /// The level with this name, if the machine can run it. Case and surrounding blanks don't matter.
    pub fn from_name(name: &str) -> Result<Isa, IsaError> {
        let wanted = name.trim().to_ascii_lowercase();
        let available = Isa::available();
        if let Some(isa) = available.iter().find(|isa| isa.name() == wanted) {
            return Ok(*isa);
        }
        let possible = available.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
        let value = name.to_string();
        match KNOWN.contains(&wanted.as_str()) {
            true => Err(IsaError::Unsupported { value, possible }),
            false => Err(IsaError::Unknown { value, possible }),
        }
    }

    /// The name that [`Isa::from_name`] takes.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(_) => "avx512",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_available_level_is_found_by_its_name() {
        let all = Isa::available();
        assert_eq!(all.first(), Some(&Isa::Scalar));
        assert_eq!(all.last(), Some(&Isa::detect()));
        for isa in all {
            assert_eq!(Isa::from_name(isa.name()), Ok(isa));
            assert_eq!(Isa::from_name(&format!(" {} ", isa.name().to_uppercase())), Ok(isa));
        }
    }

    #[test]
    fn an_unknown_name_lists_what_is_possible() {
        let Err(IsaError::Unknown { value, possible }) = Isa::from_name("sse9") else {
            panic!("'sse9' was accepted");
        };
        assert_eq!(value, "sse9");
        assert!(possible.starts_with("scalar"));
    }

    #[test]
    fn a_level_of_other_machines_is_refused_as_unsupported() {
        for name in KNOWN {
            let here = Isa::available().iter().any(|isa| isa.name() == name);
            assert_eq!(Isa::from_name(name).is_ok(), here);
            if !here {
                assert!(matches!(Isa::from_name(name), Err(IsaError::Unsupported { .. })));
            }
        }
    }
}
