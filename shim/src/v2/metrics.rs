//! The figures of a cgroup in containerd's two forms.

mod v1;
mod v2;

use std::path::Path;

use berth_cgroup::{Cgroup, Mode, Stats};
use berth_proto::containerd::Any;

/// What the group uses now.
pub(super) fn read(cgroup: &Cgroup) -> Any {
    let (stats, kills) = (cgroup.stats(), cgroup.oom_kills().unwrap_or(0));
    match cgroup.mode() {
        Mode::V2 => {
            let directory = cgroup.unified_path().unwrap_or_default();
            Any::of("io.containerd.cgroups.v2.Metrics", &v2::metrics(&stats, kills, &directory))
        }
        Mode::V1 | Mode::Hybrid => {
            let mut directories = cgroup.v1_dirs().into_iter();
            let memory = directories.find(|directory| directory.join("memory.stat").exists());
            let metrics = v1::metrics(&stats, kills, &memory.unwrap_or_default());
            Any::of("io.containerd.cgroups.v1.Metrics", &metrics)
        }
    }
}

/// Lines of a word and a number.
struct Table(String);

impl Table {
    fn read(path: &Path) -> Table {
        Table(std::fs::read_to_string(path).unwrap_or_default())
    }

    /// The number after a word; zero for a word that is not there, as containerd has it.
    fn of(&self, word: &str) -> u64 {
        let number = |line: &str| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok();
        self.0.lines().find_map(number).unwrap_or(0)
    }
}

/// The one number of a file; "max" and a file that is not there are none.
fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// File pages that can be dropped at once.
fn inactive_file(stats: &Stats) -> u64 {
    let memory = &stats.memory;
    memory.usage.zip(memory.working_set).map_or(0, |(usage, set)| usage.saturating_sub(set))
}

/// A message whose fields are numbers of a table.
macro_rules! from_table {
    ($table:expr, $message:path, $($field:ident $word:literal),* $(,)?) => {{
        let table = &$table;
        let mut message = <$message>::default();
        $(message.$field = table.of($word);)*
        message
    }};
}
use from_table;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole() {
        let table = Table("cache 5\ntotal_cache 7\ncache_x 9\n".to_owned());
        assert_eq!((table.of("cache"), table.of("total_cache"), table.of("x")), (5, 7, 0));
    }
}
