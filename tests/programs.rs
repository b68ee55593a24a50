//! Programs of all kinds run under the system-call filter as they do without it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Done, World, find, has, is_root, skip};

/// What the kernel offers to programs, each with its answer.
const OFFERED: &str = r#"
import asyncio, ctypes, errno, mmap, multiprocessing, multiprocessing.shared_memory, os, select, signal, socket, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
def check(name, action):
    try: print(name, action())
    except OSError as error: print(name, errno.errorcode[error.errno])
def call(*arguments):
    done = libc.syscall(*arguments)
    return "done" if done >= 0 else errno.errorcode[ctypes.get_errno()]
def threads():
    seen = []
    several = [threading.Thread(target=seen.append, args=(i,)) for i in range(20)]
    [t.start() for t in several], [t.join() for t in several]
    return len(seen)
async def talk():
    async def serve(reader, writer):
        writer.write(await reader.read(3)); await writer.drain(); writer.close()
    server = await asyncio.start_unix_server(serve, os.environ["TMPDIR"] + "/s")
    reader, writer = await asyncio.open_unix_connection(os.environ["TMPDIR"] + "/s")
    writer.write(b"abc")
    process = await asyncio.create_subprocess_exec("echo", "hi", stdout=-1)
    return await reader.read(), (await process.communicate())[0], await asyncio.to_thread(len, "four")
def pool():
    with multiprocessing.get_context("spawn").Pool(2) as pool: return pool.map(abs, [-1, -2])
def shared():
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=10)
    memory.buf[0] = 7; memory.close(); memory.unlink(); return "done"
def pair():
    a, b = socket.socketpair()
    reader, writer = os.pipe()
    socket.send_fds(a, [b"x"], [writer])
    os.write(socket.recv_fds(b, 1, 1)[1][0], b"y")
    return os.read(reader, 1)
def loopback():
    server = socket.create_server(("127.0.0.1", 0)); client = socket.create_connection(server.getsockname())
    server.accept()[0].send(b"hi"); return client.recv(9)
def filled():
    fd = os.open(os.environ["TMPDIR"] + "/a", os.O_CREAT | os.O_RDWR)
    os.write(fd, b"0123456789"); os.lseek(fd, 0, 0)
    return fd
def jit():
    memory = libc.mmap
    memory.restype = ctypes.c_void_p
    at = memory(None, 4096, 3, 0x22, -1, 0)
    return libc.mprotect(ctypes.c_void_p(at), 4096, 5)
def queue():
    rt = ctypes.CDLL("librt.so.1", use_errno=True)
    fd = rt.mq_open(b"/test", os.O_CREAT | os.O_RDWR, 0o600, None)
    sent = rt.mq_send(fd, b"hi", 2, 0)
    text = ctypes.create_string_buffer(8192)
    got = rt.mq_receive(fd, text, 8192, None)
    rt.mq_unlink(b"/test")
    return fd >= 0, sent, got, text.value
def own_filter():
    if os.fork() == 0:
        code = (ctypes.c_uint64 * 1)(0x7FFF0000_00000006)
        program = (ctypes.c_uint64 * 2)(1, ctypes.addressof(code))
        libc.prctl(38, 1, 0, 0, 0)
        os._exit(0 if libc.prctl(22, 2, program) == 0 else 1)
    return os.waitstatus_to_exitcode(os.wait()[1])
