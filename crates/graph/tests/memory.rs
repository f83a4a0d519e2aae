//! Liveness planning: what shares memory, what must not, and that running on a plan gives the right numbers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::*;
use minfer_graph::{
    Backend, Compiled, DType, GraphBuilder, GraphParams, InputData, NodeId, Op, OpKind, Policy, Scheduler,
    compile, size_class,
};
use proptest::prelude::*;

fn buffer(c: &Compiled, name: &str) -> minfer_graph::BufferKey {
    let node = c.graph.by_name(name).unwrap();
    c.plan.buffer(node.id, node.backend.unwrap()).unwrap().0
}

#[test]
fn liveness_reuses_buffers_along_chain() {
    let c = compiled(&null_registry(&[]), |b, x| {
        let y = (0..6).fold(x, |y, i| b.scale(&format!("s{i}"), y, 2.0));
        b.scale("last", y, 3.0)
    });
    // Each link reads one buffer and writes the other; the input keeps its own.
    let keys: Vec<_> = (0..6).map(|i| buffer(&c, &format!("0.s{i}"))).collect();
    assert_eq!(keys[0], keys[2]);
    assert_eq!(keys[1], keys[3]);
    assert_ne!(keys[0], keys[1]);
    assert_ne!(keys[0], buffer(&c, "x"));
    assert_eq!(c.plan.buffers().len(), 3);
}

#[test]
fn parallel_chains_do_not_share() {
    let c = compiled(&null_registry(&[]), |b, x| {
        let left = b.scale("left", x, 2.0);
        let right = b.scale("right", x, 3.0);
        let left2 = b.scale("left2", left, 2.0);
        b.add("join", left2, right)
    });
    assert_ne!(buffer(&c, "0.left"), buffer(&c, "0.right"));
    assert_ne!(buffer(&c, "0.left2"), buffer(&c, "0.right"));
}

#[test]
fn silu_runs_in_place_only_when_it_is_the_only_reader() {
    let alone = compiled(&null_registry(&[]), |b, x| {
        let y = b.scale("y", x, 2.0);
        b.silu("silu", y)
    });
    assert_eq!(buffer(&alone, "0.y"), buffer(&alone, "0.silu"));
    let shared = compiled(&null_registry(&[]), |b, x| {
        let y = b.scale("y", x, 2.0);
        let silu = b.silu("silu", y);
        b.add("sum", silu, y)
    });
    assert_ne!(buffer(&shared, "0.y"), buffer(&shared, "0.silu"));
}

#[test]
fn nothing_runs_in_place_over_an_input_or_a_shared_view() {
    let c = compiled(&null_registry(&[]), |b, x| {
        let s = b.silu("s", x);
        let v1 = b.view("v1", s, 0, [D, 1, 1, 1]);
        let v2 = b.view("v2", s, D, [D, 1, 1, 1]);
        let a = b.silu("a", v1);
        b.add("sum", a, v2)
    });
    assert_ne!(buffer(&c, "x"), buffer(&c, "0.s"));
    assert_eq!(buffer(&c, "0.v1"), buffer(&c, "0.s"));
    assert_ne!(buffer(&c, "0.a"), buffer(&c, "0.s"), "the other view still shows the first half's storage");
}

#[test]
fn nothing_runs_in_place_across_backends() {
    let c = compiled(&null_registry(&[OpKind::Silu]), |b, x| {
        let y = b.scale("y", x, 2.0);
        b.silu("silu", y)
    });
    let (y, silu) = (c.graph.by_name("0.y").unwrap().id, c.graph.by_name("0.silu").unwrap().id);
    let copy = c.plan.buffer(y, Backend::CPU).unwrap().0;
    assert_eq!(copy.backend, Backend::CPU);
    assert_ne!(copy, c.plan.buffer(silu, Backend::CPU).unwrap().0);
}

#[test]
fn size_classes_are_few_and_close() {
    let mut classes = std::collections::BTreeSet::new();
    for bytes in (1..1 << 16).chain([1 << 20, (1 << 20) + 1, 311_164_928]) {
        let class = size_class(bytes);
        assert!(class >= bytes && (class == 4096 || class * 4 <= bytes * 5 + 4), "{bytes} -> {class}");
        assert_eq!(size_class(class), class);
        classes.insert(class);
    }
    assert!(classes.len() < 25, "{classes:?}");
}

/// A random graph: each instruction adds a node that reads earlier ones.
#[derive(Clone, Debug)]
struct Instruction {
    kind: u8,
    a: usize,
    b: usize,
}

fn random_source(
    program: Vec<Instruction>,
    outputs: Vec<usize>,
) -> impl Fn(&GraphParams, &Policy<'_>) -> Result<minfer_graph::ComputeGraph, minfer_graph::BuildError> {
    move |p: &GraphParams, _: &Policy<'_>| {
        let mut b = GraphBuilder::new();
        let shape = [D, p.n_tokens, 1, 1];
        let mut values: Vec<NodeId> = vec![b.input("x", shape, DType::F32)];
        b.set_layer(Some(0));
        for (i, ins) in program.iter().enumerate() {
            let (x, y) = (values[ins.a % values.len()], values[ins.b % values.len()]);
            let name = format!("n{i}");
            values.push(match ins.kind % 8 {
                0 => b.silu(&name, x),
                1 => b.add(&name, x, y),
                2 => b.mul(&name, x, y),
                3 => b.scale(&name, x, 0.75),
                4 => b.reshape(&name, x, shape),
                5 => b.view(&name, x, 0, shape),
                6 => b.softmax(&name, x),
                _ => {
                    let silu = b.silu(&format!("{name}s"), x);
                    b.mul(&name, silu, y)
                }
            });
        }
        let mut seen = std::collections::HashSet::new();
        for o in outputs.iter().map(|o| values[o % values.len()]).chain(values.last().copied()) {
            if seen.insert(o) {
                b.output(o);
            }
        }
        b.finish()
    }
}

