//! Many short lives at once: no code is wrong, nothing is left.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Test;
use super::bundle::{Bundle, argv, exec, finish};

pub(crate) const TESTS: &[Test] = &[
    ("stress::instant_exits_side_by_side", instant_exits_side_by_side),
    ("stress::instant_execs", instant_execs),
];

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("fds").count()
}

fn instant_exits_side_by_side() {
    let open = descriptors();
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let done = &done;
            scope.spawn(move || {
                let b = Bundle::new(&format!("exit {}", worker + 1));
                for _ in 0..12 {
                    assert_eq!(b.run().code, worker + 1);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 96);
    assert_eq!(descriptors(), open);
}

fn instant_execs() {
    let b = Bundle::new("exec sleep 60");
    let (created, _reader) = b.launch().expect("launch");
    let open = descriptors();
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let created = &created;
            scope.spawn(move || {
                for _ in 0..12 {
                    let script = format!("echo {worker}; exit {worker}");
                    let outcome = exec(created, argv(&["sh", "-c", &script])).expect("exec");
                    assert_eq!((outcome.code, outcome.out), (worker, format!("{worker}\n")));
                }
            });
        }
    });
    assert_eq!(descriptors(), open);
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    finish(&created);
}
