//! The plan of a change as JSON, as `dfdn reconfigure` writes it: `{"steps": [{"lft": [["0x…", LID, port]…],
//! "sl2vl": [["0x…", in port, out port, "16 hex digits"]…], "mcast": [["0x…", MLID, [ports]]…]}],
//! "failed": [["0x…", port]…]}`: what to program step by step, and the ports that have lost their cable. Switches are
//! stated by GUID. Port 255 drops the packets of an entry. In a row, the VL of SL 0 comes first. Other fields are
//! for people and are not read.

use std::io::BufRead;

use serde::Deserialize;
use serde_json::{Value, json};

use super::FormatError;
use super::lines::guid;
use crate::fabric::{Guid, PortNum};
use crate::tables::{Plan, PortSet, SlVlRow, Step};

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
    Ok(step)
}

/// The field `failed` as JSON.
pub fn failed(plan: &Plan) -> Value {
    plan.failed.iter().map(|(s, port)| json!([s.to_string(), port])).collect()
}

/// A step as JSON.
pub fn step(step: &Step) -> Value {
    let ports = |set: &PortSet| set.iter().map(|port| port.0).collect::<Vec<_>>();
    json!({
        "lft": step.lft.iter().map(|(s, lid, port)| json!([s.to_string(), lid, port])).collect::<Vec<_>>(),
        "sl2vl": step.sl2vl.iter()
            .map(|(s, i, o, row)| json!([s.to_string(), i, o, format!("{:016x}", row.0)]))
            .collect::<Vec<_>>(),
        "mcast": step.mcast.iter()
            .map(|(s, mlid, set)| json!([s.to_string(), mlid, ports(set)]))
            .collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let mut ports = PortSet::default();
        [0, 7, 200].map(PortNum).into_iter().for_each(|port| ports.insert(port));
        let written = Step {
            lft: vec![(Guid(0x10), 5, 255), (Guid(u64::MAX), 0xbfff, 1)],
            sl2vl: vec![(Guid(1), 0, 254, SlVlRow(0x0123_4567_89ab_cdef))],
            mcast: vec![(Guid(2), 0xc000, ports), (Guid(2), 0xc001, PortSet::default())],
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
        ] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
