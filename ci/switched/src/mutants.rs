//! The changes of a source file that are tried: those of cargo-mutants.

use std::ops::Range;

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Pat, Signature, Stmt, UnOp};

use crate::values::{returns_iterator, values};

/// One change.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// The function that it is in.
    function: String,
    /// The piece of code that is there twice in the switched file: changed, and as it was.
    pub(crate) site: Range<usize>,
    pub(crate) form: Form,
    /// The bytes of the site that are replaced, and by what.
    change: Range<usize>,
    replacement: String,
}

/// What a site is, and so how a choice between two of them is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// The body of a function; the replacement is what it returns.
    Body,
    /// The body of a function that returns some iterator, which ends at once.
    Iterator,
    /// An expression inside of another or of a statement.
    Inner,
    /// An expression that is a statement.
    Statement,
}

impl Mutant {
    /// The code of the site with the change.
    pub(crate) fn code(&self, text: &str) -> String {
        match self.form {
            Form::Body => return format!("return {};", self.replacement),
            Form::Iterator => return "0".to_owned(),
            Form::Inner | Form::Statement => {}
        }
        let (before, after) = (self.site.start..self.change.start, self.change.end..self.site.end);
        format!("{}{}{}", &text[before], self.replacement, &text[after])
    }

    /// The function and the change, with the rest of its line. It has no line number, so that it stays the same when other
    /// code changes.
    pub(crate) fn describe(&self, text: &str) -> String {
        const AROUND: usize = 40;
        if matches!(self.form, Form::Body | Form::Iterator) {
            return format!("{}: [body -> {}]", self.function, self.replacement);
        }
        let (before, after) = (&text[..self.change.start], &text[self.change.end..]);
        let before: Vec<char> = before.lines().next_back().unwrap_or_default().trim_start().chars().collect();
        let before: String = before[before.len().saturating_sub(AROUND)..].iter().collect();
        let old = text[self.change.clone()].split_whitespace().collect::<Vec<_>>().join(" ");
        let old: String = old.chars().take(AROUND).collect();
        let after: String = after.lines().next().unwrap_or_default().chars().take(AROUND).collect();
        format!("{}: {before}[{old} -> {}]{after}", self.function, self.replacement).trim_end().to_owned()
    }
}

/// All changes of a file without those of its tests, by site: outer ones before those that they contain.
pub(crate) fn mutants(text: &str) -> Vec<Mutant> {
    let mut finder = Finder::default();
    finder.visit_file(&syn::parse_file(text).expect("the compiler has read it"));
    let mut found = finder.found;
    found.retain(|m| syn::parse_str::<syn::Block>(&format!("{{ {} }}", m.code(text))).is_ok());
    found.sort_by_key(|m| (m.site.start, std::cmp::Reverse(m.site.end), m.form));
    found
}

#[derive(Default)]
struct Finder {
    found: Vec<Mutant>,
    /// The type and the function around, as far as there are.
    around: Vec<String>,
    /// First bytes of the `match` expressions that are statements.
    statements: Vec<usize>,
}

impl Finder {
    fn note(&mut self, site: &impl Spanned, form: Form, change: &impl Spanned, replacement: &str) {
        self.found.push(Mutant {
            function: self.around.join("::"),
            site: site.span().byte_range(),
            form,
            change: change.span().byte_range(),
            replacement: replacement.to_owned(),
        });
    }

    fn function(&mut self, attributes: &[syn::Attribute], head: &Signature, body: &syn::Block) {
        if is_test(attributes) {
            return;
        }
        self.around.push(head.ident.to_string());
        if !body.stmts.is_empty() {
            for value in values(&head.output) {
                self.note(body, Form::Body, body, &value);
            }
            if returns_iterator(&head.output) {
                self.note(body, Form::Iterator, body, "std::iter::empty()");
            }
        }
        self.visit_block(body);
        self.around.pop();
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let cfg = |a: &syn::Attribute| {
        a.path().is_ident("cfg") && a.parse_args::<syn::Ident>().is_ok_and(|i| i == "test")
    };
    attributes.iter().any(|a| cfg(a) || a.path().is_ident("test"))
}

impl<'a> Visit<'a> for Finder {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let syn::Type::Path(path) = &*item.self_ty else { return };
        self.around.push(path.path.segments.last().map_or(String::new(), |s| s.ident.to_string()));
        visit::visit_item_impl(self, item);
        self.around.pop();
    }

    fn visit_item_fn(&mut self, f: &'a syn::ItemFn) {
        self.function(&f.attrs, &f.sig, &f.block);
    }

    fn visit_impl_item_fn(&mut self, f: &'a syn::ImplItemFn) {
        self.function(&f.attrs, &f.sig, &f.block);
    }

    fn visit_trait_item_fn(&mut self, f: &'a syn::TraitItemFn) {
        f.default.iter().for_each(|body| self.function(&f.attrs, &f.sig, body));
    }

    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::Expr(e @ Expr::Match(_), None) = statement {
            self.statements.push(e.span().byte_range().start);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_binary(&mut self, e: &'a syn::ExprBinary) {
        for other in others(&e.op) {
            self.note(e, Form::Inner, &e.op, other);
        }
        visit::visit_expr_binary(self, e);
    }

    fn visit_expr_unary(&mut self, e: &'a syn::ExprUnary) {
        if matches!(e.op, UnOp::Not(_) | UnOp::Neg(_)) {
            self.note(e, Form::Inner, &e.op, "");
        }
        visit::visit_expr_unary(self, e);
    }

    fn visit_expr_match(&mut self, e: &'a syn::ExprMatch) {
        let statement = self.statements.contains(&e.span().byte_range().start);
        let form = if statement { Form::Statement } else { Form::Inner };
        let rest = |arm: &syn::Arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none();
        // An arm can be left out only if there is one for all other values.
        if e.arms.iter().any(rest) {
            e.arms.iter().filter(|arm| !rest(arm)).for_each(|arm| self.note(e, form, arm, ""));
        }
        visit::visit_expr_match(self, e);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            for value in ["true", "false"] {
                self.note(guard, Form::Inner, guard, value);
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, e: &'a syn::ExprStruct) {
        if e.rest.is_some() {
            // The comma behind a field goes with it.
            for pair in Punctuated::pairs(&e.fields) {
                self.note(e, Form::Inner, &pair, "");
            }
        }
        visit::visit_expr_struct(self, e);
    }
}

/// Operators that take the place of one.
fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Lt(_) => &["==", ">", "<="],
        BinOp::Gt(_) => &["==", "<", ">="],
        BinOp::Le(_) => &[">"],
        BinOp::Ge(_) => &["<"],
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+", "/"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["%", "*"],
        BinOp::Rem(_) => &["/", "+"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::BitAnd(_) => &["|", "^"],
        BinOp::BitOr(_) => &["&", "^"],
        BinOp::BitXor(_) => &["|", "&"],
        BinOp::AddAssign(_) => &["-=", "*="],
        BinOp::SubAssign(_) => &["+=", "/="],
        BinOp::MulAssign(_) => &["+=", "/="],
        BinOp::DivAssign(_) => &["%=", "*="],
        BinOp::RemAssign(_) => &["/=", "+="],
        BinOp::ShlAssign(_) => &[">>="],
        BinOp::ShrAssign(_) => &["<<="],
        BinOp::BitAndAssign(_) => &["|="],
        BinOp::BitOrAssign(_) => &["&="],
        BinOp::BitXorAssign(_) => &["|=", "&="],
        _ => &[],
    }
}
