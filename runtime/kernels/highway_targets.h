// The instruction sets for which the kernels are compiled. Included before any Highway header.
//
// Each one costs compile time and code size, so those that gain nothing in these loops are left out:
//   SSSE3     every x86-64 CPU of interest that has it has SSE4 too
//   AVX3_DL   adds instructions for dot products, tables and bit counts
//   SVE       its vectors have no size at compile time, so they cannot be members
// AVX3, AVX2 and SSE4 remain, NEON elsewhere, and Highway's one-lane target for CPUs with none of them.
// Sanitizers find as much without SSE4, and each target takes them minutes to compile.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DABKE_HWY_UNSANITIZED HWY_SSE4
#else
#define DABKE_HWY_UNSANITIZED 0
#endif
#define HWY_DISABLED_TARGETS \
  (DABKE_HWY_UNSANITIZED | HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
