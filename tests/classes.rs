//! Classes of service, and destinations spread over unused VLs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock};

use dfdn::engine::{EngineError, Routed, Settings, route};
use dfdn::fabric::{Fabric, PortNum, Sl, Vl};
use dfdn::formats;
use dfdn::tables::{PathSl, Routes, SlVlRow};
use dfdn::topology::{Dragonfly, Ring, small_members};
use dfdn::verify::{SlPolicy, verify, verify_with};

use crate::engines::with_lmc;

const FAMILIES: [&str; 5] = ["dfdn", "dfd2", "dfdn-paper", "updn-trees", "bfot"];

fn settings(engine: &str, classes: u8, spread: bool) -> Settings {
    Settings { engine: engine.to_owned(), vls: Some(8), classes, spread, ..Settings::default() }
}

/// A small fabric, routed by an engine with 8 VLs for a number of classes, spread or not.
struct Case {
    label: String,
    fabric: Arc<Fabric>,
    settings: Settings,
    routed: Routed,
}

/// Every fabric, engine, number of classes and choice of spreading that can be routed.
fn cases() -> &'static [Case] {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
        let mut cases = Vec::new();
        for (name, fabric) in small_members() {
            let fabric = Arc::new(with_lmc(&fabric, 1));
            for engine in FAMILIES {
                for (classes, spread) in (1..=4).flat_map(|n| [(n, false), (n, true)]) {
                    let settings = settings(engine, classes, spread);
                    if let Ok(routed) = route(&fabric, &settings) {
                        let label = format!("{engine} on {name}, {classes} classes, {spread}");
                        cases.push(Case { label, fabric: fabric.clone(), settings, routed });
                    }
                }
            }
        }
        cases
    });
    &CASES
}

/// The VLs that each SL has in any row between switches, as a set.
fn vls_by_sl(fabric: &Fabric, routes: &Routes) -> [u16; Sl::COUNT] {
    let mut vls = [0; Sl::COUNT];
    for (_, c) in fabric.channels().iter() {
        for inp in 0..routes.sl2vl.ports_of(c.from) {
            let row = routes.sl2vl.row(c.from, PortNum(inp as u8), c.out_port);
            for (set, vl) in vls.iter_mut().zip(row.vls()) {
                *set |= 1 << vl.0;
            }
        }
    }
    vls
}

#[test]
fn no_sl_leads_onto_the_vls_of_another_class() {
    let mut spread_over = BTreeSet::new();
    for Case { label, fabric, settings, routed } in cases() {
        let parts = routed.classes;
        assert_eq!(parts.classes, settings.classes, "{label}");
        assert!(parts.vl_sets == 1 || settings.spread, "{label}");
        assert!(parts.blocks() * parts.vls <= 8 && parts.blocks() * parts.sls <= 16, "{label}");
        // The VLs that remain after spreading are too few for another VL set.
        if settings.spread {
            let vls_left = 8 / parts.classes - parts.vl_sets * parts.vls < parts.vls;
            let sls_left = 16 / parts.classes - parts.vl_sets * parts.sls < parts.sls;
            assert!(vls_left || sls_left, "{label}: {parts:?}");
            spread_over.insert(parts.vl_sets);
        }
        let vls = vls_by_sl(fabric, &routed.routes);
        for a in 0..Sl::COUNT {
            assert_ne!(vls[a], 0, "{label}");
            for b in
                (0..Sl::COUNT).filter(|b| b % usize::from(parts.classes) != a % usize::from(parts.classes))
            {
                assert_eq!(vls[a] & vls[b], 0, "{label}: SLs {a} and {b} meet");
            }
        }
        let used = vls.iter().fold(0, |all, set| all | set);
        assert_eq!(
            u32::from(parts.blocks() * parts.vls),
            16 - used.leading_zeros(),
            "{label}: no VL is skipped"
        );
        assert_eq!(
            routed.routes.vlarb.low.len(),
            usize::from(parts.blocks() * parts.vls),
            "{label}: all have a turn"
        );
        // Adapters separate classes too, even those with four VLs, on VLs that arbitration serves.
        let at_adapters = routed.routes.sl2vl.adapters().vls();
        let distinct = |kept: u8| at_adapters.iter().map(|vl| vl.0 & kept).collect::<BTreeSet<u8>>();
        assert!(distinct(15).iter().all(|&vl| vl < parts.blocks() * parts.vls), "{label}");
        assert_eq!(distinct(15).len() == 1, parts.blocks() == 1, "{label}");
        for (a, b) in (0..Sl::COUNT).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let of_one_class = (a - b) % usize::from(parts.classes) == 0;
            assert!(of_one_class || at_adapters[a].0 & 3 != at_adapters[b].0 & 3, "{label}: SLs {a} and {b}");
        }
        if parts.blocks() > 1 {
            for (s, out) in fabric.adapters().filter_map(|(_, e)| e.attachment) {
                let row = routed.routes.sl2vl.row(s, PortNum(0), out);
                assert_eq!(row.vls(), at_adapters, "{label}: the same in both directions");
            }
        }
    }
    assert!(spread_over.contains(&1) && spread_over.contains(&8), "{spread_over:?}");
}

