"""Asks NVML everything that can be read of the first GPU: one JSON object, by call.

It runs over a real driver as well as over the simulated one, with nvidia-ml-py 13.615.71: the captures beside
it are what it said on hardware. `tests/it/captured.rs` compares.
"""

import ctypes
import inspect
import json
import sys
import time

import pynvml as nvml
from pynvml import *

out = {}


def plain(value):
    """What Python was given, as JSON knows it."""
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if hasattr(value, "value"):
        return plain(value.value)
    return {key: plain(each) for key, each in vars(value).items()}


def ask(key, function, *args, **options):
    try:
        out[key] = plain(function(*args, **options))
    except NVMLError as error:
        out[key] = {"error": type(error).__name__.removeprefix("NVMLError_")}


def early(library):
    """Codes of the library before it is initialised."""
    number, handle, text = ctypes.c_uint(), ctypes.c_void_p(), ctypes.create_string_buffer(96)
    calls = {
        "nvmlDeviceGetCount_v2": (ctypes.byref(number),),
        "nvmlSystemGetDriverVersion": (text, 96),
        "nvmlSystemGetNVMLVersion": (text, 96),
        "nvmlDeviceGetHandleByIndex_v2": (0, ctypes.byref(handle)),
        "nvmlShutdown": (),
        "nvmlDeviceGetName": (None, text, 96),
        "nvmlSystemGetCudaDriverVersion": (ctypes.byref(number),),
    }
    for name, args in calls.items():
        out[f"Early {name}"] = getattr(library, name)(*args)


def errors(library):
    library.nvmlErrorString.restype = ctypes.c_char_p
    for code in [*range(45), 998, 999, 1000]:
        out[f"ErrorString({code})"] = library.nvmlErrorString(code).decode()


def lengths(library, device):
    """Codes by the length of the caller's text."""
    text = ctypes.create_string_buffer(96)
    for name, handles in [
        ("nvmlDeviceGetName", (device,)),
        ("nvmlDeviceGetUUID", (device,)),
        ("nvmlSystemGetDriverVersion", ()),
        ("nvmlDeviceGetSerial", (device,)),
        ("nvmlDeviceGetVbiosVersion", (device,)),
        ("nvmlDeviceGetBoardPartNumber", (device,)),
    ]:
        for length in (0, 1, 2, 4, 5, 10, 20, 21, 32, 41, 64, 96):
            out[f"Length {name}({length})"] = getattr(library, name)(*handles, text, length)
    out["Null nvmlDeviceGetCount_v2"] = library.nvmlDeviceGetCount_v2(None)
    out["Null nvmlDeviceGetName"] = library.nvmlDeviceGetName(None, text, 96)


def versions(library, device):
    """Which versions and sizes of a struct a function takes, with its code, and its code for all others."""
    for name in [
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetPciInfoExt",
        "nvmlDeviceGetMarginTemperature",
        "nvmlDeviceGetCapabilities",
        "nvmlDeviceGetSramEccErrorStatus",
        "nvmlDeviceGetAddressingMode",
        "nvmlDeviceGetRepairStatus",
        "nvmlDeviceGetPdi",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetCoolerInfo",
        "nvmlDeviceGetNvLinkInfo",
        "nvmlDeviceGetRunningProcessDetailList",
        "nvmlDeviceGetProcessesUtilizationInfo",
        "nvmlDeviceGetClockOffsets",
        "nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts",
    ]:
        taken, others = [], set()
        for version in (1, 2, 3, 4):
            for size in range(8, 700, 4):
                struct = (ctypes.c_uint8 * 8192)()
                ctypes.cast(struct, ctypes.POINTER(ctypes.c_uint))[0] = size | version << 24
                code = getattr(library, name)(device, ctypes.byref(struct))
                if code in (13, 25):
                    others.add(code)
                else:
                    taken.append([version, size, code])
        out[f"Versions {name}"] = {"taken": taken, "others": sorted(others)}


def placements(device, profile):
    count = c_uint(0)
    nvmlDeviceGetGpuInstancePossiblePlacements(device, profile, None, byref(count))
    found = (c_nvmlGpuInstancePlacement_t * max(count.value, 1))()
    nvmlDeviceGetGpuInstancePossiblePlacements(device, profile, found, byref(count))
    return [[each.start, each.size] for each in found[: count.value]]


