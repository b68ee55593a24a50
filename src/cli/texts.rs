//! What each option means, in one line and in full; shown by help and man page.
//!
//! A text promises behaviour: it changes with the code that keeps the promise, in the same commit.

/// The help of one option.
pub(super) struct Text {
    /// Its long name.
    pub(super) id: &'static str,
    /// One line, for `-h`.
    pub(super) short: &'static str,
    /// All of it, for `--help` and the man page; paragraphs are separated by an empty line.
    pub(super) long: &'static str,
    /// What holds when the option is not typed; empty for options that are done instead of running a command.
    pub(super) default: &'static str,
}

/// What the program is.
pub(super) const ABOUT: &str = "Run one command inside an operating-system sandbox";

/// What holds without any option.
pub(super) const LONG_ABOUT: &str = "\
Run one command inside an operating-system sandbox, and report truthfully how it ended.

Without options COMMAND sees, read-only, the system directories, a short list of files from /etc and \
the working directory. It has a /proc that shows only its own processes, a minimal /dev, and a \
private /tmp and home directory, both empty, writable and gone afterwards. There is no /run. It has \
no network but a loopback interface of its own, reaches no socket of the host, and inherits only the \
variables of a fixed list. Command and interpreter are made visible wherever they are, by the file \
alone. Names that begin with a dot, but for a list of those that tools need, are hidden wherever they \
lie below the working directory and grants (see '--show-hidden'). Nothing that was started inside \
outlives the run.

Everything else passes unchanged: the bytes of the arguments, standard input, output and error, \
signals, the terminal, the exit status. A directory as one of the three streams is refused, and so is a socket that leads \
past the sandbox's network, as inetd passes them: put a pipe in between ('| cat'), or give '--net host'.

Options end at the first word that is not one; '--' is optional, and there are no subcommands. Of a \
single setting the last value counts, lists add up. What was asked for is enforced, or nothing is \
started and the status is 125. No file is read that was not named, and no variable changes what \
is enforced.

Paths are resolved once, before the start: relative ones and '..' against the working directory of \
COMMAND (see '-C'), '~' at the start is the home directory, '$NAME' is not expanded. Of several rules \
the one with the most specific path decides; at the same path masks, protects and denied sockets win \
over grants, and writing over reading.";

