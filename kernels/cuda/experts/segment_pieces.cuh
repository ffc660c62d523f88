// A range of rows, cut where the segments between offsets on the device begin. The first segment is
// found by halving; segments without rows cost one read.
#ifndef COXSWAIN_KERNELS_CUDA_EXPERTS_SEGMENT_PIECES_CUH_
#define COXSWAIN_KERNELS_CUDA_EXPERTS_SEGMENT_PIECES_CUH_

#include <cstdint>

namespace coxswain::kernels::cuda {

class PieceWalk {
 public:
  // Rows [begin, end) of offsets [segments + 1], as far as they belong to a segment.
  __device__ __forceinline__ PieceWalk(const int32_t* offsets, int segments, int64_t begin,
                                       int64_t end)
      : offsets_(offsets) {
    const int64_t behind = __ldg(offsets + segments);
    last_ = static_cast<int>(min(end, behind));
    begin_ = static_cast<int>(min(begin, behind));
    int high = segments;
    while (segment_ < high) {
      const int middle = (segment_ + high) / 2;
      if (__ldg(offsets + middle + 1) > begin_) {
        high = middle;
      } else {
        segment_ = middle + 1;
      }
    }
    Cut();
  }
  __device__ __forceinline__ bool Has() const { return begin_ < last_; }
  __device__ __forceinline__ void Next() {
    begin_ = end_;
    while (Has() && __ldg(offsets_ + segment_ + 1) <= begin_) ++segment_;
    Cut();
  }
  __device__ __forceinline__ int segment() const { return segment_; }
  // Rows of the piece.
  __device__ __forceinline__ int begin() const { return begin_; }
  __device__ __forceinline__ int end() const { return end_; }
  __device__ __forceinline__ bool IsWholeSegment() const {
    return begin_ == __ldg(offsets_ + segment_) && end_ == __ldg(offsets_ + segment_ + 1);
  }

 private:
  __device__ __forceinline__ void Cut() {
    end_ = Has() ? min(last_, __ldg(offsets_ + segment_ + 1)) : begin_;
  }

  const int32_t* offsets_;
  int segment_ = 0, begin_, end_, last_;
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EXPERTS_SEGMENT_PIECES_CUH_
