//! Compiled kernels, and dispatches of them with everything bound.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use minfer_graph::KernelFault;

use super::{Device, Span};
use crate::kernels::{Access, Kernel};

/// A compiled kernel.
pub(crate) struct Pipeline {
    raw: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    name: String,
    n_bindings: usize,
    n_words: usize,
}

/// Every kernel of a device, compiled once.
#[derive(Default)]
pub(super) struct Pipelines(Mutex<HashMap<String, Arc<Pipeline>>>);

/// A kernel with its operands, parameters and grid.
pub(crate) struct Dispatch {
    pipeline: Arc<Pipeline>,
    bound: wgpu::BindGroup,
    words: Vec<u8>,
    groups: [u32; 3],
    /// Products that it computes, roughly; 0 for what takes no time beside them.
    work: u64,
}

impl Dispatch {
    /// The same, known to compute so many products.
    pub(crate) fn with_work(self, work: u64) -> Dispatch {
        Dispatch { work, ..self }
    }

    /// Name of the kernel.
    pub(crate) fn kernel(&self) -> &str {
        &self.pipeline.name
    }

    /// Products that it computes, roughly.
    pub(super) fn work(&self) -> u64 {
        self.work
    }

    /// Records it.
    pub(super) fn encode(&self, pass: &mut wgpu::ComputePass<'_>) {
        pass.set_pipeline(&self.pipeline.raw);
        pass.set_bind_group(0, &self.bound, &[]);
        pass.set_immediates(0, &self.words);
        let [x, y, z] = self.groups;
        pass.dispatch_workgroups(x, y, z);
    }
}

impl Device {
    /// The kernel, compiled when it is first asked for.
    pub(crate) fn pipeline(&self, kernel: &Kernel) -> Result<Arc<Pipeline>, KernelFault> {
        let mut known = self.pipelines.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&kernel.name) {
            return Ok(found.clone());
        }
        let pipeline = self.compile(kernel).map_err(|fault| match fault {
            KernelFault::Device(reason) => KernelFault::Device(format!("kernel {}: {reason}", kernel.name)),
            other => other,
        })?;
        let pipeline = Arc::new(pipeline);
        known.insert(kernel.name.clone(), pipeline.clone());
        Ok(pipeline)
    }

    fn compile(&self, kernel: &Kernel) -> Result<Pipeline, KernelFault> {
        self.counters.pipelines.fetch_add(1, Ordering::Relaxed);
        let tampered = self.faults.tamper.filter(|(name, ..)| kernel.name.contains(name));
        let source = match tampered {
            Some((_, from, to)) => kernel.source.replace(from, to),
            None => kernel.source.clone(),
        };
        let bindings = kernel.bindings();
        let n_words = kernel.n_words();
        let entries: Vec<_> = bindings.iter().enumerate().map(|(i, access)| entry(i, *access)).collect();
        self.checked(0, || {
            let module = self.raw.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some(&kernel.name),
                source: wgpu::ShaderSource::Wgsl(source.as_str().into()),
            });
            let layout = self.raw.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: Some(&kernel.name),
                entries: &entries,
            });
            let whole = self.raw.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some(&kernel.name),
                bind_group_layouts: &[Some(&layout)],
                immediate_size: (4 * n_words) as u32,
            });
            let raw = self.raw.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&kernel.name),
                layout: Some(&whole),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: self.cache.as_ref().map(|cache| cache.raw()),
            });
            Pipeline { raw, layout, name: kernel.name.clone(), n_bindings: bindings.len(), n_words }
        })
    }

    /// A dispatch of `pipeline` over `groups` workgroups; `words` are its parameters in the order of its struct.
    pub(crate) fn dispatch(
        &self,
        pipeline: &Arc<Pipeline>,
        operands: &[&Span],
        words: &[u32],
        groups: [u32; 3],
    ) -> Result<Dispatch, KernelFault> {
        if operands.len() != pipeline.n_bindings || words.len() != pipeline.n_words {
            let (b, w) = (operands.len(), words.len());
            return Err(KernelFault::Bug(format!("kernel {} got {b} operands and {w} words", pipeline.name)));
        }
        if groups.iter().any(|n| *n > self.max_groups()) {
            return Err(KernelFault::Bug(format!("kernel {} over {groups:?} workgroups", pipeline.name)));
        }
        self.counters.bind_groups.fetch_add(1, Ordering::Relaxed);
        let entries: Vec<_> = operands
            .iter()
            .enumerate()
            .map(|(i, span)| wgpu::BindGroupEntry {
                binding: i as u32,
                resource: wgpu::BindingResource::Buffer(span.binding()),
            })
            .collect();
        let bound = self.checked(0, || {
            self.raw.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(&pipeline.name),
                layout: &pipeline.layout,
                entries: &entries,
            })
        })?;
        let words = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        Ok(Dispatch { pipeline: pipeline.clone(), bound, words, groups, work: 0 })
    }
}

fn entry(binding: usize, access: Access) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding: binding as u32,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only: access == Access::Read },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    }
}
