/* cudaMalloc and cudaFree of confined processes: memory that has a descriptor.

   Loaded before the CUDA runtime (LD_PRELOAD), so that PyTorch's allocator takes its segments from here.  Each
   allocation is one physical allocation of the driver with one range of addresses, as cudaMalloc's are, and the process
   can export it by a descriptor, as those cannot be (workers/protocol/shared_memory.py).  Built by
   workers/referee/host/device_memory.py.  Declarations are those of cuda.h, which a host without CUDA's toolkit lacks. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

typedef int Result; /* CUresult and cudaError_t; 0 is success, 2 is out of memory in both */
typedef unsigned long long Address, Handle;

typedef struct {
    int type, id;
} Location;

typedef struct {
    int type, handle_types;
    Location location;
    void *win32;
    unsigned char flags[32];
} Properties;

typedef struct {
    Location location;
    int flags;
} Access;

enum { PINNED = 1, POSIX_FD = 1, ON_DEVICE = 1, READ_WRITE = 3, OUT_OF_MEMORY = 2 };

/* Granularity of device memory, in bytes, on every GPU since Pascal. */
#define UNIT ((size_t)2 << 20)

typedef struct Piece {
    Address address;
    size_t size;
    struct Piece *next;
} Piece;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Piece *pieces; /* allocations made here; guarded by `lock` */

static struct {
    Result (*create)(Handle *, size_t, const Properties *, unsigned long long);
    Result (*release)(Handle);
    Result (*reserve)(Address *, size_t, size_t, Address, unsigned long long);
    Result (*unreserve)(Address, size_t);
    Result (*map)(Address, size_t, size_t, Handle, unsigned long long);
    Result (*unmap)(Address, size_t);
    Result (*set_access)(Address, size_t, const Access *, size_t);
    Result (*synchronize)(void);
    Result (*malloc)(void **, size_t); /* the runtime's own */
    Result (*free)(void *);
    Result (*get_device)(int *);
    bool usable;
} cuda;

static void resolve(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    cuda.malloc = dlsym(RTLD_NEXT, "cudaMalloc");
    cuda.free = dlsym(RTLD_NEXT, "cudaFree");
    cuda.get_device = dlsym(RTLD_NEXT, "cudaGetDevice");
    if (!driver || !cuda.malloc || !cuda.free || !cuda.get_device)
        return;
    cuda.create = dlsym(driver, "cuMemCreate");
    cuda.release = dlsym(driver, "cuMemRelease");
    cuda.reserve = dlsym(driver, "cuMemAddressReserve");
    cuda.unreserve = dlsym(driver, "cuMemAddressFree");
    cuda.map = dlsym(driver, "cuMemMap");
    cuda.unmap = dlsym(driver, "cuMemUnmap");
    cuda.set_access = dlsym(driver, "cuMemSetAccess");
    cuda.synchronize = dlsym(driver, "cuCtxSynchronize");
    /* cudaFree(NULL) makes the context current that the driver's functions need. */
    cuda.usable = cuda.create && cuda.release && cuda.reserve && cuda.unreserve && cuda.map && cuda.unmap &&
                  cuda.set_access && cuda.synchronize && cuda.free(NULL) == 0;
}

static void resolve_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, resolve);
}

/* Map `handle` at new addresses and give it up: the mapping keeps the memory. */
static Result place(Handle handle, size_t size, int device, Address *address) {
    const Access access = {{ON_DEVICE, device}, READ_WRITE};
    Result failed = cuda.reserve(address, size, UNIT, 0, 0);
    if (failed) {
        cuda.release(handle);
        return failed;
    }
    failed = cuda.map(*address, size, 0, handle, 0);
    cuda.release(handle);
    if (!failed && (failed = cuda.set_access(*address, size, &access, 1)))
        cuda.unmap(*address, size);
    if (failed)
        cuda.unreserve(*address, size);
    return failed;
}

Result cudaMalloc(void **pointer, size_t size) {
    int device;
    resolve_once();
    if (!cuda.malloc)
        return OUT_OF_MEMORY;
    if (!cuda.usable || !pointer || !size || cuda.get_device(&device))
        return cuda.malloc(pointer, size);
    const Properties wanted = {.type = PINNED, .handle_types = POSIX_FD, .location = {ON_DEVICE, device}};
    const size_t rounded = (size + UNIT - 1) / UNIT * UNIT;
    Piece *piece = malloc(sizeof *piece);
    Handle handle;
    Address address;
    if (!piece || cuda.create(&handle, rounded, &wanted, 0) || place(handle, rounded, device, &address)) {
        free(piece);
        return OUT_OF_MEMORY; /* PyTorch's allocator gives unused segments back and asks again */
    }
    pthread_mutex_lock(&lock);
    *piece = (Piece){address, rounded, pieces};
    pieces = piece;
    pthread_mutex_unlock(&lock);
    *pointer = (void *)address;
    return 0;
}

static Piece *take(void *pointer) {
    Piece *found = NULL;
    pthread_mutex_lock(&lock);
    for (Piece **at = &pieces; *at; at = &(*at)->next)
        if ((*at)->address == (Address)pointer) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

Result cudaFree(void *pointer) {
    resolve_once();
    Piece *piece = pointer ? take(pointer) : NULL;
    if (!piece)
        return cuda.free ? cuda.free(pointer) : 0;
    Result failed = cuda.synchronize(); /* as cudaFree does: queued work may use the memory */
    cuda.unmap(piece->address, piece->size);
    cuda.unreserve(piece->address, piece->size);
    free(piece);
    return failed;
}
