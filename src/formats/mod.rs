//! One file format a file, reader and writer together.
