//! `events`: what a container uses, once or again and again.

use std::ffi::OsString;
use std::time::Duration;

use berth_cgroup::Stats;
use serde_json::{Value, json};

use super::container::{Container, Status};
use super::flags::Flag;
use super::{Global, OciError, flags};

const FLAGS: &[Flag] = &[Flag::switch("stats", ""), Flag::value("interval", "")];

pub(crate) fn main(global: &Global, args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(FLAGS, args)?;
    let container = Container::load(global, flags.sole_id()?)?;
    container.must_be(&[Status::Running, Status::Created, Status::Paused])?;
    let cgroup = container.cgroup()?;
    let id = &container.record.id;
    if flags.is_set("stats") {
        println!("{}", event(id, "stats", shown(&cgroup.stats())));
        return Ok(());
    }
    let interval = seconds(flags.value("interval").unwrap_or("5s"))?;
    let mut killed = cgroup.oom_kills().unwrap_or(0);
    while container.status() != Status::Stopped {
        let now = cgroup.oom_kills().unwrap_or(killed);
        if now > killed {
            println!("{}", event(id, "oom", Value::Null));
            killed = now;
        }
        println!("{}", event(id, "stats", shown(&cgroup.stats())));
        std::thread::sleep(interval);
    }
    Ok(())
}

fn event(id: &str, kind: &str, data: Value) -> Value {
    let mut event = json!({"type": kind, "id": id});
    if !data.is_null() {
        event["data"] = data;
    }
    event
}

/// `5s`, `500ms`, `2m`, `5`.
fn seconds(text: &str) -> Result<Duration, OciError> {
    let bad = || OciError::Usage(format!("--interval: {text:?} is no time"));
    let (digits, scale) = if let Some(d) = text.strip_suffix("ms") {
        (d, 1)
    } else if let Some(d) = text.strip_suffix('m') {
        (d, 60_000)
    } else {
        (text.strip_suffix('s').unwrap_or(text), 1000)
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    if number == 0 { Err(bad()) } else { Ok(Duration::from_millis(number * scale)) }
}

/// In the form of runc's; what is not known is left out.
fn shown(stats: &Stats) -> Value {
    let (cpu, memory) = (&stats.cpu, &stats.memory);
    let mut value = json!({
        "cpu": {
            "usage": {"total": cpu.usage_ns, "kernel": cpu.system_ns, "user": cpu.user_ns},
            "throttling": {
                "periods": cpu.periods, "throttledPeriods": cpu.throttled_periods, "throttledTime": cpu.throttled_ns
            }
        },
        "memory": {
            "cache": memory.cache,
            "usage": {"usage": memory.usage, "limit": memory.limit},
            "swap": {"usage": memory.swap_usage, "limit": memory.swap_limit},
            "raw": {"rss": memory.rss, "pgfault": memory.page_faults, "pgmajfault": memory.major_page_faults}
        },
        "pids": {"current": stats.pids.current, "limit": stats.pids.limit},
        "blkio": {},
        "hugetlb": {}
    });
    drop_nulls(&mut value);
    value
}

fn drop_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, v| !v.is_null());
        map.values_mut().for_each(drop_nulls);
    }
}
