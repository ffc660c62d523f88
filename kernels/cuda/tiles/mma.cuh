// Tensor-core products of one warp on 8x8 blocks of bfloat16, and the loads and stores of such
// blocks. Source: PTX ISA, "Matrix fragments for mma.m16n8k16", "ldmatrix", "stmatrix".
#ifndef COXSWAIN_KERNELS_CUDA_TILES_MMA_CUH_
#define COXSWAIN_KERNELS_CUDA_TILES_MMA_CUH_

#include <cstdint>

namespace coxswain::kernels::cuda {

// Blocks of 8 rows of 16 bytes: lane l gives the address of row l % 8 of block l / 8, and receives
// of every block the elements (l / 4, 2 (l % 4)) and the next one; transposed: of its transpose.
__device__ __forceinline__ void LoadBlocks4(uint32_t address, uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void LoadBlocks4Transposed(uint32_t address, uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void LoadBlocks2(uint32_t address, uint32_t (&to)[2]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void LoadBlocks2Transposed(uint32_t address, uint32_t (&to)[2]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(address)
               : "memory");
}
// The inverse of LoadBlocks4: 16 bytes of every row are written.
__device__ __forceinline__ void StoreBlocks4(uint32_t address, uint32_t v0, uint32_t v1,
                                             uint32_t v2, uint32_t v3) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(v0), "r"(v1), "r"(v2), "r"(v3)
               : "memory");
#endif
}

// d += a b, a [16, 16], b [16, 8] of two blocks, d [16, 8] in float32. Lane l holds of d the
// elements (l / 4, 2 (l % 4)), the next one, and the two eight rows below.
__device__ __forceinline__ void MultiplyAdd(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_TILES_MMA_CUH_
