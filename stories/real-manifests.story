# A real HardwareProfile and a real Notebook, as OpenShift AI's dashboard
# writes them: the webhook injects, the pod waits, the node is cut, it runs.
node n1 1xA100-40GB labels pool=research nvidia.com/gpu.present=true taint workload=training:NoSchedule
policy policies/research.yaml
apply:
  apiVersion: infrastructure.opendatahub.io/v1
  kind: HardwareProfile
  metadata: {name: mig-1g-5gb, namespace: redhat-ods-applications}
  spec:
    identifiers:
      - {identifier: nvidia.com/mig-1g.5gb, displayName: MIG Slice, resourceType: Accelerator, defaultCount: 1, minCount: 1, maxCount: 1}
      - {identifier: cpu, displayName: CPU, resourceType: CPU, defaultCount: 8, minCount: 4, maxCount: 16}
      - {identifier: memory, displayName: Memory, resourceType: Memory, defaultCount: 32Gi, minCount: 16Gi, maxCount: 64Gi}
    scheduling:
      type: Node
      node:
        nodeSelector: {nvidia.com/gpu.present: "true"}
        tolerations: [{effect: NoSchedule, key: workload, operator: Equal, value: training}]
  ---
  apiVersion: kubeflow.org/v1
  kind: Notebook
  metadata:
    name: fraud-lab
    namespace: team-a
    labels: {app: fraud-lab, opendatahub.io/odh-managed: "true", opendatahub.io/dashboard: "true"}
    annotations:
      openshift.io/display-name: Fraud lab
      opendatahub.io/username: alice
      opendatahub.io/hardware-profile-name: mig-1g-5gb
      opendatahub.io/hardware-profile-namespace: redhat-ods-applications
  spec:
    template:
      spec:
        containers:
          - name: fraud-lab
            image: pytorch:2025.2
run until quiet
expect workbench team-a/fraud-lab running on n1
