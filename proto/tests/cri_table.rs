//! Holds the compiled runtime.v1 descriptor against the table of the wire, row by row and in both directions.
#![cfg(feature = "cri")]

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto};
use std::collections::BTreeSet;

const TABLE: &str = include_str!("../cri/wire.tsv");

fn table() -> BTreeSet<String> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    rows.map(|line| line.trim_end().to_owned()).collect()
}

fn compiled() -> BTreeSet<String> {
    let set = protox::compile(["cri/api.proto"], ["cri"]).expect("api.proto compiles");
    let file = set.file.iter().find(|file| file.package() == "runtime.v1").expect("package runtime.v1");
    let mut rows = BTreeSet::new();
    calls(file, &mut rows);
    file.message_type.iter().for_each(|message| message_rows(message, &mut rows));
    file.enum_type.iter().for_each(|words| enum_rows("", words, &mut rows));
    rows
}

fn calls(file: &FileDescriptorProto, rows: &mut BTreeSet<String>) {
    for service in &file.service {
        for call in &service.method {
            assert!(!call.client_streaming(), "{} streams from the client", call.name());
            let stream = if call.server_streaming() { "\tserver-stream" } else { "" };
            let (input, output) = (short(call.input_type()), short(call.output_type()));
            rows.insert(format!("rpc\t{}\t{}\t{input}\t{output}{stream}", service.name(), call.name()));
        }
    }
}

fn short(full: &str) -> &str {
    full.strip_prefix(".runtime.v1.").unwrap_or(full)
}

fn message_rows(message: &DescriptorProto, rows: &mut BTreeSet<String>) {
    rows.insert(format!("msg\t{}", message.name()));
    message.field.iter().for_each(|field| {
        rows.insert(field_row(message, field));
    });
    message.enum_type.iter().for_each(|words| enum_rows(&format!("{}.", message.name()), words, rows));
}

fn field_row(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let head = format!("field\t{}\t{}\t{}", message.name(), field.number(), field.name());
    if let Some(entry) = map_entry(message, field) {
        return format!(
            "{head}\tmap<{},{}>",
            type_word(message, &entry.field[0]),
            type_word(message, &entry.field[1])
        );
    }
    let label = if field.label() == Label::Repeated { "repeated" } else { "single" };
    let old =
        if field.options.as_ref().is_some_and(|options| options.deprecated()) { "\tdeprecated" } else { "" };
    let union = match field.oneof_index {
        Some(at) => format!("\t{}", message.oneof_decl[at as usize].name()),
        None => String::new(),
    };
    format!("{head}\t{}\t{label}{old}{union}", type_word(message, field))
}

fn map_entry<'a>(message: &'a DescriptorProto, field: &FieldDescriptorProto) -> Option<&'a DescriptorProto> {
    let own = format!("{}.", message.name());
    let name = short(field.type_name()).strip_prefix(&own)?;
    let nested = message.nested_type.iter().find(|nested| nested.name() == name)?;
    nested.options.as_ref().is_some_and(|options| options.map_entry()).then_some(nested)
}

fn type_word<'a>(message: &DescriptorProto, field: &'a FieldDescriptorProto) -> &'a str {
    match field.r#type() {
        Type::String => "string",
        Type::Bytes => "bytes",
        Type::Bool => "bool",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        Type::Uint32 => "uint32",
        Type::Uint64 => "uint64",
        Type::Double => "double",
        // The table names a nested type as it is written inside its message.
        Type::Message | Type::Enum => {
            let name = short(field.type_name());
            name.strip_prefix(&format!("{}.", message.name())).unwrap_or(name)
        }
        other => panic!("type {other:?} is not in the table's vocabulary"),
    }
}

fn enum_rows(scope: &str, words: &EnumDescriptorProto, rows: &mut BTreeSet<String>) {
    let name = format!("{scope}{}", words.name());
    for value in &words.value {
        rows.insert(format!("value\t{name}\t{}\t{}", value.number(), value.name()));
    }
    rows.insert(format!("enum\t{name}"));
}

#[test]
fn descriptor_and_table_say_the_same() {
    let (table, compiled) = (table(), compiled());
    let missing: Vec<_> = table.difference(&compiled).collect();
    let extra: Vec<_> = compiled.difference(&table).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "only in the table: {missing:#?}\nonly compiled: {extra:#?}"
    );
}

#[test]
fn the_table_is_whole() {
    let count = |kind: &str| table().iter().filter(|row| row.split('\t').next() == Some(kind)).count();
    assert_eq!(["rpc", "msg", "field", "enum", "value"].map(count), [43, 175, 478, 11, 95]);
}

#[test]
fn unknown_fields_and_enum_values_survive_decoding() {
    use berth_proto::cri::{ContainerConfig, VersionRequest};
    use prost::Message;
    // Field 99 (varint), which no side knows: a newer kubelet must not be refused.
    assert!(VersionRequest::decode(&[0x98, 0x06, 0x01][..]).is_ok());
    // stop_signal = 200: an open enum of proto3 keeps the number.
    let config = ContainerConfig::decode(&[0x90, 0x01, 0xc8, 0x01][..]).expect("decodes");
    assert_eq!(config.stop_signal, 200);
}
