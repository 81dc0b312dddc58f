#!/bin/sh
# Runs a component of NVIDIA's in surroundings of its own, in the mount namespace of its container: it sees the
# kernel modules and the PCI devices of the simulated node. Kernels without support for modules have no
# /proc/modules on which a file could be bound, so /proc is covered by a folder that links to the real one, moved
# aside, entry by entry, and to the driver root's where that has one.
set -eu
root=/run/nvidia/driver
until [ -e /run/nvidia/validations/driver-ready ]; do
  echo "waiting for the driver root $root"
  sleep 1
done
mkdir -p /tmp/proc
mount --rbind /proc /tmp/proc
mount -t tmpfs -o mode=755 simulated /proc
for entry in /tmp/proc/[a-z]*; do
  ln -s "$entry" /proc/
done
for entry in "$root"/proc/*; do
  rm -f "/proc/${entry##*/}"
  ln -s "$entry" /proc/
done
if [ -d /sys/bus/pci ]; then mount --bind "$root/sys/bus/pci" /sys/bus/pci; fi
exec "$@"
