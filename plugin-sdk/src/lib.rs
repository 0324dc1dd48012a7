//! For extension authors: state that follows the branch, messages to the model, lifecycle.
