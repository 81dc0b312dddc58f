package main

import (
	"fmt"
	"reflect"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
)

func walk() answer {
	reply := answer{}
	driver, ret := nvml.SystemGetDriverVersion()
	reply.with("driver", driver, ret)
	version, ret := nvml.SystemGetNVMLVersion()
	reply.with("nvml", version, ret)
	cuda, ret := nvml.SystemGetCudaDriverVersion()
	reply.with("cuda", cuda, ret)
	count, ret := nvml.DeviceGetCount()
	devices := []answer{}
	if ret == nvml.SUCCESS {
		for index := range count {
			device, ret := nvml.DeviceGetHandleByIndex(index)
			if ret != nvml.SUCCESS {
				devices = append(devices, returned(ret))
				continue
			}
			devices = append(devices, gpu(device))
		}
	}
	reply["code"], reply["text"] = int(ret), nvml.ErrorString(ret)
	reply["devices"] = devices
	return reply
}

func text(field []uint8) string {
	for i, c := range field {
		if c == 0 {
			return string(field[:i])
		}
	}
	return string(field)
}

func gpu(device nvml.Device) answer {
	reply := answer{}
	name, ret := device.GetName()
	reply.with("name", name, ret)
	uuid, ret := device.GetUUID()
	reply.with("uuid", uuid, ret)
	index, ret := device.GetIndex()
	reply.with("index", index, ret)
	minor, ret := device.GetMinorNumber()
	reply.with("minor", minor, ret)
	major, lesser, ret := device.GetCudaComputeCapability()
	reply.with("computeCapability", []int{major, lesser}, ret)
	memory, ret := device.GetMemoryInfo()
	reply.with("memoryMiB", memory.Total>>20, ret)
	pci, ret := device.GetPciInfo()
	if ret == nvml.SUCCESS {
		reply["busId"], reply["pciDeviceId"] = text(pci.BusId[:]), pci.PciDeviceId
		again, ret := nvml.DeviceGetHandleByPciBusId(text(pci.BusId[:]))
		if ret == nvml.SUCCESS {
			same, ret := again.GetUUID()
			reply.with("byBusId", same, ret)
		} else {
			reply["byBusId"] = returned(ret)
		}
	} else {
		reply["busId"] = returned(ret)
	}
	current, pending, ret := device.GetMigMode()
	reply.with("migMode", []int{current, pending}, ret)
	isMig, ret := device.IsMigDeviceHandle()
	reply.with("isMig", isMig, ret)
	_, ret = device.GetAttributes()
	reply["attributes"] = returned(ret)
	reply["profiles"] = profiles(device)
	reply["instances"] = instances(device)
	most, ret := device.GetMaxMigDeviceCount()
	reply.with("maxMigDevices", most, ret)
	migs := []answer{}
	for i := range most {
		mig, ret := device.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND {
			continue
		}
		if ret != nvml.SUCCESS {
			migs = append(migs, returned(ret))
			continue
		}
		migs = append(migs, migDevice(mig))
	}
	reply["migDevices"] = migs
	return reply
}

// profiles asks for every number, as clients do that want to know which there are.
func profiles(device nvml.Device) []answer {
	found := []answer{}
	for number := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, ret := device.GetGpuInstanceProfileInfo(number)
		if ret == nvml.ERROR_NOT_SUPPORTED {
			continue
		}
		if ret != nvml.SUCCESS {
			found = append(found, returned(ret))
			continue
		}
		one := answer{"number": number, "info": info}
		v2, ret := device.GetGpuInstanceProfileInfoV(number).V2()
		one.with("name", text(v2.Name[:]), ret)
		v3, ret := device.GetGpuInstanceProfileInfoV(number).V3()
		one.with("nameV3", text(v3.Name[:]), ret)
		placements, ret := device.GetGpuInstancePossiblePlacements(&info)
		one.with("placements", placements, ret)
		free, ret := device.GetGpuInstanceRemainingCapacity(&info)
		one.with("free", free, ret)
		found = append(found, one)
	}
	return found
}

