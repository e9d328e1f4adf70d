use super::*;
use crate::fabric::{Lid, SwitchId, Vl};
use crate::tables::SlVlRow;

fn error(fabric: &Fabric, routes: &Routes, settings: &Settings) -> String {
    let simulation = match Simulation::new(fabric, routes, settings) {
        Err(error) => return error.to_string(),
        Ok(simulation) => simulation,
    };
    simulation.run(Load::Share(0.5), 1).expect_err("it is refused").to_string()
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let fabric = line(3, 2);
    let good = minimal(&fabric);
    let settings = Settings::default();
    let simulation = Simulation::new(&fabric, &good, &settings).unwrap();
    for load in [0.0, -1.0, 1.1, f64::NAN] {
        assert!(matches!(simulation.run(Load::Share(load), 1), Err(SimulateError::Load(_))), "{load}");
    }

    let hosts: Vec<Lid> = fabric.adapters().map(|(_, end)| end.lid).collect();
    let mut hole = good.clone();
    hole.lft.clear(SwitchId(1), hosts[5]);
    let text = error(&fabric, &hole, &settings);
    assert!(
        text.contains(&format!("to LID {}", hosts[5])) && text.contains("'s1'") && text.contains("no entry"),
        "{text}"
    );

    let mut looping = good.clone();
    let back = fabric.channels().out(SwitchId(1)).next().unwrap().1.out_port;
    looping.lft.set(SwitchId(1), hosts[5], back);
    let text = error(&fabric, &looping, &settings);
    assert!(text.contains("it loops"), "{text}");

    let mut dropped = good.clone();
    dropped.sl2vl.set_adapters(SlVlRow::uniform(Vl(15)));
    assert!(error(&fabric, &dropped, &settings).contains("VL 15"));
    let mut dropped = good.clone();
    let (index, len) = (dropped.sl2vl.index(SwitchId(1), PortNum(1), PortNum(2)), dropped.sl2vl.rows().len());
    assert!(index < len);
    dropped.sl2vl.set(SwitchId(1), PortNum(1), PortNum(2), SlVlRow::uniform(Vl(15)));
    let text = error(&fabric, &dropped, &settings);
    assert!(text.contains("SL 0 maps to VL 15 from port 1 to port 2") && text.contains("'s1'"), "{text}");

    let mut unknown = good.clone();
    let lids = fabric.lid_table_len();
    let mut table = vec![0; fabric.endports().len() * lids];
    let (from, _) = fabric.adapters().nth(2).unwrap();
    table[from.index() * lids + hosts[4].index()] = PathSl::UNKNOWN;
    unknown.path_sl = PathSl::ByEndPort(table);
    let text = error(&fabric, &unknown, &settings);
    assert!(
        text.contains("no SL") && text.contains("'h2'") && text.contains(&hosts[4].to_string()),
        "{text}"
    );
    let forced = Settings { sl: Some(Sl(0)), ..settings.clone() };
    assert!(Simulation::new(&fabric, &unknown, &forced).is_ok());

    let small =
        Settings { model: Model { buffer: Room::PerPort(20), ..Model::default() }, ..settings.clone() };
    let text = error(&fabric, &good, &small);
    assert!(text.contains("input buffer has 20 credits") && text.contains("takes 32"), "{text}");
    let large = Settings { model: Model { packet: 5000, ..Model::default() }, ..settings.clone() };
    assert!(error(&fabric, &good, &large).contains("5000"));

    for (traffic, word) in
        [("incast:6", "1 to 5"), ("incast:0", "1 to 5"), ("hotspot:6:10", "6 hosts"), ("shift:6", "shift:6")]
    {
        let settings = Settings { traffic: traffic.parse().unwrap(), ..settings.clone() };
        let text = error(&fabric, &good, &settings);
        assert!(text.contains(word), "{traffic}: {text}");
    }
    for bad in ["", "unifrom", "shift", "shift:x", "hotspot:1", "hotspot:1:101", "hotspot:1:-1", "cycle:1"] {
        let text = bad.parse::<Traffic>().expect_err(bad).to_string();
        assert!(text.contains(&format!("'{bad}'")) && text.contains("hotspot:N:PERCENT"), "{text}");
    }
    let itself = Settings { traffic: Traffic::Pairs(vec![(1, 1)]), ..settings.clone() };
    assert!(error(&fabric, &good, &itself).contains("itself"));
    let empty = Settings { traffic: Traffic::Pairs(Vec::new()), ..settings };
    assert!(error(&fabric, &good, &empty).contains("no pair"));
}

#[test]
fn a_run_stops_when_it_is_told() {
    let fabric = line(3, 2);
    let routes = minimal(&fabric);
    let settings = Settings { time: Some(u64::MAX), ..Settings::default() };
    let simulation = Simulation::new(&fabric, &routes, &settings).unwrap();
    let asked = std::cell::Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() == 3
    };
    assert_eq!(simulation.run_until(Load::Share(0.5), 1, &stop), Err(SimulateError::Interrupted));
}
