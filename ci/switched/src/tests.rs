use crate::mutants::{Mutant, mutants};
use crate::switched::Switched;

/// The mutants of a text, in words, and the switched text; numbers count from 1.
fn switched(text: &str) -> (Vec<String>, Switched) {
    let found = mutants(text);
    let numbered: Vec<(usize, &Mutant)> = (1..).zip(&found).collect();
    (found.iter().map(|m| m.describe(text)).collect(), Switched::new(text, &numbered))
}

#[test]
fn changed_code_is_there_twice() {
    let (found, switched) = switched("fn f(a: u8) -> bool {\n    a == 1 && !g(a)\n}");
    let names = [
        "f: [body -> true]",
        "f: [body -> false]",
        "f: a == 1 [&& -> ||] !g(a)",
        "f: a [== -> !=] 1 && !g(a)",
        "f: a == 1 && [! -> ]g(a)",
    ];
    assert_eq!(found, names);
    let (and, equal, not) = (
        "if crate::mutant(3) { a == 1 || !g(a) } else",
        "(if crate::mutant(4) { a != 1 } else { a == 1 })",
        "(if crate::mutant(5) { g(a) } else { !g(a) })",
    );
    let bodies = "if crate::mutant(1) { return true; } if crate::mutant(2) { return false; }";
    let whole = format!("fn f(a: u8) -> bool {{ {bodies} {{ {{\n    ({and} {{ {equal} && {not} }})\n}} }}}}");
    assert_eq!(switched.text, whole);
    let at = |text: &str| switched.text.find(text).expect("it is there");
    assert_eq!(switched.blamed(at("!= 1")), [4]);
    assert_eq!(switched.blamed(at("g(a) } else { !g(a) }")), [5]);
    assert_eq!(switched.blamed(at("a == 1 })")), [4], "code that no mutant changed is that of its site");
    assert!(switched.blamed(0).is_empty());
}

#[test]
fn a_match_without_an_arm_stays_a_statement() {
    let text = "fn f(a: u8) {\nmatch a { 1 if g() => h(), 2 => (), _ => i() }\nj(); }";
    let (found, switched) = switched(text);
    let names = [
        "f: [body -> ()]",
        "f: match a { [1 if g() => h(), -> ] 2 => (), _ => i() }",
        "f: match a { 1 if g() => h(), [2 => (), -> ] _ => i() }",
        "f: match a { 1 if [g() -> true] => h(), 2 => (), _ => i() }",
        "f: match a { 1 if [g() -> false] => h(), 2 => (), _ => i() }",
    ];
    assert_eq!(found, names);
    assert!(switched.text.contains("{\nif crate::mutant(2) { match a {  2 => (), _ => i() } } else"));
    assert!(
        switched
            .text
            .contains("1 if (if crate::mutant(4) { true } else if crate::mutant(5) { false }")
    );
    assert!(syn::parse_file(&switched.text).is_ok());
}

#[test]
fn tests_and_what_is_no_rust_are_not_changed() {
    let none =
        ["#[cfg(test)] mod tests { fn f() -> u8 { 1 + 1 } }", "fn f() {}", "const fn f<'a>() -> &'a X { x }"];
    assert_eq!(none.map(|text| switched(text).0.len()), [0, 0, 1]);
    // `a as u8 < b` would be the type u8<b>.
    assert_eq!(switched("struct S; impl S { fn f() { a as u8 > b; } }").0.len(), 3);
}

#[test]
fn values_fit_the_return_type() {
    let values = |output: &str| -> Vec<String> {
        let found = switched(&format!("fn f() -> {output} {{ g() }}")).0;
        found.iter().map(|name| name["f: [body -> ".len()..name.len() - 1].to_owned()).collect()
    };
    assert_eq!(values("Option<u8>"), ["None", "Some(0)", "Some(1)"]);
    assert_eq!(values("Result<(), E>"), ["Ok(())"]);
    assert_eq!(values("Vec<Own>"), ["vec![]", "vec![Default::default()]"]);
    assert_eq!(values("&[u8]"), ["Vec::leak(vec![])", "Vec::leak(vec![0])", "Vec::leak(vec![1])"]);
    assert_eq!(values("(bool, f64)").len(), 6);
    assert_eq!(values("impl Iterator<Item = u8>"), ["std::iter::empty()"]);
    assert!(values("impl Fn()").is_empty());
}
