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
if [ -d /sys/bus/pci ]; then
  mount --bind "$root/sys/bus/pci" /sys/bus/pci
  # What its links lead to: the root complexes of the node stand in the place of this machine's.
  mkdir -p /tmp/devices
  mount --rbind /sys/devices /tmp/devices
  mount -t tmpfs -o mode=755 simulated /sys/devices
  for entry in /tmp/devices/*; do
    case ${entry##*/} in pci*) ;; *) ln -s "$entry" /sys/devices/ ;; esac
  done
  for entry in "$root"/sys/devices/*; do
    [ -d "$entry" ] || continue
    mkdir "/sys/devices/${entry##*/}"
    mount --bind "$entry" "/sys/devices/${entry##*/}"
  done
fi
exec "$@"
