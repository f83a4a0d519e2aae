//! A decode step allocates nothing, on any thread.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(unsafe_code, reason = "an allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use minfer_engine::{Context, ContextParams, LoadOptions, Model, Row};

/// The system's allocator, counting what it is asked for.
struct Counting;

static N_ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        N_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Decode steps that are counted together: more than a KV block holds.
const WINDOW: u32 = 40;

/// Allocations in each of 7 windows of decode steps, which end beyond a span of attention.
fn allocations(name: &str, n_threads: usize) -> Vec<usize> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(format!("{name}.gguf"));
    let model = Model::load(&path, &LoadOptions::default()).unwrap();
    let params = ContextParams { n_ctx: 1024, n_threads: Some(n_threads), ..ContextParams::default() };
    let mut context = Context::new(&model, &params, &mut |_, _| {}).unwrap();
    let seq = context.new_sequence().unwrap();
    context.prefill(seq, &[1; 300], &mut |_| ControlFlow::Continue(())).unwrap();
    let mut step = |token| context.step(&[Row { seq, token, wants_logits: true }]).unwrap()[0];
    // The first steps build the graph and let every buffer grow.
    assert!((0..4).map(&mut step).sum::<f32>().is_finite());
    let window = |_| {
        let before = N_ALLOCATIONS.load(Ordering::Relaxed);
        assert!((0..WINDOW).map(&mut step).sum::<f32>().is_finite());
        N_ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    (0..7).map(window).collect()
}

// One test in this binary: the allocations of another one would be counted too.
#[test]
fn a_decode_step_allocates_nothing() {
    for name in ["qwen2-tied-q4_0", "llama-q4_1", "qwen3-yarn-bf16"] {
        // A worker's own buffers grow with its first piece, which may come late, and the test runner may take memory
        // meanwhile; a step that does would show in every window.
        for n_threads in [1, 2] {
            let windows = allocations(name, n_threads);
            let n_clean = windows.iter().filter(|n| **n == 0).count();
            assert!(n_clean >= 3, "{name}, {n_threads} threads: {windows:?}");
        }
    }
}
