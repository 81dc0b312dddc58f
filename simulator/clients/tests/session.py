"""A session of nvidia-ml-py, NVIDIA's own binding for Python: what the machine has, as one JSON object."""

import json

from pynvml import *


def asked(function, *args):
    """What a call gives, or what Python is told instead."""
    try:
        return function(*args)
    except NVMLError as error:
        return {"error": type(error).__name__, "text": str(error)}


def plain(structure):
    """The fields of a structure of C."""
    if isinstance(structure, dict):
        return structure
    return {name: getattr(structure, name) for name, *_ in structure._fields_}


def mib(memory):
    return memory if isinstance(memory, dict) else memory.total >> 20


def load(device, instance):
    """How busy a GPU instance was between two samples, in percent: the only way to ask that of a slice."""
    request = c_nvmlGpmMetricsGet_t(version=NVML_GPM_METRICS_GET_VERSION, numMetrics=1)
    request.sample1 = nvmlGpmMigSampleGet(device, instance, nvmlGpmSampleAlloc())
    request.sample2 = nvmlGpmMigSampleGet(device, instance, nvmlGpmSampleAlloc())
    request.metrics[0].metricId = NVML_GPM_METRIC_GRAPHICS_UTIL
    nvmlGpmMetricsGet(request)
    return request.metrics[0].value


def mig_devices(device):
    found = []
    for index in range(nvmlDeviceGetMaxMigDeviceCount(device)):
        try:
            mig = nvmlDeviceGetMigDeviceHandleByIndex(device, index)
        except NVMLError_NotFound:
            continue
        found.append(
            {
                "name": asked(nvmlDeviceGetName, mig),
                "uuid": asked(nvmlDeviceGetUUID, mig),
                "instances": [
                    asked(nvmlDeviceGetGpuInstanceId, mig),
                    asked(nvmlDeviceGetComputeInstanceId, mig),
                ],
                "memoryMiB": mib(asked(nvmlDeviceGetMemoryInfo, mig)),
                "attributes": plain(asked(nvmlDeviceGetAttributes_v2, mig)),
                "utilization": asked(nvmlDeviceGetUtilizationRates, mig),
                "load": asked(lambda: load(device, nvmlDeviceGetGpuInstanceId(mig))),
                "parent": asked(nvmlDeviceGetUUID, nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)),
            }
        )
    return found


def profiles(device):
    found = []
    for profile in range(NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = nvmlDeviceGetGpuInstanceProfileInfo(device, profile, version=2)
        except NVMLError_NotSupported:
            continue
        except NVMLError_InvalidArgument:
            continue
        found.append([info.name.decode() if isinstance(info.name, bytes) else info.name, info.id, info.memorySizeMB])
    return found


def cut(device):
    """Makes one small slice at a place, looks it up, and takes it away again."""
    info = nvmlDeviceGetGpuInstanceProfileInfo(device, NVML_GPU_INSTANCE_PROFILE_1_SLICE)
    placement = c_nvmlGpuInstancePlacement_t(start=3, size=1)
    gi = asked(nvmlDeviceCreateGpuInstanceWithPlacement, device, info.id, byref(placement))
    if isinstance(gi, dict):
        return gi
    of = nvmlGpuInstanceGetInfo(gi)
    inside = nvmlGpuInstanceGetComputeInstanceProfileInfo(
        gi, NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    )
    ci = nvmlGpuInstanceCreateComputeInstance(gi, inside.id)
    told = {
        "id": of.id,
        "placement": [of.placement.start, of.placement.size],
        "too early": asked(nvmlGpuInstanceDestroy, gi),
        "devices": len(mig_devices(device)),
    }
    nvmlComputeInstanceDestroy(ci)
    nvmlGpuInstanceDestroy(gi)
    told["devices afterwards"] = len(mig_devices(device))
    return told


def gpu(index):
    device = nvmlDeviceGetHandleByIndex(index)
    memory = asked(lambda: nvmlDeviceGetMemoryInfo(device, version=nvmlMemory_v2))
    told = {
        "name": asked(nvmlDeviceGetName, device),
        "uuid": asked(nvmlDeviceGetUUID, device),
        "busId": asked(lambda: nvmlDeviceGetPciInfo(device).busId),
        "memoryMiB": mib(memory),
        "mode": asked(nvmlDeviceGetMigMode, device),
        "profiles": profiles(device),
        "migDevices": mig_devices(device),
        "temperature": asked(nvmlDeviceGetTemperature, device, NVML_TEMPERATURE_GPU),
        "temperatureV": asked(nvmlDeviceGetTemperatureV, device, NVML_TEMPERATURE_GPU),
        "power": asked(nvmlDeviceGetPowerUsage, device),
        "processes": asked(lambda: [each.pid for each in nvmlDeviceGetComputeRunningProcesses(device)]),
        "utilization": asked(lambda: nvmlDeviceGetUtilizationRates(device).gpu),
        "ecc": asked(nvmlDeviceGetEccMode, device),
        "encoder": asked(nvmlDeviceGetEncoderUtilization, device),
        "cut": asked(cut, device),
    }
    return told


nvmlInit()
print(
    json.dumps(
        {
            "driver": nvmlSystemGetDriverVersion(),
            "cuda": nvmlSystemGetCudaDriverVersion(),
            "gpus": [gpu(index) for index in range(nvmlDeviceGetCount())],
            "nobody": asked(nvmlDeviceGetHandleByUUID, "GPU-of-nobody"),
        },
        default=str,
    )
)
nvmlShutdown()
