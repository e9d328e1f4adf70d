//! How good tables are: edge-forwarding index, effective bisection bandwidth, path lengths, load.
