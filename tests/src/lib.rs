//! End-to-end, crash and many-process tests, and the conformance driver.
