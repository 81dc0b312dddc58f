# Runs a program in surroundings of its own: `sh -c … enter.sh FOLDER PROGRAM [ARGUMENT...]`, in a mount
# namespace that nobody else is in. FOLDER has `root`, under which are the files of a machine with GPUs, and
# an empty folder `proc`.
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
exec "$@"
