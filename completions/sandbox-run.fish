complete -c sandbox-run -s b -l backend -d 'Backends to try, separated by commas [default: auto]' -r -f -a "auto\t''
bwrap\t''
namespace\t''
landlock\t''
seatbelt\t''
container\t''
jobobject\t''
none\t''"
complete -c sandbox-run -l image -d 'Image for the container backend' -r -f
complete -c sandbox-run -l allow-gap -d 'Protections that may be missing, separated by commas' -r -f -a "files-read\t''
files-write\t''
masks\t''
network\t''
sockets\t''
processes\t''
privileges\t''
environment\t''
memory\t''
cpu\t''
procs\t''
file-size\t''
open-files\t''
output\t''
time\t''"
complete -c sandbox-run -s p -l profile -d 'Apply a profile' -r -f
complete -c sandbox-run -l policy -d 'Read settings from a file' -r -F
complete -c sandbox-run -l policy-payload -d 'Take settings from base64url JSON' -r -f
complete -c sandbox-run -l policy-fd -d 'Read a payload from a descriptor' -r -f
complete -c sandbox-run -l print-policy -d 'Print the policy and run nothing' -r -f -a "json\t''
toml\t''
payload\t''"
complete -c sandbox-run -s r -l read -d 'Make PATH visible, read-only' -r -F
complete -c sandbox-run -l read-try -d 'Like --read, skipped when PATH is missing' -r -F
complete -c sandbox-run -s w -l write -d 'Make PATH visible and writable' -r -F
complete -c sandbox-run -l write-try -d 'Like --write, skipped when PATH is missing' -r -F
complete -c sandbox-run -l mask -d 'Hide PATH' -r -F
complete -c sandbox-run -l protect -d 'Forbid writing PATH inside a write grant' -r -F
complete -c sandbox-run -l show-hidden -d 'Show the hidden NAME, \'all-but-secrets\' or all (\'*\') [default: the default list]' -r -f
complete -c sandbox-run -l hidden-scan-max -d 'Most entries to search for hidden names [default: 500000]' -r -f
complete -c sandbox-run -l hidden-scan-overflow -d 'What happens at that number: error, warn, unlimited [default: error]' -r -f -a "error\t''
warn\t''
unlimited\t''"
complete -c sandbox-run -s C -l workdir -d 'Working directory of the command [default: the caller\'s]' -r -f -a "(__fish_complete_directories)"
complete -c sandbox-run -l tmp-size -d 'Size of the private /tmp [default: 1G]' -r -f
complete -c sandbox-run -l net -d 'Network: off, or that of the host [default: off]' -r -f -a "off\t''
host\t''"
complete -c sandbox-run -l allow-host -d 'Let requests that RULE covers leave by a proxy' -r -f
complete -c sandbox-run -l credential -d 'Add a secret to requests that leave, unseen by COMMAND' -r -f
complete -c sandbox-run -l upstream-proxy -d 'Reach servers through the http proxy at URL' -r -f
complete -c sandbox-run -l egress-socket -d 'Lead to the proxy behind the Unix socket PATH' -r -F
complete -c sandbox-run -l egress-port -d 'Port inside for \'--egress-socket\'' -r -f
complete -c sandbox-run -l net-log -d 'Add a line of JSON to FILE for each request' -r -F
complete -c sandbox-run -l deny-socket -d 'Make the Unix socket PATH unreachable' -r -F
complete -c sandbox-run -l allow-socket -d 'Let the command connect to the Unix socket PATH' -r -F
complete -c sandbox-run -s e -l env -d 'Pass NAME or \'PREFIX_*\', or set NAME=VALUE' -r -f
complete -c sandbox-run -l env-file -d 'Read lines like the words of --env from FILE' -r -F
complete -c sandbox-run -l timeout -d 'How long the command may run' -r -f
complete -c sandbox-run -l kill-after -d 'Grace between a termination signal and SIGKILL [default: 2s]' -r -f
complete -c sandbox-run -l memory -d 'Memory of everything inside together' -r -f
complete -c sandbox-run -l cpu-time -d 'Processor time, in whole seconds' -r -f
complete -c sandbox-run -l max-procs -d 'Processes and threads at a time' -r -f
complete -c sandbox-run -l max-file-size -d 'Size of each file that is written' -r -f
complete -c sandbox-run -l max-open-files -d 'Descriptors that each process has open' -r -f
complete -c sandbox-run -l address-space -d 'Address space of each process' -r -f
complete -c sandbox-run -l core -d 'Size of a core file' -r -f
complete -c sandbox-run -l max-output -d 'Standard output and error together' -r -f
complete -c sandbox-run -l output-overflow -d 'At --max-output: truncate or kill [default: truncate]' -r -f -a "truncate\t''
kill\t''"
complete -c sandbox-run -l keep-fd -d 'Keep descriptor N open for the command' -r -f
complete -c sandbox-run -l new-session -d 'Own session: auto, always or never [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c sandbox-run -l result -d 'Write one JSON object about the run to FILE' -r -F
complete -c sandbox-run -l result-fd -d 'Write the same object to descriptor N' -r -f
complete -c sandbox-run -l audit-log -d 'Append one JSON line about the run to FILE' -r -F
complete -c sandbox-run -l dry-run -d 'Print what would be done, run nothing' -r -f -a "text\t''
json\t''"
complete -c sandbox-run -l explain -d 'Say what COMMAND could do with PATH, run nothing' -r -F
complete -c sandbox-run -l log-format -d 'Form of what is said on standard error [default: text]' -r -f -a "text\t''
json\t''"
complete -c sandbox-run -l completions -d 'Print the completion script for SHELL' -r -f -a "bash\t''
zsh\t''
fish\t''
elvish\t''
powershell\t''"
complete -c sandbox-run -l check -d 'Try every backend and say what works'
complete -c sandbox-run -l json -d 'With --check or --explain: print one JSON object'
complete -c sandbox-run -l create-missing -d 'Create missing directories of --write'
complete -c sandbox-run -l no-default-env -d 'Inherit only what --env names'
complete -c sandbox-run -l keep-jobserver -d 'Keep the jobserver of make'
complete -c sandbox-run -l capture -d 'Put the output into the result'
complete -c sandbox-run -l trace -d 'Run COMMAND under strace, list what it was refused'
complete -c sandbox-run -s v -l verbose -d 'Say more on standard error; repeatable'
complete -c sandbox-run -s q -l quiet -d 'Say only errors on standard error'
complete -c sandbox-run -s h -l help -d 'Print help (--help: in full)'
complete -c sandbox-run -s V -l version -d 'Print the version'
