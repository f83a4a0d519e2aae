//! Every kernel passes the validator, and what it is translated to passes the tools of its language.

#![allow(clippy::print_stderr, reason = "a skipped check says so")]

use std::process::Command;

use naga::back::{msl, spv};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};

use super::{Kernel, all};

pub(super) fn module(kernel: &Kernel) -> (naga::Module, ModuleInfo) {
    let parsed = naga::front::wgsl::parse_str(&kernel.source);
    let module = parsed.unwrap_or_else(|e| panic!("{}: {}", kernel.name, e.emit_to_string(&kernel.source)));
    let used = Capabilities::IMMEDIATES | Capabilities::SHADER_FLOAT16_IN_FLOAT32 | Capabilities::SUBGROUP;
    let mut validator = Validator::new(ValidationFlags::all(), used);
    validator.subgroup_stages(naga::valid::ShaderStages::COMPUTE);
    validator.subgroup_operations(naga::valid::SubgroupOperationSet::all());
    let info = validator.validate(&module);
    let info = info.unwrap_or_else(|e| panic!("{}: {}", kernel.name, e.emit_to_string(&kernel.source)));
    (module, info)
}

#[test]
fn every_kernel_is_valid_and_binds_what_the_host_thinks() {
    for kernel in all() {
        let (module, _) = module(&kernel);
        let bound = module.global_variables.iter().filter(|(_, v)| v.binding.is_some()).count();
        assert_eq!(bound, kernel.bindings().len(), "{}", kernel.name);
        let params = module.types.iter().find(|(_, t)| t.name.as_deref() == Some("Params"));
        let naga::TypeInner::Struct { members, span } = &params.expect("parameters").1.inner else {
            panic!("{}: parameters are no struct", kernel.name)
        };
        assert_eq!(
            (members.len(), *span as usize),
            (kernel.n_words(), 4 * kernel.n_words()),
            "{}",
            kernel.name
        );
        let entry = &module.entry_points[0];
        assert_eq!((entry.name.as_str(), entry.workgroup_size), ("main", [super::THREADS, 1, 1]));
    }
}

#[test]
fn spirv_of_every_kernel_passes_spirv_val() {
    if Command::new("spirv-val").arg("--version").output().is_err() {
        eprintln!("SKIPPED: spirv-val is not installed (package spirv-tools)");
        return;
    }
    let folder = std::env::temp_dir().join(format!("minfer-spirv-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut files = Vec::new();
    for kernel in all() {
        let (module, info) = module(&kernel);
        let options = spv::Options { lang_version: (1, 3), ..Default::default() };
        let words = spv::write_vec(&module, &info, &options, None);
        let words = words.unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let file = folder.join(format!("{}.spv", kernel.name));
        std::fs::write(&file, bytes).expect("a file");
        files.push(file);
    }
    let mut failures = String::new();
    for file in &files {
        let ran = Command::new("spirv-val").args(["--target-env", "vulkan1.1"]).arg(file).output();
        let ran = ran.expect("spirv-val runs");
        if !ran.status.success() {
            failures += &format!("{}: {}", file.display(), String::from_utf8_lossy(&ran.stderr));
        }
    }
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn every_kernel_can_be_written_as_msl() {
    let unchecked = BoundsCheckPolicies {
        index: BoundsCheckPolicy::Unchecked,
        buffer: BoundsCheckPolicy::Unchecked,
        ..Default::default()
    };
    for kernel in all() {
        let (module, info) = module(&kernel);
        let options = msl::Options {
            lang_version: (3, 0),
            fake_missing_bindings: true,
            bounds_check_policies: unchecked,
            ..Default::default()
        };
        let written = msl::write_string(&module, &info, &options, &msl::PipelineOptions::default());
        let (source, _) = written.unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        assert!(source.contains("kernel void"), "{}", kernel.name);
    }
}
