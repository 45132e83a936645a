/* A stand-in for the CUDA runtime and driver: one device that has memory, streams and events, and cannot compute.
 *
 * Preloaded under the name libcuda.so.1 into a process that imports a CUDA build of PyTorch, it lets PyTorch's own
 * caching allocator run on a machine without a GPU. Memory is only counted; addresses are never touched.
 *
 *   - The device has STAND_IN_DEVICE_BYTES bytes (environment), all free at the start. It says so, but gives out
 *     STAND_IN_CAPACITY_BYTES where that is set, so that a program can be watched that would not fit.
 *   - It has the name, the compute capability and the number of processors that STAND_IN_DEVICE_NAME,
 *     STAND_IN_DEVICE_CAPABILITY (90 is 9.0) and STAND_IN_DEVICE_PROCESSORS say, or those of an H200.
 *   - cudaMalloc rounds up to 2 MiB, as the driver does on an NVIDIA H200; each allocation lies directly below the
 *     one before it, but each reserved range of addresses above, as on that GPU. Addresses are not used again.
 *   - cudaFree of an address that was not allocated is an error, as it is on a GPU.
 *   - Streams and events are names; every event has completed.
 *   - Calls that give or take memory are logged, see stand_in_calls.
 *
 * memory.c   memory of both interfaces, and the log
 * device.c   the runtime's devices, streams, events, errors
 * driver.c   the driver's functions by name, and those that only exist
 * nvml.c     a library of its own that hides the machine's real one
 *
 * Prototypes are our own, written from the CUDA documentation; no CUDA header is needed.
 */
#include <stddef.h>
#include <stdint.h>

typedef int status; /* cudaError_t and CUresult agree on the values used here */
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, NOT_FOUND = 500, NOT_SUPPORTED = 801 };

extern size_t stand_in_total_bytes;

/* Successful calls in order, each a kind and bytes; for the process that the stand-in is loaded into to read. */
enum kind { ALLOC, FREE, MAP, UNMAP }; /* as DeviceCall in allocator/result.py */
extern int64_t (*stand_in_calls)[2], stand_in_num_calls;

/* Sets what cudaGetLastError returns. */
status stand_in_fail(status error);

/* To be called when the program waits for a stream: what it unmaps from then on is another call. */
status stand_in_waited(void);

#define SUCCEEDS(function) status function(void) { return OK; }
#define REFUSES(function) status function(void) { return NOT_SUPPORTED; }
