package main

import (
	"slices"

	"github.com/NVIDIA/go-gpuallocator/gpuallocator"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// near chooses GPUs that are near each other as NVIDIA's device plugin does
// when the kubelet asks for its preference: with go-gpuallocator, from the links
// that NVML tells. The first number says how many; the others are taken.
func near(numbers []int) answer {
	all, err := gpuallocator.NewDevices(gpuallocator.WithNvmlLib(nvml.New()))
	if err != nil {
		return answer{"error": err.Error()}
	}
	var free gpuallocator.DeviceList
	for _, device := range all {
		if !slices.Contains(numbers[1:], device.Index) {
			free = append(free, device)
		}
	}
	chosen := []int{}
	for _, device := range gpuallocator.NewBestEffortPolicy().Allocate(free, nil, numbers[0]) {
		chosen = append(chosen, device.Index)
	}
	slices.Sort(chosen)
	return answer{"gpus": chosen}
}
