//! Help, man page, completion scripts and README say the same, and what the code says.
//!
//! With `BLESS=1` the files are written anew instead of compared.

mod backends;
mod behaviours;
mod escapes;
mod policy;
pub mod result;
mod schema;

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use sandbox_run::backend::Backend;
use sandbox_run::policy::Protection;
use sandbox_run::policy::limits::Limit;
use sandbox_run::{cli, exit};

/// The scripts by the names under which the shells look for them.
const SCRIPTS: &[(Shell, &str)] = &[
    (Shell::Bash, "completions/sandbox-run.bash"),
    (Shell::Zsh, "completions/_sandbox-run"),
    (Shell::Fish, "completions/sandbox-run.fish"),
    (Shell::Elvish, "completions/sandbox-run.elv"),
    (Shell::PowerShell, "completions/_sandbox-run.ps1"),
];

const MAN_PAGE: &str = "man/sandbox-run.1";

fn file(path: &str) -> PathBuf {
    let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(root).join(path)
}

fn bless() -> bool {
    env::var_os("BLESS").is_some_and(|value| value == "1")
}

/// The committed file must hold exactly this.
fn committed(path: &str, bytes: &[u8]) -> Result<()> {
    let file = file(path);
    if bless() {
        fs::create_dir_all(file.parent().context("no parent")?)?;
        fs::write(&file, bytes)?;
    }
    let found = fs::read(&file).with_context(|| format!("{path}; BLESS=1 writes it"))?;
    ensure!(found == bytes, "{path} is out of date; run the tests once with BLESS=1");
    Ok(())
}

/// Runs a program, or says that it is skipped because the program is not there.
#[allow(clippy::disallowed_methods, reason = "shells are no launched programs")]
#[allow(clippy::print_stderr, reason = "a skip names its reason")]
fn run(program: &str, args: &[&OsStr]) -> Result<Option<Output>> {
    match Command::new(program).args(args).output() {
        Ok(output) => Ok(Some(output)),
        Err(error) => {
            let must_run = env::var_os("SANDBOX_RUN_MUST_RUN").unwrap_or_default();
            let must_run = must_run.to_string_lossy();
            let required = must_run.split(',').any(|word| word == program || word == "all");
            ensure!(!required, "cannot run {program}: {error}");
            eprintln!("skipped: cannot run {program}: {error}");
            Ok(None)
        }
    }
}

/// What a shell script printed with the completion script as its argument; it must not complain.
fn completed(shell: &str, options: &[&str], path: &str, script: &str) -> Result<Option<String>> {
    let path = file(path);
    let mut args: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    args.extend([OsStr::new("-c"), OsStr::new(script)]);
    // For bash and zsh the first word after the script is `$0`; fish has none.
    if shell != "fish" {
        args.push(OsStr::new(shell));
    }
    args.push(path.as_os_str());
    let Some(output) = run(shell, &args)? else { return Ok(None) };
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && stderr.is_empty(), "{shell}: {}: {stderr}", output.status);
    Ok(Some(String::from_utf8(output.stdout)?))
}

/// `--name` and `-n` of every option.
fn options() -> BTreeSet<String> {
    let command = cli::command();
    let long = command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?)));
    let short = command.get_arguments().filter_map(|arg| Some(format!("-{}", arg.get_short()?)));
    long.chain(short).collect()
}

/// The words of a line that begin it and look like options.
fn leading_options(line: &str) -> impl Iterator<Item = String> {
    line.trim_start()
        .split([' ', ',', '[', '.'])
        .filter(|word| !word.is_empty())
        .take_while(|word| word.starts_with('-'))
        .map(str::to_owned)
}

fn help() -> String {
    cli::command().render_long_help().to_string()
}

#[test]
fn completion_scripts_are_up_to_date() -> Result<()> {
    for &(shell, path) in SCRIPTS {
        committed(path, &cli::completions(shell))?;
    }
    Ok(())
}

