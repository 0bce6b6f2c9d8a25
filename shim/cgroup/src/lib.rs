//! cgroup v1, hybrid and v2: discovery, paths, limits, freezing, killing, figures.
