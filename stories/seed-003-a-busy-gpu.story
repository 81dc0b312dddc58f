# Seed 003: a process has the GPU open while MIG should go on. Nothing is done
# to it; when the process is gone, the node is onboarded.
node station 1xA100-40GB mig off labels pool=research
policy policies/research.yaml
pod gdm/xorg gpus 1 opens
run until quiet
workbench lab/a 1g.5gb
run until quiet
expect workbench lab/a pending
expect gpu station 0 off
explain request lab/a
end gdm/xorg
run until quiet
expect workbench lab/a running on station
expect changes 1
