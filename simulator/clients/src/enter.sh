# Runs a program in surroundings of its own: `sh enter.sh FOLDER PROGRAM [ARGUMENT...]`, in a mount
# namespace that nobody else is in. FOLDER has what the program shall see: `modules` (for /proc/modules),
# `devices` (for /sys/bus/pci/devices), and an empty folder `proc`.
#
# Kernels without support for modules have no /proc/modules on which a file could be bound. So /proc is
# covered by a folder that links to the real one, moved aside, entry by entry; its `modules` is ours.
set -eu
folder=$1
shift
mount --rbind /proc "$folder/proc"
mount -t tmpfs -o mode=755 simulated /proc
for entry in "$folder"/proc/[a-z]*; do
  ln -s "$entry" /proc/
done
rm -f /proc/modules
cat "$folder/modules" >/proc/modules
mount --bind "$folder/devices" /sys/bus/pci/devices
exec "$@"
