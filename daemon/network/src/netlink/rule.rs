//! nftables expressions: what a rule looks at and what it does.

use super::message::{Message, attr_bytes};

/// A register of 16 bytes.
pub(crate) const REG: u32 = 1;
/// Where verdicts go.
const VERDICT_REG: u32 = 0;
/// The first register of 4 bytes; it is the head of [`REG`].
const REG32: u32 = 8;

const ELEM: u16 = 1;
const EXPR_NAME: u16 = 1;
const EXPR_DATA: u16 = 2;
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;

/// Keys of the `meta` expression.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Meta {
    IifName = 6,
    OifName = 7,
    NfProto = 15,
    L4Proto = 16,
}

/// Keys of the `ct` expression.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ct {
    Status = 2,
}

/// Which header a payload expression reads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Header {
    Network = 1,
    Transport = 2,
}

/// How a rule ends.
#[derive(Debug, Clone)]
pub(crate) enum Verdict {
    Drop,
    Accept,
    Return,
    Jump(&'static str),
}

/// The expressions of one rule, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rule {
    expressions: Vec<Vec<u8>>,
}

impl Rule {
    fn add(mut self, name: &str, fill: impl FnOnce(Message) -> Message) -> Self {
        self.expressions.push(attr_bytes(|m| m.text(EXPR_NAME, name).nest(EXPR_DATA, fill)));
        self
    }

    /// Writes the rule's expressions into a message.
    pub(crate) fn write(&self, kind: u16, message: Message) -> Message {
        message.nest(kind, |m| self.expressions.iter().fold(m, |m, e| m.nest(ELEM, |m| m.raw(e))))
    }

    /// Loads a `meta` key into the n-th 4-byte register.
    pub(crate) fn meta(self, key: Meta, slot: u32) -> Self {
        self.add("meta", |m| m.be32(1, REG32 + slot).be32(2, key as u32))
    }

    /// Loads a `ct` key.
    pub(crate) fn ct(self, key: Ct) -> Self {
        self.add("ct", |m| m.be32(1, REG).be32(2, key as u32))
    }

    /// Loads part of a header into the n-th 4-byte register.
    pub(crate) fn payload(self, header: Header, offset: u32, length: u32, slot: u32) -> Self {
        let fill =
            |m: Message| m.be32(1, REG32 + slot).be32(2, header as u32).be32(3, offset).be32(4, length);
        self.add("payload", fill)
    }

    /// Goes on only if the register is (or is not) these bytes.
    pub(crate) fn compare(self, equal: bool, value: &[u8]) -> Self {
        let fill =
            |m: Message| m.be32(1, REG).be32(2, u32::from(!equal)).nest(3, |m| m.attr(DATA_VALUE, value));
        self.add("cmp", fill)
    }

    /// Masks the register.
    pub(crate) fn mask(self, mask: &[u8]) -> Self {
        let zero = vec![0; mask.len()];
        let length = u32::try_from(mask.len()).unwrap_or_default();
        self.add("bitwise", |m| {
            let m = m.be32(1, REG).be32(2, REG).be32(3, length);
            m.nest(4, |m| m.attr(DATA_VALUE, mask)).nest(5, |m| m.attr(DATA_VALUE, &zero))
        })
    }

    /// Goes on only if the destination is an address of this node.
    pub(crate) fn if_local(self) -> Self {
        const RESULT_ADDRTYPE: u32 = 3;
        const FLAG_DADDR: u32 = 2;
        const LOCAL: u32 = 2;
        let rule = self.add("fib", |m| m.be32(1, REG).be32(2, RESULT_ADDRTYPE).be32(3, FLAG_DADDR));
        rule.compare(true, &LOCAL.to_ne_bytes())
    }

    /// Looks the registers up in a map; the value replaces them. Without a hit the rule ends.
    pub(crate) fn lookup(self, map: &str) -> Self {
        self.add("lookup", |m| m.text(1, map).be32(2, REG).be32(3, REG))
    }

    /// Changes the destination to the address and port in the registers, the port `slot` words in.
    pub(crate) fn dnat(self, family: u8, slot: u32) -> Self {
        const DNAT: u32 = 1;
        let fill = |m: Message| m.be32(1, DNAT).be32(2, u32::from(family)).be32(3, REG).be32(5, REG32 + slot);
        self.add("nat", fill)
    }

    /// Takes an address of the outgoing interface as the source.
    pub(crate) fn masquerade(self) -> Self {
        self.add("masq", |m| m)
    }

    /// Ends the rule.
    pub(crate) fn verdict(self, verdict: &Verdict) -> Self {
        let (code, chain): (i32, Option<&str>) = match verdict {
            Verdict::Drop => (0, None),
            Verdict::Accept => (1, None),
            Verdict::Jump(chain) => (-3, Some(chain)),
            Verdict::Return => (-5, None),
        };
        let inner = |m: Message| {
            let m = m.attr(VERDICT_CODE, &code.to_be_bytes());
            chain.map_or(m.clone(), |chain| m.text(VERDICT_CHAIN, chain))
        };
        self.add("immediate", |m| m.be32(1, VERDICT_REG).nest(2, |m| m.nest(DATA_VERDICT, inner)))
    }
}
