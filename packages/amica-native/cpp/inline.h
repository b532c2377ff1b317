// Functions that every instruction set's kernels share must leave no copy of their own
// behind for the linker to choose from.
#pragma once

#if defined(__GNUC__) || defined(__clang__)
#define AMICA_INLINE inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define AMICA_INLINE __forceinline
#else
#define AMICA_INLINE inline
#endif
