/* The driver's functions, found by name: PyTorch from 2.10 on asks the runtime for them, before that dlsym. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "stand_in.h"

static REFUSES(not_supported)

static status entry_point(const char *name, void **function, int *found) {
    void *ourselves = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    *function = ourselves ? dlsym(ourselves, name) : NULL;
    if (!*function && !strncmp(name, "cu", 2)) *function = (void *)not_supported;
    if (found) *found = *function ? 0 : 1;
    return *function ? OK : NOT_FOUND;
}

status cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *found) {
    (void)flags;
    return entry_point(name, function, found);
}
status cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                        unsigned long long flags, int *found) {
    (void)version, (void)flags;
    return entry_point(name, function, found);
}
status cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags) {
    (void)version, (void)flags;
    return entry_point(name, function, NULL);
}
status cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *found) {
    (void)version, (void)flags;
    return entry_point(name, function, found);
}

status cuGetErrorString(status error, const char **text) {
    *text = error == OUT_OF_MEMORY ? "out of memory" : "error of the stand-in device";
    return OK;
}

status cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return OK;
}

status cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)attribute, (void)device;
    *value = 0;
    return OK;
}

status cuCtxGetCurrent(void **context) {
    *context = (void *)1;
    return OK;
}

status cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    (void)device;
    *flags = 0;
    *active = 1;
    return OK;
}

SUCCEEDS(cuInit)
SUCCEEDS(cuCtxPopCurrent)
SUCCEEDS(cuCtxPushCurrent)
SUCCEEDS(cuCtxSetCurrent)
SUCCEEDS(cuDevicePrimaryCtxRetain)

/* What the libraries of PyTorch want to link against, or look for with dlsym and insist on. */
REFUSES(cuFuncGetAttribute)
REFUSES(cuFuncSetAttribute)
REFUSES(cuFuncSetCacheConfig)
REFUSES(cuLaunchCooperativeKernel)
REFUSES(cuLaunchKernel)
REFUSES(cuLinkAddData)
REFUSES(cuLinkAddData_v2)
REFUSES(cuLinkComplete)
REFUSES(cuLinkCreate)
REFUSES(cuLinkCreate_v2)
REFUSES(cuMemExportToShareableHandle)
REFUSES(cuMemGetAddressRange)
REFUSES(cuMemImportFromShareableHandle)
REFUSES(cuMemsetD32Async)
REFUSES(cuModuleGetFunction)
REFUSES(cuModuleLoad)
REFUSES(cuModuleLoadData)
REFUSES(cuModuleLoadDataEx)
REFUSES(cuModuleUnload)
REFUSES(cuMulticastAddDevice)
REFUSES(cuMulticastBindMem)
REFUSES(cuMulticastCreate)
REFUSES(cuMulticastUnbind)
REFUSES(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSES(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
REFUSES(cuPointerGetAttribute)
REFUSES(cuStreamWriteValue32)
REFUSES(cuTensorMapEncodeTiled)