func instances(device nvml.Device) []answer {
	found := []answer{}
	for number := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, ret := device.GetGpuInstanceProfileInfo(number)
		if ret != nvml.SUCCESS {
			continue
		}
		gis, ret := device.GetGpuInstances(&info)
		if ret != nvml.SUCCESS {
			continue
		}
		for _, gi := range gis {
			of, ret := gi.GetInfo()
			one := answer{}
			one.with("id", of.Id, ret)
			one["profileId"], one["start"], one["size"] = of.ProfileId, of.Placement.Start, of.Placement.Size
			one["compute"], one["computeProfiles"] = compute(gi)
			found = append(found, one)
		}
	}
	return found
}

func compute(gi nvml.GpuInstance) (made, possible []answer) {
	made, possible = []answer{}, []answer{}
	for number := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, ret := gi.GetComputeInstanceProfileInfo(number, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if ret != nvml.SUCCESS {
			continue
		}
		one := answer{"number": number, "info": info}
		free, ret := gi.GetComputeInstanceRemainingCapacity(&info)
		one.with("free", free, ret)
		possible = append(possible, one)
		cis, ret := gi.GetComputeInstances(&info)
		if ret != nvml.SUCCESS {
			made = append(made, returned(ret))
			continue
		}
		for _, ci := range cis {
			of, ret := ci.GetInfo()
			one := answer{}
			one.with("id", of.Id, ret)
			one["profileId"], one["start"], one["size"] = of.ProfileId, of.Placement.Start, of.Placement.Size
			made = append(made, one)
		}
	}
	return made, possible
}

func migDevice(mig nvml.Device) answer {
	reply := answer{}
	uuid, ret := mig.GetUUID()
	reply.with("uuid", uuid, ret)
	name, ret := mig.GetName()
	reply.with("name", name, ret)
	index, ret := mig.GetIndex()
	reply.with("index", index, ret)
	isMig, ret := mig.IsMigDeviceHandle()
	reply.with("isMig", isMig, ret)
	gi, ret := mig.GetGpuInstanceId()
	reply.with("gi", gi, ret)
	ci, ret := mig.GetComputeInstanceId()
	reply.with("ci", ci, ret)
	attributes, ret := mig.GetAttributes()
	reply.with("attributes", attributes, ret)
	memory, ret := mig.GetMemoryInfo()
	reply.with("memoryMiB", memory.Total>>20, ret)
	parent, ret := mig.GetDeviceHandleFromMigDeviceHandle()
	if ret == nvml.SUCCESS {
		of, ret := parent.GetUUID()
		reply.with("parent", of, ret)
	} else {
		reply["parent"] = returned(ret)
	}
	return reply
}

// table holds the profiles of a GPU against the table that go-nvml ships for an
// A100-SXM4-40GB. Its ids are not those of the driver, and are left out.
func table(device nvml.Device) answer {
	differences := []string{}
	theirs := dgxa100.MIGProfiles.GpuInstanceProfiles
	for number := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, ret := device.GetGpuInstanceProfileInfo(number)
		expected, known := theirs[number]
		if known != (ret == nvml.SUCCESS) {
			differences = append(differences, fmt.Sprintf("%d: %s, and in the table: %t", number, nvml.ErrorString(ret), known))
			continue
		}
		info.Id, expected.Id = 0, 0
		differences = append(differences, fields(number, info, expected)...)
	}
	reply := returned(nvml.SUCCESS)
	reply["differences"], reply["compared"] = differences, len(theirs)
	return reply
}

func fields(number int, ours, theirs nvml.GpuInstanceProfileInfo) []string {
	found := []string{}
	a, b := reflect.ValueOf(ours), reflect.ValueOf(theirs)
	for i := range a.NumField() {
		if !a.Field(i).Equal(b.Field(i)) {
			name := a.Type().Field(i).Name
			found = append(found, fmt.Sprintf("%d.%s: %d, not %d", number, name, a.Field(i).Uint(), b.Field(i).Uint()))
		}
	}
	return found
}