/// One entry for each option.
pub(super) const TEXTS: &[Text] = &[
    Text {
        id: "backend",
        short: "Backends to try, separated by commas",
        long: "Backends to try, separated by commas: the first that starts COMMAND under the whole \
            policy is used. 'auto' stands for bwrap, then namespace, then landlock, \
            on Windows for jobobject, and never for no sandbox. 'bwrap' is bubblewrap, looked up in the absolute \
            directories of PATH; 'bubblewrap' and 'linux_bwrap' mean the same. 'namespace' builds the same \
            sandbox without that program. 'landlock' needs no program and no user \
            namespaces: COMMAND confines itself, sees the names of what is closed to it, and has HOME and TMPDIR in \
            directories of the run; a mask or protect inside a write grant is a gap. 'container' starts COMMAND in a \
            container of '--image', by podman or else docker; 'podman' and 'docker' name the one. COMMAND and its libraries \
            are then those of the image. 'jobobject' (also 'windows_jobobject') is what Windows has: processes and limits, neither \
            files nor network. 'none' (also \
            'native', 'direct') does not isolate: it cares for variables, descriptors, signals \
            and exit status only. It gives up with one warning what is merely the default, and \
            refuses every restriction that was typed unless '--allow-gap' names it (a grant counts as one: it says that the rest is closed); 'auto,none' \
            falls back to it in so many words. Where sandbox-run or its process beside COMMAND is killed, COMMAND \
            gets SIGKILL, under 'none' as well. What is not guaranteed of the limits there '--check' says of each. When repeated, the last list counts.",
        default: "auto",
    },
    Text {
        id: "image",
        short: "Image for the container backend",
        long: "The image in which the backend 'container' starts COMMAND, by a name that the engine knows; best with its \
            digest (NAME@sha256:HASH). It must be there: nothing is fetched, 'podman pull' or 'docker pull' does that. Its root is \
            read-only, its entry point and its variables but PATH are not used. An error when no backend of the list \
            is a container.",
        default: "none",
    },
    Text {
        id: "allow-gap",
        short: "Protections that may be missing, separated by commas",
        long: "Start even if these protections, separated by commas, cannot be enforced here: \
            files-read, files-write, masks, network, sockets, processes, privileges, \
            environment, memory, cpu, procs, file-size, open-files, output, time. Otherwise a protection that is needed and cannot be enforced is an \
            error (status 125). '--dry-run' lists the gaps. Repeatable.",
        default: "none",
    },
    Text {
        id: "check",
        short: "Try every backend and say what works",
        long: "Run a trivial command with every backend, for real, and print which ones work and \
            enforce the policy, which do not, why, and what would help. The policy is the default one with \
            the options, files and profiles that are given, so '--check --memory 64M' asks whether memory can be \
            bounded; '--backend' is ignored. The status is 0 only if a backend of 'auto' enforces \
            it. Takes no COMMAND.",
        default: "",
    },
    Text {
        id: "json",
        short: "With --check or --explain: print one JSON object",
        long: "With '--check' or '--explain': print one JSON object instead of text.",
        default: "off",
    },
    Text {
        id: "profile",
        short: "Apply a profile",
        long: "Apply a profile: settings under a name, built in or from \
            $XDG_CONFIG_HOME/sandbox-run/profiles/NAME.toml (~/.config when that is not set). Profiles are \
            applied in the order typed, under the policy file and the other options, which add to their \
            lists and override their single settings. 'help' lists them all. Repeatable.",
        default: "none",
    },
    Text {
        id: "policy",
        short: "Read settings from a file",
        long: "Read settings from FILE, TOML or (with the ending .json) JSON; '-' is standard input, of which \
            COMMAND then sees only the end. Every key is described in sandbox-run(5); an unknown one is an error. \
            A file that holds a record, as base64url or as its JSON, is read like '--policy-payload'. \
            FILE is relative to the caller's directory, whatever '-C' says. It is read once and can be a FIFO, such as \
            the '<(command)' of a shell; one without a writer is waited for. \
            Options add to the file's lists and override its single settings. No file is read unless it is named. \
            Excludes '--policy-payload', '--policy-fd' and a second '--policy'; profiles add up.",
        default: "none",
    },
    Text {
        id: "policy-payload",
        short: "Take settings from base64url JSON",
        long: "Take settings from TEXT, the base64url form of a JSON record as other launchers hand it over. It is \
            read strictly: every key must be there and of its type. TEXT can be read in the list of processes; \
            '--policy-fd' avoids that. A list of variables that is null means the default list, with a warning. \
            Excludes '--policy' and '--policy-fd'.",
        default: "none",
    },
    Text {
        id: "policy-fd",
        short: "Read a payload from a descriptor",
        long: "Read the text of '--policy-payload' from descriptor N, 3 or higher, to its end. COMMAND does not see \
            the descriptor. Excludes '--policy' and '--policy-payload'.",
        default: "none",
    },
    Text {
        id: "print-policy",
        short: "Print the policy and run nothing",
        long: "Print the merged policy and run nothing: as 'toml' with the origin of \
            each setting as a comment, as 'json', or as 'payload', which fails when a record has no place for \
            something. What is printed can be read back by '--policy' or '--policy-payload' and means the same in the same \
            directory. In 'toml' and 'json' paths stand as they were written, '.' and '~/x' too, so that the file can go to \
            other users and places; profiles are laid in, and backend_type is the list that auto stands for here: \
            sandbox-run(5) says what is portable. In 'payload' all paths are absolute. A form is typed after '=' \
            only. COMMAND may be left out.",
        default: "",
    },
    Text {
        id: "read",
        short: "Make PATH visible, read-only",
        long: "Make PATH visible at its own place and read-only: a file, or a directory with \
            everything in it. A missing PATH is an error. A read grant inside a write grant is \
            read-only, in whatever order they were typed. A Unix socket or FIFO inside it can \
            still be used ('--deny-socket' closes one). What a wider grant, such as '--read /', does not \
            show: /run, what the kernel tells of the host's processes below /sys, and well-known places of secrets (~/.ssh, \
            ~/.aws, /etc/shadow and more); a grant of the place itself does. A link to such a place grants nothing: name the place. /proc and /dev are always the sandbox's \
            own; single devices can be granted, by '--write'. Repeatable.",
        default: "none",
    },
    Text {
        id: "read-try",
        short: "Like --read, skipped when PATH is missing",
        long: "Like '--read', but a missing PATH is skipped. Repeatable.",
        default: "none",
    },
    Text {
        id: "write",
        short: "Make PATH visible and writable",
        long: "Make PATH visible at its own place and writable: a file, or a directory with \
            everything in it. What is written stays on the host. Hooks and settings of git repositories \
            in it stay protected, unless PATH names them, but not programs and scripts that settings name. A single file can be changed \
            in place but not replaced: for programs that save by renaming, grant its directory. \
            A rename from one grant to another is one between file systems (EXDEV), with which \
            mv copes. Sockets and FIFOs in it can be used, except well-known control sockets (see '--allow-socket'). Secrets and /run \
            stay hidden as with '--read'. A missing PATH is an error, unless '--create-missing' \
            is given. Repeatable.",
        default: "none",
    },
    Text {
        id: "write-try",
        short: "Like --write, skipped when PATH is missing",
        long: "Like '--write', but a missing PATH is skipped, and never created. Repeatable.",
        default: "none",
    },
    Text {
        id: "create-missing",
        short: "Create missing directories of --write",
        long: "When the PATH of a '--write' does not exist, make it a directory, with its parents. \
            It stays on the host once COMMAND has started; when nothing was started, what was made \
            is removed again. Masks and protects of it hold as if it had been there. '--check' and \
            '--dry-run' make nothing.",
        default: "off",
    },
    Text {
        id: "mask",
        short: "Hide PATH",
        long: "Hide PATH: in its place stands an empty file or directory that cannot be written. \
            Only what exists can be hidden; a missing PATH is noted with '-v' and otherwise ignored, and \
            nothing is left on the host. '--explain PATH' tells whether it is hidden. A grant of something below a mask shows that again; a \
            mask at the path of a grant wins. Repeatable.",
        default: "none",
    },
    Text {
        id: "protect",
        short: "Forbid writing PATH inside a write grant",
        long: "Forbid writing PATH inside a write grant; reading stays allowed. It can neither be \
            replaced nor renamed away together with a parent directory. A missing PATH is no \
            error and COMMAND can make it where it may write: then a warning at the end says so. Repeatable.",
        default: "none",
    },
    Text {
        id: "show-hidden",
        short: "Show the hidden NAME, 'all-but-secrets' or all ('*')",
        long: "Names that begin with a dot are hidden below the working directory and every grant, at any \
            depth (an empty file or directory that cannot be written stands in the place), except those of a default list: .git, .github, .gitignore, .venv, .vscode, .eslintrc and \
            others that tools need and that hold no secret by custom (see sandbox-run(5)). This option \
            adds NAME to the list, wherever it occurs. 'all-but-secrets' shows every name but those of well-known \
            secrets (.env, .npmrc, .ssh, .aws and the like), for tools that keep state in names that nobody \
            knows. '*' shows all; then nothing is searched for. A \
            grant of the place itself shows it as well. Under the default list a file that git tracks and has \
            with the same content stays visible, unless it is a well-known secret. What COMMAND makes \
            is visible to it, and hidden in the next run unless its name is shown. In HOME itself, well-known places of secrets stay hidden with '*'. Repeatable.",
        default: "the default list",
    },
    Text {
        id: "hidden-scan-max",
        short: "Most entries to search for hidden names",
        long: "How many directory entries are looked at before the start, to find the names that have to be \
            hidden. Directories of dependencies (node_modules, target, vendor and the like) come last; \
            in those of toolchains in HOME (~/.cargo, ~/.rustup, ~/.pyenv and the like) only well-known secrets and \
            repositories are looked for: where only reading is granted as many entries once more, and a warning says where that ended.",
        default: "500000",
    },
    Text {
        id: "hidden-scan-overflow",
        short: "What happens at that number: error, warn, unlimited",
        long: "What happens when there are more entries than '--hidden-scan-max'. 'error': nothing is started. \
            'warn': COMMAND starts, with a warning, and what was not looked at stays \
            visible, and repositories there unprotected. 'unlimited': there is no limit.",
        default: "error",
    },
    Text {
        id: "workdir",
        short: "Working directory of the command",
        long: "Start COMMAND in DIR, which becomes visible read-only unless a grant says more. '/' \
            and '/tmp' add nothing to what is visible. If DIR is the home directory, it stands \
            in place of the private one; places of secrets in it stay hidden.",
        default: "the caller's",
    },
    Text {
        id: "tmp-size",
        short: "Size of the private /tmp",
        long: "How much fits into the private /tmp, and as much into the private home directory, into \
            /dev/shm and into /var/tmp where that is another one: bytes, or with K, M, G, T (powers of 1024; \
            KiB and so on mean the same), at least 4K. What lies there occupies memory, in total several \
            times SIZE. It bounds bytes; how many files there are is bounded by '--memory' alone.",
        default: "1G",
    },
    Text {
        id: "net",
        short: "Network: off, or that of the host",
        long: "'off' gives COMMAND a network of its own with nothing but a loopback interface. \
            'host' gives it the network of the host as it is, with everything that listens on \
            the host's loopback interface; beside '--allow-host' and the like that is a contradiction. Abstract Unix sockets of the host stay out of reach; \
            where the kernel cannot ensure that with 'host' (it needs Landlock ABI 6), it is a \
            gap of 'sockets'.",
        default: "off",
    },
    Text {
        id: "allow-host",
        short: "Let requests that RULE covers leave by a proxy",
        long: "Let requests leave that RULE covers, through a proxy that sandbox-run starts for the run; everything \
            else stays out of reach, as with '--net off', which this implies. RULE is [METHODS ]HOST[:PORT][/PATH]: \
            'example.org' means its ports 80 and 443, '*.example.org' everything below it and not itself, \
            '192.0.2.1:8080', '[2001:db8::1]:443' and '10.0.0.0/8' addresses. METHODS ('GET,HEAD', '*') and PATH \
            ('/repos/**', where '**' stands for whole segments and '*' for a part of one) count in requests of http and https; \
            where a rule has them, the proxy looks into https with an authority of this run, which SSL_CERT_FILE and the \
            like make known to programs. '!RULE' \
            forbids, on all ports unless it names one, and wins. A name that leads to a private or local address \
            is denied unless a rule names that address as well. Programs find the proxy by HTTP_PROXY and the like, which \
            are set; those that ignore them reach nothing. A denied request is answered with 403 and the rule to \
            add. Repeatable.",
        default: "none",
    },
    Text {
        id: "credential",
        short: "Add a secret to requests that leave, unseen by COMMAND",
        long: "Add a secret to requests to one host that '--allow-host' lets leave, and keep it from COMMAND. SPEC is \
            'type=TYPE,host=HOST,SOURCE' with more pairs if need be. TYPE: https_bearer, https_basic, git_https (Authorization: \
            Bearer, and Basic for a 'user=', otherwise x-access-token), gh_basic (GitHub: its web host and its API) or header \
            (the field 'name='). SOURCE: 'env=NAME' is a variable here, 'file=PATH' a file, which is masked inside, \
            'command=WORDS' what a shell prints here within 30 s, asked once. The variable 'as=NAME' (otherwise the \
            one of 'env=', or GH_TOKEN and GITHUB_TOKEN of gh_basic) has a placeholder inside, another one in each run: the proxy \
            puts the secret in its place in that field of requests to HOST over verified TLS, adds it where a request has no \
            such field, and denies requests that carry the placeholder elsewhere. Repeatable.",
        default: "none",
    },
    Text {
        id: "upstream-proxy",
        short: "Reach servers through the http proxy at URL",
        long: "Have the proxy of '--allow-host' connect to no server itself, but ask the proxy at URL for each connection: \
            http://[USER@]HOST:PORT, with a port. A URL with a password is read from the caller's variable NAME ('env=NAME') or from \
            a file ('file=PATH', which is masked inside), never from the command line. Rules are asked as always; a name that they \
            allow goes to URL as a name, and what it leads to is not looked at, so that a rule that forbids addresses is a gap of 'network'. COMMAND does not reach URL itself. The caller's \
            HTTP_PROXY is never used unless it is named here: '--upstream-proxy env=HTTP_PROXY'.",
        default: "none",
    },
    Text {
        id: "egress-socket",
        short: "Lead to the proxy behind the Unix socket PATH",
        long: "Let COMMAND reach a proxy that somebody else runs and that listens on the Unix socket PATH, by the port of \
            '--egress-port', and nothing else: '--net off' is implied. sandbox-run carries bytes and looks at none of \
            them; what may leave is decided by that proxy. Variables such as HTTP_PROXY are set to the port.",
        default: "none",
    },
    Text {
        id: "egress-port",
        short: "Port inside for '--egress-socket'",
        long: "The port on 127.0.0.1 inside that leads to '--egress-socket'. If it cannot be listened on, nothing is started; under \
            landlock it is only a number, and connections to it are made by sandbox-run.",
        default: "none",
    },
    Text {
        id: "net-log",
        short: "Add a line of JSON to FILE for each request",
        long: "Add a line to FILE for each request that the proxy of '--allow-host' passes on or denies: one JSON object with \
            time, verdict, kind, method, host, port, path without the query, rule, reason, status, address, bytes_up, \
            bytes_down and ms, as far as they are known. FILE is made if it is missing, and only its owner can read it then. Without such \
            a proxy nothing is started: an empty file would say that nothing left.",
        default: "none",
    },
    Text {
        id: "deny-socket",
        short: "Make the Unix socket PATH unreachable",
        long: "Make the Unix socket PATH unreachable, also inside a write grant and where \
            '--allow-socket' names it too. A missing PATH is noted with '-v' and otherwise ignored. \
            Repeatable.",
        default: "none",
    },
    Text {
        id: "allow-socket",
        short: "Let the command connect to the Unix socket PATH",
        long: "Make the Unix socket PATH visible and let COMMAND connect to it, also to a \
            well-known control socket, such as that of a container engine, a key agent or a \
            message bus. Whatever its server does for a client is then within reach. The caller's variable \
            that leads to it and to nothing else (SSH_AUTH_SOCK, DOCKER_HOST, CONTAINER_HOST, \
            DBUS_SESSION_BUS_ADDRESS, WAYLAND_DISPLAY, DISPLAY, NOTIFY_SOCKET and the like) passes with it, \
            unless '--no-default-env' is given. A missing PATH is an error. Repeatable.",
        default: "none",
    },
    Text {
        id: "env",
        short: "Pass NAME or 'PREFIX_*', or set NAME=VALUE",
        long: "NAME passes the caller's variable, even one that holds a secret. 'PREFIX_*' passes \
            every variable whose name begins so, except those that look like secrets. NAME=VALUE \
            sets a variable; the value can be read in the list of processes, see '--env-file'. \
            Variables by which the caller's surroundings would run code in COMMAND (LD_PRELOAD, \
            BASH_ENV, PYTHONPATH, NODE_OPTIONS and more) are never inherited, only set by \
            NAME=VALUE. Names that begin with SANDBOX_RUN_ are an error. The last word about a \
            name counts. Repeatable.",
        default: "none",
    },
    Text {
        id: "env-file",
        short: "Read lines like the words of --env from FILE",
        long: "Read words like those of '--env' from FILE, one a line, which keeps values out of \
            the list of processes. A value is the rest of its line, as it is: no quotes, no \
            expansion. Empty lines and lines that begin with '#' count for nothing; a file of more than 8 MiB is \
            an error. The file \
            takes its place among the '--env' words in the order typed, and is relative to the caller's \
            directory, whatever '-C' says. In a write grant COMMAND could change it for the next run. A FIFO is waited \
            for. Repeatable.",
        default: "none",
    },
    Text {
        id: "no-default-env",
        short: "Inherit only what --env names",
        long: "Inherit only what '--env' and '--env-file' name. By default these pass: PATH, HOME, \
            USER, LOGNAME, SHELL, TERM, settings of colour (COLORTERM, NO_COLOR, FORCE_COLOR, \
            CLICOLOR, CLICOLOR_FORCE), LANG, LANGUAGE, LC_*, TZ, and directories of toolchains \
            (such as CARGO_HOME) that are visible; TMPDIR, TMP, TEMP and TEMPDIR are set. PWD is \
            set in each case.",
        default: "off",
    },
    Text {
        id: "timeout",
        short: "How long the command may run",
        long: "End everything inside when COMMAND has run for so long, counted from its start: it gets SIGTERM, and is \
            continued first if it was stopped; after '--kill-after' whatever is left is killed, with what it has started. \
            The status is 124, also when COMMAND exits in between. A number of seconds, fractions allowed, or with ms, s, \
            m, h: 250ms, 0.5, 10s. 0 is no limit; more than a hundred years are taken for a hundred. A sandbox-run that is stopped \
            (SIGSTOP) ends nothing until SIGCONT. Under 'none' what hides by forking may outlive the end where there is no \
            control group.",
        default: "none",
    },
    Text {
        id: "kill-after",
        short: "Grace between a termination signal and SIGKILL",
        long: "How long COMMAND may take to end after SIGTERM, which was sent to sandbox-run and forwarded, \
            or the signal of a limit; then SIGKILL ends everything inside. A duration as with '--timeout'. SIGHUP, SIGINT and \
            SIGQUIT are forwarded as well and start no such time.",
        default: "2s",
    },
    Text {
        id: "memory",
        short: "Memory of everything inside together",
        long: "How much memory everything inside may use together, at least 16M: bytes, or with K, M, G, T (powers of 1024; \
            KiB and so on mean the same). What lies in the private /tmp and home directory and in /dev/shm counts; swap is \
            not used in addition. Where the kernel finds no more room, SIGKILL ends everything inside, with status 137. It needs a \
            control group: version 2 where one is delegated, a running systemd, or version 1 where it is writable. Where there is \
            none, that is a gap of 'memory'. Under 'none' a process that may write to the group's files can leave it. \
            '--address-space' is another thing.",
        default: "none",
    },
    Text {
        id: "cpu-time",
        short: "Processor time, in whole seconds",
        long: "How much processor time may be used, as a duration (see '--timeout') of whole seconds, at least one. Each process \
            gets SIGXCPU at that time, which ends it with status 152, and SIGKILL one second later, with status 137. Where a control group is made (see \
            '--memory'; for this alone systemd is not asked for one), the time of everything inside together counts in the same way; \
            elsewhere a process that is forked counts from zero.",
        default: "none",
    },
    Text {
        id: "max-procs",
        short: "Processes and threads at a time",
        long: "How many processes and threads COMMAND may have at a time, itself included, at least 1; those of sandbox-run do \
            not count. Starting one more fails (EAGAIN), and what becomes of that is up to COMMAND. It needs a control group \
            (see '--memory'; the same version has to have the controllers of both), or, for an ordinary user under bwrap, Linux 5.14, where a resource limit counts within the sandbox \
            alone. Where there is neither, that is a gap of 'procs'.",
        default: "none",
    },
    Text {
        id: "max-file-size",
        short: "Size of each file that is written",
        long: "How large a process can make a file, as a size (see '--memory'); 0 lets nothing be written to files. Writing \
            beyond ends the process by SIGXFSZ, with status 153, or fails (EFBIG) where it ignores that signal. Standard output \
            counts when it is a file. Pipes, sockets and terminals are not concerned, nor is the sum of all files.",
        default: "none",
    },
    Text {
        id: "max-open-files",
        short: "Descriptors that each process has open",
        long: "How many descriptors each process may have open, at least 16. Opening one more fails (EMFILE). It can be lowered \
            inside, not raised; a lower hard limit of the caller stays.",
        default: "none",
    },
    Text {
        id: "address-space",
        short: "Address space of each process",
        long: "How much address space each process may have, as a size (see '--memory') of at least 16M. Asking for more fails \
            (ENOMEM). This bounds no memory in use: runtimes with a garbage collector reserve gigabytes that they never touch \
            and fail to start under such a limit. It can be lowered inside, not raised; a lower hard limit of the caller stays.",
        default: "none",
    },
    Text {
        id: "core",
        short: "Size of a core file",
        long: "How large a core file can be, as a size (see '--memory'); 0 means none. It can be lowered inside, not raised; a lower \
            hard limit of the caller stays. Where the host hands core dumps to a program (core_pattern begins with '|'), that \
            program gets them even with 0.",
        default: "none",
    },
    Text {
        id: "max-output",
        short: "Standard output and error together",
        long: "How much standard output and standard error together may come to, as a size (see '--memory'); 0 is nothing at all. \
            So many bytes are passed on exactly, the first ones; '--output-overflow' says what becomes of the rest. Both are \
            then pipes to sandbox-run instead of the caller's own: no terminals, and COMMAND may hold lines back until it ends. What it \
            writes to /dev/tty, where it has the caller's terminal as standard input, does not count.",
        default: "none",
    },
    Text {
        id: "output-overflow",
        short: "At --max-output: truncate or kill",
        long: "What happens when more is written than '--max-output' allows: 'truncate' reads the rest and throws it away, so \
            that COMMAND goes on, and says so once on standard error at the end; the status is that of COMMAND. 'kill' ends \
            everything inside like '--timeout' does, with status 124. Without '--max-output', here or in a policy file, it has \
            no effect.",
        default: "truncate",
    },
    Text {
        id: "keep-fd",
        short: "Keep descriptor N open for the command",
        long: "Keep descriptor N of the caller, 3 or higher, open for COMMAND under the same \
            number; it must be open. Otherwise only 0, 1 and 2 cross. What an open descriptor \
            leads to is within reach, whatever else is forbidden; a socket leads to the network in which it was made. Repeatable.",
        default: "none",
    },
    Text {
        id: "keep-jobserver",
        short: "Keep the jobserver of make",
        long: "Pass on the jobserver of make: MAKEFLAGS, and the descriptors or the FIFO that it \
            names. Otherwise COMMAND takes no part in the caller's 'make -j'.",
        default: "off",
    },
    Text {
        id: "new-session",
        short: "Own session: auto, always or never",
        long: "'auto' gives COMMAND a session of its own, and with it no controlling terminal, only \
            when none of standard input, output and error is a terminal. 'always' does so in any \
            case: Ctrl-C and Ctrl-Z then do not reach it, and /dev/tty cannot be opened. 'never' \
            leaves it in the caller's session. Putting characters into the terminal's input \
            (TIOCSTI, TIOCLINUX) is refused in each case.",
        default: "auto",
    },
    Text {
        id: "result",
        short: "Write one JSON object about the run to FILE",
        long: "Write one JSON object about the run to FILE, in every ending, see RESULT in the \
            manual page. FILE is replaced as a whole at the end and keeps owner and permissions, a new one has \
            those that the umask leaves; a FIFO or a device is written. Remove an older one beforehand: it stays \
            where nothing can be written, as after SIGKILL. A place that cannot be written, or where COMMAND \
            could lead a reader of FILE astray, is an error before anything starts. In a directory that COMMAND can \
            write, FILE is read-only for it and cannot be moved, removed or put there by it; where there is \
            none, an empty one takes its place until the end, and is what SIGKILL of sandbox-run leaves. Without a \
            sandbox ('none') nothing keeps COMMAND from it, and what it left there is replaced, or removed where \
            that fails. Nothing is \
            written by options that do something else instead of running COMMAND. FILE is relative to the \
            caller's directory, whatever '-C' says. Excludes '--result-fd'.",
        default: "none",
    },
    Text {
        id: "result-fd",
        short: "Write the same object to descriptor N",
        long: "Write the same object as with '--result' to descriptor N of the caller, 3 or \
            higher, which must be open for writing. COMMAND never has it, and a file that it leads to must not \
            be one that COMMAND could write. Excludes '--result'.",
        default: "none",
    },
    Text {
        id: "capture",
        short: "Put the output into the result",
        long: "Put standard output and standard error of COMMAND into the result instead of \
            passing them on, each as text in which bytes that are not UTF-8 are replaced. Of \
            both together '--max-output' bytes are kept, 10 MiB when it is not given; as JSON they can \
            come to six times as many. Needs '--result' or '--result-fd'.",
        default: "off",
    },
    Text {
        id: "audit-log",
        short: "Append one JSON line about the run to FILE",
        long: "Append the object of '--result' to FILE as one line, without output of COMMAND. A \
            FILE that does not exist is made so that only its owner can read it (mode 0600). It must be \
            a file or a terminal and must not lie where COMMAND can write, see '--protect'. It is relative to \
            the caller's directory, whatever '-C' says. No values of variables are in it, but the words of \
            COMMAND are.",
        default: "none",
    },
    Text {
        id: "dry-run",
        short: "Print what would be done, run nothing",
        long: "Print what would be done and run nothing: backend, gaps, what is visible, which \
            variables pass and which are dropped, and the arguments of the launcher. A format is \
            typed after '=' only: '--dry-run=json' prints one JSON object, '--dry-run' alone is \
            text. COMMAND is needed, since it decides what must be visible.",
        default: "",
    },
    Text {
        id: "explain",
        short: "Say what COMMAND could do with PATH, run nothing",
        long: "Say whether COMMAND would see PATH, could read it and could write it, by which rule and who gave \
            that, where links lead, and which option would change it. Then try it inside a sandbox of the \
            same plan: look, open for reading, open for writing; nothing is made, written or connected to, and no \
            command runs. Where the plan and what was tried disagree both are printed and the status is 125. \
            '--json' prints one JSON object. COMMAND may be left out: then the plan is that of /bin/sh. Repeatable.",
        default: "",
    },
    Text {
        id: "trace",
        short: "Run COMMAND under strace, list what it was refused",
        long: "Run COMMAND under strace, which must be installed (without it nothing runs, status 125), and say at the end \
            what the sandbox refused, each once, the most telling first, with the narrowest option that would allow it \
            or the words that none does: files that were not to be written or are not there, hidden names and masks that \
            were met (an open file that is empty), sockets, the network, requests that the proxy of '--allow-host' denied, \
            system calls that the filter refuses. A remark \
            tells where an option would give much away. What a file's own permissions refuse, what does not exist on the \
            host either and what programs look for and do without (locales, the loader, the size of the machine) is left \
            out; '-v' shows the last, and every traced call but those that send data. '-q' keeps notices back, not this list. \
            For this run processes inside may trace each other, of which a warning tells; COMMAND is slower, and \
            inherits one more descriptor. Its status is what it is without. A process has one tracer: where COMMAND is \
            one itself (gdb, lldb, strace and others, by name), it runs without another above it, and nothing is listed.",
        default: "off",
    },
    Text {
        id: "verbose",
        short: "Say more on standard error; repeatable",
        long: "Say more on standard error: what was left out or hidden, which backend starts the command, what the command wrote \
            to places of the sandbox's own, which end with it (names and sizes), and after a failure what would tell more. \
            Twice: every decision as well, one a line: each grant, mask and hidden name with its rule and who gave it, each \
            setting, the names of variables that pass, are set and dropped, and how long each backend took. Three times: \
            all there is. Values of variables are never said.",
        default: "warnings and errors",
    },
    Text {
        id: "quiet",
        short: "Say only errors on standard error",
        long: "Say only errors on standard error, no warnings. The list of '--trace' is no warning: it was asked for.",
        default: "off",
    },
    Text {
        id: "log-format",
        short: "Form of what is said on standard error",
        long: "Form of what is said on standard error: lines of text, or one JSON object per line.",
        default: "text",
    },
    Text {
        id: "completions",
        short: "Print the completion script for SHELL",
        long: "Print the completion script for SHELL: bash, zsh, fish, elvish or powershell. Takes no COMMAND.",
        default: "",
    },
    Text {
        id: "help",
        short: "Print help (--help: in full)",
        long: "Print this help; '-h' prints a summary.",
        default: "",
    },
    Text { id: "version", short: "Print the version", long: "Print the version.", default: "" },
];
