// SPDX-License-Identifier: Apache-2.0
// cache_hints.cl: what a kernel says about caches, where the compiler takes clang's builtins (seen by probe.cl); nothing is
// said where it does not. OpenCL's own prefetch() does nothing on CPUs.
// PREFETCH(address):         to be read soon: into the nearest cache.
// PREFETCH_FAR(address):     to be read later: into the second level, so that the first keeps what is in use.
// STORE_TILE(type, to, x):   *to = x, to a multiple of 64 bytes. With STREAM_TILES past the caches: what is larger than they
//                            are would be read into them first only to be overwritten, and be gone when it is used.
// TILES_ARE_STORED():        after a work-item's last STORE_TILE: streamed stores are ordered by nothing else.
// Set by the host: CACHE_BUILTINS (the compiler takes them), STREAM_TILES.
#ifdef CACHE_BUILTINS
#define PREFETCH(address) __builtin_prefetch((const void*)(uintptr_t)(address))
#define PREFETCH_FAR(address) __builtin_prefetch((const void*)(uintptr_t)(address), 0, 2)
#else
#define PREFETCH(address)
#define PREFETCH_FAR(address)
#endif

#if defined(CACHE_BUILTINS) && defined(STREAM_TILES)
#define STORE_TILE(type, to, x) __builtin_nontemporal_store(x, (type*)(to))
#ifdef __x86_64__
#define TILES_ARE_STORED() __builtin_ia32_sfence()  // A third of what a whole fence costs quantize_tiles.
#else
#define TILES_ARE_STORED() __sync_synchronize()
#endif
#else
#define STORE_TILE(type, to, x) *(type*)(to) = (x)
#define TILES_ARE_STORED()
#endif
