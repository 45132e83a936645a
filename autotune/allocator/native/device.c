/* The runtime's devices, streams, events and errors. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

status cudaGetDeviceCount(int *count) {
    *count = 1;
    return OK;
}
status cudaGetDevice(int *device) {
    *device = 0;
    return OK;
}
status cudaSetDevice(int device) { return device == 0 ? OK : stand_in_fail(INVALID_DEVICE); }
status cudaDriverGetVersion(int *version) {
    *version = 13000;
    return OK;
}
status cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }
status cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    (void)device, (void)peer;
    *can = 0;
    return OK;
}
status cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return OK;
}
status cudaDeviceGetAttribute(int *value, int attribute, int device) {
    (void)attribute, (void)device;
    *value = 0;
    return OK;
}

/* cudaDeviceProp: where its fields lie. CUDA 13 dropped some, so what follows them moved. */
struct layout {
    size_t size, processors, unified_addressing, l2_cache, threads, shared_memory, registers, shared_optin;
};
static const struct layout cuda_11 = {728, 388, 604, 616, 624, 640, 648, 696},
                           cuda_12 = {1032, 388, 604, 616, 624, 640, 648, 696},
                           cuda_13 = {1008, 384, 588, 596, 604, 624, 632, 672};

static int number(const char *variable, int otherwise) {
    const char *text = getenv(variable);
    return text ? atoi(text) : otherwise;
}

static status describe(unsigned char *properties, const struct layout *layout) {
    const char *name = getenv("STAND_IN_DEVICE_NAME");
    int capability = number("STAND_IN_DEVICE_CAPABILITY", 90); /* ten times the major number, plus the minor one */
    memset(properties, 0, layout->size);
    strncpy((char *)properties, name ? name : "stand-in device", 255);
    memcpy(properties + 288, &stand_in_total_bytes, sizeof stand_in_total_bytes);
    *(size_t *)(properties + 296) = 48 << 10; /* sharedMemPerBlock */
    *(int *)(properties + 304) = 65536;       /* regsPerBlock */
    *(int *)(properties + 308) = 32;          /* warpSize */
    *(int *)(properties + 320) = 1024;        /* maxThreadsPerBlock */
    *(int *)(properties + 360) = capability / 10;
    *(int *)(properties + 364) = capability % 10;
    *(int *)(properties + layout->processors) = number("STAND_IN_DEVICE_PROCESSORS", 132);
    *(int *)(properties + layout->unified_addressing) = 1;
    *(int *)(properties + layout->l2_cache) = 60 << 20;
    *(int *)(properties + layout->threads) = 2048; /* per multiprocessor, as the next two */
    *(size_t *)(properties + layout->shared_memory) = 228 << 10;
    *(int *)(properties + layout->registers) = 65536;
    *(size_t *)(properties + layout->shared_optin) = 227 << 10;
    return OK;
}

/* Programs built with CUDA 12 ask under another name, so only 11 and 13 have to be told apart. */
status cudaGetDeviceProperties(unsigned char *properties, int device) {
    (void)device;
    void *eleven = dlopen("libcudart.so.11.0", RTLD_LAZY | RTLD_NOLOAD);
    if (eleven) dlclose(eleven);
    return describe(properties, eleven ? &cuda_11 : &cuda_13);
}
status cudaGetDeviceProperties_v2(unsigned char *properties, int device) {
    (void)device;
    return describe(properties, &cuda_12);
}

static uintptr_t names = 4096;
static status name(void **thing) {
    *thing = (void *)(names += 16);
    return OK;
}
status cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    (void)flags, (void)priority;
    return name(stream);
}
status cudaEventCreateWithFlags(void **event, unsigned flags) {
    (void)flags;
    return name(event);
}
status cudaEventElapsedTime(float *milliseconds, void *start, void *end) {
    (void)start, (void)end;
    *milliseconds = 0;
    return OK;
}
status cudaStreamIsCapturing(void *stream, int *capturing) {
    (void)stream;
    *capturing = 0;
    return OK;
}
/* Without a capture the further arguments, which differ from version to version, are left alone. */
#define CAPTURE_INFO(function) \
    status function(void *stream, int *capturing) { return cudaStreamIsCapturing(stream, capturing); }
CAPTURE_INFO(cudaStreamGetCaptureInfo)
CAPTURE_INFO(cudaStreamGetCaptureInfo_v2)
CAPTURE_INFO(cudaStreamGetCaptureInfo_v3)

status cudaDeviceSynchronize(void) { return stand_in_waited(); }
status cudaStreamSynchronize(void *stream) {
    (void)stream;
    return stand_in_waited();
}

SUCCEEDS(cudaEventDestroy)
SUCCEEDS(cudaEventQuery)
SUCCEEDS(cudaEventRecord)
SUCCEEDS(cudaEventRecordWithFlags)
SUCCEEDS(cudaEventSynchronize)
SUCCEEDS(cudaStreamQuery)
SUCCEEDS(cudaStreamWaitEvent)
SUCCEEDS(cudaStreamDestroy)
SUCCEEDS(cudaThreadExchangeStreamCaptureMode)
SUCCEEDS(cudaMemcpy)
SUCCEEDS(cudaMemcpyAsync)
SUCCEEDS(cudaMemcpyPeerAsync)
SUCCEEDS(cudaMemset)
SUCCEEDS(cudaMemsetAsync)

static status last_error;
status stand_in_fail(status error) { return last_error = error; }
status cudaGetLastError(void) {
    status error = last_error;
    last_error = OK;
    return error;
}
status cudaPeekAtLastError(void) { return last_error; }
const char *cudaGetErrorString(status error) { return error == OUT_OF_MEMORY ? "out of memory" : "invalid argument"; }
const char *cudaGetErrorName(status error) {
    return error == OUT_OF_MEMORY ? "cudaErrorMemoryAllocation" : "cudaErrorInvalidValue";
}
