//! `--dry-run`: the plan as text or JSON. Names of variables only, never a value; the same bytes each time.

use std::ffi::OsString;

use serde::Serialize;

use super::limits::Values;
use super::plan::Plan;
use crate::cli::Format;
use crate::log::{escape, json_line};
use crate::plan::gap::Gap;

#[derive(Serialize)]
struct DryRun<'a> {
    policy_sha256: String,
    backend: &'static str,
    command: String,
    arguments: Vec<String>,
    command_line: String,
    workdir: String,
    created_on_host: Vec<String>,
    job: Told,
    timeout_ms: Option<u128>,
    max_output_bytes: Option<u64>,
    output_overflow: &'static str,
    kill_after_ms: u128,
    environment: Environment,
    gaps: &'a [Gap],
    warnings: &'a [String],
    notes: &'a [String],
}

/// What the job is told: the fields of the system's structures.
#[derive(Serialize)]
struct Told {
    limit_flags: u32,
    active_process_limit: u32,
    process_memory_limit: usize,
    job_memory_limit: usize,
    per_job_user_time_limit: i64,
    ui_restrictions: u32,
}

#[derive(Serialize)]
struct Environment {
    kept: Vec<String>,
    set: Vec<String>,
    dropped: Vec<Dropped>,
}

#[derive(Serialize)]
struct Dropped {
    name: String,
    reason: &'static str,
}

/// What a run of this plan would do.
#[must_use]
pub fn render(plan: &Plan, hash: String, format: Format) -> Vec<u8> {
    let names = |names: &[OsString]| names.iter().map(|name| name.display().to_string()).collect();
    let values = Values::of(&plan.limits);
    let report = DryRun {
        policy_sha256: hash,
        backend: plan.backend.word(),
        command: plan.program.display().to_string(),
        arguments: names(&plan.argv),
        command_line: String::from_utf16_lossy(&plan.command_line).trim_end_matches('\0').to_owned(),
        workdir: plan.workdir.display().to_string(),
        created_on_host: plan.create.iter().map(|path| path.display().to_string()).collect(),
        job: Told {
            limit_flags: values.flags,
            active_process_limit: values.active_processes,
            process_memory_limit: values.process_memory,
            job_memory_limit: values.job_memory,
            per_job_user_time_limit: values.job_user_time,
            ui_restrictions: plan.restrictions.unwrap_or(0),
        },
        timeout_ms: plan.limits.timeout.map(|time| time.as_millis()),
        max_output_bytes: plan.limits.max_output,
        output_overflow: plan.limits.overflow.word(),
        kill_after_ms: plan.kill_after.as_millis(),
        environment: Environment {
            kept: names(&plan.environment.kept),
            set: names(&plan.environment.set),
            dropped: plan
                .environment
                .dropped
                .iter()
                .map(|dropped| Dropped { name: dropped.name.display().to_string(), reason: dropped.reason.as_str() })
                .collect(),
        },
        gaps: &plan.gaps,
        warnings: &plan.warnings,
        notes: &plan.notes,
    };
    match format {
        Format::Json => json_line(&report),
        Format::Text => text(&report),
    }
}

fn text(report: &DryRun<'_>) -> Vec<u8> {
    let mut lines = vec![
        format!("backend: {}", report.backend),
        format!("command: {}", report.command),
        format!("command line: {}", report.command_line),
        format!("working directory: {}", report.workdir),
    ];
    lines.extend(report.created_on_host.iter().map(|path| format!("made on the host: {path}")));
    let Told {
        limit_flags,
        active_process_limit,
        process_memory_limit,
        job_memory_limit,
        per_job_user_time_limit,
        ui_restrictions,
    } = report.job;
    lines.push(format!("job: limit flags {limit_flags:#x}, restrictions {ui_restrictions:#x}"));
    let mut limit = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("limit: {name} {value}")));
    };
    let set = |value: usize| (value != 0).then(|| value.to_string());
    limit("time in ms", report.timeout_ms.map(|time| time.to_string()));
    limit("memory", set(job_memory_limit));
    limit("memory of each process", set(process_memory_limit));
    limit("processes", (active_process_limit != 0).then(|| active_process_limit.to_string()));
    limit("user time in 100 ns", (per_job_user_time_limit != 0).then(|| per_job_user_time_limit.to_string()));
    limit("output", report.max_output_bytes.map(|bytes| format!("{bytes}, then {}", report.output_overflow)));
    let Environment { kept, set, dropped } = &report.environment;
    lines.push(format!("variables kept: {}", kept.join(" ")));
    lines.push(format!("variables set: {}", set.join(" ")));
    lines.extend(dropped.iter().map(|dropped| format!("variable dropped: {} ({})", dropped.name, dropped.reason)));
    lines.extend(report.gaps.iter().map(|gap| format!("gap: {} ({})", gap.protection, gap.missing)));
    lines.extend(report.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    lines.push(format!("policy: {}", report.policy_sha256));
    lines.iter().flat_map(|line| [escape(line), "\n".into()]).collect::<String>().into_bytes()
}
