//! The prompt store: SQLite with FTS5, asynchronous inserts, deduplication.
