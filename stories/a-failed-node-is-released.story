# Everything fails, on the way there and on the way back. The node stays
# cordoned and says so, until a human releases it.
node n1 1xA100-80GB labels pool=research
policy policies/research.yaml
workbench team-a/lab 1g.10gb
fault n1 create-fails
run until quiet max 6h
expect node n1 failed
expect node n1 cordoned
expect condition research Ready False RolloutFailed
fault n1 clear
release n1
run until quiet
expect node n1 schedulable
