//! Every wire word of Berth, one feature per wire.
