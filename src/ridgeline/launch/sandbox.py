"""Runs a script where it can do nothing. A program of its own: standard library only.

    python -I -S sandbox.py < JOB.json > RESULT

The job names files to copy in, files to write, the environment, argv and limits. Before the script starts:

- user, mount, PID, network, IPC and UTS namespaces of its own; root's identity is given up for nobody's first;
- a root of its own, in memory, read only, with the named programs and nothing else of this machine;
- the only places that can be written to cannot be executed from, and are small;
- no capabilities, no new privileges, limits on processes, memory, file sizes and time.

Any of these that the kernel refuses ends the program with status 3 and the reason: nothing is run half protected.
When this process or its parent dies, the kernel kills everything inside.
"""

import contextlib
import ctypes
import errno
import json
import os
import resource
import shutil
import signal
import socket
import stat
import struct
import sys
import time

NEWNS, NEWUTS, NEWIPC = 0x00020000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
DETACH = 2
SET_PDEATHSIG, SET_DUMPABLE, CAPBSET_DROP, SET_SECUREBITS, SET_NO_NEW_PRIVS = 1, 4, 24, 28, 38
NOROOT_LOCKED = 0x2F  # identity 0 means nothing, changing it gives nothing, capabilities are not kept; all locked
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
CAPSET = {"x86_64": 126, "aarch64": 91}
NOBODY = 65534
STAGE = "/tmp"  # where the new root is built, inside a mount namespace that nobody else sees
REFUSED = 3
SETTLE_S = 0.2  # how long services that were told to stop may take before they count as left behind
RECORD_S = 2.0  # and how long those just started may take to be recorded

libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """The kernel does not give a protection."""


def main() -> int:
    job = json.load(sys.stdin.buffer)
    parent = os.getppid()
    try:
        _namespaces()
        _die_with_parent(parent)
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read_end)
            _first_process(job, write_end)
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    os.close(write_end)
    with os.fdopen(read_end, "rb") as report:
        data = report.read()
    _, status = os.waitpid(child, 0)
    if data.startswith(b"refused "):
        sys.stderr.write(data.decode()[len("refused ") :] + "\n")
        return REFUSED
    if not data:
        sys.stderr.write(f"the sandbox ended without a word (status {status})\n")
        return REFUSED
    sys.stdout.buffer.write(data)
    return 0


