// Tensor-core products of a warpgroup on operands in shared memory: compute capability 9.0a.
//
// An operand lies in shared memory as the copy engine puts boxes of 32 or 64 columns
// (tensor_map.h), at an address that is a multiple of 1024. Its descriptor: address / 16 in bits
// 0-13, leading offset / 16 in bits 16-29, stride offset / 16 in bits 32-45, swizzle in bits 62-63:
// 1 of 128 bytes, 2 of 64.
//
// Source: PTX ISA, "Asynchronous warpgroup level matrix instructions", "Matrix descriptor format".
#ifndef COXSWAIN_KERNELS_CUDA_TILES_WGMMA_CUH_
#define COXSWAIN_KERNELS_CUDA_TILES_WGMMA_CUH_

#include <cstdint>

#include "kernels/cuda/shared_address.cuh"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace coxswain::kernels::cuda {

__device__ __forceinline__ uint64_t Descriptor(const void* data, uint64_t swizzle,
                                               unsigned leading_bytes, unsigned stride_bytes) {
  return swizzle << 62 | uint64_t{stride_bytes >> 4} << 32 | uint64_t{leading_bytes >> 4} << 16 |
         (SharedAddress(data) & 0x3ffff) >> 4;
}
// Rows of kDepth values of k, 32 or 64: 8 rows lie kDepth * 16 bytes apart. 16 values of k further:
// + 32 bytes.
template <int kDepth>
__device__ __forceinline__ uint64_t RowsAlongK(const void* data) {
  return Descriptor(data, kDepth == 64 ? 1 : 2, 16, kDepth * 16);
}
inline constexpr uint64_t kStepAlongK = 32 >> 4;
// Boxes of kDepth rows, one for each k, by 64 columns: 8 values of k lie 1024 bytes apart, 64
// columns a box. 16 values of k further: + 2048 bytes.
template <int kDepth>
__device__ __forceinline__ uint64_t RowsAcrossK(const void* data) {
  return Descriptor(data, 1, kDepth * 128, 1024);
}
inline constexpr uint64_t kStepAcrossK = 2048 >> 4;

// Before the first product after other instructions touched the accumulators.
__device__ __forceinline__ void BeginProducts() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void CommitProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most kPending of the committed groups are under way.
template <int kPending>
__device__ __forceinline__ void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// d = a b (+ d), a [64, 16] along k or across it, or in registers, as four 8x8 blocks of each warp
// (mma.cuh), b [16, 64], [16, 128], [16, 192] or [16, 256] along k or across it. Warp w of the
// group and lane l hold in d[4 j + 2 h + i] the element (16 w + 8 h + l / 4, 8 j + 2 (l % 4) + i).
#define COXSWAIN_D8(d, i)                                                                     \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define COXSWAIN_D32(d, i) \
  COXSWAIN_D8(d, i), COXSWAIN_D8(d, i + 8), COXSWAIN_D8(d, i + 16), COXSWAIN_D8(d, i + 24)
#define COXSWAIN_NAMES32                                                   \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define COXSWAIN_NAMES64                                                               \
  COXSWAIN_NAMES32                                                                     \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define COXSWAIN_NAMES96                                                               \
  COXSWAIN_NAMES64                                                                     \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define COXSWAIN_NAMES128                                                                        \
  COXSWAIN_NAMES64                                                                               \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "           \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define COXSWAIN_D128(d) \
  COXSWAIN_D32(d, 0), COXSWAIN_D32(d, 32), COXSWAIN_D32(d, 64), COXSWAIN_D32(d, 96)

template <bool kAcross, bool kFirstAcross = false>
__device__ __forceinline__ void Multiply(float (&d)[32], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred add;\n"
      "  setp.ne.b32 add, %34, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" COXSWAIN_NAMES32
      "}, %32, %33, add, 1, 1, %35, %36; }"
      : COXSWAIN_D32(d, 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kFirstAcross ? 1 : 0),
        "n"(kAcross ? 1 : 0));
}
template <bool kAcross, bool kFirstAcross = false>
__device__ __forceinline__ void Multiply(float (&d)[64], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred add;\n"
      "  setp.ne.b32 add, %66, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" COXSWAIN_NAMES64
      "}, %64, %65, add, 1, 1, %67, %68; }"
      : COXSWAIN_D32(d, 0), COXSWAIN_D32(d, 32)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kFirstAcross ? 1 : 0),
        "n"(kAcross ? 1 : 0));
}
template <bool kAcross, bool kFirstAcross = false>
__device__ __forceinline__ void Multiply(float (&d)[128], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred add;\n"
      "  setp.ne.b32 add, %130, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" COXSWAIN_NAMES128
      "}, %128, %129, add, 1, 1, %131, %132; }"
      : COXSWAIN_D128(d)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kFirstAcross ? 1 : 0),
        "n"(kAcross ? 1 : 0));
}

// The same of codes in FP8, a [64, 32] in E4M3 or E5M2, b [32, 64], [32, 128], [32, 192] or
// [32, 256] in E4M3, both along k: 32 codes lie as 16 values of bfloat16 do, and the next ones
// kStepAlongK further.
#define COXSWAIN_OF_CODES(shape, type, names, a, b, add)                              \
  "{ .reg .pred add;\n"                                                               \
  "  setp.ne.b32 add, " add                                                           \
  ", 0;\n"                                                                            \
  "  wgmma.mma_async.sync.aligned." shape ".f32." type ".e4m3 {" names "}, " a ", " b \
  ", add, 1, 1; }"
