//! Ops on one element after the other.

use super::Kernel;

pub(super) const OPS: &str = include_str!("ops.wgsl");

/// Two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Mul,
    SwiGlu,
}

/// One operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Scale,
    Silu,
}

/// `a OP b`; `b` is a weight, or a value.
pub(crate) fn binary(op: Binary, weight: bool) -> Kernel {
    let (name, expression) = match op {
        Binary::Add => ("add", "a + b"),
        Binary::Mul => ("mul", "a * b"),
        Binary::SwiGlu => ("swiglu", "silu(a) * b"),
    };
    let combine = format!("fn combine(a: f32, b: f32) -> f32 {{ return {expression}; }}\n");
    let (label, access) = if weight { ("-weight", "read") } else { ("", "read_write") };
    let body = include_str!("binary.wgsl").replace("B_ACCESS", access);
    Kernel::new(format!("f32-{name}{label}"), &[], &[OPS, &combine, &body])
}

/// `OP x`.
pub(crate) fn unary(op: Unary) -> Kernel {
    let (name, expression) = match op {
        Unary::Scale => ("scale", "x * p.factor"),
        Unary::Silu => ("silu", "silu(x)"),
    };
    let apply = format!("fn apply(x: f32) -> f32 {{ return {expression}; }}\n");
    Kernel::new(format!("f32-{name}"), &[], &[OPS, &apply, include_str!("unary.wgsl")])
}

#[cfg(test)]
pub(super) fn all() -> Vec<Kernel> {
    let binaries = [Binary::Add, Binary::Mul, Binary::SwiGlu];
    let both = binaries.into_iter().flat_map(|op| [binary(op, false), binary(op, true)]);
    both.chain([unary(Unary::Scale), unary(Unary::Silu)]).collect()
}
