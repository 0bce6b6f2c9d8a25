//! nfnetlink: whole nftables transactions in one datagram.
//!
//! The `nft` program waits for the kernel's deferred destruction, 12 ms and more per call that deletes; the same
//! transaction over a raw socket takes a tenth of a millisecond.

use std::io;

use rustix::net::netlink::NETFILTER;

use super::NetlinkError;
use super::message::{ACK, DUMP, Message, REQUEST, Reply};
use super::socket::{Socket, ack_of};

/// Subsystem number of nftables.
const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

/// Family of tables that see IPv4 and IPv6.
pub(crate) const INET: u8 = 1;

/// What a message does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    NewTable = 0,
    GetTable = 1,
    DelTable = 2,
    NewChain = 3,
    GetChain = 4,
    NewRule = 6,
    GetRule = 7,
    DelRule = 8,
    NewSet = 9,
    NewSetElem = 12,
    GetSetElem = 13,
    DelSetElem = 14,
}

/// Message type of a verb.
pub(crate) fn kind(verb: Verb) -> u16 {
    SUBSYSTEM << 8 | verb as u16
}

/// Starts a message for a family.
pub(crate) fn message(verb: Verb, family: u8, flags: u16) -> Message {
    Message::new(kind(verb), REQUEST | flags, &[family, 0, 0, 0])
}

/// Where the attributes of an answer start: after `struct nfgenmsg`.
pub(crate) fn body(reply: &Reply) -> &[u8] {
    reply.body.get(4..).unwrap_or_default()
}

/// Messages that happen all together or not at all.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    steps: Vec<(String, Message)>,
}

impl Batch {
    /// Adds a step; `what` names it if the kernel refuses it.
    pub(crate) fn push(
        &mut self,
        what: impl Into<String>,
        verb: Verb,
        family: u8,
        flags: u16,
        fill: impl FnOnce(Message) -> Message,
    ) {
        self.steps.push((what.into(), fill(message(verb, family, flags | ACK))));
    }

    fn bytes(&self) -> Vec<u8> {
        let subsystem = SUBSYSTEM.to_be_bytes();
        let edge = |kind| Message::new(kind, REQUEST, &[0, 0, subsystem[0], subsystem[1]]);
        let mut bytes = edge(BATCH_BEGIN).finish(1);
        for (sequence, (_, step)) in (2..).zip(&self.steps) {
            bytes.extend(step.clone().finish(sequence));
        }
        bytes.extend(edge(BATCH_END).finish(0));
        bytes
    }

    /// A number that changes when any step does.
    pub(crate) fn digest(&self) -> u64 {
        // FNV-1a: it only has to tell one layout of ours from another.
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix)
    }
}

/// A conversation about the tables of the namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Nft {
    socket: Socket,
}

impl Nft {
    pub(crate) fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Some(NETFILTER))? })
    }

    /// Carries out a batch; the first refused step is the error.
    pub(crate) fn commit(&self, batch: &Batch) -> Result<(), NetlinkError> {
        if batch.steps.is_empty() {
            return Ok(());
        }
        self.socket.send(&batch.bytes())?;
        let mut left = batch.steps.len();
        let mut refused = None;
        while left > 0 {
            for (sequence, code) in self.socket.receive()?.iter().filter_map(ack_of) {
                left -= 1;
                if code != 0 && refused.is_none() {
                    refused = Some(refusal(batch, sequence, code));
                }
                if sequence < 2 {
                    // The batch as a whole was refused: nothing else is answered.
                    left = 0;
                    break;
                }
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Asks for one object or lists many.
    pub(crate) fn ask(&self, what: &str, message: Message) -> Result<Vec<Reply>, NetlinkError> {
        self.socket.ask(what, message)
    }

    /// Lists; a missing table or set is an empty list.
    pub(crate) fn list(
        &self,
        what: &str,
        verb: Verb,
        family: u8,
        fill: impl FnOnce(Message) -> Message,
    ) -> Result<Vec<Reply>, NetlinkError> {
        match self.ask(what, fill(message(verb, family, DUMP))) {
            Err(e) if e.is_missing() => Ok(Vec::new()),
            found => found,
        }
    }
}

fn refusal(batch: &Batch, sequence: u32, code: i32) -> NetlinkError {
    let at = usize::try_from(sequence).unwrap_or_default();
    let what = at.checked_sub(2).and_then(|at| batch.steps.get(at)).map(|(what, _)| what.clone());
    NetlinkError::Refused {
        what: what.unwrap_or_else(|| "change nftables".into()),
        source: io::Error::from_raw_os_error(code),
    }
}
