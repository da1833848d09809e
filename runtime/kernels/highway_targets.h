// Which instruction sets the kernels are compiled for. Included before any Highway header.
//
// Each one costs compile time and code size, so those that give these loops nothing over a neighbour are left
// out: SSSE3 (every x86-64 CPU that has it and matters has SSE4 too) and AVX3_DL (what it adds is for dot
// products, tables and bit counts). SVE's vectors have no size that the compiler knows, so they cannot be
// members. What stays is AVX3, AVX2 and SSE4, NEON elsewhere, and Highway's one-lane target as the way out
// for CPUs with none of them. Sanitizers see as much without SSE4, and take minutes to compile each.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DABKE_HWY_UNSANITIZED HWY_SSE4
#else
#define DABKE_HWY_UNSANITIZED 0
#endif
#define HWY_DISABLED_TARGETS \
  (DABKE_HWY_UNSANITIZED | HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
