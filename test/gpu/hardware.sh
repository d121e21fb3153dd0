#!/usr/bin/env bash
# Checks the GPU probe on a machine with a real GPU, in under five minutes: lists the GPUs and the functions of the driver,
# allocates in a process, kills it and times the release. It ends with one line of JSON and exits with 0 if all is well,
# with 2 if it was called wrongly.
#
#   bash test/gpu/hardware.sh [--gpu INDEX] [--mib N] [--pinned N] [--library NAME-OR-PATH]
#
# It needs the NVIDIA driver; Go and gcc, or else what they built on a machine like this one: run it there with --build first,
# and carry bin/ over.
set -euo pipefail

for argument; do
	case $argument in
	-h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
	esac
done
cd "$(dirname "$0")/../.."

build() {
	mkdir -p bin
	CGO_ENABLED=1 CGO_CFLAGS="-O2 -g -Wno-deprecated-declarations" go build -buildvcs=false -trimpath \
		-ldflags "-s -w -extldflags=-Wl,-z,lazy" -o bin/ ./cmd/pitstop-gpu-probe
	CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w" -o bin/ ./test/gpu/hardware/cmd/gpu-hardware
	gcc -O1 -Wall -o bin/gpu-holder test/gpu/holder.c -ldl
}

if command -v go >/dev/null && command -v gcc >/dev/null; then
	build
fi
for program in pitstop-gpu-probe gpu-hardware gpu-holder; do
	[ -x bin/$program ] || { echo "hardware.sh: no bin/$program, and no go and gcc to build it" >&2; exit 1; }
done
[ "${1:-}" = --build ] && exit 0
exec timeout 290 bin/gpu-hardware --holder "${PITSTOP_HOLDER:-bin/gpu-holder}" "$@"
