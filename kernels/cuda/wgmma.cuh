// Tensor-core products of a warpgroup on operands in shared memory: compute capability 9.0a.
//
// An operand lies in shared memory as the copy engine puts boxes of 32 or 64 columns
// (tensor_map.h), at an address that is a multiple of 1024. Its descriptor: address / 16 in bits
// 0-13, leading offset / 16 in bits 16-29, stride offset / 16 in bits 32-45, swizzle in bits 62-63:
// 1 of 128 bytes, 2 of 64.
//
// Source: PTX ISA, "Asynchronous warpgroup level matrix instructions", "Matrix descriptor format".
#ifndef COXSWAIN_KERNELS_CUDA_WGMMA_CUH_
#define COXSWAIN_KERNELS_CUDA_WGMMA_CUH_

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

// d = a b (+ d), a [64, 16] along k, b [16, 256] along k or across it. Warp w of the group and lane
// l hold in d[4 j + 2 h + i] the element (16 w + 8 h + l / 4, 8 j + 2 (l % 4) + i).
template <bool kAcross>
__device__ __forceinline__ void Multiply(float (&d)[128], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred add;\n"
      "  setp.ne.b32 add, %130, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
      "%127}, "
      "%128, %129, add, 1, 1, 0, %131; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]),
        "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]),
        "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
        "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]),
        "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]),
        "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
        "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]),
        "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),
        "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]),
        "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kAcross ? 1 : 0));
}

// The same with b [16, 64] and [16, 128]; a may also lie in registers, as four 8x8 blocks of each
// warp (mma.cuh).
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

template <bool kAcross>
__device__ __forceinline__ void Multiply(float (&d)[32], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred add;\n"
      "  setp.ne.b32 add, %34, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" COXSWAIN_NAMES32
      "}, %32, %33, add, 1, 1, 0, %35; }"
      : COXSWAIN_D32(d, 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kAcross ? 1 : 0));
}
template <bool kAcross>
__device__ __forceinline__ void Multiply(float (&d)[64], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred add;\n"
      "  setp.ne.b32 add, %66, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" COXSWAIN_NAMES64
      "}, %64, %65, add, 1, 1, 0, %67; }"
      : COXSWAIN_D32(d, 0), COXSWAIN_D32(d, 32)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kAcross ? 1 : 0));
}
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
#undef COXSWAIN_D8
#undef COXSWAIN_D32
#undef COXSWAIN_NAMES32
#undef COXSWAIN_NAMES64

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

#endif  // COXSWAIN_KERNELS_CUDA_WGMMA_CUH_
