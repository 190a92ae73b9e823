"""The asynchronous trainer: real Generation Units and a Training Unit under the Control Unit."""
