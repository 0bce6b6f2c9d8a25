//! What a confined worker can no longer do. A test program of its own, since confinement cannot be undone. Needs root.

use berth_image::unpack::confine::confine;

#[test]
fn a_confined_thread_has_no_network_no_programs_and_few_capabilities() {
    std::thread::spawn(|| {
        confine(1 << 40).expect("confine as root");
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("read own status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, MKNOD, SETFCAP.
        let kept = 1u64 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 27 | 1 << 31;
        for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
            assert_eq!(u64::from_str_radix(&field(set), 16).expect("a number"), kept, "{set}");
        }
        assert_eq!((field("CapInh:").trim_start_matches('0'), field("NoNewPrivs:").as_str()), ("", "1"));
        assert_eq!(field("Seccomp:"), "2");
        assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_err());
        assert!(std::process::Command::new("/bin/true").status().is_err());
    })
    .join()
    .expect("the confined thread");
}
