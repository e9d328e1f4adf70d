//! The plan of a change as JSON, as `dfdn reconfigure` writes it: `{"steps": [{"lft": [["0x…", LID, port]…],
//! "sl2vl": [["0x…", in port, out port, "16 hex digits"]…], "mcast": [["0x…", MLID, [ports]]…]}],
//! "path_sl": [SLs], "path_lids": "lower" or "upper", "drain": [[from, to]…]}…], "failed": [["0x…", port]…]}`: what to program step by step, and the ports that have lost their cable. Switches are
//! stated by GUID. Port 255 drops the packets of an entry. In a row, the VL of SL 0 comes first. In `drain`, `from` and
//! `to` are virtual channels, `["0x…", port, VL]`, and `null` is the subnet manager. Other fields are
//! for people and are not read.

use std::io::BufRead;

use serde::Deserialize;
use serde_json::{Value, json};

use super::FormatError;
use super::lines::guid;
use crate::fabric::{Guid, PortNum};
use crate::tables::{Drain, HostPaths, Plan, PortSet, SlVlRow, Step, VirtualChannel};

#[derive(Deserialize)]
struct Document {
    steps: Vec<Written>,
    #[serde(default)]
    failed: Vec<(String, u8)>,
}

#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    lft: Vec<(String, u16, u8)>,
    #[serde(default)]
    sl2vl: Vec<(String, u8, u8, String)>,
    #[serde(default)]
    mcast: Vec<(String, u16, Vec<u8>)>,
    path_sl: Option<Vec<u8>>,
    path_lids: Option<String>,
    #[serde(default)]
    drain: Vec<[Option<(String, u8, u8)>; 2]>,
}

/// Reads a plan.
///
/// # Errors
/// Text that is not such an object, a GUID, MLID or row that is none.
pub fn read(input: impl BufRead) -> Result<Plan, FormatError> {
    let document: Document = serde_json::from_reader(input).map_err(|e| {
        FormatError::new(e.line(), e.to_string()).hint("a plan is what 'dfdn reconfigure -o' writes")
    })?;
    let steps = document.steps.into_iter().enumerate().map(|(i, step)| {
        read_step(step).map_err(|reason| FormatError::new(0, format!("step {}: {reason}", i + 1)))
    });
    let steps = steps.collect::<Result<_, _>>()?;
    let failed = document.failed.into_iter().map(|(at, port)| Ok((switch(&at)?, port)));
    let failed = failed.collect::<Result<_, String>>().map_err(|reason| FormatError::new(0, reason))?;
    Ok(Plan { steps, failed })
}

fn switch(text: &str) -> Result<Guid, String> {
    guid(text).ok_or_else(|| format!("'{text}' is not a GUID as 0x and hex digits"))
}

fn read_step(written: Written) -> Result<Step, String> {
    let mut step = Step::default();
    for (at, lid, port) in written.lft {
        step.lft.push((switch(&at)?, lid, port));
    }
    for (at, i, o, row) in written.sl2vl {
        let row_of = |row: &str| u64::from_str_radix(row, 16).ok().filter(|_| row.len() == 16);
        let row = row_of(&row).ok_or_else(|| format!("'{row}' is not a row of 16 hex digits"))?;
        step.sl2vl.push((switch(&at)?, i, o, SlVlRow(row)));
    }
    for (at, mlid, ports) in written.mcast {
        if !(0xc000..=0xfffe).contains(&mlid) {
            return Err(format!("{mlid} is not a multicast LID"));
        }
        let mut set = PortSet::default();
        ports.into_iter().for_each(|port| set.insert(PortNum(port)));
        step.mcast.push((switch(&at)?, mlid, set));
    }
    step.paths = read_paths(written.path_sl, written.path_lids)?;
    let lane = |lane: Option<(String, u8, u8)>| -> Result<Option<VirtualChannel>, String> {
        lane.map(|(at, port, vl)| Ok((switch(&at)?, port, vl))).transpose()
    };
    let hops = written.drain.into_iter().map(|[from, to]| Ok((lane(from)?, lane(to)?)));
    step.drain = Drain { hops: hops.collect::<Result<_, String>>()? };
    if step.drain.order().is_none() {
        return Err("the control packets of 'drain' go round in a cycle".to_owned());
    }
    Ok(step)
}

