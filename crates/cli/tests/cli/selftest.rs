//! `minfer selftest`: a report that says what was tested on which machine.

use crate::support::{json, minfer, stdout};

#[test]
fn every_kernel_of_this_machine_passes() {
    let report = json(&minfer(["selftest", "--json"]).assert().code(0));
    assert_eq!((&report["passed"], &report["version"]), (&true.into(), &1.into()));
    let machine = &report["machine"];
    assert_eq!(machine["version"], env!("CARGO_PKG_VERSION"));
    assert!(machine["instruction_sets"].as_array().unwrap().contains(&"scalar".into()));
    let kernels = report["kernels"].as_array().unwrap();
    let has = |op: &str, dtype: &str| {
        kernels.iter().any(|k| k["op"] == op && k["type"] == dtype && k["outcome"] == "passed")
    };
    for (op, dtype) in
        [("MatMul", "Q4_K"), ("FusedQKV", "Q8_0"), ("Attn", "F16"), ("Attn", "F32"), ("SwiGLU", "F32")]
    {
        assert!(has(op, dtype), "{op} {dtype}");
    }
    assert!(kernels.iter().all(|k| k["outcome"] != "failed"));
}

#[test]
fn the_text_fits_into_a_bug_report() {
    let text = stdout(&minfer(["selftest"]).assert().code(0));
    assert!(text.starts_with(&format!("minfer {} for ", env!("CARGO_PKG_VERSION"))), "{text}");
    for part in
        ["\nsystem   ", "\ncpu      ", "\nfeatures ", "\nengines  not tested: ", "cpu scalar", " ok\n"]
    {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(text.contains("\nevery kernel agrees with its definition: "), "{text}");
}
