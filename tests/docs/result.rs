//! The schema of the result and its section in the manual page say what the table of fields says.

use anyhow::{Context, Result, bail, ensure};
use clap_mangen::roff::{Roff, bold, roman};
use sandbox_run::backend::Backend;
use sandbox_run::policy::Protection;
use sandbox_run::policy::limits::Limit;
use sandbox_run::report::object::{FIELDS, REASONS, STATUSES, VERSION};
use serde_json::{Map, Value, json};

use super::{committed, file, plain};

const SCHEMA: &str = "docs/result.schema.json";

/// SHA-256 in hexadecimal.
const HASH: &str = "^[0-9a-f]{64}$";

/// A time in UTC with milliseconds.
const TIME: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z$";

/// What the manual page says before the fields.
const INTRODUCTION: &str = "--result and --result-fd write one JSON object, --audit-log adds the same object as a line without \
    stdout and stderr. Each is written once, at the end, however the run ends: also when nothing was started, when the command \
    line cannot be understood but for these options, and when a signal comes after the policy has been read. \
    Only SIGKILL of sandbox-run leaves nothing. \
    What cannot be written then is said on standard error and leaves the exit status alone. A FILE of --result appears complete or not at all; \
    one that exists is replaced by one with its owner, permissions and access control list, and stays as it was where nothing can be written, so remove it \
    beforehand; one that is a symbolic link is refused, because an earlier COMMAND may have made it (links of '/' and /dev are the system's); a device is \
    written, and so is a FIFO, opened at the end and given up when nobody reads it for ten seconds. Where a link to a directory is on \
    the way, nothing is written before a policy has been found good. COMMAND cannot write a \
    result or a log: refused before the start are a directory or link on the way to FILE that COMMAND could put something else in \
    place of (FILE itself may lie in a directory of a --write grant, which nobody inside can move), a FIFO that it sees, a log or an \
    open file that it could write, either or an older FILE with a second name where it may write anything, one that --keep-fd or, for a log, a standard stream gives to it, and what \
    another user left in a directory for everybody such as /tmp. Under 'none' nothing of the kind is held; where FILE leads \
    elsewhere at the end is said. Standard output and standard error go through sandbox-run, to be counted, where they are \
    pipes or stream sockets; files and terminals stay those of COMMAND. What COMMAND leaves running under 'none' writes on when \
    the run is over: a process of sandbox-run stays and passes that on, until the last writer or reader is gone. With --max-output \
    or --capture nobody does. Fields can be added \
    under the same number of the format: readers pass over what they do not know. docs/result.schema.json is a JSON Schema of the \
    object. Its fields:";

/// The part of the manual page about the result.
pub(super) fn section(roff: &mut Roff) {
    roff.control("SH", ["RESULT"]);
    roff.text([roman(INTRODUCTION)]);
    for (field, meaning) in FIELDS {
        roff.control("TP", []).text([bold(*field)]).text([roman(*meaning)]);
    }
    for (title, words) in [("Words of status", STATUSES), ("Words of reason", REASONS)] {
        roff.control("SS", [title]);
        for (word, meaning) in words {
            roff.control("TP", []).text([bold(*word)]).text([roman(*meaning)]);
        }
    }
}

fn schema() -> Value {
    let properties: Map<String, Value> =
        FIELDS.iter().map(|(field, meaning)| ((*field).to_owned(), property(field, meaning))).collect();
    let required: Vec<_> = FIELDS.iter().map(|(field, _)| *field).filter(|field| !optional(field)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Result of sandbox-run",
        "description": "What --result and --result-fd write, and --audit-log as a line without stdout and stderr.",
        "type": "object",
        "properties": properties,
        "required": required,
    })
}

fn optional(field: &str) -> bool {
    ["stdout", "stderr"].contains(&field)
}

fn property(field: &str, meaning: &str) -> Value {
    let words = |table: &[(&str, &str)]| table.iter().map(|(word, _)| json!(word)).collect::<Vec<_>>();
    let or_null = |mut words: Vec<Value>| {
        words.push(Value::Null);
        json!({ "enum": words })
    };
    let texts = |kind: Value| json!({ "type": kind, "items": { "type": "string" } });
    let mut property = match field {
        "version" => json!({ "const": VERSION }),
        "status" => json!({ "enum": words(STATUSES) }),
        "reason" => or_null(words(REASONS)),
        "backend" => or_null(Backend::NAMED.map(|backend| json!(backend.word())).to_vec()),
        "exit_code" => json!({ "type": ["integer", "null"], "minimum": i32::MIN, "maximum": i32::MAX }),
        "signal" => json!({ "type": ["integer", "null"], "minimum": 1, "maximum": 64 }),
        "pid" => json!({ "type": ["integer", "null"], "minimum": 1 }),
        "gaps" => json!({ "type": ["array", "null"], "items": {
            "type": "object",
            "properties": {
                "protection": { "enum": Protection::ALL.map(Protection::word) },
                "missing": { "type": "string" },
            },
            "required": ["protection", "missing"],
            "additionalProperties": false,
        } }),
        "policy_sha256" => json!({ "type": ["string", "null"], "pattern": HASH }),
        "started_at" => json!({ "type": ["string", "null"], "pattern": TIME }),
        "argv" | "env_dropped" => texts(json!(["array", "null"])),
        "warnings" => texts(json!("array")),
        "truncated" => json!({ "type": "boolean" }),
        "limits_hit" => json!({ "type": "array", "items": { "enum": Limit::ALL.map(Limit::word) } }),
        "requests" => json!({ "type": ["object", "null"] }),
        "stdout" | "stderr" => json!({ "type": ["string", "null"] }),
        _ => json!({ "type": ["integer", "null"], "minimum": 0 }),
    };
    let table = match field {
        "status" => STATUSES,
        "reason" => REASONS,
        _ => &[],
    };
    let words = table.iter().flat_map(|(word, meaning)| [" ", word, ": ", meaning, "."]);
    property["description"] = [meaning].into_iter().chain(words).collect::<String>().into();
    property
}