def field(device, number, scope):
    value = nvmlDeviceGetFieldValues(device, [(number, scope)])[0]
    if value.nvmlReturn:
        return {"return": value.nvmlReturn}
    of = value.value
    kinds = {0: of.dVal, 1: of.uiVal, 2: of.ullVal, 3: of.ullVal}
    return {"type": value.valueType, "value": kinds.get(value.valueType, of.sllVal)}


def metric(before, after, number):
    request = c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = NVML_GPM_METRICS_GET_VERSION, 1
    request.sample1, request.sample2 = before, after
    request.metrics[0].metricId = number
    nvmlGpmMetricsGet(request)
    found = request.metrics[0]
    return {"return": found.nvmlReturn, "value": found.value, "unit": plain(found.metricInfo.unit)}


def struct(function, made, device):
    function(device, byref(made))
    return made


def registers(device, types):
    events = nvmlEventSetCreate()
    try:
        nvmlDeviceRegisterEvents(device, types, events)
    finally:
        nvmlEventSetFree(events)


def everything(device):
    # What takes nothing but a device, and what takes nothing.
    apart = {"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetHandleByPciBusId"}
    apart |= {"nvmlDeviceGetHandleBySerial", "nvmlDeviceGetHandleByUUIDV"}
    of_device = ("nvmlDeviceGet", "nvmlGpmQuery", "nvmlDeviceValidate")
    of_system = ("nvmlSystemGet", "nvmlUnitGet", "nvmlGetExcluded", "nvmlGetVgpu")
    for name, function in inspect.getmembers(nvml, inspect.isfunction):
        if name in apart or not name.startswith(of_device + of_system):
            continue
        needed = [
            each.name
            for each in inspect.signature(function).parameters.values()
            if each.default is inspect.Parameter.empty
        ]
        if name.startswith(of_system):
            if not needed:
                ask(name, function)
        elif needed in (["handle"], ["device"]):
            ask(name, function, device)


def numbered(device):
    # What takes numbers: those that the header has, and the next ones.
    def all_of(key, function, *ranges):
        def each(numbers, rest):
            if rest:
                for number in range(rest[0]):
                    each((*numbers, number), rest[1:])
            else:
                ask(f"{key}({','.join(map(str, numbers))})", function, device, *numbers)

        each((), ranges)

    for name in "ClockInfo", "MaxClockInfo", "ApplicationsClock", "DefaultApplicationsClock":
        all_of(name, getattr(nvml, f"nvmlDeviceGet{name}"), 5)
    all_of("MaxCustomerBoostClock", nvmlDeviceGetMaxCustomerBoostClock, 5)
    all_of("Clock", nvmlDeviceGetClock, 5, 4)
    all_of("MinMaxClockOfPState", nvmlDeviceGetMinMaxClockOfPState, 4, 16)
    all_of("Temperature", nvmlDeviceGetTemperature, 3)
    all_of("TemperatureThreshold", nvmlDeviceGetTemperatureThreshold, 9)
    all_of("InforomVersion", nvmlDeviceGetInforomVersion, 7)
    all_of("ViolationStatus", nvmlDeviceGetViolationStatus, 12)
    all_of("TotalEccErrors", nvmlDeviceGetTotalEccErrors, 3, 3)
    all_of("DetailedEccErrors", nvmlDeviceGetDetailedEccErrors, 3, 3)
    all_of("MemoryErrorCounter", nvmlDeviceGetMemoryErrorCounter, 3, 3, 9)
    all_of("PcieThroughput", nvmlDeviceGetPcieThroughput, 4)
    all_of("RetiredPages", nvmlDeviceGetRetiredPages, 4)
    all_of("RetiredPages2", nvmlDeviceGetRetiredPages_v2, 4)
    all_of("APIRestriction", nvmlDeviceGetAPIRestriction, 4)
    all_of("EncoderCapacity", nvmlDeviceGetEncoderCapacity, 3)
    all_of("Samples", lambda device, kind: nvmlDeviceGetSamples(device, kind, 0)[0], 9)
    for name in "NvLinkState", "NvLinkVersion", "NvLinkRemoteDeviceType":
        all_of(name, getattr(nvml, f"nvmlDeviceGet{name}"), 19)
    all_of("NvLinkCapability", nvmlDeviceGetNvLinkCapability, 19, 7)
    all_of("NvLinkErrorCounter", nvmlDeviceGetNvLinkErrorCounter, 19, 5)
    all_of("FanSpeed_v2", nvmlDeviceGetFanSpeed_v2, 2)
    all_of("VgpuCapabilities", nvmlDeviceGetVgpuCapabilities, 9)
    for scope in range(2):
        ask(f"CpuAffinityWithinScope({scope})", nvmlDeviceGetCpuAffinityWithinScope, device, 4, scope)
        ask(f"MemoryAffinity({scope})", nvmlDeviceGetMemoryAffinity, device, 4, scope)
    try:
        for clock in nvmlDeviceGetSupportedMemoryClocks(device):
            ask(f"SupportedGraphicsClocks({clock})", nvmlDeviceGetSupportedGraphicsClocks, device, clock)
    except NVMLError:
        pass
    for profile in range(20):
        ask(f"GpuInstanceProfileInfo2({profile})", nvmlDeviceGetGpuInstanceProfileInfo, device, profile, version=2)
    all_of("RemainingCapacity", nvmlDeviceGetGpuInstanceRemainingCapacity, 256)
    all_of("Placements", placements, 256)
    all_of("ProfileById", nvmlDeviceGetGpuInstanceProfileInfoByIdV, 32)
    all_of("GpuInstanceById", nvmlDeviceGetGpuInstanceById, 3)
    for index in 0, 1, 6:
        ask(f"MigDeviceByIndex({index})", nvmlDeviceGetMigDeviceHandleByIndex, device, index)
    all_of("Field", field, 310, 2)


