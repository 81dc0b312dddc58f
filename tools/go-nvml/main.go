// A session of go-nvml, driven over standard input: one command a line, one
// JSON object a line in answer. The tests of simulator/clients hold the answers
// against what hardware prints.
//
//	walk                      the driver, every GPU, its profiles, instances and MIG devices
//	mode GPU 0|1              switch MIG mode
//	gi GPU PROFILE [START]    make a GPU instance: the number of the profile is NVML's enum
//	ci GPU GI PROFILE         make a compute instance
//	rm-gi GPU GI              destroy a GPU instance
//	rm-ci GPU GI CI           destroy a compute instance
//	find UUID                 look a device up
//	watch GPU                 register for changes of its MIG configuration and for Xid errors
//	next MS                   wait so long for an event
//	near N [GPU...]           as many GPUs near each other, without those: as the device plugin prefers them
//	table GPU                 NVIDIA's own table for A100-SXM4-40GB: what differs from it
//
// Every answer has "code", the number that the call returned, and "text", what
// the library calls it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type answer map[string]any

func returned(ret nvml.Return) answer {
	return answer{"code": int(ret), "text": nvml.ErrorString(ret)}
}

// with adds to an answer what a call gave, if it gave anything.
func (a answer) with(key string, value any, ret nvml.Return) {
	if ret == nvml.SUCCESS {
		a[key] = value
	} else {
		a[key] = returned(ret)
	}
}

func main() {
	if ret := nvml.Init(); ret != nvml.SUCCESS {
		fmt.Fprintf(os.Stderr, "cannot start NVML: %v\n", ret)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		reply, err := run(strings.Fields(in.Text()))
		if err != nil {
			fmt.Fprintf(os.Stderr, "%q: %v\n", in.Text(), err)
			os.Exit(2)
		}
		if err := out.Encode(reply); err != nil {
			os.Exit(2)
		}
	}
	if ret := nvml.Shutdown(); ret != nvml.SUCCESS {
		fmt.Fprintf(os.Stderr, "cannot end NVML: %v\n", ret)
		os.Exit(1)
	}
}

func run(words []string) (answer, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("an empty command")
	}
	if words[0] == "walk" {
		return walk(), nil
	}
	if words[0] == "find" && len(words) == 2 {
		return find(words[1]), nil
	}
	if words[0] == "next" && len(words) == 2 {
		milliseconds, err := strconv.ParseUint(words[1], 10, 32)
		if err != nil {
			return nil, err
		}
		return next(uint32(milliseconds)), nil
	}
	var numbers []int
	for _, word := range words[1:] {
		number, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, number)
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("a command without a GPU")
	}
	if words[0] == "near" {
		return near(numbers), nil
	}
	device, ret := nvml.DeviceGetHandleByIndex(numbers[0])
	if ret != nvml.SUCCESS {
		return returned(ret), nil
	}
	rest := numbers[1:]
	switch {
	case words[0] == "mode" && len(rest) == 1:
		activation, ret := device.SetMigMode(rest[0])
		reply := returned(ret)
		reply["activation"] = int(activation)
		return reply, nil
	case words[0] == "gi" && (len(rest) == 1 || len(rest) == 2):
		return makeGpuInstance(device, rest), nil
	case words[0] == "ci" && len(rest) == 2:
		return makeComputeInstance(device, rest[0], rest[1]), nil
	case words[0] == "rm-gi" && len(rest) == 1:
		gi, ret := device.GetGpuInstanceById(rest[0])
		if ret != nvml.SUCCESS {
			return returned(ret), nil
		}
		return returned(gi.Destroy()), nil
	case words[0] == "rm-ci" && len(rest) == 2:
		gi, ret := device.GetGpuInstanceById(rest[0])
		if ret != nvml.SUCCESS {
			return returned(ret), nil
		}
		ci, ret := gi.GetComputeInstanceById(rest[1])
		if ret != nvml.SUCCESS {
			return returned(ret), nil
		}
		return returned(ci.Destroy()), nil
	case words[0] == "watch" && len(rest) == 0:
		return watch(device), nil
	case words[0] == "table" && len(rest) == 0:
		return table(device), nil
	}
	return nil, fmt.Errorf("no such command")
}

func makeGpuInstance(device nvml.Device, rest []int) answer {
	info, ret := device.GetGpuInstanceProfileInfo(rest[0])
	if ret != nvml.SUCCESS {
		return returned(ret)
	}
	var gi nvml.GpuInstance
	if len(rest) == 2 {
		placements, ret := device.GetGpuInstancePossiblePlacements(&info)
		if ret != nvml.SUCCESS {
			return returned(ret)
		}
		// A start that the profile does not have is passed on: the library is to refuse it.
		placement := nvml.GpuInstancePlacement{Start: uint32(rest[1])}
		for _, possible := range placements {
			placement.Size = possible.Size
		}
		gi, ret = device.CreateGpuInstanceWithPlacement(&info, &placement)
		if ret != nvml.SUCCESS {
			return returned(ret)
		}
	} else {
		gi, ret = device.CreateGpuInstance(&info)
		if ret != nvml.SUCCESS {
			return returned(ret)
		}
	}
	made, ret := gi.GetInfo()
	reply := returned(ret)
	reply["id"], reply["profileId"] = made.Id, made.ProfileId
	reply["start"], reply["size"] = made.Placement.Start, made.Placement.Size
	return reply
}

func makeComputeInstance(device nvml.Device, instance, profile int) answer {
	gi, ret := device.GetGpuInstanceById(instance)
	if ret != nvml.SUCCESS {
		return returned(ret)
	}
	info, ret := gi.GetComputeInstanceProfileInfo(profile, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
	if ret != nvml.SUCCESS {
		return returned(ret)
	}
	ci, ret := gi.CreateComputeInstance(&info)
	if ret != nvml.SUCCESS {
		return returned(ret)
	}
	made, ret := ci.GetInfo()
	reply := returned(ret)
	reply["id"], reply["profileId"] = made.Id, made.ProfileId
	reply["start"], reply["size"] = made.Placement.Start, made.Placement.Size
	return reply
}

func find(uuid string) answer {
	device, ret := nvml.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return returned(ret)
	}
	isMig, ret := device.IsMigDeviceHandle()
	reply := returned(ret)
	reply["isMig"] = isMig
	name, ret := device.GetName()
	reply.with("name", name, ret)
	return reply
}

// events is the one set of events of this session.
var events nvml.EventSet

func watch(device nvml.Device) answer {
	if events == nil {
		set, ret := nvml.EventSetCreate()
		if ret != nvml.SUCCESS {
			return returned(ret)
		}
		events = set
	}
	return returned(device.RegisterEvents(nvml.EventMigConfigChange|nvml.EventTypeXidCriticalError, events))
}

func next(milliseconds uint32) answer {
	event, ret := events.Wait(milliseconds)
	reply := returned(ret)
	if ret == nvml.SUCCESS {
		index, ret := event.Device.GetIndex()
		reply.with("gpu", index, ret)
		reply["type"], reply["data"] = event.EventType, event.EventData
		reply["instances"] = []uint32{event.GpuInstanceId, event.ComputeInstanceId}
	}
	return reply
}