/// Values by plain recursion over the graph as built: no plan, no sharing.
fn plain_values(graph: &minfer_graph::ComputeGraph, x: &[f32]) -> Vec<Vec<f32>> {
    let mut values: Vec<Vec<f32>> = Vec::new();
    for node in &graph.nodes {
        let src = |i: usize| values[node.src[i].index()].clone();
        let zip = |f: fn(f32, f32) -> f32| src(0).iter().zip(src(1)).map(|(a, b)| f(*a, b)).collect();
        let silu = |v: f32| v / (1.0 + (-v).exp());
        values.push(match node.op {
            Op::Input => x.to_vec(),
            Op::Silu => src(0).into_iter().map(silu).collect(),
            Op::Add => zip(|a, b| a + b),
            Op::Mul => zip(|a, b| a * b),
            Op::Scale { factor } => src(0).into_iter().map(|v| v * factor).collect(),
            Op::Softmax => src(0).chunks(D).flat_map(plain_softmax).collect(),
            _ => src(0),
        });
    }
    values
}

fn plain_softmax(x: &[f32]) -> Vec<f32> {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let e: Vec<f32> = x.iter().map(|v| (v - max).exp()).collect();
    let sum: f32 = e.iter().sum();
    e.iter().map(|v| v / sum).collect()
}

fn programs() -> impl Strategy<Value = (Vec<Instruction>, Vec<usize>)> {
    let instruction =
        (any::<u8>(), 0usize..64, 0usize..64).prop_map(|(kind, a, b)| Instruction { kind, a, b });
    (prop::collection::vec(instruction, 1..24), prop::collection::vec(0usize..64, 0..3))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn live_buffers_never_overlap((program, outputs) in programs(), refused in 0usize..4) {
        let refused = [&[][..], &[OpKind::Silu][..], &[OpKind::Add, OpKind::Softmax][..], &[OpKind::Mul][..]][refused];
        let source = random_source(program, outputs);
        let c = compile(&source, &params(2), &null_registry(refused), &mut |_, _| {}).unwrap();
        // What the graph says, then what the planner says.
        prop_assert_eq!(minfer_graph::verify_plan(&c.graph, &c.splits, &c.plan), Ok(()));
        for (i, a) in c.plan.storages.iter().enumerate() {
            for b in &c.plan.storages[i + 1..] {
                prop_assert!(a.buffer != b.buffer || a.last < b.first || b.last < a.first, "{a:?} meets {b:?}");
            }
        }
    }

    #[test]
    fn a_planned_run_gives_the_values_of_a_plain_one((program, outputs) in programs(), refused in 0usize..4) {
        let refused = [&[][..], &[OpKind::Silu][..], &[OpKind::Add, OpKind::Softmax][..], &[OpKind::Mul][..]][refused];
        let source = random_source(program, outputs);
        let registry = reference_registry(refused);
        let p = params(2);
        let x: Vec<f32> = (0..2 * D).map(|i| (i as f32 * 0.37 - 2.0).sin()).collect();
        let graph = source(&p, &Policy::new(&registry, &p.cparams)).unwrap();
        let expected = &plain_values(&graph, &x)[graph.outputs[0].index()];
        let mut s = Scheduler::new(registry, no_weights(), vec![]);
        let mut out = vec![0.0; 2 * D];
        for _ in 0..2 {
            s.step(&source, &p, &[("x", InputData::F32(&x))], &mut out, None).unwrap();
            prop_assert_eq!(&out, expected);
        }
    }
}

#[test]
fn the_memory_plan_as_json_shows_every_life_where_nobody_else_lives() {
    let c = compiled(&null_registry(&[OpKind::Mul]), |b, x| {
        let y = silu_mul(b, x);
        let z = silu_mul(b, y);
        b.scale("last", z, 3.0)
    });
    let json = minfer_graph::export::memory(&minfer_graph::export::View::planned(&c));
    let number = |value: &serde_json::Value, key: &str| value[key].as_u64().unwrap() as usize;
    let (buffers, lives) = (json["buffers"].as_array().unwrap(), json["lives"].as_array().unwrap());
    assert_eq!((buffers.len(), lives.len()), (c.plan.buffers().len(), c.plan.storages.len()));
    for backend in [Backend::CPU, Backend::METAL] {
        let arena =
            json["arenas"].as_array().unwrap().iter().find(|a| a["backend"] == backend.name()).unwrap();
        assert_eq!(number(arena, "bytes"), c.plan.bytes(backend));
    }
    // Backend, addresses and times of each life.
    let places: Vec<_> = lives
        .iter()
        .map(|life| {
            let buffer = &buffers[number(life, "buffer")];
            let start = number(buffer, "address");
            assert!(number(life, "bytes") <= number(buffer, "bytes"));
            let addresses = start..start + number(life, "bytes");
            (buffer["backend"].clone(), addresses, number(life, "first"), number(life, "last"))
        })
        .collect();
    let mut n_sharing = 0;
    for (i, a) in places.iter().enumerate() {
        for b in &places[i + 1..] {
            let meet = a.0 == b.0 && a.1.start < b.1.end && b.1.start < a.1.end;
            n_sharing += usize::from(meet);
            assert!(
                !meet || a.3 < b.2 || b.3 < a.2,
                "{a:?} and {b:?} live in the same place at the same time"
            );
        }
    }
    assert!(n_sharing > 0, "some of them share a place one after the other");
    let copies =
        lives.iter().flat_map(|life| life["values"].as_array().unwrap()).filter(|v| v["copy"] == true);
    assert!(copies.count() > 0, "what crosses between backends is there twice");
}
