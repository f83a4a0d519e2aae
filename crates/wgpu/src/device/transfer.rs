//! What crosses between host and device, and the submissions that carry it.
//!
//! **Rule.** Between submissions both staging buffers are mapped. Writes gather in the one, and go out as copies in front of
//! whatever is submitted next; results come back in the other. So a step is one command buffer and one submission, and
//! makes no buffer of its own.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use minfer_graph::KernelFault;
use wgpu::{BufferUsages, MapMode, PollError, PollType};

use super::{Device, Dispatch, Span};

/// Bytes on their way to the device at once.
const UPLOAD_BYTES: usize = 4 << 20;

/// Bytes on their way back at once, the status in front.
const READBACK_BYTES: usize = 4 << 20;

/// Where results begin in the readback buffer; before them lies the status.
const RESULTS_AT: usize = 16;

/// Products that one submission computes at most: systems stop a GPU that does not answer for seconds. A decode step of any
/// model that fits stays below.
const WORK_AT_ONCE: u64 = 100_000_000_000;

/// The longest that a submission may take. A software adapter takes a minute for what a GPU does in milliseconds.
const TIMEOUT: Duration = Duration::from_secs(60);
const SOFTWARE_TIMEOUT: Duration = Duration::from_secs(600);

/// A gathered write.
struct Pending {
    to: wgpu::Buffer,
    at: usize,
    from: usize,
    len: usize,
}

/// The staging buffers, and the status words that kernels report to.
pub(crate) struct Transfer {
    upload: wgpu::Buffer,
    used: usize,
    pending: Vec<Pending>,
    readback: wgpu::Buffer,
    status: wgpu::Buffer,
    /// Values that the last submission brought back, in the readback buffer from [`RESULTS_AT`] on.
    fetched: Vec<Fetched>,
    mapped: Arc<Mutex<MapState>>,
}

/// A value of the device that lies in the readback buffer as well.
struct Fetched {
    from: wgpu::Buffer,
    at: usize,
    len: usize,
    place: usize,
}

/// What a kernel said of an input: the place of its node in the step, and the value it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) place: usize,
    pub(crate) value: i32,
}

/// What one submission does after everything that was written.
#[derive(Default)]
struct Work<'a> {
    dispatches: &'a [&'a Dispatch],
    /// Whether it is the first of a run.
    clears_status: bool,
    /// Values to bring back: buffer, byte, bytes.
    values: &'a [(wgpu::Buffer, usize, usize)],
}

/// Dispatches in order, cut where their work exceeds `most`.
fn pieces<'s, 'd>(dispatches: &'s [&'d Dispatch], most: u64) -> impl Iterator<Item = &'s [&'d Dispatch]> {
    let mut sum = dispatches.first().map_or(0, |first| first.work());
    dispatches.chunk_by(move |_, next| {
        sum = sum.saturating_add(next.work());
        let goes_on = sum <= most;
        sum = if goes_on { sum } else { next.work() };
        goes_on
    })
}

#[derive(Default)]
struct MapState {
    error: Option<String>,
}

impl Transfer {
    pub(super) fn new(device: &Arc<Device>) -> Result<Transfer, KernelFault> {
        let up = BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC;
        let down = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let transfer = Transfer {
            upload: device.create_buffer(UPLOAD_BYTES, up, true)?,
            used: 0,
            pending: Vec::new(),
            readback: device.create_buffer(READBACK_BYTES, down, false)?,
            status: device.create_buffer(RESULTS_AT, super::buffer::USAGE, false)?,
            fetched: Vec::new(),
            mapped: Arc::default(),
        };
        transfer.map(&transfer.readback, MapMode::Read);
        transfer.wait(device, None)?;
        Ok(transfer)
    }

    /// Where kernels report to.
    pub(crate) fn status(&self, device: &Arc<Device>) -> Result<Span, KernelFault> {
        let buffer = super::GpuBuffer::of(self.status.clone(), RESULTS_AT, device);
        Span::of(Arc::new(buffer), 0, RESULTS_AT)
    }

    /// Writes `data` to byte `at` of `to` before anything that is submitted from now on.
    pub(super) fn write(
        &mut self,
        device: &Device,
        to: &wgpu::Buffer,
        at: usize,
        data: &[u8],
    ) -> Result<(), KernelFault> {
        if !data.len().is_multiple_of(4) || !at.is_multiple_of(4) {
            return Err(KernelFault::Bug(format!("{} bytes written to byte {at}", data.len())));
        }
        device.check_alive()?;
        self.fetched.retain(|f| f.from != *to);
        let mut done = 0;
        while done < data.len() {
            if self.used == UPLOAD_BYTES {
                self.flush(device)?;
            }
            let len = (data.len() - done).min(UPLOAD_BYTES - self.used);
            let range = self.used as u64..(self.used + len) as u64;
            let view = self.upload.get_mapped_range_mut(range);
            view.map_err(|e| KernelFault::Device(e.to_string()))?.copy_from_slice(&data[done..done + len]);
            self.pending.push(Pending { to: to.clone(), at: at + done, from: self.used, len });
            // Mapped ranges start at multiples of 8.
            self.used = (self.used + len).next_multiple_of(8);
            done += len;
        }
        Ok(())
    }