#[test]
fn bash_completes_options_backends_and_paths() -> Result<()> {
    let script = r#"
        source "$1"
        function=$(complete -p sandbox-run | sed 's/.* -F \([^ ]*\) .*/\1/')
        try() {
            COMP_WORDS=(sandbox-run "$@") COMP_CWORD=$# COMPREPLY=()
            # Outside a real completion `compopt` only complains.
            compopt() { :; }
            "$function" sandbox-run "${@: -1}" "${COMP_WORDS[COMP_CWORD - 1]}"
            echo "$*: ${COMPREPLY[*]}"
        }
        try --ba
        try --allow
        try -b ''
        try --backend n
        try --net ''
        try -v --new-session a
        try --output-overflow ''
        try --completions ''
        try -r /et
        try --mask /et
        try --env FOO
    "#;
    let Some(found) = completed("bash", &["--norc"], "completions/sandbox-run.bash", script)? else {
        return Ok(());
    };
    let expected = "\
--ba: --backend
--allow: --allow-gap --allow-host --allow-socket
-b : auto bwrap namespace landlock seatbelt container jobobject none
--backend n: namespace none
--net : off host
-v --new-session a: auto always
--output-overflow : truncate kill
--completions : bash zsh fish elvish powershell
-r /et: /etc
--mask /et: /etc
--env FOO: FOO
";
    ensure!(found == expected, "{found}");
    Ok(())
}

#[test]
fn zsh_loads_its_script() -> Result<()> {
    let script = r#"
        autoload -Uz compinit && compinit -D -u && source "$1" && print -r -- $_comps[sandbox-run]
    "#;
    if let Some(found) = completed("zsh", &["-f"], "completions/_sandbox-run", script)? {
        ensure!(found == "_sandbox-run\n", "{found}");
    }
    Ok(())
}

#[test]
fn fish_completes_options_and_backends() -> Result<()> {
    let script = r"
        source $argv[1]
        complete -C 'sandbox-run --ba' | string split -f1 \t
        complete -C 'sandbox-run -b ' | string split -f1 \t
        true
    ";
    let path = "completions/sandbox-run.fish";
    if let Some(found) = completed("fish", &["--no-config"], path, script)? {
        ensure!(
            found == "--backend\nauto\nbwrap\ncontainer\njobobject\nlandlock\nnamespace\nnone\nseatbelt\n",
            "{found}"
        );
    }
    Ok(())
}

#[test]
fn help_man_page_and_completions_list_every_option() -> Result<()> {
    let options = options();
    // In the help an option is indented by two, and its text by more.
    let help: BTreeSet<String> = help()
        .lines()
        .filter(|line| line.starts_with("  -") || line.starts_with("      --"))
        .flat_map(leading_options)
        .collect();
    ensure!(help == options, "help: {:?}", help.symmetric_difference(&options));

    let page = plain(&String::from_utf8(man_page()?)?);
    let page: BTreeSet<String> =
        page.split("\n.TP\n").skip(1).filter_map(|entry| entry.lines().next()).flat_map(leading_options).collect();
    ensure!(page == options, "man page: {:?}", page.symmetric_difference(&options));

    let bash = String::from_utf8(cli::completions(Shell::Bash))?;
    let list = bash.split("opts=\"").nth(2).and_then(|rest| rest.split('"').next());
    let bash: BTreeSet<String> = list.context("no list")?.split(' ').map(str::to_owned).collect();
    ensure!(bash == options, "bash: {:?}", bash.symmetric_difference(&options));
    Ok(())
}

#[test]
fn every_option_says_what_holds_without_it() -> Result<()> {
    for arg in cli::command().get_arguments() {
        let Some(name) = arg.get_long() else { continue };
        // These are done instead of running a command.
        if ["check", "completions", "dry-run", "explain", "print-policy", "help", "version"].contains(&name) {
            continue;
        }
        let help = arg.get_long_help().context("no help")?.to_string();
        ensure!(help.contains("[default: "), "--{name}: {help}");
    }
    Ok(())
}

#[test]
fn help_shows_the_exit_status() -> Result<()> {
    let help = help();
    let (_, table) = help.split_once("\nExit status:\n").context("no exit status")?;
    let lines: Vec<&str> = table.lines().map(str::trim_start).collect();
    let expected = exit::TABLE.iter().flat_map(|(status, when)| [*status, when]).chain([cli::EXIT_NOTE]);
    let expected: Vec<&str> = expected.collect();
    ensure!(lines == expected, "{lines:#?}");
    Ok(())
}