#[test]
fn a_class_is_what_the_engine_makes_of_its_share() {
    for Case { label, fabric, settings, routed } in cases() {
        let parts = routed.classes;
        let share = Settings {
            vls: Some(8 / settings.classes),
            sls: 16 / settings.classes,
            classes: 1,
            spread: false,
            ..settings.clone()
        };
        let alone = route(fabric, &share).expect("one class is routed alone");
        assert!(routed.routes.lft == alone.routes.lft, "{label}: the paths are the same");
        let (whole, one) = (&routed.verdict, &alone.verdict);
        assert_eq!(whole.vls_all, u32::from(parts.blocks()) * one.vls_all, "{label}");
        let (least, most) = (u32::from(parts.classes) * one.sls_all, u32::from(parts.blocks()) * one.sls_all);
        assert!((least..=most).contains(&whole.sls_all), "{label}: {} SLs", whole.sls_all);
        assert_eq!(whole.virtual_channels, usize::from(parts.blocks()) * one.virtual_channels, "{label}");
        assert_eq!(whole.dependencies, usize::from(parts.blocks()) * one.dependencies, "{label}");
    }
}

/// The SL assigned to a sender for each requested SL, by the documented rule.
#[test]
fn every_wish_is_answered_within_its_class_and_safely() {
    for Case { label, fabric, settings, routed } in cases() {
        let (parts, table) = (routed.classes, &routed.routes.path_sl);
        let switches = fabric.num_switches();
        let mut told = BTreeSet::new();
        for (source, from) in fabric.adapters() {
            let (on, _) = from.attachment.expect("all are cabled");
            for lid in fabric.adapters().flat_map(|(_, to)| to.lids()) {
                let allowed = table.allowed(fabric, source, lid);
                let answers: Vec<u8> = (0..16)
                    .map(|wish| table.path_record_sl(switches, on, lid, Sl(wish)).expect("our tables know").0)
                    .collect();
                for (wish, &answer) in answers.iter().enumerate() {
                    assert_eq!(answer % parts.classes, wish as u8 % parts.classes, "{label}");
                    assert_ne!(allowed & 1 << answer, 0, "{label}: SL {answer} is not safe");
                }
                assert_eq!(table.get(fabric, source, lid).0, answers[0], "{label}");
                if table.any().is_some() {
                    // Any SL is granted, except those that name a class when destinations are
                    // spread.
                    let named = if parts.vl_sets > 1 { parts.classes } else { 0 };
                    assert!((named..16).all(|wish| answers[usize::from(wish)] == wish), "{label}");
                }
                told.insert(parts.block_of(Sl(answers[0])).0);
            }
        }
        if fabric.adapters().count() >= 16 {
            assert_eq!(told.len(), usize::from(parts.vl_sets), "{label}: all VL sets are used");
        }
        assert!(settings.classes > 1 || settings.spread || !matches!(table, PathSl::Classes(_)), "{label}");
    }
}

#[test]
fn where_one_sl_suffices_every_sl_is_safe_whatever_the_classes() {
    let mut one_sl = 0;
    for Case { label, fabric, routed, .. } in cases() {
        if routed.routes.path_sl.any().is_some() {
            one_sl += 1;
            for policy in [SlPolicy::Any, SlPolicy::WithReplies] {
                assert!(verify_with(fabric, &routed.routes, policy).is_safe(), "{label}, {policy:?}");
            }
        }
    }
    assert!(one_sl > 200, "{one_sl}");
}