if __name__ == "__main__":
    check("threads", threads)
    check("asyncio", lambda: asyncio.run(talk()))
    check("pool", pool)
    check("shared memory", shared)
    check("semaphores", lambda: [multiprocessing.Lock(), multiprocessing.Queue(), "done"][2])
    check("pair", pair)
    check("loopback", loopback)
    check("jit", jit)
    check("queue", queue)
    check("own filter", own_filter)
    check("landlock", lambda: call(444, 0, 0, 1) in ("done", "ENOSYS", "EOPNOTSUPP"))
    check("fork", lambda: os.waitstatus_to_exitcode(os.waitpid(os.posix_spawnp("sh", ["sh", "-c", "exit 5"], os.environ), 0)[1]))
    check("epoll", lambda: select.epoll().poll(0))
    check("memfd", lambda: os.write(os.memfd_create("m"), b"abc"))
    check("affinity", lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))
    check("eventfd", lambda: os.eventfd_write(os.eventfd(0), 1))
    check("pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 0))
    check("priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, 5))
    check("names", lambda: bool(socket.if_nameindex()))
    check("addresses", lambda: socket.getaddrinfo("127.0.0.1", 80)[0][4])
    check("resolver", lambda: socket.getaddrinfo("localhost", 80)[0][4][1])
    check("copy", lambda: os.copy_file_range(filled(), os.open(os.environ["TMPDIR"] + "/c", os.O_CREAT | os.O_WRONLY), 10))
    check("lease", lambda: __import__("fcntl").flock(os.open(os.environ["TMPDIR"] + "/c", 0), 2))
"#;

#[test]
fn what_programs_need_they_have() {
    let world = World::new();
    world.write("w/offered.py", OFFERED);
    world.dir("o/tmp");
    let outside = world.call(find("python3").unwrap(), ["offered.py"]).env("TMPDIR", world.path("o/tmp")).done();
    let outside = outside.code(0).stderr("").out();
    for options in [&[][..], &["-w", "."], &["--new-session", "never"]] {
        world.run([options, &["python3", "offered.py"]].concat()).done().is(0, &outside, "");
    }
    for line in ["threads 20", "asyncio (b'abc', b'hi\\n', 4)", "pair b'y'", "loopback b'hi'", "own filter 0", "jit 0"]
    {
        assert!(outside.contains(line), "{line}\n{outside}");
    }
}

/// Runs `script` in the working directory inside, with what `options` grant, and outside: the same must come of it.
#[track_caller]
fn same(world: &World, options: &[&str], script: &str) -> Done {
    let outside = world.sh(["-q", "-b", "none"], script).done().code(0);
    let inside = world.sh(options, script).done();
    inside.is(0, &outside.out(), &outside.stderr)
}

#[test]
fn programs_of_all_kinds_run() {
    let world = World::new();
    same(&world, &["-w", "."], "git init -q r && cd r && git -c user.name=n -c user.email=e commit -q --allow-empty -m m && git log --format=%s && cd .. && rm -rf r").stdout("m\n");
    world.write("w/t.c", "#include <pthread.h>\n#include <stdio.h>\nstatic void *f(void *p) { return p; }\nint main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); puts(\"joined\"); return 0; }\n");
    same(&world, &["-w", "."], "gcc -pthread -o t t.c && ./t && rm t").stdout("joined\n");
    // LeakSanitizer stops the process by ptrace; without that search everything else of the sanitizer works.
    if world.sh(["-q", "-b", "none"], "gcc -fsanitize=address -o a t.c && ./a").done().code == Some(0) {
        world.sh([""; 0], "ASAN_OPTIONS=detect_leaks=0 ./a").done().is(0, "joined\n", "");
        world.sh([""; 0], "./a").done().code(1).stderr_has("LeakSanitizer has encountered a fatal error");
    }
}

#[test]
fn node_works_with_workers_and_children() {
    if !has("node") {
        return;
    }
    let world = World::new();
    let script = "const os = require('os'), net = require('net'), {Worker} = require('worker_threads');
        const {execSync, fork} = require('child_process');
        if (process.argv[2] === 'child') { process.send('forked'); process.disconnect(); return; }
        os.networkInterfaces();
        const worker = () => new Promise((done, failed) => new Worker(
            'require(\"worker_threads\").parentPort.postMessage(new Int32Array(new SharedArrayBuffer(4)).length + 6)',
            {eval: true}).on('message', done).on('error', failed));
        const forked = () => new Promise((done, failed) => fork(__filename, ['child']).on('message', done).on('error', failed));
        const served = () => new Promise((done, failed) => {
            const server = net.createServer(socket => { socket.end('served'); server.close() }).on('error', failed);
            server.listen(0, '127.0.0.1', () =>
                net.connect(server.address().port, '127.0.0.1').on('data', data => done(data + '')).on('error', failed)) });
        const looked = () => require('dns').promises.lookup('localhost', {family: 4});
        (async () => {
            const seven = await Promise.all(Array.from({length: 8}, worker));
            console.log(...seven, execSync('echo child') + await forked(), await served(), (await looked()).address);
        })();";
    world.write("w/main.js", script);
    same(&world, &[], "node main.js").stdout("7 7 7 7 7 7 7 7 child\nforked served 127.0.0.1\n");
}

#[test]
fn java_works_with_threads_sockets_and_children() {
    if !has("java") || !has("javac") {
        return;
    }
    let world = World::new();
    let source = "import java.net.*;
        import java.util.concurrent.*;
        import java.util.stream.*;
        class T { public static void main(String[] a) throws Exception {
            ExecutorService pool = Executors.newFixedThreadPool(20);
            CountDownLatch all = new CountDownLatch(20);
            for (int i = 0; i < 20; i++) pool.submit(() -> { all.countDown(); all.await(); return 0; });
            all.await();
            pool.shutdown();
            long sum = new ForkJoinPool(4).submit(() -> LongStream.range(0, 100000).parallel().sum()).get();
            ServerSocket server = new ServerSocket(0, 5, InetAddress.getLoopbackAddress());
            Thread thread = new Thread(() -> {
                try (Socket one = server.accept()) { one.getOutputStream().write(7); } catch (Exception e) { e.printStackTrace(); } });
            thread.start();
            int got = new Socket(server.getInetAddress(), server.getLocalPort()).getInputStream().read();
            thread.join();
            NetworkInterface.getNetworkInterfaces();
            Process child = new ProcessBuilder(\"echo\", \"child\").start();
            String said = new String(child.getInputStream().readAllBytes()).trim();
            System.out.println(sum + \" \" + got + \" \" + said + \" \" + child.waitFor()); } }";
    world.write("w/T.java", source);
    // Each collector has threads and memory of its own kind.
    let script = "javac T.java && for gc in Serial Parallel G1; do java -XX:+Use${gc}GC T || exit; done";
    let expected = "4999950000 7 child 0\n".repeat(3);
    world.sh(["-p", "jvm", "-w", "."], script).done().is(0, &expected, "");
    world.sh(["-q", "-b", "none"], script).done().is(0, &expected, "");
}

#[test]
fn go_works_with_goroutines_listeners_signals_and_children() {
    if !has("go") {
        return;
    }
    let world = World::new();
    let source = "package main\n
        import (\n\"fmt\"\n\"io\"\n\"net\"\n\"os\"\n\"os/exec\"\n\"os/signal\"\n\"syscall\"\n)\n
        func must(err error) { if err != nil { panic(err) } }\n
        func main() {
            listener, err := net.Listen(\"tcp\", \"127.0.0.1:0\")
            must(err)
            go func() { for {
                one, err := listener.Accept()
                must(err)
                go func() { io.Copy(one, one); one.Close() }() } }()
            lengths := make(chan int)
            for i := 0; i < 100; i++ { go func() {
                one, err := net.Dial(\"tcp\", listener.Addr().String())
                must(err)
                one.Write([]byte(\"ping\"))
                one.(*net.TCPConn).CloseWrite()
                text, err := io.ReadAll(one)
                must(err)
                lengths <- len(text) }() }
            total := 0
            for i := 0; i < 100; i++ { total += <-lengths }
            got := make(chan os.Signal, 1)
            signal.Notify(got, syscall.SIGUSR1)
            must(syscall.Kill(os.Getpid(), syscall.SIGUSR1))
            <-got
            said, err := exec.Command(\"echo\", \"child\").Output()
            must(err)
            fmt.Print(total, \" \", string(said)) }\n";
    world.write("w/g.go", source);
    same(&world, &[], "go run g.go").stdout("400 child\n");
}

/// A repository of files, and settings that lead apt to it and to nothing of the machine.
const REPOSITORY: &str = r#"
mkdir -p p/DEBIAN p/usr repo lists/partial cache/archives/partial none
printf 'Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: tiny\n' >p/DEBIAN/control
echo content >p/usr/file
dpkg-deb -b -Zgzip --root-owner-group p repo/tiny.deb >/dev/null
sum() { sha256sum "$1" | cut -d' ' -f1; }
{ cat p/DEBIAN/control; echo Filename: ./tiny.deb; stat -c 'Size: %s' repo/tiny.deb; echo "SHA256: $(sum repo/tiny.deb)"; } >repo/Packages
{ echo "Date: Thu, 01 Jan 2026 00:00:00 UTC"; echo SHA256:; echo " $(sum repo/Packages) $(stat -c %s repo/Packages) Packages"; } >repo/Release
: >status
echo "deb [trusted=yes] file:$PWD/repo ./" >sources
for part in Etc::main Etc::parts Etc::preferences Etc::preferencesparts Etc::sourceparts Etc::trustedparts Log; do
    echo "Dir::$part \"$PWD/none\";"
done >apt.conf
cat >>apt.conf <<end
Dir::Etc::sourcelist "$PWD/sources"; Dir::State "$PWD"; Dir::State::status "$PWD/status"; Dir::State::lists "$PWD/lists";
Dir::Cache "$PWD/cache"; Acquire::Languages "none"; APT::Architecture "amd64"; Dir::Etc::trusted "$PWD/none/none";
end
"#;

#[test]
fn apt_downloads_from_a_repository_of_files() {
    if !has("apt-get") || !has("dpkg-deb") {
        return;
    }
    let world = World::new();
    world.call("sh", ["-ec", REPOSITORY]).done().is(0, "", "");
    let script = "set -e
        export APT_CONFIG=$PWD/apt.conf
        apt-get -q $own update >/dev/null
        apt-cache policy tiny | grep Candidate
        apt-get -q $own --print-uris download tiny | cut -d' ' -f1,2
        apt-get -q $own download tiny >/dev/null
        dpkg-deb -f tiny_1.0_all.deb Package
        dpkg-deb -x tiny_1.0_all.deb out
        cat out/usr/file
        rm -r out tiny_1.0_all.deb lists/*Packages";
    // As root, apt works under another user id, and there is none but ours inside.
    let script = format!("own='{}'\n{script}", if is_root() { "-o APT::Sandbox::User=root" } else { "" });
    let uri = format!("'file:{}/./tiny.deb' tiny_1.0_all.deb\n", world.text("w/repo"));
    same(&world, &["-w", "."], &script).is(0, &format!("  Candidate: 1.0\n{uri}tiny\ncontent\n"), "");
}

#[test]
fn a_debugger_debugs_under_trace() {
    if !has("gdb") || !has("gcc") {
        return;
    }
    let world = World::new();
    let source = "#include <pthread.h>\n#include <stdio.h>\nstatic int twice(int n) { return 2 * n; }
        static void *run(void *p) { *(int *)p = twice(21); return 0; }
        int main(void) { pthread_t t; int n; pthread_create(&t, 0, run, &n); pthread_join(t, 0); printf(\"%d\\n\", n); return 0; }\n";
    world.write("w/t.c", source);
    world.call("gcc", ["-g", "-O0", "-pthread", "-o", "t", "t.c"]).done().code(0);
    let gdb =
        ["gdb", "-nx", "-batch", "-ex", "break twice", "-ex", "run", "-ex", "print n + 1", "-ex", "continue", "./t"];
    let loud = "may trace its processes and read their memory";
    for options in [&["--trace"][..], &["--trace", "-w", "."], &["-q", "--trace", "-b", "none"]] {
        let done = world.run([options, &["--"], &gdb].concat()).done().code(0);
        let done = done.stdout_has("$1 = 22\n").stdout_has("exited normally").stdout_has("42\n");
        assert!(
            options.contains(&"-q") || done.stderr.contains(loud) && done.stderr.contains("'gdb' is a tracer itself")
        );
    }
    let done = world.run(["--trace", "--", "strace", "-e", "trace=execve", "true"]).done().code(0);
    done.stderr_has("execve(\"/usr/bin/true\"").stderr_has("'strace' is a tracer itself");
    // The first process inside is out of its reach, and so is everything without the option.
    let attach = ["gdb", "-nx", "-batch", "-ex", "attach 1", "-ex", "info registers"];
    world.run([&["--trace", "--"], &attach[..]].concat()).done().stderr_has("not permitted").stdout_lacks("rip");
    world.run([&["--"], &gdb[..]].concat()).done().stdout_lacks("$1 = 22").stdout_lacks("exited normally");
    // Under another tracer it can do nothing.
    world.sh(["--trace"], "gdb -nx -batch -ex run ./t").done().stdout_lacks("exited normally");
}

/// The toolchain that built these tests, here or where the caller says that another copy of it lies.
fn toolchain() -> Option<PathBuf> {
    let built_by = Path::new(env!("CARGO")).parent()?.parent()?;
    let name = built_by.file_name()?;
    let copy = std::env::var_os("RUSTUP_HOME").map(|home| Path::new(&home).join("toolchains").join(name));
    let all = [Some(built_by.to_owned()), copy];
    all.into_iter().flatten().find(|place| fs::metadata(place.join("bin/rustc")).is_ok())
}

#[test]
fn cargo_builds() {
    let Some(toolchain) = toolchain() else { return skip("rust", "no toolchain that this user can read") };
    let world = World::new();
    world.write("w/Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    world.write("w/src/main.rs", "fn main() { println!(\"{}\", std::thread::spawn(|| 7).join().unwrap()) }\n");
    let bin = toolchain.join("bin").display().to_string();
    // Its documentation has more files than a scan for hidden names looks at.
    let lib = toolchain.join("lib").display().to_string();
    let options = ["-w", ".", "-r", &bin, "-r", &lib];
    world
        .sh(options, &format!("PATH={bin}:$PATH cargo build -q --offline && target/debug/tiny"))
        .done()
        .is(0, "7\n", "");
}

#[test]
fn tracers_fail_at_once() {
    let world = World::new();
    let done = world.run(["--", "strace", "true"]).done();
    assert!(done.code != Some(0) && done.stderr.contains("Operation not permitted"), "{done:?}", done = done.stderr);
    world.sh([""; 0], "strace -f true 2>/dev/null; echo went on").done().is(0, "went on\n", "");
    world.call("strace", ["-o", "/dev/null", "true"]).done().is(0, "", "");
    if find("gdb").is_some() {
        let done = world.run(["--", "gdb", "-nx", "-batch", "-ex", "run", "/bin/true"]).done();
        assert!(done.took.as_secs() < 30 && !done.out().contains("exited normally"), "{}", done.out());
    }
}
