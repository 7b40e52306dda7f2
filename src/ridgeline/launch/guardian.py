"""Runs one service so that nothing of it outlives the supervisor. A program of its own: standard library only.

    python -I -S guardian.py CONTROL_FD [--cgroup FOLDER] [--cidfile FILE] -- ARGV...

The supervisor holds the other end of a socket. When it closes, because the supervisor stopped or was killed in any
way, every process of the service is killed. Three ways of holding them together, the strongest the kernel allows:

pid-namespace  the service runs in a PID namespace of its own (with its own /proc); when its first process dies, the
               kernel kills all others, daemons in sessions of their own included. The first process is tied to this
               one by the parent-death signal, so the guarantee holds even when the guardian itself is killed.
cgroup         the service runs in the cgroup FOLDER, which is killed as a whole. When the guardian itself is killed
               with SIGKILL, what is left is found by its cgroup and killed at the next start (cgroups.py).
subreaper      orphans of the service become children of this process, which finds and kills them all. Holds unless
               the guardian itself is killed with SIGKILL.

With FILE, the service is a client of docker's daemon, whose container is no child of ours: once the guardian is gone,
in whatever way, a reaper that it started removes the container that FILE names.

RIDGELINE_CONTAINMENT names the strongest way to try.

Lines to the supervisor: `held HOW`, `started PID`, `exited STATUS` (as from waitpid), then it ends.
Lines from it: `signal N` sends N to the service's process group; end of file kills everything.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILL_FOR_SECONDS = 5.0  # how long leftovers are hunted before giving up; uninterruptible I/O may outlast it

libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    control = socket.socket(fileno=int(sys.argv[1]))
    split = sys.argv.index("--")
    argv = sys.argv[split + 1 :]
    given = dict(zip(sys.argv[2:split:2], sys.argv[3:split:2], strict=True))
    cgroup = given.get("--cgroup", "")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the supervisor, which stops us in order
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--cidfile" in given:
        _start_reaper(control, given["--cidfile"])
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    read_end, write_end = os.pipe()
    strongest = os.environ.pop("RIDGELINE_CONTAINMENT", "") or "pid-namespace"
    isolated = strongest == "pid-namespace" and libc.unshare(CLONE_NEWPID) == 0
    if isolated or strongest == "subreaper" or not (cgroup and _is_writable(cgroup)):
        cgroup = ""
    say(control, f"held {'pid-namespace' if isolated else 'cgroup' if cgroup else 'subreaper'}")
    first = os.fork()
    if first == 0:
        control.close()
        os.close(read_end)
        _first_process(argv, write_end, isolated, cgroup)
    os.close(write_end)
    return _watch(control, read_end, first, isolated, cgroup)


def _first_process(argv: list[str], report: int, isolated: bool, cgroup: str) -> None:
    """Starts the service, reaps orphans, reports `PID` and `STATUS`, and ends with the service."""
    if cgroup:
        _write(f"{cgroup}/cgroup.procs", "0")
    if isolated:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if not _mount_own_proc():
            os.write(report, b"error cannot mount /proc in the new namespace\n")
            os._exit(127)
    service = os.fork()
    if service == 0:
        os.close(report)
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            sys.stderr.write(f"cannot start {argv[0]}: {error.strerror}\n")
            sys.stderr.flush()
            os._exit(127)
    os.write(report, f"started {service}\n".encode())
    if isolated:
        signal.signal(signal.SIGUSR1, lambda *_: _signal_group(service, signal.SIGTERM))
        signal.signal(signal.SIGUSR2, lambda *_: _signal_group(service, signal.SIGKILL))
    while True:
        pid, status = os.wait()
        if pid == service:
            os.write(report, f"exited {status}\n".encode())
            os._exit(0)


def _mount_own_proc() -> bool:
    """Programs look themselves up in /proc by their PID, which is another one inside the namespace."""
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        return False
    mounted: int = libc.mount(b"proc", b"/proc", b"proc", 0, None)
    return mounted == 0


def _watch(control: socket.socket, report: int, first: int, isolated: bool, cgroup: str) -> int:
    """Pass reports up and signals down until the service ends or the supervisor is gone; then kill what is left."""
    service = 0
    buffer = b""
    while True:
        ready, _, _ = select.select([control.fileno(), report], [], [])
        if control.fileno() in ready:
            command = receive(control)
            if not command:
                break
            for request in command.decode().splitlines():
                _deliver(first if isolated else service, int(request.split()[1]), isolated)
        if report in ready:
            data = os.read(report, 4096)
            buffer += data
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                word, _, value = line.partition(b" ")
                service = int(value) if word == b"started" else service
                say(control, line.decode())
            if not data:
                break
    _kill_everything(first, isolated, cgroup)
    return 0


def _deliver(target: int, number: int, isolated: bool) -> None:
    """Signal the service's group. Its PID means nothing outside its namespace, so there the first process relays."""
    if isolated:
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, signal.SIGUSR2 if number == signal.SIGKILL else signal.SIGUSR1)
    elif target:
        _signal_group(target, number)


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _kill_everything(first: int, isolated: bool, cgroup: str) -> None:
    """Kill and reap. Killing a namespace's first process kills all of it, and so does a cgroup's own file; else the
    tree is hunted in /proc."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(first, signal.SIGKILL)
    deadline = time.monotonic() + KILL_FOR_SECONDS
    while time.monotonic() < deadline:
        if cgroup:
            _write(f"{cgroup}/cgroup.kill", "1")  # not before kernel 5.14; what is below us is hunted all the same
        for pid in [] if isolated else _descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.01)
        except ChildProcessError:
            break
    if cgroup:
        with contextlib.suppress(OSError):
            os.rmdir(cgroup)


def _is_writable(cgroup: str) -> bool:
    return os.access(f"{cgroup}/cgroup.procs", os.W_OK)


def _write(path: str, text: str) -> None:
    with contextlib.suppress(OSError), open(path, "w") as file:
        file.write(text)


def _start_reaper(control: socket.socket, cidfile: str) -> None:
    """A process of nobody's that waits for our end. It is started before any namespace: afterwards, once the first
    process of ours is dead, nothing can be started any more."""
    ours, theirs = os.pipe()
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        os.close(ours)
        return  # the other end stays open until we die
    os.setsid()
    if os.fork() == 0:
        control.close()
        os.close(theirs)
        os.read(ours, 1)
        _remove_container(cidfile)
    os._exit(0)


def _remove_container(cidfile: str) -> None:
    """The daemon keeps a container whose client was killed."""
    try:
        with open(cidfile) as file:
            container = file.read().strip()
    except OSError:
        return
    if container:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                ["docker", "rm", "--force", container],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60,
            )  # fmt: skip


def _descendants(root: int) -> list[int]:
    """All live descendants by /proc. A process that forks while we look is found in the next round."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    parent = int(file.read().rsplit(b")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def say(control: socket.socket, line: str) -> None:
    with contextlib.suppress(OSError):
        control.sendall(f"{line}\n".encode())


def receive(control: socket.socket) -> bytes:
    try:
        return control.recv(4096)
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(main())
