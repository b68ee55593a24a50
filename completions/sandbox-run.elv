
use builtin;
use str;

set edit:completion:arg-completer[sandbox-run] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'sandbox-run'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'sandbox-run'= {
            cand -b 'Backends to try, separated by commas [default: auto]'
            cand --backend 'Backends to try, separated by commas [default: auto]'
            cand --image 'Image for the container backend'
            cand --allow-gap 'Protections that may be missing, separated by commas'
            cand -p 'Apply a profile'
            cand --profile 'Apply a profile'
            cand --policy 'Read settings from a file'
            cand --policy-payload 'Take settings from base64url JSON'
            cand --policy-fd 'Read a payload from a descriptor'
            cand --print-policy 'Print the policy and run nothing'
            cand -r 'Make PATH visible, read-only'
            cand --read 'Make PATH visible, read-only'
            cand --read-try 'Like --read, skipped when PATH is missing'
            cand -w 'Make PATH visible and writable'
            cand --write 'Make PATH visible and writable'
            cand --write-try 'Like --write, skipped when PATH is missing'
            cand --mask 'Hide PATH'
            cand --protect 'Forbid writing PATH inside a write grant'
            cand --show-hidden 'Show the hidden NAME, ''all-but-secrets'' or all (''*'') [default: the default list]'
            cand --hidden-scan-max 'Most entries to search for hidden names [default: 500000]'
            cand --hidden-scan-overflow 'What happens at that number: error, warn, unlimited [default: error]'
            cand -C 'Working directory of the command [default: the caller''s]'
            cand --workdir 'Working directory of the command [default: the caller''s]'
            cand --tmp-size 'Size of the private /tmp [default: 1G]'
            cand --net 'Network: off, or that of the host [default: off]'
            cand --allow-host 'Let requests that RULE covers leave by a proxy'
            cand --credential 'Add a secret to requests that leave, unseen by COMMAND'
            cand --upstream-proxy 'Reach servers through the http proxy at URL'
            cand --egress-socket 'Lead to the proxy behind the Unix socket PATH'
            cand --egress-port 'Port inside for ''--egress-socket'''
            cand --net-log 'Add a line of JSON to FILE for each request'
            cand --deny-socket 'Make the Unix socket PATH unreachable'
            cand --allow-socket 'Let the command connect to the Unix socket PATH'
            cand -e 'Pass NAME or ''PREFIX_*'', or set NAME=VALUE'
            cand --env 'Pass NAME or ''PREFIX_*'', or set NAME=VALUE'
            cand --env-file 'Read lines like the words of --env from FILE'
            cand --timeout 'How long the command may run'
            cand --kill-after 'Grace between a termination signal and SIGKILL [default: 2s]'
            cand --memory 'Memory of everything inside together'
            cand --cpu-time 'Processor time, in whole seconds'
            cand --max-procs 'Processes and threads at a time'
            cand --max-file-size 'Size of each file that is written'
            cand --max-open-files 'Descriptors that each process has open'
            cand --address-space 'Address space of each process'
            cand --core 'Size of a core file'
            cand --max-output 'Standard output and error together'
            cand --output-overflow 'At --max-output: truncate or kill [default: truncate]'
            cand --keep-fd 'Keep descriptor N open for the command'
            cand --new-session 'Own session: auto, always or never [default: auto]'
            cand --result 'Write one JSON object about the run to FILE'
            cand --result-fd 'Write the same object to descriptor N'
            cand --audit-log 'Append one JSON line about the run to FILE'
            cand --dry-run 'Print what would be done, run nothing'
            cand --explain 'Say what COMMAND could do with PATH, run nothing'
            cand --log-format 'Form of what is said on standard error [default: text]'
            cand --completions 'Print the completion script for SHELL'
            cand --check 'Try every backend and say what works'
            cand --json 'With --check or --explain: print one JSON object'
            cand --create-missing 'Create missing directories of --write'
            cand --no-default-env 'Inherit only what --env names'
            cand --keep-jobserver 'Keep the jobserver of make'
            cand --capture 'Put the output into the result'
            cand --trace 'Run COMMAND under strace, list what it was refused'
            cand -v 'Say more on standard error; repeatable'
            cand --verbose 'Say more on standard error; repeatable'
            cand -q 'Say only errors on standard error'
            cand --quiet 'Say only errors on standard error'
            cand -h 'Print help (--help: in full)'
            cand --help 'Print help (--help: in full)'
            cand -V 'Print the version'
            cand --version 'Print the version'
        }
    ]
    $completions[$command]
}