#[test]
fn the_man_page_shows_the_exit_status() -> Result<()> {
    let page = plain(&String::from_utf8(man_page()?)?);
    let (_, section) = page.split_once("\n.SH \"EXIT STATUS\"\n").context("no section")?;
    let section = section.split("\n.SH ").next().unwrap_or_default();
    let mut expected = String::new();
    for (status, when) in exit::TABLE {
        expected.extend([".TP\n", status, "\n", when, "\n"]);
    }
    expected.extend([".PP\n", cli::EXIT_NOTE]);
    ensure!(section.trim_end() == expected.trim_end(), "{section}");
    Ok(())
}

#[test]
fn the_readme_shows_the_exit_status() -> Result<()> {
    let mut expected = String::from("| status | when |\n|--:|---|\n");
    for (status, when) in exit::TABLE {
        expected.extend(["| ", status, " | ", when, " |\n"]);
    }
    expected.extend(["\n", cli::EXIT_NOTE, "\n"]);
    table_in_readme("exit-table", &expected)
}

#[test]
fn the_readme_shows_what_each_backend_enforces() -> Result<()> {
    table_in_readme("backend-table", &backend_table())
}

/// Protections by backends.
fn backend_table() -> String {
    let mut expected = String::from("| protection |");
    for backend in Backend::ALL {
        expected.extend([" ", backend.word(), " |"]);
    }
    expected.extend(["\n|---|", &"---|".repeat(Backend::ALL.len()), "\n"]);
    for protection in Protection::ALL {
        expected.extend(["| ", protection.word(), " |"]);
        for backend in Backend::ALL {
            expected.extend([" ", backend.strength(protection).word(), " |"]);
        }
        expected.push('\n');
    }
    expected
}

/// The README has exactly this table between the marks of that name.
fn table_in_readme(name: &str, expected: &str) -> Result<()> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let path = file("README.md");
    let readme = fs::read_to_string(&path).context("README.md")?;
    let marks = || format!("README.md has no {name} marks");
    let (before, rest) = readme.split_once(&begin).with_context(marks)?;
    let (table, after) = rest.split_once(&end).with_context(marks)?;
    if bless() {
        fs::write(&path, [before, &begin, expected, &end, after].concat())?;
    } else {
        ensure!(table == expected, "{table}");
    }
    Ok(())
}

#[test]
fn the_man_page_is_up_to_date() -> Result<()> {
    committed(MAN_PAGE, &man_page()?)
}

#[test]
fn the_man_page_is_sound() -> Result<()> {
    sound(MAN_PAGE)
}

/// groff has nothing to say about the page.
fn sound(page: &str) -> Result<()> {
    let path = file(page);
    let args = ["-man", "-Tascii", "-ww", "-z"].map(OsStr::new);
    let args: Vec<&OsStr> = args.into_iter().chain([path.as_os_str()]).collect();
    if let Some(output) = run("groff", &args)? {
        let complaints = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && complaints.is_empty(), "{complaints}");
    }
    Ok(())
}

/// The source of the man page without its escapes.
fn plain(page: &str) -> String {
    page.replace("\\fB", "").replace("\\fI", "").replace("\\fR", "").replace("\\-", "-").replace("\\*(Aq", "'")
}

