//! The conversation against a stand-in for systemd.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use super::super::wire::{self, Target};
use super::*;

/// Turns a call into another kind of message: the bytes differ in one place, and the header fields that are read are
/// put in front by name.
fn message(
    kind: u8,
    reply_to: Option<u32>,
    member: &str,
    error: &str,
    signature: &str,
    body: &[u8],
) -> Vec<u8> {
    let mut fields: Vec<u8> = Vec::new();
    let text = |fields: &mut Vec<u8>, code: u8, kind: u8, value: &str| {
        fields.resize(fields.len().next_multiple_of(8), 0);
        fields.extend([code, 1, kind, 0]);
        if kind == b'g' {
            fields.push(u8::try_from(value.len()).unwrap());
        } else {
            fields.extend(u32::try_from(value.len()).unwrap().to_le_bytes());
        }
        fields.extend(value.as_bytes());
        fields.push(0);
    };
    if let Some(serial) = reply_to {
        fields.extend([5, 1, b'u', 0]);
        fields.extend(serial.to_le_bytes());
    }
    for (code, kind, value) in [(3, b's', member), (4, b's', error), (8, b'g', signature)] {
        if !value.is_empty() {
            text(&mut fields, code, kind, value);
        }
    }
    let mut bytes = vec![b'l', kind, 0, 1];
    bytes.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
    bytes.extend(99u32.to_le_bytes());
    bytes.extend(u32::try_from(fields.len()).unwrap().to_le_bytes());
    bytes.extend(fields);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend(body);
    bytes
}

fn job_removed(job: &str, result: &str) -> Vec<u8> {
    let body = wire::body(|body| {
        body.boolean(true);
        body.string(job);
        body.string("u.scope");
        body.string(result);
    });
    message(SIGNAL, None, "JobRemoved", "", "uoss", &body)
}

fn accept_job(job: &str, serial: u32) -> Vec<u8> {
    message(RETURN, Some(serial), "", "", "o", &wire::body(|body| body.string(job)))
}

/// Greets, then answers the first call with these bytes.
fn systemd(answer: Vec<u8>) -> (Connection, JoinHandle<Vec<u8>>) {
    let (mine, mut theirs) = UnixStream::pair().unwrap();
    let thread = std::thread::spawn(move || {
        let mut seen = vec![0; 512];
        let len = theirs.read(&mut seen).unwrap();
        assert!(seen[..len].starts_with(b"\0AUTH EXTERNAL ") && seen[..len].ends_with(b"\r\nBEGIN\r\n"));
        theirs.write_all(b"OK 0123456789abcdef\r\n").unwrap();
        let mut head = [0; 16];
        theirs.read_exact(&mut head).unwrap();
        let mut call = head.to_vec();
        call.resize(wire::message_len(&head).unwrap(), 0);
        theirs.read_exact(&mut call[16..]).unwrap();
        theirs.write_all(&answer).unwrap();
        call
    });
    (Connection::greet(mine, false).unwrap(), thread)
}

#[test]
fn a_job_is_waited_for_by_its_own_path_in_any_order() {
    let early =
        [job_removed("/job/8", "failed"), job_removed("/job/9", "done"), accept_job("/job/9", 1)].concat();
    let late =
        [accept_job("/job/9", 1), job_removed("/job/8", "failed"), job_removed("/job/9", "done")].concat();
    for answer in [early, late] {
        let (mut connection, thread) = systemd(answer);
        connection.job("StopUnit", "ss", &wire::body(|body| body.string("u.scope"))).unwrap();
        let call = wire::parse(&thread.join().unwrap()).unwrap();
        assert_eq!((call.member.as_str(), call.signature.as_str()), ("StopUnit", "ss"));
    }
}

#[test]
fn a_failed_job_and_a_refusal_are_told() {
    let (mut connection, _thread) =
        systemd([accept_job("/job/9", 1), job_removed("/job/9", "timeout")].concat());
    assert!(
        matches!(connection.job("StartUnit", "ss", &[]), Err(Failure::Job(result)) if result == "timeout")
    );
    let text = wire::body(|body| body.string("it is there"));
    let (mut connection, _thread) = systemd(message(ERROR, Some(1), "", "org.x.UnitExists", "s", &text));
    match connection.job("StartTransientUnit", "", &[]) {
        Err(error @ Failure::Refused { .. }) => {
            assert_eq!(error.to_string(), "StartTransientUnit: org.x.UnitExists: it is there");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_closed_or_garbled_conversation_is_an_error() {
    let (mut connection, _thread) = systemd(accept_job("/job/9", 1));
    assert!(
        matches!(connection.job("StopUnit", "ss", &[]), Err(Failure::Broken { .. })),
        "closed before the end"
    );
    let (mut connection, _thread) = systemd(vec![b'x'; 64]);
    assert!(matches!(connection.call("StopUnit", "ss", &[]), Err(Failure::Garbled)));
}

#[test]
fn the_bus_is_addressed_and_the_private_socket_is_not() {
    let target = |destination| Target { destination, path: "/p", interface: "i.i", member: "M" };
    let has = |bytes: &[u8]| bytes.windows(SYSTEMD.len()).any(|window| window == SYSTEMD.as_bytes());
    assert!(has(&wire::call(1, &target(Some(SYSTEMD)), "", &[])));
    assert!(!has(&wire::call(1, &target(None), "", &[])));
}
