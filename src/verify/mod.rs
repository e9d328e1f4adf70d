//! The judge: reachability, loops, minimality and credit loops, from the tables alone.
