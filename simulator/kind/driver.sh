#!/bin/sh
# A driver container without a driver: lays out, on the node, what NVIDIA's components look for, and says when it
# is there. The state of the GPUs is in a folder that survives a restart of the node, as boards do; that the node
# was restarted shows in /run, which does not.
set -eu
root=/run/nvidia/driver
mkdir -p "$root/usr/lib64" "$root/usr/bin" "$root/dev" "$root/tmp" /run/nvidia/validations
rm -f /run/nvidia/validations/driver-ready

# The library and nvidia-smi, and what they load, at their own paths. Programs that run keep the files that they have.
cp -a --remove-destination /usr/. "$root/usr/"
for folder in lib lib64; do
  if [ -d "/$folder" ]; then mkdir -p "$root/$folder" && cp -a --remove-destination "/$folder/." "$root/$folder/"; fi
done

if [ ! -e /run/slicewright-sim/set-up ]; then
  slicewright-sim node setup --gpus "$GPUS" --host "$NODE_NAME" --writers everybody
  touch /run/slicewright-sim/set-up
elif [ ! -e /run/nvidia/booted ]; then
  # A new life of the node: instances are gone, and the mode stays where the board keeps it.
  slicewright-sim node reboot
fi
touch /run/nvidia/booted
slicewright-sim node files --root "$root"
touch /run/nvidia/validations/driver-ready
slicewright-sim node show
echo "the driver root $root is laid out"
exec sleep infinity
