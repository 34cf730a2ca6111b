/* cudaMalloc and cudaFree of confined processes: memory that has a descriptor.

   Loaded before the CUDA runtime (LD_PRELOAD), so that PyTorch's allocator takes its segments from here.  Each
   allocation is one physical allocation of the driver with one range of addresses, as cudaMalloc's are, and the process
   can export it by a descriptor, as those cannot be (workers/protocol/shared_memory.py).  Segments of 2 MiB, which
   PyTorch takes for tensors of up to 1 MiB, are slices of larger allocations: the referee maps each allocation of which
   it reads outputs, and a hundred calls of a small problem have outputs in dozens of segments.  Built by
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

/* Slices of an allocation for segments of 2 MiB, one bit of `Piece.used` each. */
#define SLICES 16
#define ALL_USED ((1u << SLICES) - 1)

typedef struct Piece {
    Address address;
    size_t size;
    unsigned used; /* bits of the slices in use; 0 for an allocation that is not sliced */
    int device;
    unsigned long long number; /* of this allocation among all; never 0 */
    struct Piece *next;
} Piece;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Piece *pieces; /* allocations made here; guarded by `lock`, which no call of the driver's happens under */

/* Allocations given back so far: their addresses may hold other memory later (workers/shims/calls.py). */
unsigned long long device_memory_releases;
static unsigned long long made; /* allocations so far; guarded by `lock` */

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

/* Allocate so many bytes, of which the slices `used` are taken; false without memory. */
static bool add(size_t size, int device, unsigned used, void **pointer) {
    const Properties wanted = {.type = PINNED, .handle_types = POSIX_FD, .location = {ON_DEVICE, device}};
    Piece *piece = malloc(sizeof *piece);
    Handle handle;
    Address address;
    if (!piece || cuda.create(&handle, size, &wanted, 0) || place(handle, size, device, &address)) {
        free(piece);
        return false;
    }
    pthread_mutex_lock(&lock);
    *piece = (Piece){address, size, used, device, ++made, pieces};
    pieces = piece;
    pthread_mutex_unlock(&lock);
    *pointer = (void *)address;
    return true;
}

/* Take the first free slice of the device's sliced allocations; false if there is none. */
static bool take_slice(int device, void **pointer) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (Piece *piece = pieces; piece && !found; piece = piece->next)
        if (piece->used && piece->used != ALL_USED && piece->device == device) {
            const int slice = __builtin_ctz(~piece->used);
            piece->used |= 1u << slice;
            *pointer = (void *)(piece->address + slice * UNIT);
            found = true;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

Result cudaMalloc(void **pointer, size_t size) {
    int device;
    resolve_once();
    if (!cuda.malloc)
        return OUT_OF_MEMORY;
    if (!cuda.usable || !pointer || !size || cuda.get_device(&device))
        return cuda.malloc(pointer, size);
    const size_t rounded = (size + UNIT - 1) / UNIT * UNIT;
    if (rounded == UNIT && (take_slice(device, pointer) || add(SLICES * UNIT, device, 1, pointer)))
        return 0;
    return add(rounded, device, 0, pointer) ? 0 : OUT_OF_MEMORY; /* PyTorch then gives unused segments back */
}

/* Number of the allocation around the address; 0 if there is none. */
unsigned long long device_memory_number(Address at) {
    pthread_mutex_lock(&lock);
    const Piece *piece = pieces;
    while (piece && !(piece->address <= at && at - piece->address < piece->size))
        piece = piece->next;
    const unsigned long long number = piece ? piece->number : 0;
    pthread_mutex_unlock(&lock);
    return number;
}

/* Test whether the pointer is the begin of an allocation, or of one of its slices in use. */
static bool holds(const Piece *piece, Address at) {
    if (!piece->used)
        return piece->address == at;
    const Address slice = (at - piece->address) / UNIT;
    return at >= piece->address && slice < SLICES && (at - piece->address) % UNIT == 0 && piece->used >> slice & 1;
}

static bool is_here(Address at) {
    pthread_mutex_lock(&lock);
    const Piece *piece = pieces;
    while (piece && !holds(piece, at))
        piece = piece->next;
    pthread_mutex_unlock(&lock);
    return piece != NULL;
}

/* Give up the allocation or the slice at the pointer.  Returns the allocation if nothing of it is in use any more. */
static Piece *give_up(Address at) {
    Piece *unused = NULL;
    pthread_mutex_lock(&lock);
    for (Piece **link = &pieces; *link; link = &(*link)->next)
        if (holds(*link, at)) {
            Piece *piece = *link;
            if (piece->used)
                piece->used &= ~(1u << (at - piece->address) / UNIT);
            if (!piece->used) {
                unused = piece;
                *link = piece->next;
            }
            break;
        }
    pthread_mutex_unlock(&lock);
    return unused;
}

Result cudaFree(void *pointer) {
    resolve_once();
    if (!pointer || !is_here((Address)pointer))
        return cuda.free ? cuda.free(pointer) : 0;
    const Result failed = cuda.synchronize(); /* as cudaFree does: queued work may use the memory */
    Piece *unused = give_up((Address)pointer);
    if (unused) {
        __atomic_fetch_add(&device_memory_releases, 1, __ATOMIC_SEQ_CST);
        cuda.unmap(unused->address, unused->size);
        cuda.unreserve(unused->address, unused->size);
        free(unused);
    }
    return failed;
}
