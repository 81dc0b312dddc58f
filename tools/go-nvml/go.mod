module slicewright.io/tools/go-nvml

go 1.26.0

require (
	github.com/NVIDIA/go-gpuallocator v0.6.0
	github.com/NVIDIA/go-nvml v0.13.0-1
)

require (
	github.com/NVIDIA/go-nvlib v0.8.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
)
