//! End-to-end, crash and many-process tests, and the conformance driver. This library is what the tests share.

pub mod conformance;
pub mod judge;
pub mod recording;
