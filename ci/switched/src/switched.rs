//! A source file in which mutants are switched on and off at run time.

use std::fmt::Write;
use std::ops::Range;

use crate::mutants::{Form, Mutant};

/// A switched file.
#[derive(Default)]
pub(crate) struct Switched {
    pub(crate) text: String,
    /// Bytes of `text` with the code of one mutant.
    changes: Vec<(Range<usize>, usize)>,
    /// Bytes with a site, and its mutants.
    sites: Vec<(Range<usize>, Vec<usize>)>,
}

impl Switched {
    /// - `mutants`: those of this file and their numbers, outer sites before those that they contain.
    pub(crate) fn new(text: &str, mutants: &[(usize, &Mutant)]) -> Self {
        let mut out = Self::default();
        out.copy(text, 0..text.len(), &mut &*mutants);
        out
    }

    /// Copies a part of the text; takes the mutants in it from the front of the list.
    fn copy(&mut self, text: &str, part: Range<usize>, rest: &mut &[(usize, &Mutant)]) {
        let mut at = part.start;
        while let Some((_, first)) = rest.first().filter(|(_, m)| m.site.end <= part.end) {
            let (site, form) = (first.site.clone(), first.form);
            let end = rest.iter().position(|(_, m)| (&m.site, m.form) != (&site, form)).unwrap_or(rest.len());
            let (here, behind) = rest.split_at(end);
            *rest = behind;
            self.text.push_str(&text[at..site.start]);
            let start = self.text.len();
            let (open, otherwise, close) = match form {
                Form::Body => ("{ ", "", "}"),
                Form::Iterator => ("{ Iterator::take(", "else { usize::MAX }, ", ")}"),
                Form::Inner => ("(", "else ", ")"),
                Form::Statement => ("", "else ", ""),
            };
            self.text.push_str(open);
            for &(number, mutant) in here {
                let start = self.text.len();
                let code = mutant.code(text);
                write!(self.text, "if crate::mutant({number}) {{ {code} }} {otherwise}")
                    .expect("a string takes text");
                self.changes.push((start..self.text.len(), number));
            }
            self.text.push_str("{ ");
            self.copy(text, site.clone(), rest);
            self.text.push_str(" }");
            self.text.push_str(close);
            self.sites.push((start..self.text.len(), here.iter().map(|&(number, _)| number).collect()));
            at = site.end;
        }
        self.text.push_str(&text[at..part.end]);
    }

    /// The mutant that an error at this byte is due to, or those of the smallest site around it.
    pub(crate) fn blamed(&self, byte: usize) -> Vec<usize> {
        if let Some((_, number)) = self.changes.iter().find(|(range, _)| range.contains(&byte)) {
            return vec![*number];
        }
        let sites = self.sites.iter().filter(|(range, _)| range.contains(&byte));
        sites.min_by_key(|(range, _)| range.len()).map_or(Vec::new(), |(_, numbers)| numbers.clone())
    }
}
