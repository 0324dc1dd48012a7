//! Runnable examples of the session store.