#define COXSWAIN_MULTIPLY_CODES(count, shape, names, a, b, add, ...)                      \
  template <bool kE5M2>                                                                   \
  __device__ __forceinline__ void MultiplyCodes(float(&d)[count], uint64_t x, uint64_t y, \
                                                bool adds) {                              \
    if constexpr (kE5M2) {                                                                \
      asm volatile(COXSWAIN_OF_CODES(shape, "e5m2", names, a, b, add)                     \
                   : __VA_ARGS__                                                          \
                   : "l"(x), "l"(y), "r"(static_cast<int>(adds)));                        \
    } else {                                                                              \
      asm volatile(COXSWAIN_OF_CODES(shape, "e4m3", names, a, b, add)                     \
                   : __VA_ARGS__                                                          \
                   : "l"(x), "l"(y), "r"(static_cast<int>(adds)));                        \
    }                                                                                     \
  }
COXSWAIN_MULTIPLY_CODES(32, "m64n64k32", COXSWAIN_NAMES32, "%32", "%33", "%34", COXSWAIN_D32(d, 0))
COXSWAIN_MULTIPLY_CODES(64, "m64n128k32", COXSWAIN_NAMES64, "%64", "%65", "%66", COXSWAIN_D32(d, 0),
                        COXSWAIN_D32(d, 32))
COXSWAIN_MULTIPLY_CODES(96, "m64n192k32", COXSWAIN_NAMES96, "%96", "%97", "%98", COXSWAIN_D32(d, 0),
                        COXSWAIN_D32(d, 32), COXSWAIN_D32(d, 64))
COXSWAIN_MULTIPLY_CODES(128, "m64n256k32", COXSWAIN_NAMES128, "%128", "%129", "%130",
                        COXSWAIN_D128(d))
#undef COXSWAIN_MULTIPLY_CODES
// a in registers, in E4M3: its rows and columns are those of four 8x16 blocks of codes.
__device__ __forceinline__ void MultiplyCodes(float (&d)[64], const uint32_t (&a)[4], uint64_t b,
                                              bool add) {
  asm volatile(COXSWAIN_OF_CODES("m64n128k32", "e4m3", COXSWAIN_NAMES64, "{%64, %65, %66, %67}",
                                 "%68", "%69")
               : COXSWAIN_D32(d, 0), COXSWAIN_D32(d, 32)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}
#undef COXSWAIN_OF_CODES

template <bool kAcross>
__device__ __forceinline__ void Multiply(float (&d)[32], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
  asm volatile(
      "{ .reg .pred add;\n"
      "  setp.ne.b32 add, %37, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" COXSWAIN_NAMES32
      "}, {%32, %33, %34, %35}, %36, add, 1, 1, %38; }"
      : COXSWAIN_D32(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
        "n"(kAcross ? 1 : 0));
}
template <bool kAcross>
__device__ __forceinline__ void Multiply(float (&d)[64], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
  asm volatile(
      "{ .reg .pred add;\n"
      "  setp.ne.b32 add, %69, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" COXSWAIN_NAMES64
      "}, {%64, %65, %66, %67}, %68, add, 1, 1, %70; }"
      : COXSWAIN_D32(d, 0), COXSWAIN_D32(d, 32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
        "n"(kAcross ? 1 : 0));
}
template <bool kAcross>
__device__ __forceinline__ void Multiply(float (&d)[96], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
  asm volatile(
      "{ .reg .pred add;\n"
      "  setp.ne.b32 add, %101, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" COXSWAIN_NAMES96
      "}, {%96, %97, %98, %99}, %100, add, 1, 1, %102; }"
      : COXSWAIN_D32(d, 0), COXSWAIN_D32(d, 32), COXSWAIN_D32(d, 64)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
        "n"(kAcross ? 1 : 0));
}
template <bool kAcross>
__device__ __forceinline__ void Multiply(float (&d)[128], const uint32_t (&a)[4], uint64_t b,
                                         bool add) {
  asm volatile(
      "{ .reg .pred add;\n"
      "  setp.ne.b32 add, %133, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" COXSWAIN_NAMES128
      "}, {%128, %129, %130, %131}, %132, add, 1, 1, %134; }"
      : COXSWAIN_D128(d)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
        "n"(kAcross ? 1 : 0));
}
#undef COXSWAIN_D8
#undef COXSWAIN_D32
#undef COXSWAIN_D128
#undef COXSWAIN_NAMES32
#undef COXSWAIN_NAMES64
#undef COXSWAIN_NAMES96
#undef COXSWAIN_NAMES128

// Ties a product's sums to what was waited for: the compiler moves no use of them before it.
template <int kCount>
__device__ __forceinline__ void Finished(float (&d)[kCount]) {
#pragma unroll
  for (float& x : d) asm volatile("" : "+f"(x)::"memory");
}

// Registers of each thread of the warpgroup from here on.
template <int kCount>
__device__ __forceinline__ void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void LeaveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace coxswain::kernels::cuda

#endif

#endif  // COXSWAIN_KERNELS_CUDA_TILES_WGMMA_CUH_
