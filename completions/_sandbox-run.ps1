
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'sandbox-run' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'sandbox-run'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'sandbox-run' {
            [CompletionResult]::new('-b', '-b', [CompletionResultType]::ParameterName, 'Backends to try, separated by commas [default: auto]')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'Backends to try, separated by commas [default: auto]')
            [CompletionResult]::new('--image', '--image', [CompletionResultType]::ParameterName, 'Image for the container backend')
            [CompletionResult]::new('--allow-gap', '--allow-gap', [CompletionResultType]::ParameterName, 'Protections that may be missing, separated by commas')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Apply a profile')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Apply a profile')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Read settings from a file')
            [CompletionResult]::new('--policy-payload', '--policy-payload', [CompletionResultType]::ParameterName, 'Take settings from base64url JSON')
            [CompletionResult]::new('--policy-fd', '--policy-fd', [CompletionResultType]::ParameterName, 'Read a payload from a descriptor')
            [CompletionResult]::new('--print-policy', '--print-policy', [CompletionResultType]::ParameterName, 'Print the policy and run nothing')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Make PATH visible, read-only')
            [CompletionResult]::new('--read', '--read', [CompletionResultType]::ParameterName, 'Make PATH visible, read-only')
            [CompletionResult]::new('--read-try', '--read-try', [CompletionResultType]::ParameterName, 'Like --read, skipped when PATH is missing')
            [CompletionResult]::new('-w', '-w', [CompletionResultType]::ParameterName, 'Make PATH visible and writable')
            [CompletionResult]::new('--write', '--write', [CompletionResultType]::ParameterName, 'Make PATH visible and writable')
            [CompletionResult]::new('--write-try', '--write-try', [CompletionResultType]::ParameterName, 'Like --write, skipped when PATH is missing')
            [CompletionResult]::new('--mask', '--mask', [CompletionResultType]::ParameterName, 'Hide PATH')
            [CompletionResult]::new('--protect', '--protect', [CompletionResultType]::ParameterName, 'Forbid writing PATH inside a write grant')
            [CompletionResult]::new('--show-hidden', '--show-hidden', [CompletionResultType]::ParameterName, 'Show the hidden NAME, ''all-but-secrets'' or all (''*'') [default: the default list]')
            [CompletionResult]::new('--hidden-scan-max', '--hidden-scan-max', [CompletionResultType]::ParameterName, 'Most entries to search for hidden names [default: 500000]')
            [CompletionResult]::new('--hidden-scan-overflow', '--hidden-scan-overflow', [CompletionResultType]::ParameterName, 'What happens at that number: error, warn, unlimited [default: error]')
            [CompletionResult]::new('-C', '-C ', [CompletionResultType]::ParameterName, 'Working directory of the command [default: the caller''s]')
            [CompletionResult]::new('--workdir', '--workdir', [CompletionResultType]::ParameterName, 'Working directory of the command [default: the caller''s]')
            [CompletionResult]::new('--tmp-size', '--tmp-size', [CompletionResultType]::ParameterName, 'Size of the private /tmp [default: 1G]')
            [CompletionResult]::new('--net', '--net', [CompletionResultType]::ParameterName, 'Network: off, or that of the host [default: off]')
            [CompletionResult]::new('--allow-host', '--allow-host', [CompletionResultType]::ParameterName, 'Let requests that RULE covers leave by a proxy')
            [CompletionResult]::new('--credential', '--credential', [CompletionResultType]::ParameterName, 'Add a secret to requests that leave, unseen by COMMAND')
            [CompletionResult]::new('--upstream-proxy', '--upstream-proxy', [CompletionResultType]::ParameterName, 'Reach servers through the http proxy at URL')
            [CompletionResult]::new('--egress-socket', '--egress-socket', [CompletionResultType]::ParameterName, 'Lead to the proxy behind the Unix socket PATH')
            [CompletionResult]::new('--egress-port', '--egress-port', [CompletionResultType]::ParameterName, 'Port inside for ''--egress-socket''')
            [CompletionResult]::new('--net-log', '--net-log', [CompletionResultType]::ParameterName, 'Add a line of JSON to FILE for each request')
            [CompletionResult]::new('--deny-socket', '--deny-socket', [CompletionResultType]::ParameterName, 'Make the Unix socket PATH unreachable')
            [CompletionResult]::new('--allow-socket', '--allow-socket', [CompletionResultType]::ParameterName, 'Let the command connect to the Unix socket PATH')
            [CompletionResult]::new('-e', '-e', [CompletionResultType]::ParameterName, 'Pass NAME or ''PREFIX_*'', or set NAME=VALUE')
            [CompletionResult]::new('--env', '--env', [CompletionResultType]::ParameterName, 'Pass NAME or ''PREFIX_*'', or set NAME=VALUE')
            [CompletionResult]::new('--env-file', '--env-file', [CompletionResultType]::ParameterName, 'Read lines like the words of --env from FILE')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'How long the command may run')
            [CompletionResult]::new('--kill-after', '--kill-after', [CompletionResultType]::ParameterName, 'Grace between a termination signal and SIGKILL [default: 2s]')
            [CompletionResult]::new('--memory', '--memory', [CompletionResultType]::ParameterName, 'Memory of everything inside together')
            [CompletionResult]::new('--cpu-time', '--cpu-time', [CompletionResultType]::ParameterName, 'Processor time, in whole seconds')
            [CompletionResult]::new('--max-procs', '--max-procs', [CompletionResultType]::ParameterName, 'Processes and threads at a time')
            [CompletionResult]::new('--max-file-size', '--max-file-size', [CompletionResultType]::ParameterName, 'Size of each file that is written')
            [CompletionResult]::new('--max-open-files', '--max-open-files', [CompletionResultType]::ParameterName, 'Descriptors that each process has open')
            [CompletionResult]::new('--address-space', '--address-space', [CompletionResultType]::ParameterName, 'Address space of each process')
            [CompletionResult]::new('--core', '--core', [CompletionResultType]::ParameterName, 'Size of a core file')
            [CompletionResult]::new('--max-output', '--max-output', [CompletionResultType]::ParameterName, 'Standard output and error together')
            [CompletionResult]::new('--output-overflow', '--output-overflow', [CompletionResultType]::ParameterName, 'At --max-output: truncate or kill [default: truncate]')
            [CompletionResult]::new('--keep-fd', '--keep-fd', [CompletionResultType]::ParameterName, 'Keep descriptor N open for the command')
            [CompletionResult]::new('--new-session', '--new-session', [CompletionResultType]::ParameterName, 'Own session: auto, always or never [default: auto]')
            [CompletionResult]::new('--result', '--result', [CompletionResultType]::ParameterName, 'Write one JSON object about the run to FILE')
            [CompletionResult]::new('--result-fd', '--result-fd', [CompletionResultType]::ParameterName, 'Write the same object to descriptor N')
            [CompletionResult]::new('--audit-log', '--audit-log', [CompletionResultType]::ParameterName, 'Append one JSON line about the run to FILE')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Print what would be done, run nothing')
            [CompletionResult]::new('--explain', '--explain', [CompletionResultType]::ParameterName, 'Say what COMMAND could do with PATH, run nothing')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of what is said on standard error [default: text]')
            [CompletionResult]::new('--completions', '--completions', [CompletionResultType]::ParameterName, 'Print the completion script for SHELL')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'Try every backend and say what works')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'With --check or --explain: print one JSON object')
            [CompletionResult]::new('--create-missing', '--create-missing', [CompletionResultType]::ParameterName, 'Create missing directories of --write')
            [CompletionResult]::new('--no-default-env', '--no-default-env', [CompletionResultType]::ParameterName, 'Inherit only what --env names')
            [CompletionResult]::new('--keep-jobserver', '--keep-jobserver', [CompletionResultType]::ParameterName, 'Keep the jobserver of make')
            [CompletionResult]::new('--capture', '--capture', [CompletionResultType]::ParameterName, 'Put the output into the result')
            [CompletionResult]::new('--trace', '--trace', [CompletionResultType]::ParameterName, 'Run COMMAND under strace, list what it was refused')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more on standard error; repeatable')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more on standard error; repeatable')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say only errors on standard error')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say only errors on standard error')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (--help: in full)')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (--help: in full)')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print the version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print the version')
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
