//! One seeded generator of fabrics a file, and faults to damage them with.
