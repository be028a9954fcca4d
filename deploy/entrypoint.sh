#!/bin/sh
# Put the image's compiled kernels where Numba can write, which it insists on, and run the command.
set -eu
kept="${TOCSIN_IMAGE_KERNELS:-/opt/tocsin/kernels}"
unset TOCSIN_IMAGE_KERNELS
if [ -d "$kept" ] && [ ! -d "$NUMBA_CACHE_DIR" ]; then
  cp -R "$kept" "$NUMBA_CACHE_DIR" || echo "tocsin: the kernels could not be copied to $NUMBA_CACHE_DIR; they are compiled again" >&2
fi
exec tocsin "$@"
