//! Values that a function may return instead of its own.

use syn::{GenericArgument, PathArguments, ReturnType, Type, TypeParamBound, TypePath};

/// Expressions of a return type. Some may not compile: they are guesses from the type's name.
pub(crate) fn values(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".to_owned()],
        ReturnType::Type(_, t) => of(t),
    }
}

/// Whether the return type is `impl Iterator`, with which no other type fits.
pub(crate) fn returns_iterator(output: &ReturnType) -> bool {
    let ReturnType::Type(_, t) = output else { return false };
    let Type::ImplTrait(t) = &**t else { return false };
    let is_iterator = |name: &syn::PathSegment| name.ident == "Iterator";
    t.bounds
        .iter()
        .any(|b| matches!(b, TypeParamBound::Trait(b) if b.path.segments.last().is_some_and(is_iterator)))
}

fn of(t: &Type) -> Vec<String> {
    let list = |values: &[&str]| values.iter().map(|&v| v.to_owned()).collect();
    match t {
        Type::Path(path) => of_path(path),
        Type::Tuple(tuple) => tuple.elems.iter().fold(vec![String::new()], |all, t| {
            all.iter().flat_map(|head| of(t).into_iter().map(move |v| format!("{head}{v}, "))).collect()
        }),
        Type::Array(array) => {
            of(&array.elem).iter().map(|v| format!("std::array::from_fn(|_| {v})")).collect()
        }
        Type::Reference(r) => match &*r.elem {
            Type::Path(path) if path.path.is_ident("str") => list(&["\"\"", "\"xyzzy\""]),
            Type::Slice(slice) => vectors(&slice.elem).iter().map(|v| format!("Vec::leak({v})")).collect(),
            t => of(t).iter().map(|v| format!("Box::leak(Box::new({v}))")).collect(),
        },
        Type::Never(_) | Type::ImplTrait(_) => Vec::new(),
        _ => list(&["Default::default()"]),
    }
    .into_iter()
    .map(|v| if matches!(t, Type::Tuple(_)) { format!("({v})") } else { v })
    .collect()
}

fn vectors(element: &Type) -> Vec<String> {
    let one = of(element).into_iter().map(|v| format!("vec![{v}]"));
    std::iter::once("vec![]".to_owned()).chain(one).collect()
}

fn of_path(t: &TypePath) -> Vec<String> {
    let Some(last) = t.path.segments.last() else { return Vec::new() };
    let inner: Vec<&Type> = match &last.arguments {
        PathArguments::AngleBracketed(list) => list
            .args
            .iter()
            .filter_map(|a| if let GenericArgument::Type(t) = a { Some(t) } else { None })
            .collect(),
        _ => Vec::new(),
    };
    let wrapped = |with: &str| -> Vec<String> {
        let values = inner.first().map_or(Vec::new(), |t| of(t));
        values.into_iter().map(|v| format!("{with}({v})")).collect()
    };
    let list = |values: &[&str]| values.iter().map(|&v| v.to_owned()).collect();
    match last.ident.to_string().as_str() {
        "bool" => list(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => list(&["0", "1"]),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => list(&["0", "1", "-1"]),
        "f32" | "f64" => list(&["0.0", "1.0", "-1.0"]),
        "String" => list(&["String::new()", "\"xyzzy\".into()"]),
        "Option" => [vec!["None".to_owned()], wrapped("Some")].concat(),
        "Result" => wrapped("Ok"),
        "Box" | "Arc" | "Rc" => wrapped(&format!("{}::new", last.ident)),
        "Vec" => inner.first().map_or(Vec::new(), |t| vectors(t)),
        _ => list(&["Default::default()"]),
    }
}