fn read_paths(sls: Option<Vec<u8>>, lids: Option<String>) -> Result<Option<HostPaths>, String> {
    let (sls, lids) = match (sls, lids) {
        (None, None) => return Ok(None),
        (Some(sls), Some(lids)) => (sls, lids),
        _ => return Err("'path_sl' and 'path_lids' belong together".to_owned()),
    };
    let upper = match &*lids {
        "lower" => false,
        "upper" => true,
        other => return Err(format!("'path_lids' is 'lower' or 'upper', not '{other}'")),
    };
    if sls.is_empty() || sls.iter().any(|&sl| sl > 15) {
        return Err("'path_sl' is a list of SLs from 0 to 15".to_owned());
    }
    Ok(Some(HostPaths { sls: sls.iter().fold(0, |set, sl| set | 1 << sl), upper }))
}

/// The field `failed` as JSON.
pub fn failed(plan: &Plan) -> Value {
    plan.failed.iter().map(|(s, port)| json!([s.to_string(), port])).collect()
}

/// A step as JSON.
pub fn step(step: &Step) -> Value {
    let ports = |set: &PortSet| set.iter().map(|port| port.0).collect::<Vec<_>>();
    let mut value = json!({
        "lft": step.lft.iter().map(|(s, lid, port)| json!([s.to_string(), lid, port])).collect::<Vec<_>>(),
        "sl2vl": step.sl2vl.iter()
            .map(|(s, i, o, row)| json!([s.to_string(), i, o, format!("{:016x}", row.0)]))
            .collect::<Vec<_>>(),
        "mcast": step.mcast.iter()
            .map(|(s, mlid, set)| json!([s.to_string(), mlid, ports(set)]))
            .collect::<Vec<_>>(),
    });
    if let Some(paths) = step.paths {
        value["path_sl"] = (0..16_u8).filter(|sl| paths.sls >> sl & 1 != 0).collect();
        value["path_lids"] = if paths.upper { "upper" } else { "lower" }.into();
    }
    if let Some(size) = step.drain.size().filter(|_| !step.drain.is_empty()) {
        let lane = |lane: Option<VirtualChannel>| lane.map(|(s, port, vl)| json!([s.to_string(), port, vl]));
        value["drain"] = step.drain.hops.iter().map(|&(from, to)| json!([lane(from), lane(to)])).collect();
        value["control_packets"] = size.control_packets.into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let mut ports = PortSet::default();
        [0, 7, 200].map(PortNum).into_iter().for_each(|port| ports.insert(port));
        let lanes = [(Guid(3), 1, 2), (Guid(u64::MAX), 255, 14), (Guid(4), 1, 0)];
        let written = Step {
            lft: vec![(Guid(0x10), 5, 255), (Guid(u64::MAX), 0xbfff, 1)],
            sl2vl: vec![(Guid(1), 0, 254, SlVlRow(0x0123_4567_89ab_cdef))],
            mcast: vec![(Guid(2), 0xc000, ports), (Guid(2), 0xc001, PortSet::default())],
            paths: Some(HostPaths { sls: 0xff00, upper: true }),
            drain: Drain::along(&lanes, [(lanes[0], lanes[1])]),
        };
        let plan = Plan { steps: vec![written, Step::default()], failed: vec![(Guid(3), 4)] };
        let steps: Vec<Value> = plan.steps.iter().map(step).collect();
        let text = json!({ "proven": true, "steps": steps, "failed": failed(&plan) });
        assert_eq!(read(text.to_string().as_bytes()).unwrap(), plan);
    }

    #[test]
    fn bad_plans_are_refused() {
        for (text, said) in [
            ("{}", "missing field `steps`"),
            (r#"{"steps": [{"lft": [["x", 1, 1]]}]}"#, "step 1: 'x' is not a GUID"),
            (r#"{"steps": [{}, {"sl2vl": [["0x1", 1, 1, "12"]]}]}"#, "step 2: '12' is not a row"),
            (r#"{"steps": [{"mcast": [["0x1", 1, []]]}]}"#, "step 1: 1 is not a multicast LID"),
            (r#"{"steps": [{"lft": [["0x1", 1, 256]]}]}"#, "256"),
            (r#"{"steps": [{"path_sl": [1]}]}"#, "step 1: 'path_sl' and 'path_lids' belong together"),
            (r#"{"steps": [{"path_sl": [16], "path_lids": "upper"}]}"#, "step 1: 'path_sl' is a list of SLs"),
            (r#"{"steps": [{"path_sl": [1], "path_lids": "both"}]}"#, "step 1: 'path_lids' is 'lower' or"),
            (r#"{"steps": [{"drain": [[["0x1", 1, 0], ["0x1", 1, 0]]]}]}"#, "step 1: the control packets"),
        ] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
