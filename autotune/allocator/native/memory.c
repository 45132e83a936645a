/* Device memory: cudaMalloc and cudaFree, and the driver's pages that expandable segments are made of. */
#include <stdlib.h>

#include "stand_in.h"

#define PAGE ((size_t)2 << 20)

size_t stand_in_total_bytes;
static size_t capacity, used_bytes;
static uintptr_t lowest = (uintptr_t)0x7ff000000000, highest = (uintptr_t)0x10000000000;

__attribute__((constructor)) static void read_size(void) {
    const char *text = getenv("STAND_IN_DEVICE_BYTES");
    stand_in_total_bytes = text ? strtoull(text, NULL, 10) : (size_t)80 << 30;
    text = getenv("STAND_IN_CAPACITY_BYTES");
    capacity = text ? strtoull(text, NULL, 10) : stand_in_total_bytes;
}

/* Lets a forked child choose the device's size after this library was loaded. */
void stand_in_set_device_bytes(size_t bytes) { capacity = stand_in_total_bytes = bytes; }

static size_t whole_pages(size_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

static void *checked(void *memory) {
    if (!memory) abort();
    return memory;
}

/* ---- the log ---- */

int64_t (*stand_in_calls)[2], stand_in_num_calls;
static int64_t room_for_calls;
static uintptr_t unmapped_up_to; /* where the last unmap call ended; 0 once something else happened */

static void note(enum kind kind, size_t size) {
    if (stand_in_num_calls == room_for_calls) {
        room_for_calls = room_for_calls ? 2 * room_for_calls : 4096;
        stand_in_calls = checked(realloc(stand_in_calls, room_for_calls * sizeof *stand_in_calls));
    }
    stand_in_calls[stand_in_num_calls][0] = kind;
    stand_in_calls[stand_in_num_calls++][1] = (int64_t)size;
    unmapped_up_to = 0;
}

/* PyTorch unmaps page by page what it counts as one unmapping, and waits for the stream before each of those. */
static void note_unmap(uintptr_t address, size_t size) {
    if (address == unmapped_up_to)
        stand_in_calls[stand_in_num_calls - 1][1] += (int64_t)size;
    else
        note(UNMAP, size);
    unmapped_up_to = address + size;
}

status stand_in_waited(void) {
    unmapped_up_to = 0;
    return OK;
}

/* ---- the table of allocations: open addressing; a freed one keeps its address, with size 0 ---- */


static struct entry { uintptr_t address; size_t size; } *entries; 
static size_t num_slots, num_filled;

static struct entry *find(uintptr_t address) {
    size_t slot = address / PAGE * 0x9E3779B97F4A7C15u % num_slots;
    while (entries[slot].address && entries[slot].address != address) slot = (slot + 1) % num_slots;
    return &entries[slot];
}

static void grow(void) {
    struct entry *old = entries;
    size_t num_old = num_slots;
    num_slots = num_slots ? 2 * num_slots : 4096;
    entries = checked(calloc(num_slots, sizeof *entries));
    for (size_t i = 0; i < num_old; i++)
        if (old[i].address) *find(old[i].address) = old[i];
    free(old);
}

static void remember(uintptr_t address, size_t size) {
    if (2 * ++num_filled >= num_slots) grow();
    *find(address) = (struct entry){address, size};
}

/* ---- the runtime's memory ---- */

status cudaMalloc(void **pointer, size_t size) {
    *pointer = NULL;
    if (!size) return OK;
    size_t taken = whole_pages(size);
    if (taken > capacity - used_bytes) return stand_in_fail(OUT_OF_MEMORY);
    used_bytes += taken;
    lowest -= taken;
    remember(lowest, size);
    note(ALLOC, size);
    *pointer = (void *)lowest;
    return OK;
}

status cudaFree(void *pointer) {
    if (!pointer) return OK;
    struct entry *entry = num_slots ? find((uintptr_t)pointer) : NULL;
    if (!entry || !entry->size) return stand_in_fail(INVALID_VALUE);
    used_bytes -= whole_pages(entry->size);
    note(FREE, entry->size);
    entry->size = 0;
    return OK;
}

status cudaMemGetInfo(size_t *unused, size_t *total) {
    *unused = used_bytes < stand_in_total_bytes ? stand_in_total_bytes - used_bytes : 0;
    *total = stand_in_total_bytes;
    return OK;
}

/* ---- the driver's memory ---- */

status cuMemGetAllocationGranularity(size_t *granularity, const void *properties, int option) {
    (void)properties, (void)option;
    *granularity = PAGE;
    return OK;
}

status cuMemAddressReserve(uintptr_t *address, size_t size, size_t alignment, uintptr_t wish,
                           unsigned long long flags) {
    (void)alignment, (void)wish, (void)flags;
    *address = highest;
    highest += whole_pages(size);
    return OK;
}
SUCCEEDS(cuMemAddressFree)

/* A handle is the number of bytes behind it: nothing else needs to be known of physical memory. */
status cuMemCreate(unsigned long long *handle, size_t size, const void *properties, unsigned long long flags) {
    (void)properties, (void)flags;
    if (!size || size % PAGE) return INVALID_VALUE;
    if (size > capacity - used_bytes) return OUT_OF_MEMORY;
    used_bytes += size;
    *handle = size;
    return OK;
}

status cuMemRelease(unsigned long long handle) {
    used_bytes -= handle;
    return OK;
}

SUCCEEDS(cuMemMap)

status cuMemSetAccess(uintptr_t address, size_t size, const void *access, size_t count) {
    (void)address, (void)access, (void)count;
    note(MAP, size); /* PyTorch maps page by page, then makes the whole range accessible with one call */
    return OK;
}

status cuMemUnmap(uintptr_t address, size_t size) {
    note_unmap(address, size);
    return OK;
}
