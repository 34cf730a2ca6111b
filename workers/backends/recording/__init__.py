"""Record of a candidate's launches and, on the CPU device, account of the library's work."""