/// The judge detects a case that the proof excludes: two blocks that share VLs.
#[test]
fn blocks_that_meet_are_found_out() {
    let fabric = Ring { switches: 7, cas: 1 }.build().expect("a ring");
    let Routed { routes, classes, .. } =
        route(&fabric, &settings("dfdn-paper", 2, false)).expect("it is routed");
    assert!(verify(&fabric, &routes).is_safe() && classes.vls > 1);
    let mut meets = routes;
    for row in meets.sl2vl.rows_mut() {
        // VLs rotate: the second VL of class 0 becomes the first, and so on. So a VL descends along a path.
        let vls = row.vls().map(|vl| if vl.0 < classes.vls { Vl((vl.0 + 1) % 2) } else { vl });
        *row = SlVlRow::from_vls(vls);
    }
    assert!(!verify(&fabric, &meets).deadlock_free);
}

#[test]
fn too_many_classes_are_refused_with_how_many_fit() {
    let mut numbers = 0;
    for (name, fabric) in small_members() {
        for engine in FAMILIES {
            for vls in [1, 3, 8] {
                let of = |classes| Settings { vls: Some(vls), ..settings(engine, classes, false) };
                let routed: Vec<_> = (1..=9).map(|classes| route(&fabric, &of(classes))).collect();
                for (classes, result) in (1..=9).zip(&routed).skip(1) {
                    let label = format!("{engine} on {name}, {classes} classes of {vls} VLs");
                    let Err(error) = result else { continue };
                    let text = error.to_string();
                    let EngineError::Classes { fit, takes, limits, part, .. } = error else {
                        // Then even one class does not fit.
                        let one = routed[0].as_ref().err().map(ToString::to_string);
                        assert_eq!(one, Some(text), "{label}");
                        continue;
                    };
                    numbers += 1;
                    assert!(*fit >= 1 && *fit < classes, "{label}: {text}");
                    assert_eq!(
                        (limits.vls, part.vls, part.sls),
                        (vls, vls / classes, 16 / classes),
                        "{label}"
                    );
                    let fits = routed[usize::from(*fit) - 1].as_ref().expect(&label);
                    assert_eq!(
                        (fits.classes.vls, fits.classes.sls),
                        (takes.vls, takes.sls),
                        "{label}: {text}"
                    );
                    assert!(text.contains(&format!("Set classes to at most {fit}")), "{text}");
                    let more = usize::from(*fit)..usize::from(classes) - 1;
                    assert!(routed[more].iter().all(Result::is_err), "{label}");
                }
            }
        }
    }
    assert!(numbers > 100, "{numbers}");
}

#[test]
fn classes_are_written_and_read_again() {
    let fabric = Dragonfly::balanced(1).build().expect("a Dragonfly");
    for (engine, spread) in [("dfdn", false), ("dfdn", true), ("dfdn-paper", false), ("updn-trees", true)] {
        let Routed { routes, verdict, classes, .. } =
            route(&fabric, &settings(engine, 2, spread)).expect("it is routed");
        let folder = tempfile::tempdir().expect("a temporary folder");
        formats::write_tables(folder.path(), &fabric, &routes, formats::WriteOptions::default())
            .expect("a folder");
        let (fabric, back) = formats::load_tables(folder.path(), fabric.clone()).expect("the tables load");
        let judged = verify(&fabric, &back);
        assert!(judged.is_safe(), "{engine}");
        // Rows of ports without a cable are not in the file.
        for (_, into) in fabric.channels().iter() {
            for (_, out) in fabric.channels().out(into.to) {
                let row = |routes: &Routes| routes.sl2vl.row(into.to, into.in_port, out.out_port);
                assert_eq!(row(&back), row(&routes), "{engine}");
            }
        }
        let psl = folder.path().join("psl");
        if routes.path_sl.is_zero() {
            assert!(!psl.exists() && back.path_sl == PathSl::Any(0xffff), "{engine}");
            assert_eq!(judged.vls_all, verdict.vls_all, "{engine}");
            continue;
        }
        for (source, _) in fabric.adapters() {
            for lid in fabric.adapters().flat_map(|(_, to)| to.lids()) {
                let (read, wrote) = (
                    back.path_sl.assigned_sls(&fabric, source, lid),
                    routes.path_sl.assigned_sls(&fabric, source, lid),
                );
                assert_eq!(read, wrote, "{engine}");
                assert_eq!(wrote.count_ones(), 2, "one SL for each class");
            }
        }
        assert_eq!(
            (judged.sls_all, judged.vls),
            (verdict.sls_all, u32::from(classes.blocks() * classes.vls)),
            "{engine}"
        );
        // An SL of class 1 although only class 0 is allowed, and an invalid number of classes.
        let text = fs::read_to_string(&psl).expect("psl is read");
        for (from, to, place) in
            [("classes 2", "classes two", "line 1:"), (" 0\n", " 1\n", "is not of class 0")]
        {
            fs::write(&psl, text.replacen(from, to, 1)).expect("psl is written");
            let error =
                formats::load_tables(folder.path(), fabric.clone()).expect_err("a slip in psl").to_string();
            assert!(error.contains("psl") && error.contains(place), "{error}");
        }
        // An SL whose class 2 would be SL 17, and numbers of classes that contradict each other.
        let pair = text.lines().nth(1).and_then(|line| line.rsplit_once(' ')).expect("a pair").0;
        for (text, place) in [
            (format!("# dfdn classes 3\n{pair} 15\n"), "line 2: SL 15 is not of class 0 of 3"),
            (format!("# dfdn classes 3\n# dfdn classes 3\n{pair} 3\n"), "line 2: the number of classes"),
            (format!("{pair} 3\n# dfdn classes 3\n"), "line 2: the number of classes"),
            (format!("# dfdn classes 16\n{pair} 0\n"), "line 1:"),
        ] {
            fs::write(&psl, &text).expect("psl is written");
            let error = formats::load_tables(folder.path(), fabric.clone()).expect_err(&text).to_string();
            assert!(error.contains(place), "{error}");
        }
    }
}