    /// Reads from byte `at` of `from` into all of `out`, after everything that was written.
    pub(super) fn read(
        &mut self,
        device: &Device,
        from: &wgpu::Buffer,
        at: usize,
        out: &mut [u8],
    ) -> Result<(), KernelFault> {
        for (i, out) in out.chunks_mut(READBACK_BYTES - RESULTS_AT).enumerate() {
            let at = at + i * (READBACK_BYTES - RESULTS_AT);
            let place = match self.find(from, at, out.len()) {
                Some(place) if self.pending.is_empty() => place,
                _ => {
                    // Copies are whole words, so what is read may begin and end a little outside.
                    let start = at / 4 * 4;
                    let value = (from.clone(), start, (at + out.len()).next_multiple_of(4) - start);
                    self.submit(device, Work { values: &[value], ..Work::default() })?;
                    RESULTS_AT + at - start
                }
            };
            self.copy_out(place, out)?;
        }
        Ok(())
    }

    /// Runs the dispatches after everything that was written, and brings back `values` (buffer, byte, bytes) as far as there
    /// is room; gives what a kernel reported.
    pub(crate) fn run<'d>(
        &mut self,
        device: &Device,
        dispatches: impl Iterator<Item = &'d Dispatch>,
        values: &[(wgpu::Buffer, usize, usize)],
    ) -> Result<Option<Report>, KernelFault> {
        let dispatches: Vec<_> = dispatches.collect();
        let mut pieces = pieces(&dispatches, WORK_AT_ONCE).peekable();
        let mut is_first = true;
        while let Some(piece) = pieces.next() {
            let values = if pieces.peek().is_none() { values } else { &[] };
            self.submit(device, Work { dispatches: piece, clears_status: is_first, values })?;
            is_first = false;
        }
        let mut words = [0; 8];
        self.copy_out(0, &mut words)?;
        let [a, b, c, d, value @ ..] = words;
        let place = u32::from_le_bytes([a, b, c, d]) as usize;
        Ok(place.checked_sub(1).map(|place| Report { place, value: i32::from_le_bytes(value) }))
    }

    fn flush(&mut self, device: &Device) -> Result<(), KernelFault> {
        self.submit(device, Work::default())
    }

    fn find(&self, from: &wgpu::Buffer, at: usize, len: usize) -> Option<usize> {
        let holds = |f: &&Fetched| f.from == *from && f.at <= at && at + len <= f.at + f.len;
        self.fetched.iter().find(holds).map(|f| f.place + at - f.at)
    }

    fn copy_out(&self, place: usize, out: &mut [u8]) -> Result<(), KernelFault> {
        let view = self.readback.get_mapped_range(..);
        let view = view.map_err(|e| KernelFault::Device(e.to_string()))?;
        out.copy_from_slice(&view[place..place + out.len()]);
        Ok(())
    }

    fn submit(&mut self, device: &Device, work: Work<'_>) -> Result<(), KernelFault> {
        self.fetched.clear();
        let uploads = !self.pending.is_empty();
        let commands = device.checked(0, || {
            if uploads {
                self.upload.unmap();
            }
            self.readback.unmap();
            self.encode(device, &work)
        })?;
        self.pending.clear();
        self.used = 0;
        device.counters.submissions.fetch_add(1, Ordering::Relaxed);
        let index = device.checked(0, || {
            let index = device.queue.submit([commands]);
            if uploads {
                self.map(&self.upload, MapMode::Write);
            }
            self.map(&self.readback, MapMode::Read);
            index
        })?;
        self.wait(device, Some(index))
    }

    fn encode(&mut self, device: &Device, work: &Work<'_>) -> wgpu::CommandBuffer {
        let mut encoder = device.raw.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: None });
        for p in &self.pending {
            let (from, at, len) = (p.from as u64, p.at as u64, p.len as u64);
            encoder.copy_buffer_to_buffer(&self.upload, from, &p.to, at, len);
        }
        if !work.dispatches.is_empty() {
            if work.clears_status {
                encoder.clear_buffer(&self.status, 0, None);
            }
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            work.dispatches.iter().for_each(|d| d.encode(&mut pass));
            drop(pass);
            encoder.copy_buffer_to_buffer(&self.status, 0, &self.readback, 0, RESULTS_AT as u64);
        }
        let mut place = RESULTS_AT;
        for (from, at, len) in work.values {
            if place + len > READBACK_BYTES {
                continue;
            }
            encoder.copy_buffer_to_buffer(from, *at as u64, &self.readback, place as u64, *len as u64);
            self.fetched.push(Fetched { from: from.clone(), at: *at, len: *len, place });
            place += len;
        }
        encoder.finish()
    }

    fn map(&self, buffer: &wgpu::Buffer, mode: MapMode) {
        let state = self.mapped.clone();
        buffer.map_async(mode, .., move |result| {
            if let Err(e) = result {
                state.lock().unwrap_or_else(PoisonError::into_inner).error = Some(e.to_string());
            }
        });
    }

    /// Waits until a submission is done and the staging buffers are mapped again.
    fn wait(&self, device: &Device, index: Option<wgpu::SubmissionIndex>) -> Result<(), KernelFault> {
        let software = device.adapter.kind == super::DeviceKind::Software;
        let timeout = if software { SOFTWARE_TIMEOUT } else { TIMEOUT };
        let polled = match device.is_silent() {
            true => Err(PollError::Timeout),
            false => device.raw.poll(PollType::Wait { submission_index: index, timeout: Some(timeout) }),
        };
        device.check_alive()?;
        match polled {
            Ok(_) => {}
            Err(PollError::Timeout) => {
                // It may still write where nobody waits any more.
                device.give_up(format!("no answer within {} s", timeout.as_secs()));
                return device.check_alive();
            }
            Err(e) => return Err(KernelFault::Device(e.to_string())),
        }
        let mut state = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        state.error.take().map_or(Ok(()), |reason| Err(KernelFault::Device(reason)))
    }
}
