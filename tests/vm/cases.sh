# shellcheck shell=sh disable=SC2154
# The vocabulary of the scripts beside this one, which run in the virtual machine: as $who, in an empty
# directory of their own, with another one in $outside.

# check NAME STATUS [EXPECTATION]... -- COMMAND...: runs a command, which may be a function. Expectations:
#   =TEXT   standard output is this
#   +TEXT   standard output contains this
#   ~TEXT   standard error contains this
check() {
    name=$1 wanted=$2 wrong=
    shift 2
    expected=
    while [ "$1" != -- ]; do
        expected="$expected$1
"
        shift
    done
    shift
    "$@" >"/tmp/out.$who" 2>"/tmp/err.$who"
    status=$?
    [ $status = "$wanted" ] || wrong="status $status instead of $wanted"
    out=$(cat "/tmp/out.$who") err=$(cat "/tmp/err.$who")
    while IFS= read -r line; do
        text=${line#?}
        case $line in
        '') ;;
        =*) [ "$out" = "$text" ] || wrong="$wrong; standard output is not '$text'" ;;
        +*) contains "$out" "$text" || wrong="$wrong; no '$text' in standard output" ;;
        ~*) contains "$err" "$text" || wrong="$wrong; no '$text' in standard error" ;;
        *) wrong="$wrong; no such expectation: '$line'" ;;
        esac
    done <<END
$expected
END
    if [ -z "$wrong" ]; then
        echo "ok $who: $name" >/dev/results
    else
        {
            echo "not ok $who: $name"
            echo "  ${wrong#; }"
            printf '%s\n' "$out" | head -n 20 | sed 's/^/  out: /'
            printf '%s\n' "$err" | head -n 20 | sed 's/^/  err: /'
        } >/dev/results
    fi
}

contains() {
    case $1 in *"$2"*) return 0 ;; esac
    return 1
}

# soon COMMAND...: whether it succeeds within twenty seconds.
soon() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || return 1
        sleep 0.1
    done
}

# groups: the groups of runs, of whichever user.
groups() { find /sys/fs/cgroup -type d -name 'sandbox-run-*'; }
no_groups() { [ -z "$(groups)" ]; }

# running PATTERN: the numbers of the processes whose command lines match it.
running() {
    perl -e 'opendir(D, "/proc") or die; $/ = undef;
        for (grep { /^\d+$/ && $_ != $$ } readdir(D)) {
            open(F, "<", "/proc/$_/cmdline") or next; my $line = <F> // next; $line =~ tr/\0/ /;
            print "$_\n" if $line =~ /$ARGV[0]/ }' "$1"
}
# somebody PATTERN, nobody PATTERN: whether there is such a process, and whether there is none.
somebody() { [ -n "$(running "$1")" ]; }
nobody() { found=$(running "$1") && [ -z "$found" ]; }

# as_user COMMAND...: for scripts of root.
as_user() { env HOME=/home/user setpriv --reuid 1000 --regid 1000 --clear-groups --inh-caps=-all "$@"; }

# landlock: the version of Landlock on this kernel, -1 where it is off.
landlock() { perl -e 'print syscall(444, 0, 0, 1), "\n"'; }
