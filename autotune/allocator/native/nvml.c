/* A stand-in for the NVIDIA management library, so that a machine's real one is not asked about a device that is
 * not real. PyTorch looks these up by name when it words an out-of-memory error: the device has no processes. */
#include "stand_in.h"

enum { NVML_NOT_SUPPORTED = 3 };

SUCCEEDS(nvmlInit_v2)
SUCCEEDS(nvmlDeviceGetHandleByPciBusId_v2)

status nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *processes) {
    (void)device, (void)processes;
    *count = 0;
    return OK;
}

status nvmlDeviceGetNvLinkRemoteDeviceType(void) { return NVML_NOT_SUPPORTED; }
status nvmlDeviceGetNvLinkRemotePciInfo_v2(void) { return NVML_NOT_SUPPORTED; }
status nvmlDeviceGetGpuFabricInfoV(void) { return NVML_NOT_SUPPORTED; }
status nvmlSystemGetCudaDriverVersion_v2(void) { return NVML_NOT_SUPPORTED; }
