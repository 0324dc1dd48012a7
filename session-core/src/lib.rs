//! Sessions of coding agents: format, tree, context, durable writing, blobs, finding, terminal pointers.
