# Seed 003: a DGX Station has four A100 and a card that drives the screen and
# knows no MIG. The card is left alone, and the others are cut.
node station 4xA100-40GB+1xdisplay agent labels pool=research
policy policies/research.yaml
workbench lab/a 3g.20gb
workbench lab/b 3g.20gb
workbench lab/c 1g.5gb
run until quiet
expect workbench lab/a running
expect workbench lab/b running
expect workbench lab/c running
expect gpu station 4 off
fleet