/// Compares a result with the committed schema, with as much of JSON Schema as that uses.
pub fn validate(result: &Value) -> Result<()> {
    let schema: Value = serde_json::from_slice(&std::fs::read(file(SCHEMA))?)?;
    // Readers take fields that they do not know, we write none.
    let unknown = |key: &String| schema["properties"].get(key).is_none();
    ensure!(!result.as_object().is_some_and(|result| result.keys().any(unknown)), "unknown fields: {result:#}");
    check(&schema, result, "result").with_context(|| format!("{result:#}"))
}

fn check(schema: &Value, value: &Value, at: &str) -> Result<()> {
    for (keyword, wanted) in schema.as_object().context("no schema")? {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" => true,
            "type" => match wanted {
                Value::Array(kinds) => kinds.iter().any(|kind| is(value, kind)),
                kind => is(value, kind),
            },
            "const" => value == wanted,
            "enum" => wanted.as_array().context("no list")?.contains(value),
            "minimum" => value.as_i64().is_none_or(|value| Some(value) >= wanted.as_i64()),
            "maximum" => value.as_i64().is_none_or(|value| Some(value) <= wanted.as_i64()),
            "pattern" => value.as_str().is_none_or(|text| matches(text, wanted.as_str().unwrap_or_default())),
            "items" => {
                for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(wanted, item, &format!("{at}[{place}]"))?;
                }
                true
            }
            "properties" => {
                for (key, schema) in wanted.as_object().context("no properties")? {
                    if let Some(value) = value.get(key) {
                        check(schema, value, &format!("{at}.{key}"))?;
                    }
                }
                true
            }
            "required" => wanted
                .as_array()
                .context("no list")?
                .iter()
                .all(|key| value.get(key.as_str().unwrap_or_default()).is_some()),
            "additionalProperties" => {
                value.as_object().is_none_or(|object| object.keys().all(|key| schema["properties"].get(key).is_some()))
            }
            keyword => bail!("{at}: what is '{keyword}'?"),
        };
        ensure!(holds, "{at}: {keyword} {wanted}: {value}");
    }
    Ok(())
}

fn is(value: &Value, kind: &Value) -> bool {
    match kind.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// The two patterns of the schema.
fn matches(text: &str, pattern: &str) -> bool {
    let like = |form: &str| {
        text.len() == form.len()
            && text.bytes().zip(form.bytes()).all(|(c, f)| if f == b'0' { c.is_ascii_digit() } else { c == f })
    };
    match pattern {
        HASH => text.len() == 64 && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')),
        TIME => like("0000-00-00T00:00:00.000Z"),
        _ => false,
    }
}

#[test]
fn the_schema_of_the_result_is_up_to_date() -> Result<()> {
    committed(SCHEMA, format!("{:#}\n", schema()).as_bytes())
}

#[test]
fn the_manual_page_has_every_field_of_the_schema() -> Result<()> {
    let page = plain(&String::from_utf8(super::man_page()?)?);
    let (_, section) = page.split_once("\n.SH RESULT\n").context("no section")?;
    let section = section.split("\n.SH ").next().unwrap_or_default();
    let (fields, words) = section.split_once("\n.SS ").context("no words")?;
    let entries = |text: &str| -> Vec<String> {
        let entries = text.split("\n.TP\n").skip(1);
        entries.filter_map(|entry| entry.lines().next()).map(str::to_owned).collect()
    };
    let mut told = entries(fields);
    told.sort();
    let schema = schema();
    let keys: Vec<_> = schema["properties"].as_object().context("no keys")?.keys().cloned().collect();
    ensure!(told == keys, "{told:?}");
    let told = words.split("\n.SS ").flat_map(entries).collect::<Vec<_>>();
    let words: Vec<_> = STATUSES.iter().chain(REASONS).map(|(word, _)| (*word).to_owned()).collect();
    ensure!(told == words, "{told:?}");
    Ok(())
}

#[test]
fn the_validator_refuses_what_the_schema_forbids() -> Result<()> {
    let hash = "0".repeat(64);
    let good: Map<String, Value> = FIELDS
        .iter()
        .filter(|(field, _)| !optional(field))
        .map(|(field, _)| {
            let value = match *field {
                "version" => json!(1),
                "status" => json!("exited"),
                "truncated" => json!(false),
                "limits_hit" | "warnings" => json!([]),
                "policy_sha256" => json!(hash),
                "started_at" => json!("2023-11-14T22:13:20.123Z"),
                _ => Value::Null,
            };
            ((*field).to_owned(), value)
        })
        .collect();
    validate(&good.clone().into())?;
    for (key, value) in [
        ("version", json!(2)),
        ("status", json!("ended")),
        ("exit_code", json!(1_i64 << 31)),
        ("signal", json!(0)),
        ("gaps", json!([{ "protection": "network" }])),
        ("policy_sha256", json!("0")),
        ("started_at", json!("2023-11-14 22:13:20.123Z")),
        ("argv", json!([1])),
        ("truncated", Value::Null),
        ("limits_hit", json!(["policy"])),
        ("more", json!(1)),
    ] {
        let mut bad = good.clone();
        bad.insert(key.to_owned(), value);
        ensure!(validate(&bad.into()).is_err(), "{key}");
    }
    for key in good.keys() {
        let mut bad = good.clone();
        bad.remove(key);
        ensure!(validate(&bad.into()).is_err(), "{key}");
    }
    Ok(())
}
