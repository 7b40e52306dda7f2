"""The programs inside a dry run's sandbox: stubs that record how they were called, and text tools that are real.

Stubs are slower than the shell that starts them: `kill` waits for a process that has not been recorded yet.

A stub is one bash program under many names. A service's stub stays until it is stopped, so that `kill -0` and traps
find something; everything else ends at once with success. Nothing here reaches outside of the sandbox: it has no
network, no other programs, and what it can write to cannot be executed.
"""

from __future__ import annotations

RECORDS = "/records"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Text tools and shell helpers that are copied in as they are. What is absent on this machine is absent inside.
TOOLS = _words(
    "bash awk mawk gawk cat sed grep egrep tr cut head tail sort uniq wc seq dirname basename date mkdir rmdir "
    "touch rm cp mv ln ls mktemp realpath readlink id uname hostname expr tee env nohup setsid timeout nice nproc "
    "find xargs paste comm tac od base64 md5sum sha256sum stat df du getopt printf echo test true false chmod sleep"
)
# Programs that stay once started, by name; `python3 -m MODULE` and subcommands are told apart in the stub.
SERVICES = _words(
    "trtllm-serve mooncake_master mooncake_client vllm-router sglang-router sglang_router etcd nats-server"
)

# Programs that end: recorded, never run.
COMMANDS = _words(
    "vllm sglang lmcache atom python python3 pip pip3 uv uvx hf huggingface-cli curl wget nc ncat git docker podman "
    "apt apt-get yum dnf conda make cmake ninja gcc g++ cargo nvcc ray aiperf genai-perf nvidia-smi rocm-smi "
    "amd-smi rocminfo ibstat lspci ip ss netstat lsof fuser ps pgrep pkill killall top free mount umount modprobe "
    "ulimit systemctl service ssh scp rsync tar unzip gzip zstd jq yq bc node npm java go ldconfig dmesg sysctl "
    "swapoff vmtouch dd install patch scontrol squeue sbatch salloc enroot lm_eval evalscope"
)
# Programs that run another: the stub finds it among their words and becomes it.
WRAPPERS = _words(
    "numactl taskset stdbuf ionice chrt sudo mpirun mpiexec srun trtllm-llmapi-launch strace nsys rocprofv3"
)

PRELUDE = r"""
set -T
RIDGELINE_AT=
export RIDGELINE_AT
command_not_found_handle() { RIDGELINE_AT=${BASH_SOURCE[1]}:${BASH_LINENO[0]} /stubs/.unknown "$@"; return 0; }
source() {
  if [ -e "$1" ]; then builtin source "$@"; else printf '%s\0' "$1" >> /records/missing; return 0; fi
}
.() { source "$@"; }
kill() {
  local word name tries
  case " $* " in *" -0 "* | *" -s 0 "* | *" -l "*) builtin kill "$@"; return ;; esac
  for word; do
    case $word in -* | *[!0-9]*) continue ;; esac
    for tries in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
      read -r name 2>/dev/null < "/proc/$word/comm" || break
      if [ "$name" = sleep ]; then break; fi
      /tools/sleep 0.03
    done
  done
  builtin kill "$@"
}
trap 'RIDGELINE_AT=${BASH_SOURCE[0]:-}:$LINENO' DEBUG
"""

STUB = r"""#!/bin/bash -p
name=${0##*/}
at=$RIDGELINE_AT
unset RIDGELINE_AT
record() {
  local kind=$1 key
  shift
  {
    printf '%s\0' "$EPOCHREALTIME" "$kind" "$$" "$at" "$#" "$@"
    for key in $(compgen -e); do printf '%s=%s\0' "$key" "${!key}"; done
  } > "/records/$EPOCHREALTIME.$$.$RANDOM"
}
stay() {
  record service "$@"
  exec -a "$1" /tools/sleep 3600
}
case $name in
  sleep) exec /tools/sleep 0.02 ;;
  .unknown) name=$1; shift; record unknown "$name" "$@"; exit 0 ;;
@WRAPPERS@)
    for word; do
      shift
      if [ "${word#-}" = "$word" ] && [ "${word%%=*}" = "$word" ] && [ -x "/stubs/${word##*/}" ]; then
        RIDGELINE_AT=$at exec "/stubs/${word##*/}" "$@"
      fi
    done
    record unknown "$name"
    exit 0 ;;
@SERVICES@) stay "$name" "$@" ;;
  vllm | sglang | lmcache | atom)
    case $1 in serve | server | launch_server) stay "$name" "$@" ;; esac ;;
  python*)
    if [ "$1" = -u ]; then shift; fi
    if [ "$1" = -m ]; then
      case $2 in
        vllm.entrypoints.* | sglang.launch_server | sglang_router.* | sglang.router* | atom.entrypoints.* | \
        dynamo.* | lmcache.* | mooncake.* | http.server) stay "$name" "$@" ;;
      esac
    fi ;;
  curl)
    case "$*" in *http_code*) printf 200 ;; esac ;;
  nvidia-smi)
    case "$*" in
      *-L*) for i in 0 1 2 3 4 5 6 7; do echo "GPU $i: stub"; done ;;
      *--query-gpu=*) for i in 0 1 2 3 4 5 6 7; do echo 0; done ;;
    esac ;;
esac
record command "$name" "$@"
exit 0
"""


def stub() -> str:
    """The stub program's text."""
    return STUB.replace("@WRAPPERS@", "  " + " | ".join(WRAPPERS)).replace("@SERVICES@", "  " + " | ".join(SERVICES))


def names() -> tuple[str, ...]:
    """Every name the stub answers to."""
    return (*SERVICES, *COMMANDS, *WRAPPERS, "sleep", ".unknown")
