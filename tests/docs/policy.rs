//! The manual page and the schema of policy files say what the table of keys says.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use sandbox_run::backend::Backend;
use sandbox_run::config::document::Document;
use sandbox_run::config::fields::{FIELDS, Field, Kind};
use sandbox_run::config::{file, merge};
use sandbox_run::policy::Origin;
use serde_json::{Value, json};

use super::{committed, plain, sound};

const PAGE: &str = "man/sandbox-run.5";
const SCHEMA: &str = "docs/policy.schema.json";

/// A policy file as small as a useful one can be.
const EXAMPLE: &str = "\
read_roots = [\"~/.cargo/registry\"]
write_roots = [\".\"]
mask_paths = [\".env\"]
env = [\"CI\", \"CARGO_*\"]
kill_after = \"5s\"
";

const DESCRIPTION: &[&str] = &[
    "A policy file says what a command may do inside the sandbox: sandbox-run --policy FILE. A profile is the same under a \
     name: sandbox-run --profile NAME. Both are TOML, or, for --policy, JSON: a name that ends in .json or .toml decides, \
     otherwise a file that begins with '{' is JSON. Every key is optional. All keys stand at the top; env_set alone is a table.",
    "Reading is strict. An unknown key, one that appears twice, a value of the wrong type, a duration without its unit, a byte \
     order mark, text that is not UTF-8, a NUL, and a file of more than 1 MiB are errors that name file, line and column; \
     nothing is started then, and the status is 125.",
    "Sources are laid over one another: defaults, profiles in their order, the policy file or payload, options. Of a single \
     setting the highest source counts, lists add up. No source takes away a mask, a protected path or a denied socket of \
     another.",
    "Paths are resolved as those of options are: relative ones and '..' once against the working directory, '~' at the start \
     is the home directory, '$NAME' is not expanded. A path or value that is not UTF-8, or that begins with 'base64:', is \
     written as 'base64:' and its bytes in standard base64 with padding; JSON also takes the escapes \\udc80 to \\udcff for \
     the bytes 0x80 to 0xff.",
    "--print-policy writes the policy of a whole command line in this form, with the source of each setting as a comment.",
];

const FILES: &[(&str, &str)] = &[(
    "$XDG_CONFIG_HOME/sandbox-run/profiles/NAME.toml",
    "The user's profiles; ~/.config stands for an unset variable.",
)];

fn page() -> Result<Vec<u8>> {
    let mut roff = Roff::new();
    let source = format!("sandbox-run {}", env!("CARGO_PKG_VERSION"));
    roff.control("TH", ["SANDBOX-RUN", "5", "\"\"", &source, "File Formats"]);
    // Names are typed as they stand.
    roff.control("nh", []);
    roff.control("SH", ["NAME"]).text([roman("sandbox-run - policy files and profiles")]);
    roff.control("SH", ["DESCRIPTION"]);
    for (at, paragraph) in DESCRIPTION.iter().enumerate() {
        if at > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(*paragraph)]);
    }
    roff.control("SH", ["KEYS"]);
    for field in &FIELDS {
        entry(&mut roff, field);
    }
    roff.control("SH", ["EXAMPLE"]);
    roff.text([roman("A command that may write its working directory, but for one file:")]);
    roff.control("PP", []).control("EX", []);
    for line in EXAMPLE.lines() {
        roff.text([roman(line)]);
    }
    roff.control("EE", []);
    roff.control("SH", ["FILES"]);
    for (path, what) in FILES {
        roff.control("TP", []).text([italic(*path)]).text([roman(*what)]);
    }
    roff.control("SH", ["SEE ALSO"]).text([bold("sandbox-run"), roman("(1)")]);
    let mut page = Vec::new();
    roff.to_writer(&mut page)?;
    Ok(page)
}

fn entry(roff: &mut Roff, field: &Field) {
    roff.control("TP", []).text([bold(field.key), roman(format!(": {}", field.kind.phrase()))]);
    roff.text([roman(field.about)]);
    let words = field.kind.words();
    if !words.is_empty() {
        labelled(roff, "Words", &words.join(", "));
    }
    labelled(roff, "Default", field.default);
    if !field.unit.is_empty() {
        labelled(roff, "Unit", field.unit);
    }
    for backend in Backend::ALL {
        labelled(roff, &format!("Backend {backend}"), field.does(backend).trim_end_matches('.'));
    }
}

fn labelled(roff: &mut Roff, label: &str, text: &str) {
    let line: [Inline; 2] = [italic(format!("{label}:")), roman(format!(" {text}."))];
    roff.control("br", []).text(line);
}

fn schema() -> Value {
    let properties: serde_json::Map<_, _> =
        FIELDS.iter().map(|field| (field.key.to_owned(), property(field))).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Policy file of sandbox-run",
        "description": "What a command may do inside the sandbox; see sandbox-run(5).",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

fn property(field: &Field) -> Value {
    let name = "[A-Za-z_][A-Za-z0-9_]*";
    let text = || json!({ "type": "string", "minLength": 1 });
    let list = |items: Value| json!({ "type": "array", "items": items });
    let words = field.kind.words();
    let mut value = match field.kind {
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Count => json!({ "type": "integer", "minimum": 1 }),
        Kind::Size => json!({ "oneOf": [
            { "type": "integer", "minimum": 4096 },
            { "type": "string", "pattern": "^[0-9]+[KMGT](iB)?$" },
        ] }),
        Kind::Duration => json!({ "type": "string", "pattern": "^([0-9]+|[0-9]*[.][0-9]+)(ms|s|m|h)$" }),
        Kind::Path => text(),
        Kind::Paths | Kind::Names => list(text()),
        Kind::Variables => list(json!({
            "type": "string",
            "pattern": format!("^({name}|{name}_[*]|{name}=[^]*|base64:[A-Za-z0-9+/]+=*)$"),
        })),
        Kind::Values => json!({
            "type": "object",
            "propertyNames": { "pattern": format!("^{name}$") },
            "additionalProperties": { "type": "string" },
        }),
        Kind::Descriptors => list(json!({ "type": "integer", "minimum": 3, "maximum": i32::MAX })),
        Kind::Backends => json!({ "type": "string", "pattern": "^[a-z_]+(,[a-z_]+)*$" }),
        Kind::Protections => list(json!({ "enum": words })),
        Kind::Overflow | Kind::Session => json!({ "enum": words }),
    };
    let unit = if field.unit.is_empty() { String::new() } else { format!(" Unit: {}.", field.unit) };
    value["description"] = format!("{} Default: {}.{unit}", field.about, field.default).into();
    value
}

#[test]
fn the_page_of_policy_files_is_up_to_date() -> Result<()> {
    committed(PAGE, &page()?)
}

#[test]
fn the_page_of_policy_files_is_sound() -> Result<()> {
    sound(PAGE)
}

#[test]
fn the_page_has_every_key_with_every_backend() -> Result<()> {
    let page = plain(&String::from_utf8(page()?)?);
    let (_, keys) = page.split_once("\n.SH KEYS\n").context("no keys")?;
    let (keys, _) = keys.split_once("\n.SH ").context("no end")?;
    let entries: Vec<_> = format!("\n{keys}").split("\n.TP\n").skip(1).map(str::to_owned).collect();
    ensure!(entries.len() == FIELDS.len(), "{} entries", entries.len());
    for (entry, field) in entries.iter().zip(FIELDS) {
        ensure!(entry.starts_with(&format!("{}: ", field.key)), "{entry}");
        ensure!(entry.contains("\nDefault: "), "{entry}");
        for backend in Backend::ALL {
            ensure!(entry.contains(&format!("\nBackend {backend}: ")), "{entry}");
        }
    }
    Ok(())
}

#[test]
fn the_schema_is_up_to_date() -> Result<()> {
    committed(SCHEMA, format!("{:#}\n", schema()).as_bytes())
}

#[test]
fn the_schema_has_the_keys_that_are_read() -> Result<()> {
    let schema = schema();
    let keys: BTreeSet<_> = schema["properties"].as_object().context("no keys")?.keys().map(String::as_str).collect();
    ensure!(keys == FIELDS.iter().map(|field| field.key).collect(), "{keys:?}");
    for key in keys {
        // A value of a type that no key takes: what is refused is the value, not the key.
        let error =
            file::read(format!("{{\"{key}\": null}}").as_bytes(), "p.json", None).err().context("null is read")?;
        ensure!(error.to_string().contains(&format!("key '{key}': expected ")), "{error}");
    }
    Ok(())
}

#[test]
fn the_example_is_a_policy_of_five_lines() -> Result<()> {
    ensure!(EXAMPLE.lines().count() == 5);
    let document = file::read(EXAMPLE.as_bytes(), "p.toml", None)?;
    ensure!(document != Document::default());
    let policy = merge([document.layer(&Origin::Payload)]);
    ensure!(policy.files.grants.len() == 2 && policy.files.masks.len() == 1 && policy.env.rules.len() == 2);
    Ok(())
}
