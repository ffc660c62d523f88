// A series of bounded length that always spans the whole run: when it is full, every second point
// goes and only every second new one is kept.
#ifndef COXSWAIN_CONTROLLER_STATUS_PAGE_THINNED_H_
#define COXSWAIN_CONTROLLER_STATUS_PAGE_THINNED_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace coxswain::status_page {

// `Point` has an int64_t `step`.
template <typename Point>
class Thinned {
 public:
  explicit Thinned(size_t capacity) : capacity_(capacity) {}

  // A step that was there before, or a lower one, takes back those from it on: a replay.
  void Add(const Point& point) {
    TakeBackFrom(point.step);
    newest_ = point;
    if (seen_++ % stride_ != 0) return;
    kept_.push_back(point);
    if (kept_.size() < capacity_) return;
    for (size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
    kept_.resize((kept_.size() + 1) / 2);
    stride_ *= 2;
  }

  void TakeBackFrom(int64_t step) {
    while (!kept_.empty() && kept_.back().step >= step) kept_.pop_back();
    if (newest_ && newest_->step >= step) newest_.reset();
  }

  // At most capacity + 1 points, rising in step; the newest is always there.
  std::vector<Point> Points() const {
    std::vector<Point> points = kept_;
    if (newest_ && (points.empty() || points.back().step < newest_->step)) {
      points.push_back(*newest_);
    }
    return points;
  }
  int64_t stride() const { return stride_; }  // 1: every point is there

 private:
  size_t capacity_;
  std::vector<Point> kept_;
  std::optional<Point> newest_;
  int64_t seen_ = 0;
  int64_t stride_ = 1;
};

}  // namespace coxswain::status_page

#endif  // COXSWAIN_CONTROLLER_STATUS_PAGE_THINNED_H_
