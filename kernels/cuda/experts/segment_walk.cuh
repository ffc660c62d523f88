// Tiles of the segments of rows between offsets on the device, dealt to workers in turns. A worker
// walks the segments in order and reads one offset at each: nothing is prepared, and segments
// without rows cost one read.
#ifndef COXSWAIN_KERNELS_CUDA_EXPERTS_SEGMENT_WALK_CUH_
#define COXSWAIN_KERNELS_CUDA_EXPERTS_SEGMENT_WALK_CUH_

#include <cstdint>

namespace coxswain::kernels::cuda {

// Tiles: int operator()(int rows) const, how many a segment of so many rows has.
template <typename Tiles>
class SegmentWalk {
 public:
  // offsets [segments + 1]. Every step-th tile from `first` on.
  __device__ __forceinline__ SegmentWalk(const int32_t* offsets, int segments, int first, int step,
                                         const Tiles& tiles)
      : offsets_(offsets),
        segments_(segments),
        step_(step),
        tiles_(tiles),
        tile_(first),
        end_(__ldg(offsets)) {
    Enter();
    Seek();
  }
  __device__ __forceinline__ bool Has() const { return segment_ < segments_; }
  __device__ __forceinline__ void Next() {
    tile_ += step_;
    Seek();
  }
  __device__ __forceinline__ int segment() const { return segment_; }
  __device__ __forceinline__ int tile() const { return tile_; }  // of the segment
  // Rows of the segment.
  __device__ __forceinline__ int begin() const { return begin_; }
  __device__ __forceinline__ int end() const { return end_; }

 private:
  __device__ __forceinline__ void Enter() {
    begin_ = end_;
    if (!Has()) return;
    end_ = __ldg(offsets_ + segment_ + 1);
    count_ = tiles_(end_ - begin_);
  }
  __device__ __forceinline__ void Seek() {
    while (Has() && tile_ >= count_) {
      tile_ -= count_;
      ++segment_;
      Enter();
    }
  }

  const int32_t* offsets_;
  int segments_, step_;
  Tiles tiles_;
  int segment_ = 0, tile_, begin_ = 0, end_, count_ = 0;
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EXPERTS_SEGMENT_WALK_CUH_