def _namespaces() -> None:
    """As nobody, so that limits hold; as root of a user namespace, so that a root can be built."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    libc.prctl(SET_DUMPABLE, 1, 0, 0, 0)  # a change of identity hides /proc/self from ourselves
    uid, gid = os.geteuid(), os.getegid()
    _must(libc.unshare(NEWUSER), "user namespace")
    try:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {uid} 1")
        _write("/proc/self/gid_map", f"0 {gid} 1")
    except OSError as error:
        raise Refused(f"identity map of a user namespace: {error.strerror}") from error
    _must(libc.unshare(NEWNS | NEWPID | NEWNET | NEWIPC | NEWUTS), "mount, PID, network, IPC and UTS namespaces")


def _die_with_parent(parent: int) -> None:
    libc.prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(REFUSED)


def _first_process(job: dict, report: int) -> None:  # type: ignore[type-arg]
    """Process 1 of the namespace: builds the root, starts the script, waits, reports. Its end ends all others."""
    try:
        libc.prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        _build_root(job)
        _no_network()
        libc.prctl(SET_DUMPABLE, 0, 0, 0, 0)  # its memory and its descriptors are not the script's to open
        result = _run(job, report)
        data = json.dumps(result).encode()
    except Refused as error:
        data = f"refused {error}".encode()
    except OSError as error:
        data = f"refused {error.strerror} ({error.filename or 'system call'})".encode()
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(report, data) :]
    os._exit(0)


def _build_root(job: dict) -> None:  # type: ignore[type-arg]
    os.umask(0o022)
    _must(libc.mount(b"none", b"/", None, REC | PRIVATE, None), "private mounts")
    _mount_tmpfs(STAGE, NOSUID | NODEV, "256m")
    for target, origin in job["copy"].items():
        path = _inside(target)
        shutil.copyfile(origin, path)
        os.chmod(path, 0o755)
    for target, text in job["write"].items():
        path = _inside(target)
        with open(path, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        os.chmod(path, 0o755 if target in job["executable"] else 0o644)
    for target, to in job["link"].items():
        with contextlib.suppress(FileExistsError):
            os.symlink(to, _inside(target))
    for name in (*job["scratch"], "/dev", "/proc", "/old"):
        os.makedirs(STAGE + name, exist_ok=True)
    for name in ("null", "zero", "urandom"):
        with open(f"{STAGE}/dev/{name}", "wb"):
            pass
        _must(libc.mount(f"/dev/{name}".encode(), f"{STAGE}/dev/{name}".encode(), None, BIND, None), f"/dev/{name}")
    os.symlink("/proc/self/fd", f"{STAGE}/dev/fd")
    for name in job["scratch"]:
        _mount_tmpfs(STAGE + name, NOSUID | NODEV | NOEXEC, job["scratch_size"])
    # Programs need /proc for little; a kernel that refuses it gives a sandbox without one.
    libc.mount(b"proc", f"{STAGE}/proc".encode(), b"proc", RDONLY | NOSUID | NODEV | NOEXEC, None)
    _must(libc.mount(b"none", STAGE.encode(), None, REMOUNT | BIND | RDONLY | NOSUID | NODEV, None), "read-only root")
    os.chdir(STAGE)
    machine = os.uname().machine
    if machine not in PIVOT_ROOT:
        raise Refused(f"no sandbox on {machine}")
    _must(libc.syscall(PIVOT_ROOT[machine], b".", b"old"), "root of its own")
    os.chroot(".")
    os.chdir("/")
    _must(libc.umount2(b"/old", DETACH), "leaving the machine's root")


def _mount_tmpfs(path: str, flags: int, size: str) -> None:
    options = f"size={size},nr_inodes=8192,mode=755".encode()
    _must(libc.mount(b"tmpfs", path.encode(), b"tmpfs", flags, options), f"file system in memory at {path}")


def _no_network() -> None:
    """The namespace is new: it has a loopback that is down, and nothing else. Looked at, not believed."""
    names = {name for _, name in socket.if_nameindex()}
    with contextlib.closing(socket.socket()) as probe:
        probe.settimeout(0.2)
        reached = probe.connect_ex(("127.0.0.1", 9))
    if names - {"lo", "sit0", "tunl0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0"} or (
        reached not in (errno.ENETUNREACH, errno.EADDRNOTAVAIL)
    ):
        raise Refused("network namespace: something can be reached from inside")


def _run(job: dict, report: int) -> dict:  # type: ignore[type-arg]
    script = os.fork()
    if script == 0:
        try:
            os.close(report)
            _become_harmless(job["limits"])
            _start(job)
        except BaseException as error:
            os.write(2, f"not started: {error}\n".encode())
            os._exit(127)
    deadline = time.monotonic() + job["limits"]["seconds"]
    status = None
    while status is None and time.monotonic() < deadline:
        if _resident() > job["limits"]["resident_bytes"]:
            break
        status = _reap(script)
        if status is None:
            time.sleep(0.01)
    ended = time.monotonic() if status is not None else -RECORD_S
    while (others := _others()) and time.monotonic() < ended + (SETTLE_S if _recorded(others) else RECORD_S):
        _reap(script)
        time.sleep(0.01)
    alive = _others()
    with contextlib.suppress(OSError):
        os.kill(-1, signal.SIGKILL)
    records = []
    spent = 0
    for name in sorted(os.listdir(job["records"]))[: job["limits"]["records"]]:
        with contextlib.suppress(OSError), open(f"{job['records']}/{name}", "rb", opener=_regular) as file:
            data = file.read(job["limits"]["record_bytes"])
            spent += len(data)
            if spent > job["limits"]["output_bytes"]:
                break
            records.append([name, data.decode("utf-8", "surrogateescape")])
    tail = ""
    with contextlib.suppress(OSError), open(job["output"], "rb", opener=_regular) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - job["limits"]["tail_bytes"]))
        tail = file.read(job["limits"]["tail_bytes"]).decode("utf-8", "replace")
    code = os.waitstatus_to_exitcode(status) if status is not None else None
    return {"status": code, "alive": alive, "records": records, "output": tail}


def _regular(path: str, flags: int) -> int:
    """Opens a file: not through a link, and not a pipe that nobody writes to."""
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "not a file", path)
    return number


def _start(job: dict) -> None:  # type: ignore[type-arg]
    os.setsid()
    null = os.open("/dev/null", os.O_RDONLY)
    output = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, 256)
    os.chdir(job["folder"])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.execve(job["argv"][0], job["argv"], job["env"])


def _become_harmless(limits: dict) -> None:  # type: ignore[type-arg]
    """No capabilities that could come back, no privileges by exec, and limits that nobody inside can raise."""
    for name, key in (
        (resource.RLIMIT_NPROC, "processes"),
        (resource.RLIMIT_AS, "address_bytes"),
        (resource.RLIMIT_FSIZE, "file_bytes"),
        (resource.RLIMIT_CPU, "cpu_seconds"),
        (resource.RLIMIT_NOFILE, "files"),
    ):
        resource.setrlimit(name, (limits[key], limits[key]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _must(libc.prctl(SET_SECUREBITS, NOROOT_LOCKED, 0, 0, 0), "no root by name")
    capability = 0
    while libc.prctl(CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    header = struct.pack("=Ii", 0x20080522, 0)
    _must(libc.syscall(CAPSET[os.uname().machine], header, b"\0" * 24), "giving up capabilities")
    _must(libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")


def _reap(script: int) -> "int | None":
    """Reap what has ended. The script's wait status once it has."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == script:
                found = status
    return found


def _others() -> "list[int]":
    """Processes of the namespace beside this one; none where there is no /proc."""
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1" and _lives(name)]
    return []


def _recorded(others: "list[int]") -> bool:
    """Whether everything that is left is a stub that waits: it is called `sleep` once it has written its record."""
    for pid in others:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
            if file.read().strip() != b"sleep":
                return False
    return True


def _lives(pid: str) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rsplit(b")", 1)[1].split()[0] not in (b"Z", b"X")
    return False


def _resident() -> int:
    """Bytes of memory that everything inside holds."""
    total = 0
    for pid in _others():
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", "rb") as file:
            total += int(file.read().split()[1]) * resource.getpagesize()
    return total


def _inside(target: str) -> str:
    path = STAGE + target
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _must(result: int, what: str) -> None:
    if result != 0:
        raise Refused(f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    sys.exit(main())
