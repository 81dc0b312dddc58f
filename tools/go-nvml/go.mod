module slicewright.io/tools/go-nvml

go 1.26.0

require (
	github.com/NVIDIA/go-nvml v0.13.0-1
	github.com/google/uuid v1.6.0 // indirect
)
