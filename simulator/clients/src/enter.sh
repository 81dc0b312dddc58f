# Runs a program in surroundings of its own: `sh -c … enter.sh FOLDER PROGRAM [ARGUMENT...]`, in a mount
# namespace that nobody else is in. FOLDER has `root`, under which are the files of a machine with GPUs, and
# the empty folders `proc` and `devices`.
#
# Kernels without support for modules have no /proc/modules on which a file could be bound. So /proc is
# covered by a folder that links to the real one, moved aside, entry by entry, and to ours where we have one.
set -eu
folder=$1
shift
mount --rbind /proc "$folder/proc"
mount -t tmpfs -o mode=755 simulated /proc
for entry in "$folder"/proc/[a-z]*; do
  ln -s "$entry" /proc/
done
for entry in "$folder"/root/proc/*; do
  rm -f "/proc/${entry##*/}"
  ln -s "$entry" /proc/
done
mount --bind "$folder/root/sys/bus/pci" /sys/bus/pci
# What its links lead to: the root complexes of the node stand in the place of this machine's.
mount --rbind /sys/devices "$folder/devices"
mount -t tmpfs -o mode=755 simulated /sys/devices
for entry in "$folder"/devices/*; do
  case ${entry##*/} in pci*) ;; *) ln -s "$entry" /sys/devices/ ;; esac
done
for entry in "$folder"/root/sys/devices/*; do
  [ -d "$entry" ] || continue
  mkdir "/sys/devices/${entry##*/}"
  mount --bind "$entry" "/sys/devices/${entry##*/}"
done
exec "$@"