def gpm(device):
    before, after = nvmlGpmSampleAlloc(), nvmlGpmSampleAlloc()
    nvmlGpmSampleGet(device, before)
    time.sleep(float(sys.argv[1]))
    nvmlGpmSampleGet(device, after)
    for number in range(1, 120):
        ask(f"Gpm({number})", metric, before, after, number)


def found(device):
    # Handles, and what one GPU is to itself.
    where = nvmlDeviceGetPciInfo(device).busId
    ask("ByPci", lambda: nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId(where)))
    ask("BySerial", lambda: nvmlDeviceGetIndex(nvmlDeviceGetHandleBySerial(nvmlDeviceGetSerial(device))))
    ask("ByNoSerial", nvmlDeviceGetHandleBySerial, "1234567890123")
    ask("ByNoUUID", nvmlDeviceGetHandleByUUID, "GPU-of-nobody")
    ask("ByNoMig", nvmlDeviceGetHandleByUUID, "MIG-0a3ae4d1-8d05-5e0e-a0ec-e0a4b9d8a3a7")
    ask("ByIndex7", nvmlDeviceGetHandleByIndex, 7)
    ask("ProcessName1", nvmlSystemGetProcessName, 1)
    ask("ProcessNameNone", nvmlSystemGetProcessName, 4000000)
    ask("P2P", nvmlDeviceGetP2PStatus, device, device, 0)
    ask("Ancestor", nvmlDeviceGetTopologyCommonAncestor, device, device)
    for level in 0, 10, 20, 30, 40, 50:
        ask(f"Nearest({level})", lambda: len(nvmlDeviceGetTopologyNearestGpus(device, level)))
    ask("GpuSet0", lambda: len(nvmlSystemGetTopologyGpuSet(0)))
    ask("RegisterAllEvents", lambda: registers(device, nvmlDeviceGetSupportedEventTypes(device)))
    ask("RegisterMigEvents", lambda: registers(device, 0x100 | 0x200 | 0x400 | 0x800))
    ask("FabricInfoV", struct, nvmlDeviceGetGpuFabricInfoV, c_nvmlGpuFabricInfo_v2_t(), device)
    for version, made in (1, c_nvmlPlatformInfo_v1_t()), (2, c_nvmlPlatformInfo_v2_t()):
        ask(f"PlatformInfo({version})", struct, nvmlDeviceGetPlatformInfo, made, device)
    ask("MemoryInfo_v2", nvmlDeviceGetMemoryInfo, device, version=nvmlMemory_v2)
    ask("Sram", struct, nvmlDeviceGetSramEccErrorStatus, c_nvmlEccSramErrorStatus_v1_t(), device)


raw = ctypes.CDLL("libnvidia-ml.so.1")
early(raw)
errors(raw)
nvmlInit()
first = nvmlDeviceGetHandleByIndex(0)
lengths(raw, first)
versions(raw, first)
everything(first)
numbered(first)
gpm(first)
found(first)
print(json.dumps(out, sort_keys=True))