/// The man page: what clap knows, in the order readers expect, and our own sections.
fn man_page() -> Result<Vec<u8>> {
    let command = cli::command();
    let version = command.get_version().context("no version")?;
    let source = format!("sandbox-run {version}");
    let man = Man::new(command);
    let mut page = Vec::new();
    let mut title = Roff::new();
    // No date: the page is the same whenever it is made. An empty word needs its quotes.
    title.control("TH", ["SANDBOX-RUN", "1", "\"\"", &source, "User Commands"]);
    title.to_writer(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let mut options = Vec::new();
    man.render_options_section(&mut options)?;
    page.extend(one_section(&String::from_utf8(options)?)?.bytes());
    own_sections().to_writer(&mut page)?;
    once(&String::from_utf8(page)?)
}

/// The groups of options as parts of OPTIONS: ENVIRONMENT is a section of its own in every man page.
fn one_section(options: &str) -> Result<String> {
    let (first, rest) = options.split_once("\n.SH OPTIONS\n").context("no section OPTIONS")?;
    let mut section = format!("{first}\n.SH OPTIONS\n");
    for line in rest.lines() {
        match line.strip_prefix(".SH ") {
            Some(group) => {
                let (initial, others) = group.split_at(1);
                section.extend([".SS ", initial, &others.to_lowercase()]);
            }
            None => section.push_str(line),
        }
        section.push('\n');
    }
    Ok(section)
}

fn own_sections() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (status, when) in exit::TABLE {
        roff.control("TP", []).text([bold(*status)]).text([roman(*when)]);
    }
    roff.control("PP", []).text([roman(cli::EXIT_NOTE)]);
    roff.control("SH", ["SIGNALS"]).text([roman(
        "Each signal that is sent to sandbox-run is passed on to COMMAND, once: all that can be caught but SIGCHLD, real-time signals \
         too. COMMAND does with it what it likes; when it dies of it, the status is 128+n. After SIGTERM it has the grace of \
         --kill-after, and none after a second one. Before COMMAND runs, a signal that ends programs ends the run, but for SIGUSR1, \
         SIGUSR2 and real-time signals, which wait for COMMAND. What the caller ignores COMMAND ignores. An alarm (alarm(2)) of the \
         caller rings for COMMAND. With SIGKILL for sandbox-run everything inside ends.",
    )]);
    roff.control("SH", ["ENDS UNDER LIMITS"]);
    roff.text([roman(
        "What a limit does, the status, and its word among the limits_hit of a result. The command's own status is 'own', and a \
         word in brackets is there where a control group tells of it. 152 and 153 are the statuses where COMMAND itself is hit: a \
         process that it started ends alone, and what becomes of that is up to COMMAND.",
    )]);
    roff.control("PP", []).control("EX", []);
    for (what, code, limit) in cli::ENDS {
        let status = match code {
            cli::Code::Number(number) => number.to_string(),
            cli::Code::Own => "own".to_owned(),
        };
        let word = match limit {
            None => String::new(),
            // Only a control group tells.
            Some(Limit::Procs) => format!("[{}]", Limit::Procs),
            Some(limit) => limit.to_string(),
        };
        roff.text([roman(format!("{what:<39}{status:<6}{word}").trim_end().to_owned())]);
    }
    roff.control("EE", []);
    result::section(&mut roff);
    roff.control("SH", ["ENVIRONMENT"]);
    for (name, meaning) in cli::ENVIRONMENT {
        roff.control("TP", []).text([bold(*name)]).text([roman(*meaning)]);
    }
    roff.control("SH", ["EXAMPLES"]);
    for (what, line) in cli::EXAMPLES {
        roff.control("TP", []).text([roman(format!("{what}:"))]).text([bold(*line)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    let pages = ["bwrap", "env", "timeout", "namespaces", "seccomp"];
    let sections = ["1", "1", "1", "7", "2"];
    let mut list = Vec::new();
    for (at, (page, section)) in pages.into_iter().zip(sections).enumerate() {
        let end = if at + 1 < pages.len() { ", " } else { "" };
        list.extend([bold(page), roman(format!("({section}){end}"))]);
    }
    roff.text(list);
    roff
}

/// Every part begins with the same definition of the apostrophe; one is enough.
fn once(page: &str) -> Result<Vec<u8>> {
    let Some(at) = page.find("\n.TH ") else { bail!("no title") };
    let (definition, rest) = page.split_at(at + 1);
    Ok([definition, &rest.replace(definition, "")].concat().into_bytes())
}

#[test]
fn no_page_holds_two_versions_of_itself() -> Result<()> {
    let pages = fs::read_dir(file("docs"))?.chain(fs::read_dir(file("."))?).map(|entry| Ok(entry?.path()));
    let pages: Vec<_> = pages.collect::<Result<_>>()?;
    let pages: Vec<_> = pages.iter().filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    ensure!(pages.iter().any(|path| path.ends_with(escapes::DOCUMENT)), "it does not look at that page");
    for page in pages {
        let text = fs::read_to_string(page)?;
        let mark = text.lines().find(|line| line.starts_with("<<<<<<<") || line.starts_with(">>>>>>>"));
        ensure!(mark.is_none(), "{}: {mark:?}", page.display());
    }
    Ok(())
}
