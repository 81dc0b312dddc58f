# The dashboard offers a hardware profile whose slice no GPU here can have.
# Whoever looks at the profile is told.
node n1 1xA30 labels pool=research
policy policies/research.yaml
apply:
  apiVersion: infrastructure.opendatahub.io/v1
  kind: HardwareProfile
  metadata: {name: nvidia-mig-1g-5gb, namespace: redhat-ods-applications}
  spec:
    identifiers:
      - {identifier: nvidia.com/mig-1g.5gb, displayName: MIG Slice, resourceType: Accelerator, defaultCount: 1, minCount: 1, maxCount: 1}
      - {identifier: cpu, displayName: CPU, resourceType: CPU, defaultCount: 8, minCount: 4, maxCount: 16}
      - {identifier: memory, displayName: Memory, resourceType: Memory, defaultCount: 32Gi, minCount: 16Gi, maxCount: 64Gi}
workbench team-a/lab profile nvidia-mig-1g-5gb
run until quiet
explain request team-a/lab
expect said "no GPU of the nodes that it may use has 1g.5gb"
expect told redhat-ods-applications/nvidia-mig-1g-5gb "1g.5gb"
