//! The compute graph and everything that happens to it before hardware.