fn dfdn(folder: &Path, words: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dfdn"));
    let output = command.args(words.split_whitespace()).current_dir(folder).output().expect("dfdn starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_command_says_what_each_class_has() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |words: &str| dfdn(folder.path(), words);
    assert_eq!(run("generate dragonfly --p 2 -o fabric.net").0, Some(0));
    for (words, [classes, vls_per_class, sls_per_class, vl_sets, vls, sls]) in [
        ("", [1, 2, 1, 1, 2, 1]),
        ("--classes 4", [4, 2, 1, 1, 8, 4]),
        ("--classes 2 --spread", [2, 4, 2, 2, 8, 4]),
        ("--spread --sls 3", [1, 6, 3, 3, 6, 3]),
        ("--classes 2 --engine dfdn-paper", [2, 3, 5, 1, 6, 8]),
        ("--classes 3 --spread --vls 15 --engine updn-trees", [3, 4, 4, 2, 12, 12]),
    ] {
        let (code, out, err) = run(&format!("route fabric.net --json {words}"));
        assert_eq!(code, Some(0), "{words}: {err}");
        let value: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        for (key, wanted) in [
            ("classes", classes),
            ("vls_per_class", vls_per_class),
            ("sls_per_class", sls_per_class),
            ("ways", vl_sets),
            ("vls", vls),
            ("sls", sls),
        ] {
            assert_eq!(value[key], wanted, "{words}: {key}");
        }
    }
    let (_, out, _) = run("route fabric.net --classes 3");
    assert!(
        out.contains("3 classes of service, 2 VLs and 1 SL for each class: SL n is of class n modulo 3"),
        "{out}"
    );
    let (_, out, _) = run("route fabric.net --classes 3 --spread");
    assert!(out.contains("no VLs are left over to spread destinations on"), "{out}");
    for (words, reason) in [
        (
            "--classes 5",
            "5 classes of service are too many: each has 1 VL and 3 SLs of the 8 VLs and 16 SLs offered, \
                         which does not suffice",
        ),
        ("--classes 5", "Set classes to at most 4, of which each takes 2 VLs and 1 SL"),
        (
            "--classes 5 --engine dfdn-paper --vls 15",
            "each has 3 VLs and 3 SLs of the 15 VLs and 16 SLs offered, which does not suffice. Set classes to at \
             most 4, of which each takes 3 VLs and 4 SLs",
        ),
        (
            "--classes 3 --sls 2",
            "each has 2 VLs and 0 SLs of the 8 VLs and 2 SLs offered, which does not suffice",
        ),
        ("--classes 0", "invalid value '0' for '--classes <N>': '0' is not 1 to 15"),
        ("--classes 16", "invalid value '16' for '--classes <N>': '16' is not 1 to 15"),
    ] {
        let (code, out, err) = run(&format!("route fabric.net {words}"));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{words}");
        assert!(err.contains(reason), "{words}: {err}");
    }
    // The number that an engine reports as needed may be far above the minimum; only the number that fits is
    // reported.
    assert_eq!(run("generate random --switches 64 --degree 4 --cas 2 -o sparse.net").0, Some(0));
    let err = run("route sparse.net --classes 4").2;
    assert!(
        err.contains("at most 2, of which each takes 4 VLs and 5 SLs") && !err.contains("24 VLs"),
        "{err}"
    );
}
